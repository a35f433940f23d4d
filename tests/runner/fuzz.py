"""libFuzzer over every parser of outside input: the kept inputs are replayed, then each fuzzer searches for a while."""

import base64
import os
import random
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor

import clock
import command
from kinds import TOP, Suite
from results import say

FUZZ = TOP / "tests/fuzz"
SECONDS, SECONDS_FULL = 10, 300  # of each fuzzer
# Where there is little to find, a default run spends less.
SECONDS_SMALL = {"channel": 2, "kernel_bytes": 2, "memory_sources": 4, "units": 4}
SEED = 1  # of a default run: the same commit searches the same inputs again
# Bytes of an input; of the others 4096.
LONGEST = {"extent_table": 16384, "control": 16384, "backing_file": 8192, "result_file": 8192}
MEMORY_MIB = 1024
# An input that takes this long is a finding. Generous in a default run, for the machine may be busy.
PATIENCE, PATIENCE_FULL = 60, 10


def names():
    return sorted(path.name.removesuffix("_fuzzer.cpp") for path in FUZZ.glob("*_fuzzer.cpp"))


def kept_inputs(name):
    folders = [FUZZ / kind / name for kind in ("regressions", "corpus")]
    return [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]


class Figures:
    """What libFuzzer says at the end of a search."""

    def __init__(self, name, text):
        executions = re.findall(r"^stat::number_of_executed_units:\s*(\d+)", text, re.M)
        status = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)/", text)
        self.name = name
        self.executions = int(executions[-1]) if executions else 0
        self.coverage, self.features, self.inputs = (int(n) for n in status[-1]) if status else (0, 0, 0)

    def line(self):
        return f"  {self.name:18} {self.executions:12,} {self.coverage:9,} {self.features:9,} {self.inputs:7,}"


class Fuzz(Suite):
    needs = ("asan",)

    def __init__(self, full, jobs, env):
        self.full, self.jobs, self.env = full, jobs, env
        self.seconds = SECONDS_FULL if full else SECONDS
        searching = sum(self.seconds_of(name) + 2 for name in names())
        super().__init__("fuzz", 120 + searching // max(jobs, 1),  # 90: its replays, behind all that it gives way to
                         f"each fuzzer for {self.seconds} s")

    def execute(self, results, failed_builds):
        seed = random.randrange(1, 1 << 32) if self.full else SEED
        say(f"{self.name}: seed {seed}")
        # What a finding leaves behind goes with this folder; in memory, since some fuzzers write files.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix="tierfs-fuzz-", dir=memory) as self.scratch, \
                ThreadPoolExecutor(self.jobs) as pool:
            figures = [one for one in pool.map(lambda name: self.one(name, seed, results), names()) if one]
        say(f"{self.name}: executions, covered edges, features and inputs kept of each fuzzer")
        print(f"  {'fuzzer':18} {'executions':>12} {'edges':>9} {'features':>9} {'inputs':>7}")
        for one in figures:
            print(one.line())
        print(f"  {'all':18} {sum(one.executions for one in figures):12,}", flush=True)

    def seconds_of(self, name):
        return self.seconds if self.full else SECONDS_SMALL.get(name, self.seconds)

    def one(self, name, seed, results):
        if not clock.has(0):
            results.add(self.name, name, "skipped", "no time left in this run (tests/run --within)")
            return None
        program = TOP / "build/asan" / f"fuzz_{name}"
        if not program.exists():
            results.add(self.name, name, "failed", f"there is no {program}")
            return None
        findings = self.folder / "findings" / name
        learnt = self.folder / "corpus" / name
        for folder in (findings, learnt):
            folder.mkdir(parents=True)
        common = [program, f"-artifact_prefix={findings}/", f"-rss_limit_mb={MEMORY_MIB}",
                  f"-timeout={PATIENCE_FULL if self.full else PATIENCE}"]
        kept = kept_inputs(name)
        if kept:
            outcome = self.launch(f"{name}-replay", common + kept, 120)
            if not self.judge(results, name, "replay", outcome):
                return None
        words = common + [f"-max_total_time={self.seconds_of(name)}", f"-seed={seed}", "-print_final_stats=1",
                          f"-max_len={LONGEST.get(name, 4096)}"]
        dictionary = FUZZ / f"{name}.dict"
        if dictionary.exists():
            words.append(f"-dict={dictionary}")
        # The first folder takes what is learnt; the others are only read.
        words += [learnt] + sorted({path.parent for path in kept})
        outcome = self.launch(name, words, self.seconds_of(name) + 120)
        self.judge(results, name, "search", outcome)
        return Figures(name, outcome.text)

    def launch(self, log, words, limit):
        env = {**os.environ, **self.env, "TMPDIR": self.scratch}
        return command.run([str(word) for word in words], self.folder / f"{log}.log", limit, env=env, cwd=TOP / "build/asan",
                           grace=5, gives_way=True)

    def judge(self, results, name, what, outcome):
        if outcome.status == 0:
            results.add(self.name, f"{name} {what}", "passed")
            return True
        text = outcome.text
        if outcome.status is None:
            text += f"\nno end after {outcome.seconds:.0f} s"
        # The run's folder goes at its end: the input stays in the build folder, and in the output as text.
        keep = TOP / "build/asan/fuzz-findings" / name
        for finding in sorted((self.folder / "findings" / name).iterdir()):
            keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(finding, keep)
            encoded = base64.b64encode(finding.read_bytes()).decode()
            text += f"\ninput: {keep / finding.name}\nbase64: {encoded[:20000]}"
        text += f"\nagain: {TOP}/build/asan/fuzz_{name} INPUT"
        results.add(self.name, f"{name} {what}", "failed", text)
        return False

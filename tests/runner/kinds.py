"""The kinds of suites: a build, checks of the sources, unit tests, mount tests. Each has a time budget; a suite that needs
more than 1.5 times of it, on a machine as fast as the one that it was measured on, fails, or is named where the whole run
has an end (tests/run --within): that end keeps the time then, and a machine that becomes slow fails nothing."""

import hashlib
import os
import queue
import re
import shutil
import subprocess
import threading
import time
import xml.etree.ElementTree as xml
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import clock
import command
from results import say

TOP = Path(__file__).resolve().parents[2]
LENGTHS = Path(__file__).with_name("lengths.json")  # seconds of the files of tests/mount, for share.py
OVERDRAFT = 1.5


class Suite:
    """One suite. needs: names of builds without which it cannot run."""

    needs = ()
    lane = None  # suites that follow each other in the plan and have lanes run beside each other, one of each lane at a time
    least = 0.2  # of the budget: with less time left in the run the suite is not begun

    def __init__(self, name, budget, what):
        self.name, self.budget, self.what = name, budget, what
        self.pace = 1.0

    late = set()  # builds for which there was no time: what needs one is skipped then, and has not failed
    measured = 1.0  # the pace before the suite before: a machine is taken for as slow as it was in either measurement

    def run(self, results, failed_builds, root):
        now = clock.pace()
        self.pace, Suite.measured = max(now, Suite.measured), now
        slow = f", {self.pace:.1f} times as slow a machine" if self.pace >= 1.2 else ""
        say(f"{self.name}: {self.what}, budget {self.budget} s{slow}")
        lacking = [build for build in self.needs if build in failed_builds]
        if lacking:
            results.add(self.name, "all", "skipped" if lacking[0] in Suite.late else "failed", f"not run: no {lacking[0]} build")
            return
        if not clock.has(self.budget * self.pace * self.least):
            results.add(self.name, "all", "skipped", "no time left in this run (tests/run --within)")
            self.not_begun(failed_builds)
            return
        started = time.monotonic()
        self.folder = Path(root) / self.name
        self.folder.mkdir()
        self.execute(results, failed_builds)
        seconds = time.monotonic() - started
        if seconds > self.allowed():
            self.pace = max(self.pace, clock.pace())
        if seconds > self.allowed():
            text = (f"took {seconds:.0f} s, more than {OVERDRAFT} times its budget of {self.budget} s on a machine "
                    f"{self.pace:.1f} times as slow as the one that it was measured on")
            if clock.end() is None:
                results.add(self.name, "time budget", "failed", text)
            else:
                say(f"OVER BUDGET {self.name}: {text}")
        say(f"{self.name}: {results.summary(self.name)} in {seconds:.0f} s of {self.budget} s")

    def not_begun(self, failed_builds):
        """There was no time for it."""

    def in_lane(self, lane):
        self.lane = lane
        return self

    def allowed(self):
        return self.budget * OVERDRAFT * self.pace

    def limit(self):
        """Seconds after which it is stopped: more than are allowed, since the machine may become slower."""
        return self.allowed() * 2

    def call(self, words, **options):
        log = self.folder / options.pop("log", "output")
        return command.run([str(word) for word in words], log, options.pop("limit", self.limit()), **options)


def build_environment():
    """ccache finds what another clone compiled, and asserts nothing about time stamps."""
    env = dict(os.environ)
    env.setdefault("CCACHE_BASEDIR", str(TOP))
    env.setdefault("CCACHE_NOHASHDIR", "1")
    return env


class Build(Suite):
    least = 0.5  # a part of it serves nobody, but most may be built already

    def __init__(self, preset, targets, budget, jobs):
        super().__init__(f"build-{preset}", budget, f"cmake --preset {preset}")
        self.preset, self.targets, self.jobs = preset, targets, jobs

    def execute(self, results, failed_builds):
        folder = TOP / "build" / self.preset
        steps = [["cmake", "--preset", self.preset]]
        outcome = None
        for step in steps + [None]:
            if step is None:
                known = self.known_targets(folder)
                step = ["ninja", "-C", folder, f"-j{self.jobs}"] + [t for t in self.targets if t in known]
                if len(step) == 4:
                    step.append("all")
            outcome = self.call(step, env=build_environment(), cwd=TOP)
            if outcome.status != 0:
                break
        if outcome.status == 0:
            results.add(self.name, "builds", "passed")
        else:
            failed_builds.add(self.preset)
            if outcome.status is None and clock.is_over():
                results.add(self.name, "builds", "skipped", "no time left in this run (tests/run --within)")
                Suite.late.add(self.preset)
                return
            results.add(self.name, "builds", "failed", outcome.text if outcome.status is not None
                        else outcome.text + f"\nno end after {outcome.seconds:.0f} s")

    def not_begun(self, failed_builds):
        if not (TOP / "build" / self.preset / "tierfs").exists():  # it may have been made ahead
            failed_builds.add(self.preset)
            Suite.late.add(self.preset)

    def known_targets(self, folder):
        listed = self.call(["ninja", "-C", folder, "-t", "targets", "all"]).text
        return {line.split(":")[0] for line in listed.splitlines()}


def head():
    """The commit, which decides what samples consist of."""
    return subprocess.run(["git", "-C", TOP, "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()


def drawn(name, salt):
    """A number that stays the same for one salt."""
    return int.from_bytes(hashlib.sha256((salt + name).encode()).digest()[:8], "big")


def sources(suffixes):
    """Tracked and new files of ours with these suffixes."""
    listed = os.popen(f"cd '{TOP}' && git ls-files -co --exclude-standard -- " +
                      " ".join(f"'*{suffix}'" for suffix in suffixes)).read().split("\n")
    return [name for name in listed if name and (TOP / name).exists()]


class Format(Suite):
    VERSION = "14"  # Debian 12's: releases of clang-format differ in what they want, and the sources can please one alone

    def __init__(self):
        super().__init__("format", 60, "clang-format over all C++ sources")

    def execute(self, results, failed_builds):
        version = re.search(r"version (\d+)", self.call(["clang-format", "--version"], log="version").text)
        if version and version.group(1) != self.VERSION:
            results.add(self.name, "clang-format", "skipped", f"the sources are formatted as clang-format {self.VERSION} does it, "
                        f"this is {version.group(1)}")
            return
        files = sources([".cpp", ".hpp", ".h"])
        outcome = self.call(["clang-format", "--dry-run", "-Werror"] + files, cwd=TOP)
        bad = sorted({match.group(1) for match in re.finditer(r"^(\S+?):\d+:\d+: error", outcome.text, re.M)})
        results.add(self.name, "clang-format", "passed" if outcome.status == 0 else "failed",
                    "mend with: clang-format -i " + " ".join(bad) if bad else outcome.text)


class House(Suite):
    """tests/house/run: the rules of this house, which no compiler knows."""

    PROGRAM = TOP / "tests/house/run"

    def __init__(self):
        super().__init__("house", 60, "tests/house/run")

    def execute(self, results, failed_builds):
        outcome = self.call([self.PROGRAM], cwd=TOP)
        results.add(self.name, "rules", "passed" if outcome.status == 0 else "failed", outcome.text)


class Mutations(Suite):
    """Whether tests/mutations still fits the sources; running it is for who changes them."""

    def __init__(self):
        super().__init__("mutations", 10, "tests/mutations/run --check")

    def execute(self, results, failed_builds):
        outcome = self.call([TOP / "tests/mutations/run", "--check"])
        results.add(self.name, "fit the sources", "passed" if outcome.status == 0 else "failed", outcome.text)


class Sample(Suite):
    """Some of the mutations are tried, others with each commit; all with --full. Only where their build, of which ccache
    has most, is quick, and where it is the last thing that there is time for."""

    ONE_IN = 10
    BUILD_SECONDS = 360
    SKIPPED = 77  # exit status of tests/mutations/run where the build takes longer
    needs = ("asan",)  # whose objects ccache has
    least = 1.0

    def __init__(self, full, jobs):
        super().__init__("mutations-run", 36000 if full else 720, "tests/mutations/run" + ("" if full else f" --sample {self.ONE_IN}"))
        self.full, self.jobs = full, jobs

    def execute(self, results, failed_builds):
        words = [TOP / "tests/mutations/run", "--jobs", self.jobs]
        if not self.full:
            words += ["--sample", self.ONE_IN, "--build-within", self.BUILD_SECONDS]
        outcome = self.call(words, cwd=TOP, env=build_environment())
        tried = re.findall(r"^(caught|SURVIVED) +([\w-]+): (.*)$", outcome.text, re.M)
        for what, name, text in tried:
            results.add(self.name, name, "passed" if what == "caught" else "failed", f"no test notices: {text}")
        if outcome.status == self.SKIPPED:
            results.add(self.name, "sample", "skipped", outcome.text.strip().splitlines()[-1])
        elif outcome.status is None and clock.is_over():
            results.add(self.name, "rest of the sample", "skipped", "no time left in this run (tests/run --within)")
        elif outcome.status is None or outcome.status not in (0, 1) or not tried:
            results.add(self.name, "tests/mutations/run", "failed", f"{outcome.text}\nended with status {outcome.status}")


class Unit(Suite):
    """GoogleTest, in several processes. A test that crashes the program counts as failed, and the ones after it still
    run."""

    PARTS = 12  # more than there are processes, so that none waits long for the last
    CRASHES = 20  # as many as we go on after in one part

    def __init__(self, preset, budget, pattern, env, full, jobs):
        super().__init__(f"unit-{preset}", budget, f"unit tests of the {preset} build")
        self.preset, self.pattern, self.needs, self.jobs = preset, pattern, (preset,), jobs
        self.env, self.full, self.one_in = ({**env, "TIERFS_TEST_FULL": "1"} if full else env), full, 1

    def sample(self, one_in):
        """Of the test suites one in so many, others for each commit; all with --full."""
        self.one_in = 1 if self.full or self.pattern else one_in
        return self

    def execute(self, results, failed_builds):
        if not self.program().exists():
            say(f"{self.name}: there are no unit tests")
            return
        waiting = queue.SimpleQueue()
        for number, suites in enumerate(self.parts(results)):
            waiting.put((number, suites))
        end = time.monotonic() + self.limit()

        def work():
            while True:
                try:
                    number, suites = waiting.get_nowait()
                except queue.Empty:
                    return
                if clock.has(0):
                    self.run_part(number, suites, results, end)
                else:
                    results.add(self.name, ", ".join(suites), "skipped", "no time left in this run (tests/run --within)")

        threads = [threading.Thread(target=work) for _ in range(self.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def limit_of_part(self, end):
        """A part that hangs must not cost the time of all suites behind it."""
        return max(min(end - time.monotonic(), self.budget * self.pace * 1.5), 1)

    def program(self):
        return TOP / "build" / self.preset / "unit_tests"

    def parts(self, results):
        """Lists of test suites."""
        chosen = f"*{self.pattern}*" if self.pattern else "*"
        listed = self.call([self.program(), "--gtest_list_tests", f"--gtest_filter={chosen}"], limit=60)
        suites = re.findall(r"^(\S+)\.(?: .*)?$", listed.text, re.M)
        if listed.status != 0:
            results.add(self.name, "list of tests", "failed", listed.text)
        salt = head()
        suites = [suite for suite in suites if drawn(suite, salt) % self.one_in == 0]
        return [part for part in (suites[number::self.PARTS] for number in range(self.PARTS)) if part]

    def run_part(self, number, suites, results, end):
        chosen = ":".join(f"{suite}.*{self.pattern}*" if self.pattern and self.pattern not in suite else f"{suite}.*"
                          for suite in suites)
        scratch = self.folder / f"part{number}"
        scratch.mkdir()
        done = {}
        for _ in range(self.CRASHES):
            without = ":".join(done)
            # In the build folder, since with ccache __FILE__ is relative to it, and tests find their files by that.
            outcome = self.call([self.program(), "--gtest_color=no"], cwd=self.program().parent, grace=5,
                                log=f"output{number}", limit=self.limit_of_part(end),
                                env={**os.environ, **self.env, "TMPDIR": str(scratch),
                                     "GTEST_FILTER": chosen + (f"-{without}" if without else "")})
            fresh = parse_gtest(outcome)
            done.update(fresh)
            if outcome.status == 0 or outcome.status is None or not any(kind == "crashed" for kind, _ in fresh.values()):
                break
        for name, (kind, text) in done.items():
            results.add(self.name, name, "failed" if kind == "crashed" else kind, text)
        failed = any(kind in ("failed", "crashed") for kind, _ in done.values())
        if outcome.status != 0 and not failed:
            results.add(self.name, f"program, part {number}", "failed", f"exit status {outcome.status}\n{outcome.text}")


def parse_gtest(outcome):
    """{test: (passed|failed|skipped|crashed, its output)} of one run of a GoogleTest program."""
    found, running, lines = {}, None, []
    marks = {"[       OK ]": "passed", "[  FAILED  ]": "failed", "[  SKIPPED ]": "skipped"}
    for line in outcome.text.splitlines():
        if line.startswith("[ RUN      ] "):
            running, lines = line[13:].strip(), []
        elif running and line[:12] in marks and line[13:].split(" (")[0].split(",")[0] == running:
            found[running] = (marks[line[:12]], "\n".join(lines))
            running = None
        elif running:
            lines.append(line)
    if running:
        ending = "no end within the time limit" if outcome.status is None else f"ended with status {outcome.status}"
        found[running] = ("crashed", "\n".join(lines + [f"the program {ending} in this test"]))
    return found


def both(marks, more):
    """Of two expressions for pytest -m the one that holds where both do."""
    return f"({marks}) and {more}" if marks else more


class Mounts(Suite):
    """pytest in tests/mount, with the daemon of one build."""

    program = "tierfs"  # without which there is nothing to test

    def __init__(self, preset, budget, pattern, marks, slowness, full):
        super().__init__(f"mount-{preset}", budget, f"mount tests with the {preset} build")
        self.preset, self.pattern, self.marks, self.needs = preset, pattern, marks, (preset,)
        self.slowness, self.full = slowness, full
        self.tests = TOP / "tests/mount"
        self.one_in, self.workers, self.queue = 1, 1, None

    def shared(self, workers=2):
        """By so many processes beside each other that take one file after another; without what has to run alone."""
        self.workers = workers
        self.marks = both(self.marks, "not alone and not drops_caches")
        return self

    def sample(self, one_in):
        """Of the tests one in so many, others for each commit."""
        self.one_in = one_in
        return self

    def execute(self, results, failed_builds):
        program = TOP / "build" / self.preset / self.program
        if not program.exists():
            results.add(self.name, "all", "failed", f"there is no {program}")
            return
        env = self.environment(program.with_name("tierfs"))
        if self.workers == 1:
            outcomes = [self.work("", env)]
        else:
            self.queue = self.folder / "queue"
            self.queue.mkdir()
            shutil.copy(LENGTHS, self.queue / "lengths")
            env["TIERFS_TEST_QUEUE"] = str(self.queue)
            with ThreadPoolExecutor(self.workers) as pool:
                outcomes = list(pool.map(lambda number: self.work(str(number), env), range(self.workers)))
        self.take_in(results, outcomes)

    def take_in(self, results, outcomes):
        reports = sorted(self.folder.glob("report*.xml"))
        for report in reports:
            self.add_report(results, report)
        for outcome in outcomes:
            if outcome.status is None:
                results.add(self.name, "time limit", "failed", outcome.text + f"\nno end within {outcome.seconds:.0f} s")
            elif outcome.status not in (0, 1, 5) or (outcome.status == 1 and not results.count("failed", self.name)):
                results.add(self.name, "pytest", "failed", f"{outcome.text}\npytest ended with status {outcome.status}")
        self.say_slowest(reports)

    def work(self, number, env):
        """One process of pytest; what it says is in `output`, with the number behind it."""
        words = ["/usr/bin/python3", "-m", "pytest", "-v", "-ra", "--tb=short", "-p", "choice", "-p", "share",
                 f"--junit-xml={self.folder}/report{number}.xml", "-o", "junit_logging=all", "-o", "junit_family=xunit2"]
        if self.marks:
            words += ["-m", self.marks]
        if self.pattern:
            words += ["-k", self.pattern]
        return self.call(words, log=f"output{number}", env=env, cwd=self.tests, grace=120)

    def environment(self, program):
        env = {**os.environ, "TIERFS_TEST_BINARY": str(program),
               "TIERFS_TEST_SLOWNESS": f"{self.slowness * self.pace:.2g}",
               "TIERFS_TEST_IOBENCH": str(program.with_name("iobench")),
               "TIERFS_TEST_BUILD": self.preset, "PYTHONDONTWRITEBYTECODE": "1",
               "PYTHONPATH": str(Path(__file__).parent), "TIERFS_TEST_END": str(clock.end() or "")}
        if self.one_in > 1 and not self.full:
            env["TIERFS_TEST_SAMPLE"] = f"{self.one_in}:{head()}"
        if self.full:
            env["TIERFS_TEST_FULL"] = "1"
        return env

    def add_report(self, results, report):
        for case in xml.parse(report).iter("testcase"):
            name = f"{case.get('classname', '').replace('.', '/')}::{case.get('name')}"
            bad = case.findall("failure") + case.findall("error")
            skip = case.find("skipped")
            if bad:
                texts = [(part.text or "") for part in bad]
                texts += [(case.findtext(stream) or "") for stream in ("system-out", "system-err")]
                results.add(self.name, name, "failed", "\n".join(text for text in texts if text.strip()))
            elif skip is not None:
                results.add(self.name, name, "skipped", re.sub(r"^Skipped: ", "", skip.get("message", "")))
            else:
                results.add(self.name, name, "passed")

    def say_slowest(self, reports):
        # What an interruption ended has no name.
        cases = [(float(case.get("time", 0)), case.get("name") or "")
                 for report in reports for case in xml.parse(report).iter("testcase")]
        slow = [f"{name} {seconds:.0f} s" for seconds, name in sorted(cases, reverse=True)[:5] if seconds >= 5]
        if slow:
            say(f"{self.name}: slowest: {', '.join(slow)}")


class Alone(Mounts):
    """Those of Mounts.shared() that nothing runs beside: what measures or changes the whole machine."""

    def __init__(self, preset, budget, pattern, marks, slowness, full):
        super().__init__(preset, budget, pattern, both(marks, "alone"), slowness, full)
        self.name, self.what = f"mount-{preset}-alone", f"mount tests that need the machine, with the {preset} build"


class Pages(Mounts):
    """Those of Mounts.shared() that drop the caches of the kernel, on which others count: the commands that the pages print."""

    def __init__(self, preset, budget, pattern, slowness, full):
        super().__init__(preset, budget, pattern, "drops_caches", slowness, full)
        self.name, self.what = f"mount-{preset}-pages", f"the commands that the pages print, with the {preset} build"


class Joined(Mounts):
    """One process more for a Mounts.shared(), in a lane that has become free."""

    def __init__(self, joined):
        super().__init__(joined.preset, joined.budget, joined.pattern, joined.marks, joined.slowness, joined.full)
        self.name, self.what, self.joined = f"{joined.name}-more", f"joins {joined.name}", joined

    def execute(self, results, failed_builds):
        if self.joined.queue is not None:
            env = self.environment(TOP / "build" / self.preset / self.program)
            self.take_in(results, [self.work("", {**env, "TIERFS_TEST_QUEUE": str(self.joined.queue)})])


class Quick(Mounts):
    """The mount tests marked quick: something of each kind of origin, in a minute."""

    def __init__(self, budget):
        super().__init__("dev", budget, "", "quick", 2, False)
        self.what = "a few mount tests of each kind with the dev build"


class Bench(Mounts):
    """pytest in tests/bench, with the iobench of one build."""

    program = "iobench"

    def __init__(self, preset, budget, pattern, slowness, full):
        super().__init__(preset, budget, pattern, "", slowness, full)
        self.name, self.what = f"bench-{preset}", f"tests of iobench with the {preset} build"
        self.tests = TOP / "tests/bench"


class Package(Mounts):
    """pytest in tests/package: what packaging/make-deb and packaging/make-image make of a release build."""

    def __init__(self, preset, budget, pattern, full):
        super().__init__(preset, budget, pattern, "", 1, full)
        self.name, self.what = "package", "the Debian package: builds, lintian, systemd, installs, mounts, goes; the container image"
        self.tests = TOP / "tests/package"


class Stage(Mounts):
    """pytest in tests/stage, with the tierfs-stage of one build and the tierfs beside it."""

    program = "tierfs-stage"

    def __init__(self, preset, budget, pattern, slowness, full):
        super().__init__(preset, budget, pattern, "", slowness, full)
        self.name, self.what = f"stage-{preset}", f"tests of tierfs-stage with the {preset} build"
        self.tests = TOP / "tests/stage"

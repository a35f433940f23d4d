"""The suites in tests/faults: the fault matrix, and mount tests in folders of their own. Their tables are shown."""

import json
import re

import clock
from kinds import TOP, Mounts
from results import say


class Faults(Mounts):
    """pytest in tests/faults/FOLDER."""

    def __init__(self, name, folder, preset, budget, slowness, full, marks=""):
        super().__init__(preset, budget, "", marks, slowness, full)
        self.name, self.what = name, f"tests/faults/{folder} with the {preset} build"
        self.tests = TOP / "tests/faults" / folder

    def execute(self, results, failed_builds):
        super().execute(results, failed_builds)
        output = self.folder / "output"
        for table in re.findall(r"^=== (?!end).*?(?=^=== end)", output.read_text(errors="replace"), re.M | re.S):
            for line in table.rstrip().splitlines():
                say(f"{self.name}: {line}")


class Matrix(Mounts):
    """The tests of the fault proxy, then the fault matrix with the daemon of one build. Its table is shown whole: what a
    reader sees of each fault is a result, not only whether it was as expected."""

    SKIPPED = 77  # exit status of matrix.py where it cannot run

    def __init__(self, preset, budget, slowness, full):
        super().__init__(preset, budget, "", "", slowness, full)
        self.tests = TOP / "tests/faults"
        self.name, self.what = "faults", f"the fault matrix with the {preset} build"

    def execute(self, results, failed_builds):
        super().execute(results, failed_builds)
        program = TOP / "build" / self.preset / "tierfs"
        if not program.exists():
            return
        if not clock.has(0):
            results.add(self.name, "matrix", "skipped", "no time left in this run (tests/run --within)")
            return
        self.matrix(results, program, "nginx", [])
        if self.full:  # the million reads are read from nginx
            self.matrix(results, program, "rgw", ["--reads", 50_000])

    def matrix(self, results, program, server, more):
        lines = self.folder / f"{server}.json"
        words = ["/usr/bin/python3", "matrix.py", "--server", server, "--results", lines, "--limit", self.limit() - 60]
        outcome = self.call(words + more, env=self.environment(program), cwd=self.tests, grace=120)
        if outcome.status == self.SKIPPED:
            results.add(self.name, f"matrix with {server}", "skipped", outcome.text)
            return
        print(outcome.text.rstrip(), flush=True)
        failed = results.count("failed", self.name)
        for line in json.loads(lines.read_text()) if lines.exists() else []:
            results.add(self.name, f"{server}: {line['fault']}, {line['access']}",
                        "failed" if line["problem"] else "passed", line["problem"])
        if outcome.status != 0 and results.count("failed", self.name) == failed:
            results.add(self.name, f"matrix with {server}", "failed",
                        f"{outcome.text}\nended with status {outcome.status}")

"""The kinds of suites: a build, checks of the sources, unit tests, mount tests. Each has a time budget: generous, for
machines differ by two, and a suite that needs more than 1.5 times of it fails."""

import os
import re
import time
import xml.etree.ElementTree as xml
from pathlib import Path

import command
from results import say

TOP = Path(__file__).resolve().parents[2]
OVERDRAFT = 1.5


class Suite:
    """One suite. needs: names of builds without which it cannot run."""

    needs = ()
    lane = None  # suites that follow each other in the plan and have lanes run beside each other, one of each lane at a time

    def __init__(self, name, budget, what):
        self.name, self.budget, self.what = name, budget, what

    def run(self, results, failed_builds, root):
        started = time.monotonic()
        say(f"{self.name}: {self.what}, budget {self.budget} s")
        lacking = [build for build in self.needs if build in failed_builds]
        if lacking:
            results.add(self.name, "all", "failed", f"not run: the {lacking[0]} build failed")
            return
        self.folder = Path(root) / self.name
        self.folder.mkdir()
        self.execute(results, failed_builds)
        seconds = time.monotonic() - started
        if seconds > self.budget * OVERDRAFT:
            results.add(self.name, "time budget", "failed",
                        f"took {seconds:.0f} s, more than {OVERDRAFT} times its budget of {self.budget} s")
        say(f"{self.name}: {results.summary(self.name)} in {seconds:.0f} s of {self.budget} s")

    def in_lane(self, lane):
        self.lane = lane
        return self

    def limit(self):
        return self.budget * OVERDRAFT + 5

    def call(self, words, **options):
        log = self.folder / "output"
        return command.run([str(word) for word in words], log, options.pop("limit", self.limit()), **options)


def build_environment():
    """ccache finds what another clone compiled, and asserts nothing about time stamps."""
    env = dict(os.environ)
    env.setdefault("CCACHE_BASEDIR", str(TOP))
    env.setdefault("CCACHE_NOHASHDIR", "1")
    return env


class Build(Suite):
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
            results.add(self.name, "builds", "failed", outcome.text if outcome.status is not None
                        else outcome.text + f"\nno end after {self.limit():.0f} s")

    def known_targets(self, folder):
        listed = self.call(["ninja", "-C", folder, "-t", "targets", "all"]).text
        return {line.split(":")[0] for line in listed.splitlines()}


def sources(suffixes):
    """Tracked and new files of ours with these suffixes."""
    listed = os.popen(f"cd '{TOP}' && git ls-files -co --exclude-standard -- " +
                      " ".join(f"'*{suffix}'" for suffix in suffixes)).read().split("\n")
    return [name for name in listed if name and (TOP / name).exists()]


class Format(Suite):
    def __init__(self):
        super().__init__("format", 60, "clang-format over all C++ sources")

    def execute(self, results, failed_builds):
        files = sources([".cpp", ".hpp", ".h"])
        outcome = self.call(["clang-format", "--dry-run", "-Werror"] + files, cwd=TOP)
        bad = sorted({match.group(1) for match in re.finditer(r"^(\S+?):\d+:\d+: error", outcome.text, re.M)})
        results.add(self.name, "clang-format", "passed" if outcome.status == 0 else "failed",
                    "mend with: clang-format -i " + " ".join(bad) if bad else outcome.text)


class Mutations(Suite):
    """Whether tests/mutations still fits the sources; running it is for who changes them."""

    def __init__(self):
        super().__init__("mutations", 10, "tests/mutations/run --check")

    def execute(self, results, failed_builds):
        outcome = self.call([TOP / "tests/mutations/run", "--check"])
        results.add(self.name, "fit the sources", "passed" if outcome.status == 0 else "failed", outcome.text)


class Unit(Suite):
    """GoogleTest. A test that crashes the program counts as failed, and the ones after it still run."""

    def __init__(self, preset, budget, pattern, env, full):
        super().__init__(f"unit-{preset}", budget, f"unit tests of the {preset} build")
        self.preset, self.pattern, self.needs = preset, pattern, (preset,)
        self.env = {**env, "TIERFS_TEST_FULL": "1"} if full else env

    def execute(self, results, failed_builds):
        build = TOP / "build" / self.preset
        program = build / "unit_tests"
        if not program.exists():
            say(f"{self.name}: there are no unit tests")
            return
        end = time.monotonic() + self.limit()
        done = {}
        for _ in range(20):  # as many crashes as we go on after
            env = {**os.environ, **self.env, "TMPDIR": str(self.folder)}
            chosen = f"*{self.pattern}*" if self.pattern else "*"
            without = ":".join(done)
            # In the build folder, since with ccache __FILE__ is relative to it, and tests find their files by that.
            outcome = self.call([program, "--gtest_color=no"], cwd=build, grace=5,
                                limit=max(end - time.monotonic(), 1),
                                env={**env, "GTEST_FILTER": chosen + (f"-{without}" if without else "")})
            fresh = parse_gtest(outcome)
            done.update(fresh)
            if outcome.status == 0 or outcome.status is None or not any(kind == "crashed" for kind, _ in fresh.values()):
                break
        for name, (kind, text) in done.items():
            results.add(self.name, name, "failed" if kind == "crashed" else kind, text)
        failed = any(kind in ("failed", "crashed") for kind, _ in done.values())
        if outcome.status != 0 and not failed:
            results.add(self.name, "program", "failed", f"exit status {outcome.status}\n{outcome.text}")


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


class Mounts(Suite):
    """pytest in tests/mount, with the daemon of one build."""

    program = "tierfs"  # without which there is nothing to test

    def __init__(self, preset, budget, pattern, marks, slowness, full):
        super().__init__(f"mount-{preset}", budget, f"mount tests with the {preset} build")
        self.preset, self.pattern, self.marks, self.needs = preset, pattern, marks, (preset,)
        self.slowness, self.full = slowness, full
        self.tests = TOP / "tests/mount"

    def execute(self, results, failed_builds):
        program = TOP / "build" / self.preset / self.program
        if not program.exists():
            results.add(self.name, "all", "failed", f"there is no {program}")
            return
        report = self.folder / "report.xml"
        words = ["/usr/bin/python3", "-m", "pytest", "-v", "-ra", "--tb=short", f"--junit-xml={report}",
                 "-o", "junit_logging=all", "-o", "junit_family=xunit2"]
        if self.marks:
            words += ["-m", self.marks]
        if self.pattern:
            words += ["-k", self.pattern]
        outcome = self.call(words, env=self.environment(program.with_name("tierfs")), cwd=self.tests, grace=120)
        if report.exists():
            self.add_report(results, report)
        if outcome.status is None:
            results.add(self.name, "time limit", "failed", outcome.text + f"\nno end within {self.limit():.0f} s")
        elif outcome.status not in (0, 1, 5) or (outcome.status == 1 and not results.count("failed", self.name)):
            results.add(self.name, "pytest", "failed", f"{outcome.text}\npytest ended with status {outcome.status}")
        self.say_slowest(report)

    def environment(self, program):
        env = {**os.environ, "TIERFS_TEST_BINARY": str(program), "TIERFS_TEST_SLOWNESS": str(self.slowness),
               "TIERFS_TEST_IOBENCH": str(program.with_name("iobench")),
               "TIERFS_TEST_BUILD": self.preset, "PYTHONDONTWRITEBYTECODE": "1"}
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

    def say_slowest(self, report):
        if not report.exists():
            return
        cases = [(float(case.get("time", 0)), case.get("name")) for case in xml.parse(report).iter("testcase")]
        slow = [f"{name} {seconds:.0f} s" for seconds, name in sorted(cases, reverse=True)[:5] if seconds >= 5]
        if slow:
            say(f"{self.name}: slowest: {', '.join(slow)}")


class Bench(Mounts):
    """pytest in tests/bench, with the iobench of one build."""

    program = "iobench"

    def __init__(self, preset, budget, pattern, slowness, full):
        super().__init__(preset, budget, pattern, "", slowness, full)
        self.name, self.what = f"bench-{preset}", f"tests of iobench with the {preset} build"
        self.tests = TOP / "tests/bench"


class Package(Mounts):
    """pytest in tests/package: what packaging/make-deb makes of a release build."""

    def __init__(self, preset, budget, pattern, full):
        super().__init__(preset, budget, pattern, "", 1, full)
        self.name, self.what = "package", "the Debian package: builds, lintian, systemd, installs, mounts, goes"
        self.tests = TOP / "tests/package"


class Stage(Mounts):
    """pytest in tests/stage, with the tierfs-stage of one build and the tierfs beside it."""

    program = "tierfs-stage"

    def __init__(self, preset, budget, pattern, slowness, full):
        super().__init__(preset, budget, pattern, "", slowness, full)
        self.name, self.what = f"stage-{preset}", f"tests of tierfs-stage with the {preset} build"
        self.tests = TOP / "tests/stage"

"""clang-tidy over what changed, and over a sample of the rest as far as the time goes; over all with --full. A source that
was clean is not looked at again until something that it reads has changed."""

import hashlib
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import clock
from known_clean import KnownClean
from kinds import TOP, Suite, head, sources
from results import say

FOLDERS = ("config/", "backends/", "tiering/", "fs/", "bench/iobench/")
LIST = TOP / "build/tidy"
SAMPLE_SECONDS = 150  # no new file is begun after that, in a default run; what was clean is known in the next one


def git(*words):
    return subprocess.run(["git", *words], cwd=TOP, capture_output=True, text=True, check=False).stdout.strip()


class Tidy(Suite):
    needs = ("asan",)  # headers that the build makes

    def __init__(self, full, jobs):
        super().__init__("tidy", 3600 if full else 600, "clang-tidy" + (" over all sources" if full else ""))
        self.full, self.jobs = full, jobs

    def chosen(self):
        """Changed sources first (a changed header stands for the source of its name), then the others in an order
        that each commit shuffles anew, so that a sample covers the tree over time."""
        files = [name for name in sources([".cpp"]) if name.startswith(FOLDERS)]
        changed = set(git("diff", "--name-only", "HEAD~1").splitlines())
        changed |= set(git("ls-files", "-o", "--exclude-standard").splitlines())
        stems = {str(Path(name).with_suffix("")) for name in changed}
        salt = head()
        def rank(name):
            return str(Path(name).with_suffix("")) not in stems, hashlib.sha256((salt + name).encode()).hexdigest()
        return sorted(files, key=rank)

    def execute(self, results, failed_builds):
        # A list of commands with each file by itself: the builds compile several together.
        made = self.call(["cmake", "--preset", "asan", "-B", LIST, "-DTIERFS_UNITY=OFF"], cwd=TOP)
        if made.status != 0:
            results.add(self.name, "compile commands", "failed", made.text)
            return
        known = KnownClean(LIST)
        end = time.monotonic() + (self.limit() if self.full else SAMPLE_SECONDS)
        files = self.chosen()
        with ThreadPoolExecutor(self.jobs) as pool:
            checked = [pair for pair in pool.map(lambda name: self.one(name, end, known), files) if pair]
        for name, text in checked:
            results.add(self.name, name, "failed" if text else "passed", text)
        if len(checked) < len(files):
            say(f"{self.name}: checked {len(checked)} of {len(files)} files, changed ones first; --full checks all")
        if known.hits:
            say(f"{self.name}: {known.hits} of them are as they were when they were clean")

    def one(self, name, end, known):
        if known.knows(name):
            return name, ""
        if time.monotonic() > end or not clock.has(0):
            return None
        # What runs beside it has deadlines.
        done = self.call(["clang-tidy", "-p", LIST, "--quiet", name], log=name.replace("/", "+"), limit=600, cwd=TOP,
                         gives_way=True)
        if done.status is None:
            return None if clock.is_over() else (name, done.text + f"\nno end within {done.seconds:.0f} s")
        if done.status == 0:
            known.remember(name)
        return name, done.text if done.status != 0 else ""

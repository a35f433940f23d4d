"""One mount of one peer, and the steps of one group on it."""

import json
import os
import time

from lib import host
from lib.peers import PEERS
from lib.process import Deadline, run

from . import fio
from .figures import figures_of
from .steps import EPOCH_BATCH, EPOCH_COMPUTE_MS, STEPS, group_seconds

CPU_TICK = os.sysconf("SC_CLK_TCK")
SLOWEST = 5  # times as long as estimated, and at least
SHORTEST_LIMIT = 120  # seconds: then a group has failed


def cpu_seconds(pids):
    """User and system time of these processes; what is gone counts nothing."""
    total = 0.0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / CPU_TICK
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total


def peak_memory(pids):
    """The sum of the most memory that each was seen by the kernel to have (VmHWM)."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
                total += sum(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total


class Session:
    """`number`: of the round, from 0. Figures go into `figures`, for the target that has the peer's name; `documents`
    are iobench's result files, `warnings` what a reader of the figures has to know."""

    def __init__(self, world, figures, line, peer, group, number):
        self.world, self.figures, self.line, self.peer, self.group = world, figures, line, peer, group
        self.number, self.options = number, world.options
        self.documents, self.warnings = [], []
        self.limit = max(SHORTEST_LIMIT, SLOWEST * group_seconds(group, peer, line.latency_ms, world.size, 60))

    def add(self, case, metric, value, unit, better):
        self.figures.add(self.number, self.peer, case, metric, value, unit, better)

    def run(self):
        """Raises Failure; what was measured before that stays."""
        deadline = Deadline(self.limit)
        place = self.world.place(self.peer, self.line, deadline)
        host.drop_caches(3)
        mark, began = self.line.proxy.mark(), time.monotonic()
        mount = PEERS[self.peer](place)
        try:
            run(["stat", "--", mount.mountpoint], deadline)
            if self.group == "files":
                self.add("mount", "mount_s", time.monotonic() - began, "s", "lower")
            if self.group == "fio":
                fio.measure(self, mount, deadline)
            for step in STEPS:
                if step.group == self.group:
                    self._step(step, mount, deadline)
            self._costs(mount.pids())
        finally:
            mount.close()
        self._count(f"{self.group}-mount", mark)  # with what came after the steps: the end of what was read ahead

    def _step(self, step, mount, deadline):
        mark = self.line.proxy.mark()
        if step.kind == "find":
            self._find(step, mount, deadline)
        else:
            self._iobench(step, mount, deadline)
        self._count(step.case, mark)

    def _count(self, case, mark):
        if self.peer == "native":
            return
        counted = self.line.proxy.since(mark)
        self.add(case, "requests", counted.requests, "requests", "lower")
        self.add(case, "mb_from_server", counted.bytes / 1e6, "MB", "lower")
        if counted.errors:
            self.warnings.append(f"{self.peer}, {self.line.name()}, round {self.number + 1}, {case}: the server answered "
                                 f"{counted.errors} requests with errors")

    def _costs(self, pids):
        if pids:
            self.add(f"{self.group}-mount", "cpu_s", cpu_seconds(pids), "s", "lower")
            self.add(f"{self.group}-mount", "peak_memory_mb", peak_memory(pids) / 1e6, "MB", "lower")

    def _find(self, step, mount, deadline):
        folders = [mount.mountpoint / name for name in ("small", "medium", "large")]
        began = time.monotonic()
        text = run(["find", *folders, "-type", "f", "-printf", "%s %p\n"], deadline)[1]
        self.add(step.case, "find_s", time.monotonic() - began, "s", "lower")
        self.world.dataset.check_listing(mount.mountpoint, text, self.peer)

    def _iobench(self, step, mount, deadline):
        result = self.world.folder / "result.json"
        result.unlink(missing_ok=True)
        command = [self.options.iobench, "run", "--runs", 1, "--drop-caches", step.drop, "--json", result,
                   "--seed", 100 * self.number + step.order + 1, "--processes", step.processes, *self._arguments(step, mount)]
        run(command, deadline)
        document = json.loads(result.read_text())
        self.documents.append(document)
        for metric, value, unit, better in figures_of(document):
            self.add(step.case, metric, value, unit, better)

    def _arguments(self, step, mount):
        """Of iobench run, for the suite and the files."""
        size = self.world.size
        if step.kind == "sequential":
            return ["--suite", "seqrand", "--path", mount.mountpoint / "large", "--bytes", size.sequential]
        if step.kind == "random":
            return ["--suite", "seqrand", "--path", mount.mountpoint / "large", "--reads", size.reads]
        words = ["--suite", step.kind, "--path", mount.mountpoint / step.sample.partition("-")[0],
                 "--list", self.world.sample_list(step.sample)]
        if step.kind == "epoch":
            words += ["--batch", EPOCH_BATCH, "--compute", EPOCH_COMPUTE_MS]
        return words


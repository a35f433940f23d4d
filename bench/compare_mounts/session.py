"""One mount of one peer, and the steps of one group on it."""

import json
import os
import time

from lib import host
from lib.peers import PEERS
from lib.process import Deadline, Failure, run, signals_held

from . import fio
from .figures import figures_of
from .steps import EPOCH_BATCH, EPOCH_COMPUTE_MS, METADATA_NAMES, STEPS, group_seconds

CPU_TICK = os.sysconf("SC_CLK_TCK")
SLOWEST = 5  # times as long as estimated, and at least
SHORTEST_LIMIT = 120  # seconds: then a group has failed
AFTERWARDS = 0.4  # seconds after a step in which requests that end still belong to it


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


def target_of(name, mountpoint):
    """A target of iobench's result files: what the kernel says of a mount."""
    found, where = host.mount_at(mountpoint), os.fsencode(mountpoint).decode(errors="replace")
    if found is None:
        raise Failure(f"{where}: not mounted")
    source, kind, options = found
    return {"name": name, "path": where, "fs_type": kind, "fs_source": source, "mount_point": where,
            "mount_options": options, "device": None, "daemon": None}


def case_of(step, case):
    """The case here of one in a result file of iobench that the step has made."""
    return f"{step.case}-{case}" if step.kind == "metadata" else step.case


class Session:
    """`number`: of the round, from 0. Figures go into `figures`, for the target that has the peer's name; `documents`
    are (step, iobench's result file), `warnings` what a reader of the figures has to know."""

    def __init__(self, world, figures, line, peer, group, number):
        self.world, self.figures, self.line, self.peer, self.group = world, figures, line, peer, group
        self.number, self.options = number, world.options
        self.documents, self.warnings, self.target = [], [], None
        self.limit = max(SHORTEST_LIMIT, SLOWEST * group_seconds(group, peer, line.latency_ms, world.size))

    def add(self, case, metric, value, unit, better):
        self.figures.add(self.number, self.peer, case, metric, value, unit, better)

    def run(self, left):
        """In `left` seconds at most. Raises Failure; what was measured before that stays."""
        deadline = Deadline(min(self.limit, left))
        place = self.world.place(self.peer, self.line, deadline)
        host.drop_caches(3)
        begin = self.line.proxy.mark()
        mount = PEERS[self.peer](place)
        try:
            self.target = target_of(self.peer, mount.mountpoint)
            if self.group == "files":
                self.add("mount", "mount_s", mount.mount_s, "s", "lower")
            if self.group == "fio":
                fio.measure(self, mount, deadline)
            self._steps(mount, deadline)
            self._costs(mount)
        finally:
            with signals_held():
                mount.close()
        # with what came after the steps: the end of what was read ahead
        self._count(f"{self.group}-mount", begin, self.line.proxy.mark())

    def _steps(self, mount, deadline):
        """Each begins where the one before it ended, so that every request after mounting belongs to a step."""
        mark = self.line.proxy.mark()
        for step in STEPS:
            if step.group == self.group:
                if step.kind == "find":
                    self._find(step, mount, deadline)
                else:
                    self._iobench(step, mount, deadline)
                begin, mark = mark, self.line.proxy.mark(AFTERWARDS)
                self._count(step.case, begin, mark)

    def _count(self, case, begin, end):
        if self.peer == "native":
            return
        counted = self.line.proxy.since(begin, end)
        self.add(case, "requests", counted.requests, "requests", "lower")
        self.add(case, "mb_from_server", counted.bytes / 1e6, "MB", "lower")
        if counted.errors:
            self.warnings.append(f"{self.peer}, {self.line.name()}, round {self.number + 1}, {case}: the server answered "
                                 f"{counted.errors} requests with errors")

    def _costs(self, mount):
        pids = mount.pids()
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
        command = [self.options.iobench, "run", "--runs", 1, "--warm-up", 0, "--drop-caches", step.drop, "--json", result,
                   "--seed", 100 * self.number + step.order + 1, *self._arguments(step, mount)]
        for pid in mount.pids():
            command += ["--daemon-pid", pid]
        run(command, deadline)
        document = json.loads(result.read_text())
        self.documents.append((step, document))
        for case, metric, value, unit, better in figures_of(document):
            self.add(case_of(step, case), metric, value, unit, better)

    def _arguments(self, step, mount):
        """Of iobench run, for the suite and the files."""
        size = self.world.size
        if step.kind in ("sequential", "random"):
            order, block, number = ("read", 1 << 20, size.sequential) if step.kind == "sequential" else \
                ("randread", 64 << 10, size.reads * (64 << 10))
            return ["--suite", "seqrand", "--path", mount.mountpoint / "large", "--orders", order, "--block-sizes", block,
                    "--modes", "buffered", "--engines", "pread", "--threads", 1, "--bytes", number, "--seconds", 3600]
        if step.kind == "metadata":
            return ["--suite", "metadata", "--path", mount.mountpoint, "--names", METADATA_NAMES, "--processes",
                    step.processes]
        words = ["--suite", step.kind, "--path", mount.mountpoint / step.sample.partition("-")[0],
                 "--list", self.world.sample_list(step.sample), "--processes", step.processes]
        if step.kind == "epoch":
            words += ["--batch", EPOCH_BATCH, "--compute", EPOCH_COMPUTE_MS, "--keep-last"]
        else:
            words += ["--access", "shuffled"]
        return words


"""Small files from a cache device whose every read takes a while, by as many readers as a machine of many cores has."""

import statistics

from lib import host, report
from lib.process import Failure, run, start, stop, wait_for

from .bench import nothing_fetched, origin_bytes, warm
from .small import list_of

MIB = 1 << 20
DELAY_US = 5000
MANY, FEWER = 128, 16


class SlowDisk:
    """An XFS on a loop device over slow-file (tests/servers), which answers after `delay` microseconds."""

    def __init__(self, bench, size, deadline):
        program = bench.options.tierfs.parent / "slow-file"
        if not program.exists():
            raise Failure(f"{program} is not there: `ninja slow-file` in that folder")
        self.folder, backing = bench.folder / "slow", bench.folder / "slow.backing"
        host.unmount(bench.folder / "slow-xfs")  # what a run that was killed has left
        host.unmount(self.folder)
        self.folder.mkdir(exist_ok=True)
        with open(backing, "wb") as file:
            file.truncate(size)
        self.xfs, self.server = None, start([program, backing, self.folder], bench.folder / "slow-file.log")
        try:
            image = self.folder / "image"
            wait_for("slow-file", image.exists, deadline, 10, self.server, bench.folder / "slow-file.log")
            run(["mkfs.xfs", "-q", "-f", image], deadline)
            self.xfs = host.LoopXfs(image, bench.folder / "slow-xfs", size, deadline)
        except BaseException:
            self.close()
            raise
        self.mountpoint = self.xfs.mountpoint

    def delay(self, microseconds):
        (self.folder / "delay_us").write_text(f"{microseconds}\n")

    def close(self):
        try:
            if self.xfs:
                self.xfs.close()
        finally:
            stop(self.server)
            host.unmount(self.folder)


def step_slow(bench, deadline):
    tree = bench.dataset.small
    disk = bench.keep(SlowDisk(bench, 2 * tree.bytes + 2048 * MIB, deadline))
    found = {}
    for delay in (0, DELAY_US):
        disk.delay(delay)
        with bench.ours(deadline, {"profile": "small", "memory.limit": 512 * MIB, "ram.limit": 0}, disk=disk) as mount:
            warm(bench, mount, [tree.name], deadline)

            def read(readers):
                words = ["--suite", "smallfiles", "--access", "shuffled", "--list", list_of(bench, tree), "--processes", readers]
                return bench.iobench(deadline, "--path", mount.mountpoint / tree.name, *words, "--drop-caches", "page")["files_per_s"]

            read(MANY)
            fetched = origin_bytes(mount)
            for readers in [FEWER, MANY] * bench.options.rounds:
                found.setdefault((delay, readers), []).append(read(readers))
            yield nothing_fetched("slow", mount, fetched, f"{delay / 1000:g} ms")
    yield report.figure("slow", f"16 KiB, {MANY} readers, 0 ms", found[0, MANY], "files/s")
    most = min(MANY / (DELAY_US / 1e6), statistics.median(found[0, MANY]))
    yield report.at_least("slow", f"16 KiB, {MANY} readers, {DELAY_US / 1000:g} ms", found[DELAY_US, MANY], "files/s",
                          [most] * len(found[DELAY_US, MANY]), "what device and processors allow", 0.9)
    for delay in (0, DELAY_US):
        yield report.at_least("slow", f"16 KiB, more readers, {delay / 1000:g} ms", found[delay, MANY], "files/s", found[delay, FEWER],
                              f"{FEWER} readers", 1)

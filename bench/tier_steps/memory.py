"""Memory under many readers, many streams and many names at once."""

import concurrent.futures
import os
import shutil
import threading
import time

from lib import host, report
from lib.datasets import Tree, same, write
from lib.process import Failure, run

from .bench import GIB, MIB

READERS, STREAMS = 64, 16
SMALL = 20_000  # files of 110 KiB for the readers, times scale
STREAM_BYTES = GIB  # each, times scale
MOST_STILL_S = 5
UNITS = {"K": 1 << 10, "M": MIB, "G": GIB}


def size_of(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


class Pulse:
    """The longest time in which the mount served no byte; polled."""

    def __init__(self, mount):
        self.mount, self.longest, self.failed = mount, 0.0, None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        before, since = -1, time.monotonic()
        try:
            while not self._end.wait(0.25):
                served, now = self.mount.status()["reads"]["bytes"], time.monotonic()
                self.longest = max(self.longest, now - since)
                if served != before:
                    before, since = served, now
        except (Failure, KeyError) as error:
            self.failed = str(error)

    def close(self):
        self._end.set()
        self._thread.join(timeout=30)
        if self.failed:
            raise Failure(f"status while files were read: {self.failed}")
        return self.longest


def make_source(bench, deadline):
    """A directory: names/ of empty files, small/, streams/ of sparse files. The origin costs next to nothing."""
    source, options = bench.disk_of_caches.mountpoint / "memory", bench.options
    stamp, asked = bench.disk_of_caches.mountpoint / "memory.json", [options.names, options.scale]
    tree = Tree("small", max(200, round(SMALL * options.scale)), 110 << 10, 20)
    if same(stamp, asked):
        return source, tree
    shutil.rmtree(source, ignore_errors=True)
    (source / "names").mkdir(parents=True)
    (source / "streams").mkdir()
    for number in range(options.names):
        os.close(os.open(source / f"names/{number:08d}", os.O_CREAT | os.O_WRONLY, 0o644))
    for number in range(STREAMS):
        with open(source / f"streams/{number}", "wb") as file:
            file.truncate(round(STREAM_BYTES * options.scale) // MIB * MIB)
    bench.make(source / "small", tree, deadline)
    write(stamp, asked)
    return source, tree


def loads(bench, mount, deadline):
    """The commands that read at once."""
    words = [bench.options.iobench, "run", "--runs", 1, "--warm-up", 0, "--path"]
    files = [word for number in range(STREAMS) for word in ("--file", f"{number}")]
    return [[*words, mount.mountpoint / "small", "--suite", "smallfiles", "--access", "shuffled", "--processes", READERS],
            [*words, mount.mountpoint / "streams", "--suite", "seqrand", "--orders", "read", "--block-sizes", "1M",
             "--threads", STREAMS, "--seconds", int(deadline.left()), *files]]


def step_memory(bench, deadline):
    source, _ = make_source(bench, deadline)
    for text in bench.options.memory_limits:
        limit, place = size_of(text), bench.fresh(bench.disk_of_caches)
        host.drop_caches(3)
        settings = {"metadata.ttl": "forever", "memory.limit": limit, "nvme.limit": round(4 * GIB * bench.options.scale)}
        with bench.tierfs(place / "tierfs", deadline, settings, source=source) as mount:
            run(["find", mount.mountpoint / "names", "-size", "+1"], deadline)
            pulse = Pulse(mount)
            try:
                with concurrent.futures.ThreadPoolExecutor(2) as pool:
                    list(pool.map(lambda command: run(command, deadline), loads(bench, mount, deadline)))
            finally:
                still = pulse.close()
            status = mount.status()
            mount.unmount(deadline)
        peak = max(bench.peaks[-1]["sampled_bytes"], bench.peaks[-1]["reported_bytes"])
        yield report.at_most("memory", f"limit of {text}: peak", peak, "B", round(1.05 * limit), limit, "limit")
        yield report.at_most("memory", f"limit of {text}: longest time without a byte", still, "s", MOST_STILL_S)
        yield report.at_most("memory", f"limit of {text}: reads that failed", status["reads"]["errors"], "", 0)
        yield report.figure("memory", f"limit of {text}: names known", status["datasets"][-1]["objects"], "")

"""What is measured: a cold stream, a cold and a warm epoch of small files, and a write; each beside libnfs."""

import os
import time

from lib import host
from lib.process import Failure
from lib.report import at_least

READERS = 4
DEPTH = 4  # reads of 1 MiB that the asynchronous reader has under way


def step_stream(bench, deadline):
    """The large file in order, cold."""
    size, rows = bench.dataset.large_bytes, []
    path = f"/{bench.dataset.large}"
    found = {"RAM alone": [], "with an NVMe tier": []}
    libnfs, device = [], []
    for _ in range(bench.options.rounds):
        _, seconds = bench.by_libnfs(deadline, "stream", bench.ganesha.url(version=True), path, DEPTH)
        libnfs.append(size / 1e6 / seconds)
        bench.fresh(bench.caches)
        device.append(bench.device_writes(size, deadline))
        for name, samples in found.items():
            with bench.ours(deadline, nvme=name != "RAM alone") as mount:
                place = mount.mountpoint / bench.dataset.large
                if place.stat().st_size != size:
                    raise Failure(f"{place}: {place.stat().st_size} bytes, expected {size}")
                _, seconds = bench.read(deadline, "streams", place, size, 1)
                samples.append(size / 1e6 / seconds)
    rows.append(at_least("stream", "2 GiB in order, RAM alone", found["RAM alone"], "MB/s", libnfs, "libnfs", 0.4))
    rows.append(at_least("stream", "2 GiB in order, with an NVMe tier", found["with an NVMe tier"], "MB/s", device,
                         "device", 0.8))
    return rows


def step_epoch(bench, deadline):
    """All small files, shuffled, cold; the clock runs from the mount's start."""
    names, path = bench.names()
    ours, libnfs = [], []
    for _ in range(bench.options.rounds):
        _, seconds = bench.by_libnfs(deadline, "files", bench.ganesha.url(version=True), path, READERS)
        libnfs.append(len(names) / seconds)
        with bench.ours(deadline) as mount:
            began = time.monotonic() - mount.mount_s
            bench.read(deadline, "files", mount.mountpoint, path, READERS)
            ours.append(len(names) / (time.monotonic() - began))
    return [at_least("epoch", "first epoch of small files", ours, "files/s", libnfs, "libnfs", 2)]


def step_warm(bench, deadline):
    """The second epoch, the page cache dropped, from what the first one has cached."""
    names, path = bench.names()
    found = {False: [], True: []}
    for _ in range(bench.options.rounds):
        for s3, samples in found.items():
            with bench.ours(deadline, s3=s3, **{"ram.limit": 0}) as mount:
                bench.read(deadline, "files", mount.mountpoint, path, READERS)
                time.sleep(1)  # the last chunk is written
                host.drop_caches(1)
                _, seconds = bench.read(deadline, "files", mount.mountpoint, path, READERS)
                samples.append(len(names) / seconds)
    return [at_least("warm", "second epoch of small files", found[False], "files/s", found[True], "S3", 0.9)]


def step_write(bench, deadline):
    """One large file, until it is durable at the server."""
    size = bench.dataset.large_bytes // 2
    ours, libnfs = [], []
    for _ in range(bench.options.rounds):
        _, seconds = bench.by_libnfs(deadline, "write", bench.ganesha.url(version=True), "/written", size)
        libnfs.append(size / 1e6 / seconds)
        with bench.ours(deadline, ro="false") as mount:
            block = os.urandom(1 << 20)
            began = time.monotonic()
            with open(mount.mountpoint / "written", "wb", buffering=0) as file:
                for _ in range(size >> 20):
                    file.write(block)
                os.fsync(file.fileno())
            ours.append(size / 1e6 / (time.monotonic() - began))
            os.unlink(mount.mountpoint / "written")
    return [at_least("write", "1 GiB written and synced", ours, "MB/s", libnfs, "libnfs", 0.8)]


STEPS = {"stream": step_stream, "epoch": step_epoch, "warm": step_warm, "write": step_write}

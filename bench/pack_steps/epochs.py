"""Shuffled epochs from a pack."""

import time

from cold_path.yardstick import seconds_of_gets
from lib import host
from lib.process import Failure
from lib.report import at_least, at_most, figure

READERS = 4
GETS = 4  # connections of 80 MB/s: a network of some 300 MB/s
SAMPLE = 600  # files that the slow mounts read
LEAST = {"without": 3, "GETs": 0.8, "s3fs": 200, "rclone": 60}
SHARES = (0, 0.25, 0.5, 0.75)
MOST_FETCHED = 1.1
EPOCHS = 2  # after the first
COUNTING_READERS = 32  # bytes are counted, not seconds: four would wait for 20 ms 300,000 times


def cold_epoch(bench, opened, folder, names, count, deadline):
    """Files a second, from the mount's start until the last one was read."""
    began = time.monotonic()
    with opened as mount:
        total, _ = bench.read(mount.mountpoint / folder, names, deadline, READERS)
        seconds = time.monotonic() - began
    if total != count * bench.tree.size:
        raise Failure(f"{total} bytes were read, not {count} files of {bench.tree.size}")
    return count / seconds


def packed_epoch(bench, seed, deadline):
    return cold_epoch(bench, bench.mount(bench.fresh_cache(), deadline), "", bench.shuffled(seed), bench.tree.files, deadline)


def step_epoch(bench, deadline):
    ours, without, gets, requests = [], [], [], []
    for seed in range(bench.options.rounds):
        with bench.counted() as counted:
            ours.append(packed_epoch(bench, seed, deadline))
        requests.append(counted)
        plain = bench.mount(bench.fresh_cache(), deadline, packed=False)
        without.append(cold_epoch(bench, plain, "", bench.shuffled(seed), bench.tree.files, deadline))
        extents = bench.urls("extents/*")
        gets.append(bench.tree.files / seconds_of_gets(extents, GETS, bench.folder, deadline))
    what = "first epoch from the pack"
    yield at_least("epoch", what, ours, "files/s", without, "without a pack", LEAST["without"])
    yield at_least("epoch", what, ours, "files/s", gets, f"{GETS} GETs of its extents", LEAST["GETs"])
    yield figure("epoch", "bytes sent for each byte", [one["bytes"] / bench.tree.bytes for one in requests], "")
    yield figure("epoch", "GET requests for 1000 files", [1000 * one["get"] / bench.tree.files for one in requests], "")


def step_peers(bench, deadline):
    ours = [packed_epoch(bench, 100 + seed, deadline) for seed in range(bench.options.rounds)]
    names = bench.shuffled(99, SAMPLE)
    count = min(SAMPLE, bench.tree.files)
    for peer in () if bench.options.without_peers else ("s3fs", "rclone"):
        host.drop_caches(3)
        opened = bench.peer(peer, bench.server, bench.fresh(bench.disk_of_caches), deadline)
        theirs = [cold_epoch(bench, opened, bench.tree.name, names, count, deadline)]
        yield at_least("peers", "first epoch from the pack", ours, "files/s", theirs, peer, LEAST[peer])
    if bench.options.without_peers:
        yield figure("peers", "first epoch from the pack", ours, "files/s")


def room_for(bench, share):
    """Settings of a cache that holds so much of the dataset."""
    if share == 0:
        return {"nvme.path": None, "nvme.limit": None, "ram.limit": 0}
    return {"nvme.limit": max(16 << 20, round(bench.tree.bytes * share) // 4096 * 4096), "ram.limit": 0}


def step_amplification(bench, deadline):
    """The first epoch fills the cache; all that was fetched for it has come before the second begins."""
    for share in SHARES:
        ratios = []
        with bench.mount(bench.fresh_cache(), deadline, room_for(bench, share)) as mount:
            for epoch in range(EPOCHS + 1):
                host.drop_caches(1)
                before = bench.sent(deadline)
                read, _ = bench.read(mount.mountpoint, bench.shuffled(200 + epoch), deadline, COUNTING_READERS)
                ratios.append((bench.sent(deadline) - before) / read)
        what = f"cache for {100 * share:.0f} %: bytes sent for each byte read"
        row = at_most("amplification", what, max(ratios[1:]), "", MOST_FETCHED * (1 - share), 1 - share, "1 - share")
        row.samples = [ratios[1:]]
        yield row
        yield figure("amplification", f"cache for {100 * share:.0f} %: the same in the first epoch", ratios[0], "")

"""Epochs, and the steps of reading that benches of different origins have in common: right bytes, kill -9 in the middle,
beside native XFS, memory. Reads happen in processes of their own, so that a mount that hangs holds up those alone."""

import concurrent.futures
import itertools
import json
import os
import time

from .process import Failure, run, tail
from .report import Row, at_least, at_most, figure

PROCESSES = 4
UNSTORED_ALLOWANCE = 8 << 20  # what may not have reached the device yet when the daemon is killed
WARM_SHARE = 0.5  # of native XFS
MOST_FETCHED = 1.1  # times the dataset, when all of it is read once
MOST_MEMORY = 1.05  # times memory.limit

_seeds = itertools.count(1)


def read_shuffled(bench, folder, deadline, manifest, check=True, drop="none"):
    """One shuffled epoch over the files in `folder` by 4 processes (iobench run --suite smallfiles); files a second.
    With a manifest each file's content is checked. None when it failed and `check` is false."""
    result = bench.folder / f"epoch-{folder.name}.json"
    result.unlink(missing_ok=True)
    command = [bench.options.iobench, "run", "--suite", "smallfiles", "--path", folder, "--access", "shuffled",
               "--processes", PROCESSES, "--runs", 1, "--warm-up", 0, "--seed", next(_seeds), "--drop-caches", drop,
               "--json", result]
    if manifest:
        command += ["--verify", manifest]
    if run(command, deadline, check=check)[0] != 0:
        return None
    figures = json.loads(result.read_text())["figures"]
    return next(one["median"] for one in figures if one["metric"] == "files_per_s")


def read_sequentially(path, deadline):
    """The whole file in reads of 1 MiB by dd; MB/s."""
    size = os.stat(path).st_size
    start = time.monotonic()
    run(["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none"], deadline)
    return size / 1e6 / (time.monotonic() - start)


def compare_trees(bench, mount, deadline):
    """Every byte and name of the mount is that of the source, or Failure."""
    status, out, err = run(["diff", "-r", bench.dataset.folder, mount.mountpoint], deadline, check=False)
    if status != 0:
        raise Failure(f"diff -r: the mount differs from the source: {tail(out + err)}")


def kill_in_mid_epoch(bench, mount, tree, deadline, sent):
    """kill -9 of the daemon and its supervisor when sent() bytes of a cold epoch are half of the tree. Returns sent() of that
    moment, and how many bytes were on the cache's device a moment before, by what the mount itself then said was still to be
    written there."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_shuffled, bench, mount.mountpoint / tree.name, deadline, None, False)
        while not reading.done() and sent() < tree.bytes / 2:
            deadline.left()
            time.sleep(0.02)
        if reading.done():
            raise Failure("the epoch ended before the daemon could be killed in the middle of it; use a larger --scale")
        taken = sent()  # asked first: what arrives until the daemon has answered is not on the device for sure
        unwritten = next(tier["unwritten_bytes"] for tier in mount.status()["tiers"] if tier["name"] == "nvme")
        killed = sent()
        mount.kill(deadline)
        reading.result()  # it fails, and how does not matter; it must only end
    return killed, max(taken - unwritten, 0)


def crash_rows(step, tree, sent, stored, in_flight, again):
    """What the server sent of a tree before kill -9, what of that was on the cache's device, what was sent to the daemon that
    died, and for a whole epoch after it. What was on the device is not to be sent again."""
    in_flight = max(in_flight, PROCESSES * tree.size)
    allowed = tree.bytes - stored + UNSTORED_ALLOWANCE + in_flight
    rows = [figure(step, "sent before kill -9", sent, "B"), figure(step, "of it on the device", stored, "B"),
            figure(step, "in flight at kill -9", in_flight, "B"),
            at_most(step, "sent after the remount", again, "B", allowed, tree.bytes - stored, "not on the device before")]
    if tree.bytes / 2 <= UNSTORED_ALLOWANCE + in_flight:  # then fetching everything again would pass as well
        rows[-1].target, rows[-1].met = "none: scale too small", None
    return rows


def warm_beside_native(step, bench, mount, native, deadline, shares):
    """Shuffled warm epochs with a dropped page cache, the mount and native XFS in turns; shares: of native XFS, by tree."""
    trees = (bench.dataset.small, bench.dataset.medium)
    theirs, ours = ({tree.name: [] for tree in trees} for _ in range(2))
    for tree in trees:  # names and inodes are warm on both sides: only the page cache is dropped
        read_shuffled(bench, native / tree.name, deadline, None)
        read_shuffled(bench, mount.mountpoint / tree.name, deadline, bench.dataset.manifest(tree))
    for _ in range(bench.options.rounds):
        for root, into in ((native, theirs), (mount.mountpoint, ours)):
            for tree in trees:
                into[tree.name].append(read_shuffled(bench, root / tree.name, deadline, None, drop="page"))
    return [at_least(step, f"warm epoch, {tree.size >> 10} KiB", ours[tree.name], "files/s", theirs[tree.name],
                     "native XFS", shares[tree.name]) for tree in trees]


def read_all_at_once(bench, mount, deadline):
    """The load that asks for most memory: small, medium and large files at the same time."""
    dataset = bench.dataset
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        reads = [pool.submit(read_shuffled, bench, mount.mountpoint / tree.name, deadline, None)
                 for tree in (dataset.small, dataset.medium)]
        reads.append(pool.submit(read_sequentially, mount.mountpoint / dataset.large, deadline))
        for read in reads:
            read.result()


def memory_rows(step, peaks, limit):
    """`peaks`: of mounts with this memory.limit, see lib/peers/tierfs.py."""
    most = MOST_MEMORY * limit
    return [Row(step, "memory limit of the mounts", limit, "B"),
            at_most(step, f"peak sampled, {len(peaks)} mount{'s' * (len(peaks) > 1)}", max(p["sampled_bytes"] for p in peaks),
                    "B", most, limit, "limit"),
            at_most(step, "peak in tierfs status", max(p["reported_bytes"] for p in peaks), "B", most, limit, "limit")]

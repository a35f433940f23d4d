"""Steps a (right bytes, warm remount without a GET, kill -9) and e (memory)."""

import concurrent.futures
import time

from lib import host
from lib.datasets import BUCKET
from lib.peers.tierfs import MEMORY_LIMIT
from lib.process import Failure, run, tail
from lib.report import Row, at_most, figure

from .measure import read_sequentially, read_shuffled

UNSTORED_ALLOWANCE = 8 << 20  # what may not have reached the device yet when the daemon is killed
PROCESSES = 4


def compare_trees(bench, mount, deadline):
    status, out, err = run(["diff", "-r", bench.dataset.folder, mount.mountpoint], deadline, check=False)
    if status != 0:
        raise Failure(f"diff -r: the mount differs from the source: {tail(out + err)}")


def step_a(bench, deadline):
    """Everything cold, compared; unmounted, remounted, everything again: not one GET."""
    cache, rows = bench.empty_cache(), []
    for name in ("cold", "remounted"):
        host.drop_caches(3)
        mark = bench.proxy.mark()
        with bench.ours(bench.proxy, cache, deadline) as mount:
            start = time.monotonic()
            compare_trees(bench, mount, deadline)
            seconds = time.monotonic() - start
            counted = bench.proxy.since(mark)
            mount.unmount(deadline)
        rows.append(figure("a", f"diff -r, {name}", seconds, "s"))
        if name == "cold":
            rows.append(at_most("a", "bytes sent, cold", counted.object_bytes, "B", 1.1 * bench.dataset.bytes,
                                bench.dataset.bytes, "dataset"))
        else:
            rows.append(at_most("a", "GETs of objects, remounted", counted.objects, "", 0))
        rows.append(figure("a", f"other requests, {name}", counted.requests - counted.objects, ""))
        rows.append(figure("a", f"reads cancelled, {name}", counted.cancelled, ""))
        rows.append(at_most("a", f"errors of the server, {name}", counted.errors, "", 0))
    return rows


def step_crash(bench, deadline):
    """kill -9 in the middle of an epoch; after a remount the right bytes, and hardly any of them fetched twice."""
    tree, cache = bench.dataset.small, bench.empty_cache()

    def sent_since(mark, until=None):
        return bench.proxy.since(mark, until, f"/{BUCKET}/{tree.name}/").object_bytes

    host.drop_caches(3)
    before = bench.proxy.mark()
    with bench.ours(bench.proxy, cache, deadline) as mount, \
            concurrent.futures.ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_shuffled, bench, mount.mountpoint / tree.name, deadline, None, False)
        while not reading.done() and sent_since(before, bench.proxy.end()) < tree.bytes / 2:
            deadline.left()
            time.sleep(0.02)
        if reading.done():
            raise Failure("the epoch ended before the daemon could be killed in the middle of it; use a larger --scale")
        killed = bench.proxy.end()
        mount.kill(deadline)
        reading.result()  # it fails, and how does not matter; it must only end
        after = bench.proxy.mark()
    sent = sent_since(before, killed)
    in_flight = max(sent_since(killed, after), PROCESSES * tree.size)
    host.drop_caches(3)
    with bench.ours(bench.proxy, cache, deadline) as mount:
        read_shuffled(bench, mount.mountpoint / tree.name, deadline, bench.dataset.manifest(tree))
        again = sent_since(after)
        mount.unmount(deadline)
    allowed = tree.bytes - sent + UNSTORED_ALLOWANCE + in_flight
    rows = [figure("crash", "sent before kill -9", sent, "B"), figure("crash", "in flight at kill -9", in_flight, "B"),
            at_most("crash", "sent after the remount", again, "B", allowed, tree.bytes - sent, "not sent before")]
    if allowed >= tree.bytes:  # fetching everything again would pass as well
        rows[-1].target, rows[-1].met = "none: scale too small", None
    return rows


def step_e(bench, deadline):
    """The load that asks for most memory: cold small, medium and large files at the same time. Then the peaks of all
    mounts of this run."""
    dataset = bench.dataset
    host.drop_caches(3)
    with bench.ours(bench.server, bench.empty_cache(), deadline) as mount, \
            concurrent.futures.ThreadPoolExecutor(3) as pool:
        reads = [pool.submit(read_shuffled, bench, mount.mountpoint / tree.name, deadline, None)
                 for tree in (dataset.small, dataset.medium)]
        reads.append(pool.submit(read_sequentially, mount.mountpoint / dataset.large, deadline))
        for read in reads:
            read.result()
        mount.unmount(deadline)
    most = 1.05 * MEMORY_LIMIT
    return [Row("e", "memory limit of the mounts", MEMORY_LIMIT, "B"),
            at_most("e", f"peak sampled, {len(bench.peaks)} mounts", max(p["sampled_bytes"] for p in bench.peaks), "B",
                    most, MEMORY_LIMIT, "limit"),
            at_most("e", "peak in tierfs status", max(p["reported_bytes"] for p in bench.peaks), "B", most,
                    MEMORY_LIMIT, "limit")]

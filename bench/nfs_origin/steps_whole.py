"""What has to hold of a mount of an export as of one of a bucket (bench/read-path), with the same bars: right bytes, calls
that are counted between tierfs and the server, kill -9, a warm epoch beside native XFS, memory."""

import statistics
import time

from lib import epochs, host
from lib.peers.tierfs import MEMORY_LIMIT
from lib.process import run
from lib.report import Row, at_most, figure

MOST_CALLS = 60  # of a find at scale 1
MOST_OF_BOTH = 1.3  # times the tree: what is read until kill -9 and after it


def step_equal(bench, deadline):
    """Everything cold, compared; unmounted, remounted with its cache, everything again: not one READ."""
    cache, rows = bench.empty_cache(), []
    for name in ("cold", "remounted"):
        host.drop_caches(3)
        mark = bench.relay.mark()
        with bench.counted(cache, deadline) as mount:
            start = time.monotonic()
            epochs.compare_trees(bench, mount, deadline)
            seconds = time.monotonic() - start
            counted = bench.relay.since(mark)
            mount.unmount(deadline)
        rows.append(figure("equal", f"diff -r, {name}", seconds, "s"))
        if name == "cold":
            rows.append(at_most("equal", "bytes read, cold", counted.read_bytes, "B",
                                epochs.MOST_FETCHED * bench.dataset.bytes, bench.dataset.bytes, "dataset"))
            rows.append(figure("equal", "READs, cold", counted.reads, ""))
        else:
            rows.append(at_most("equal", "READs, remounted", counted.reads, "", 0))
        rows.append(figure("equal", f"other calls, {name}", counted.calls.total() - counted.reads, ""))
        rows[-1].other_name = counted.others()
        rows.append(at_most("equal", f"READs that failed, {name}", counted.failed_reads, "", 0))
    return rows


def step_find(bench, deadline):
    """find with the size of every file on fresh mounts with empty caches, from the moment that they are mounted."""
    calls, seconds, others = [], [], []
    for _ in range(bench.options.rounds):
        host.drop_caches(3)
        bench.warm_the_server()
        with bench.counted(bench.empty_cache(), deadline) as mount:
            mark, start = bench.relay.mark(), time.monotonic()
            text = run(["find", mount.mountpoint, "-type", "f", "-printf", "%s %p\n"], deadline)[1]
            seconds.append(time.monotonic() - start)
            bench.dataset.check_listing(mount.mountpoint, text, "tierfs")
            counted = bench.relay.since(mark)
        calls.append(counted.calls["READDIRPLUS"])
        others.append((counted.calls.total() - calls[-1], counted.others("READDIRPLUS")))
    value, (most, which) = statistics.median(calls), max(others)
    rest = at_most("find", "find, other calls", most, "", 0)
    rest.other_name = which
    return [Row("find", "find, READDIRPLUS", value, "", None, "", f"< {MOST_CALLS}", value < MOST_CALLS, [calls]), rest,
            figure("find", "find, seconds", seconds, "s")]


def step_crash(bench, deadline):
    """kill -9 in the middle of an epoch; after a remount the right bytes, and hardly any of them read twice."""
    tree, cache = bench.dataset.small, bench.empty_cache()
    host.drop_caches(3)
    bench.warm_the_server()
    before = bench.relay.mark()

    def sent(patience=0):
        return bench.relay.since(before, patience).read_bytes

    with bench.counted(cache, deadline) as mount:
        killed, stored = epochs.kill_in_mid_epoch(bench, mount, tree, deadline, sent)
    in_flight = sent(patience=0.5) - killed
    host.drop_caches(3)
    with bench.counted(cache, deadline) as mount:
        epochs.read_shuffled(bench, mount.mountpoint / tree.name, deadline, bench.dataset.manifest(tree))
        whole = sent(patience=0.5)
        mount.unmount(deadline)
    rows = epochs.crash_rows("crash", tree, killed, stored, in_flight, whole - killed - in_flight)
    rows.append(at_most("crash", "read before and after it", whole, "B", MOST_OF_BOTH * tree.bytes, tree.bytes, "dataset"))
    if rows[-2].met is None:  # what is in flight is too much of such a tree
        rows[-1].target, rows[-1].met = rows[-2].target, None
    return rows


def step_native(bench, deadline):
    """Warm epochs from the NVMe tier alone."""
    with bench.direct(bench.empty_cache(), deadline, **{"ram.limit": 0}) as mount:
        shares = dict.fromkeys(("small", "medium"), epochs.WARM_SHARE)
        rows = epochs.warm_beside_native("native", bench, mount, bench.native.mountpoint, deadline, shares)
        mount.unmount(deadline)
    return rows


def step_memory(bench, deadline):
    """The load that asks for most memory, and the peak of this mount."""
    before = len(bench.peaks)
    host.drop_caches(3)
    with bench.direct(bench.empty_cache(), deadline) as mount:
        epochs.read_all_at_once(bench, mount, deadline)
        mount.unmount(deadline)
    return epochs.memory_rows("memory", bench.peaks[before:], MEMORY_LIMIT)


STEPS = {"equal": step_equal, "find": step_find, "crash": step_crash, "native": step_native, "memory": step_memory}

"""Steps a (right bytes, warm remount without a GET, kill -9) and e (memory)."""

import time

from lib import epochs, host
from lib.datasets import BUCKET
from lib.peers.tierfs import MEMORY_LIMIT
from lib.report import at_most, figure


def step_a(bench, deadline):
    """Everything cold, compared; unmounted, remounted, everything again: not one GET."""
    cache, rows = bench.empty_cache(), []
    for name in ("cold", "remounted"):
        host.drop_caches(3)
        mark = bench.proxy.mark()
        with bench.ours(bench.proxy, cache, deadline) as mount:
            start = time.monotonic()
            epochs.compare_trees(bench, mount, deadline)
            seconds = time.monotonic() - start
            counted = bench.proxy.since(mark)
            mount.unmount(deadline)
        rows.append(figure("a", f"diff -r, {name}", seconds, "s"))
        if name == "cold":
            rows.append(at_most("a", "bytes sent, cold", counted.object_bytes, "B",
                                epochs.MOST_FETCHED * bench.dataset.bytes, bench.dataset.bytes, "dataset"))
        else:
            rows.append(at_most("a", "GETs of objects, remounted", counted.objects, "", 0))
        rows.append(figure("a", f"other requests, {name}", counted.requests - counted.objects, ""))
        rows.append(figure("a", f"reads cancelled, {name}", counted.cancelled, ""))
        rows.append(at_most("a", f"errors of the server, {name}", counted.errors, "", 0))
    return rows


def step_crash(bench, deadline):
    """kill -9 in the middle of an epoch; after a remount the right bytes, and hardly any of them fetched twice."""
    tree, cache = bench.dataset.small, bench.empty_cache()

    def sent_between(mark, until=None):
        return bench.proxy.since(mark, until, f"/{BUCKET}/{tree.name}/").object_bytes

    host.drop_caches(3)
    before = bench.proxy.mark()
    with bench.ours(bench.proxy, cache, deadline) as mount:
        sent, stored = epochs.kill_in_mid_epoch(bench, mount, tree, deadline,
                                                lambda: sent_between(before, bench.proxy.end()))
        after = bench.proxy.mark()
    in_flight = sent_between(before, after) - sent
    host.drop_caches(3)
    with bench.ours(bench.proxy, cache, deadline) as mount:
        epochs.read_shuffled(bench, mount.mountpoint / tree.name, deadline, bench.dataset.manifest(tree))
        again = sent_between(after)
        mount.unmount(deadline)
    return epochs.crash_rows("crash", tree, sent, stored, in_flight, again)


def step_e(bench, deadline):
    """The load that asks for most memory. Then the peaks of all mounts of this run."""
    host.drop_caches(3)
    with bench.ours(bench.server, bench.empty_cache(), deadline) as mount:
        epochs.read_all_at_once(bench, mount, deadline)
        mount.unmount(deadline)
    return epochs.memory_rows("e", bench.peaks, MEMORY_LIMIT)

"""Steps b (warm epochs), c (one large file, cold) and d (find)."""

import statistics
import time

from lib import epochs, host
from lib.datasets import BUCKET
from lib.process import run
from lib.report import Row, at_least, figure

from .measure import get_in_parallel


def step_b(bench, deadline):
    """Shuffled epochs with a dropped page cache, tierfs and native XFS in turns."""
    if bench.options.without_tierfs:
        return native_epochs(bench, deadline)
    shares = {name: bench.options.targets[f"warm-{name}"] for name in ("small", "medium")}
    with bench.ours(bench.server, bench.empty_cache(), deadline) as mount:
        rows = epochs.warm_beside_native("b", bench, mount, bench.native.mountpoint, deadline, shares)
        mount.unmount(deadline)
    return rows


def native_epochs(bench, deadline):
    rows = []
    for tree in (bench.dataset.small, bench.dataset.medium):
        folder = bench.native.mountpoint / tree.name
        epochs.read_shuffled(bench, folder, deadline, None)  # names and inodes are warm then
        samples = [epochs.read_shuffled(bench, folder, deadline, None, drop="page") for _ in range(bench.options.rounds)]
        rows.append(figure("b", f"native XFS, {tree.size >> 10} KiB", samples, "files/s"))
    return rows


def step_c(bench, deadline):
    """One large file from the server: read in order through a fresh mount, and by 8 curls onto the same disk."""
    dataset, curl, ours, rows = bench.dataset, [], [], []
    url = f"{bench.server.endpoint}/{BUCKET}/{dataset.large}"
    for _ in range(bench.options.rounds):
        host.drop_caches(3)
        curl.append(get_in_parallel(url, dataset.large_bytes, bench.nvme.mountpoint / "curl", deadline))
        if bench.options.without_tierfs:
            continue
        cache = bench.empty_cache()
        host.drop_caches(3)
        with bench.ours(bench.server, cache, deadline) as mount:
            ours.append(epochs.read_sequentially(mount.mountpoint / dataset.large, deadline))
            mount.unmount(deadline)
    if ours:
        rows.append(at_least("c", "cold sequential read", ours, "MB/s", curl, "8 x curl", bench.options.targets["cold"]))
    else:
        rows.append(figure("c", "8 parallel GETs by curl", curl, "MB/s"))
    return rows


def find(bench, mount, who, deadline):
    """Requests and seconds of one find that asks for every file's size."""
    mark = bench.proxy.mark()
    start = time.monotonic()
    text = run(["find", mount.mountpoint, "-type", "f", "-printf", "%s %p\n"], deadline)[1]
    seconds = time.monotonic() - start
    bench.dataset.check_listing(mount.mountpoint, text, who)
    return bench.proxy.since(mark).requests, seconds


def step_d(bench, deadline):
    """find on fresh mounts with empty caches, requests counted at the proxy."""
    requests, seconds, rows = {}, {}, []
    for _ in range(bench.options.rounds):
        for who in ("tierfs", "rclone", "s3fs"):
            if who == "tierfs" and bench.options.without_tierfs:
                continue
            cache = bench.empty_cache()
            host.drop_caches(3)
            opened = bench.ours(bench.proxy, cache, deadline) if who == "tierfs" else \
                bench.theirs(who, bench.proxy, deadline)
            with opened as mount:
                counted, spent = find(bench, mount, who, deadline)
            requests.setdefault(who, []).append(counted)
            seconds.setdefault(who, []).append(spent)
    ours = (requests.pop("tierfs", None), seconds.pop("tierfs", None))
    if ours[0] is not None:
        most, value = bench.options.targets["find-requests"], statistics.median(ours[0])
        rows.append(Row("d", "find, requests", value, "", None, "", f"< {most:g}", value < most, [ours[0]]))
    for peer in requests:
        if ours[0] is None:
            rows += [figure("d", f"find, requests, {peer}", requests[peer], ""),
                     figure("d", f"find, seconds, {peer}", seconds[peer], "s")]
            continue
        rows.append(figure("d", f"find, requests of {peer}", requests[peer], ""))
        share = bench.options.targets[f"find-{peer}"]
        value, other = statistics.median(ours[1]), statistics.median(seconds[peer])
        rows.append(Row("d", "find, seconds", value, "s", other, peer, f"ratio <= {share:g}", value <= share * other,
                        [ours[1], seconds[peer]]))
    return rows

"""All names of a dataset, from the index of its pack."""

import statistics
import time

from cold_path.yardstick import seconds_of_gets
from lib import host
from lib.process import Failure, run
from lib.report import at_most, figure
from lib.statistics import LEAST_OF_INTERVAL, interval

LONGEST = 1.5  # times


def find_all(bench, mount, deadline):
    found = run(["find", mount.mountpoint, "-type", "f", "-size", "+1", "-printf", "."], deadline)[1]
    if len(found) != bench.tree.files:
        raise Failure(f"find shows {len(found)} files of {bench.tree.files}")


def mount_and_find(bench, cache, deadline):
    """Seconds until the mount stands, and until find has ended."""
    host.drop_caches(3)
    began = time.monotonic()
    with bench.mount(cache, deadline, {"class": "auto"}) as mount:
        mounted = time.monotonic() - began
        find_all(bench, mount, deadline)
        return mounted, time.monotonic() - began


def step_names(bench, deadline):
    index, = bench.urls("index-*")
    first, again, gets, mounts, requests = [], [], [], [], []
    for _ in range(bench.options.rounds):
        cache = bench.fresh_cache()
        with bench.counted() as counted:
            mounted, whole = mount_and_find(bench, cache, deadline)
        requests.append(counted)
        mounts.append(mounted)
        first.append(whole)
        again.append(mount_and_find(bench, cache, deadline)[1])
        gets.append(seconds_of_gets([index], 1, bench.folder, deadline))
    for kind in ("list", "head"):
        yield at_most("names", f"mount and find: {kind.upper()} requests", max(one[kind] for one in requests), "", 0)
    yield figure("names", "mount and find: GET requests", [one["get"] for one in requests], "")
    yield figure("names", "index of a file", next(bench.pack_folder.glob("index-*")).stat().st_size / bench.tree.files, "B")
    yield figure("names", "mount alone", mounts, "s")
    local = [a + b for a, b in zip(again, gets, strict=True)]
    row = at_most("names", "mount and find", statistics.median(first), "s", LONGEST * statistics.median(local),
                  statistics.median(local), "plain GET of the index + the same with a local index")
    row.samples, row.target = [first, local], f"ratio <= {LONGEST}"
    if len(first) >= LEAST_OF_INTERVAL:
        row.ratio_interval = interval([a / b for a, b in zip(first, local, strict=True)])
    yield row

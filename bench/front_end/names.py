"""A directory of a million names: lookups and listings with the kernel's caches dropped, the mount's index warm."""

import time

from lib import host, report
from lib.process import run

from .bench import messages

MIB = 1 << 20
LOOKUPS = 200_000  # of the names, in each round
FIRST_ENTRY_MS = 50


def forget(mount, deadline):
    """Drops the kernel's caches, and waits until the mount has heard of it: what a round before had made known is not to be
    forgotten in the time of the next."""
    host.drop_caches(3)
    before = None
    while before != (before := messages(mount)):
        deadline.left()
        time.sleep(0.3)


def step_names(bench, deadline):
    native = bench.names
    with bench.ours(deadline, {"profile": "small", "memory.limit": 1024 * MIB}, source=native) as mount:
        for folder in (native, mount.mountpoint):  # fills the index
            run(["find", folder / "d", "-type", "f", "-size", "+1", "-printf", "x"], deadline)

        def measure(operation, metric, *words):
            def one(folder):
                forget(mount, deadline)
                return bench.iobench(deadline, "--suite", "metadata", "--path", folder / "d", "--operations", operation,
                                     "--drop-caches", "all", *words)[metric]

            return one

        def row(name, unit, share, one):
            return bench.beside("names", name, unit, share, one, native, mount.mountpoint)

        yield row("lookups by 4 processes", "names/s", 2, measure("lookup", "ops_per_s", "--processes", 4, "--names", LOOKUPS))
        yield row("listing, each name's attributes at once", "names/s", 3, measure("find", "names_per_s"))
        yield row("listing, all attributes after it", "names/s", 3, measure("stat", "names_per_s"))
        ours, theirs = bench.in_turns(measure("list", "first_entry_ms"), native, mount.mountpoint)
        yield report.at_most("names", "first entry of the listing", max(ours), "ms", FIRST_ENTRY_MS, max(theirs), "XFS")

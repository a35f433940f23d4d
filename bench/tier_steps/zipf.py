"""Reads by Zipf's law: hit ratios of one tier alone beside S3-FIFO with the same reads."""

import itertools
import pathlib
import random
import sys

from lib import host, report
from lib.datasets import Tree
from lib.process import run

from .bench import MIB, tier
from .epochs import LEAST_NVME
from .s3fifo import hit_ratio

READER = pathlib.Path(__file__).resolve().parent / "direct_reader.py"
OBJECTS, SIZE = 100_000, 16 << 10
EXPONENT = 0.9
CACHE_SHARE = 0.1
READS = 5  # for each object
REFERENCE_SHARE = 0.95  # of the simulation's hit ratio


def zipf_reads(objects, count, seed=1):
    """Numbers of objects; which are read often is chance."""
    chance = random.Random(seed)
    order = list(range(objects))
    chance.shuffle(order)
    weights = list(itertools.accumulate(1 / rank ** EXPONENT for rank in range(1, objects + 1)))
    return chance.choices(order, cum_weights=weights, k=count)


def step_zipf(bench, deadline):
    tree = Tree("zipf", max(2000, round(OBJECTS * bench.options.scale)), SIZE, 100)
    source = bench.disk_of_caches.mountpoint / "zipf"
    bench.make(source, tree, deadline)
    files = sorted(str(path.relative_to(source)) for path in source.rglob("*.*"))
    reads = zipf_reads(len(files), READS * len(files))
    middle = len(reads) // 2
    limit = max(LEAST_NVME, int(tree.bytes * CACHE_SHARE))
    reference = hit_ratio(limit // SIZE, reads, middle)
    for name, limits in (("ram", {"ram.limit": limit, "nvme.path": ""}), ("nvme", {"ram.limit": 0, "nvme.limit": limit})):
        place = bench.fresh(bench.disk_of_caches)
        if name == "ram":
            limits["index.path"] = place / "index"
            (place / "index").mkdir(parents=True)
        settings = {"metadata.ttl": "forever", "memory.limit": 512 * MIB, "class": "hot", "prefetch.window": 0,
                    "profile": "small", **limits}
        host.drop_caches(3)
        with bench.tierfs(place / "tierfs", deadline, settings, source=source) as mount:
            yield from one_tier(bench, mount, name, files, (reads[:middle], reads[middle:]), reference, deadline)


def one_tier(bench, mount, name, files, halves, reference, deadline):
    """Counted in the second half of the reads, when the tier is full."""
    for number, half in enumerate(halves):
        before = mount.status()["reads"]
        names = bench.folder / "zipf-reads"
        names.write_text("\n".join(files[one] for one in half))
        run([sys.executable, READER, mount.mountpoint, names, SIZE], deadline)
        after = mount.status()["reads"]
    share = (after["by_tier"][name] - before["by_tier"][name]) / (after["bytes"] - before["bytes"])
    row = report.at_least("zipf", f"hit ratio of {name} alone", [share], "", [reference], "S3-FIFO", REFERENCE_SHARE)
    yield row
    full = tier(mount, name)
    yield report.figure("zipf", f"{name}: used share of the limit", full["used_bytes"] / full["limit_bytes"], "")
    yield report.figure("zipf", f"{name}: bytes written for each byte fetched", full["written_bytes"] / after["fetched_bytes"],
                        "")

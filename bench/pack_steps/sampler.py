"""What a reading order by chunks gains where the cache is small."""

import pathlib
import sys
import time

from lib import host
from lib.process import Failure, run
from lib.report import at_least, figure

PROGRAM = pathlib.Path(__file__).resolve().with_name("sampled_reads.py")
SHARE = 0.1  # of the dataset, that the cache holds
CHUNKS = 50  # at least


def step_sampler(bench, deadline):
    room = max(16 << 20, round(bench.tree.bytes * SHARE) // 4096 * 4096)
    settings = {"class": "auto", "nvme.limit": room, "ram.limit": 0}
    names = bench.list_of("in-order", bench.files)
    chunk = min(32 << 20, bench.tree.bytes // CHUNKS)
    found = {}
    for _ in range(bench.options.rounds):
        for order in ("random", "chunks", "ahead"):
            host.drop_caches(3)
            with bench.counted() as counted, bench.mount(bench.fresh_cache(), deadline, settings) as mount:
                began = time.monotonic()
                read = int(run([sys.executable, PROGRAM, mount.mountpoint, names, bench.tree.size, order, chunk], deadline)[1])
                seconds = time.monotonic() - began
            if read != bench.tree.bytes:
                raise Failure(f"{read} bytes were read, not {bench.tree.bytes}")
            values = found.setdefault(order, ([], [], []))
            values[0].append(bench.tree.files / seconds)
            values[1].append(1000 * counted["get"] / bench.tree.files)
            values[2].append(counted["bytes"] / bench.tree.bytes)
    speed = {order: values[0] for order, values in found.items()}
    yield at_least("sampler", "order of the sampler", speed["chunks"], "files/s", speed["random"], "random order", 1)
    yield at_least("sampler", "the same, fetched ahead", speed["ahead"], "files/s", speed["random"], "random order", 1)
    for order, (_, requests, sent) in found.items():
        yield figure("sampler", f"{order}: GET requests for 1000 files", requests, "")
        yield figure("sampler", f"{order}: bytes sent for each byte", sent, "")

"""Shuffled epochs: what the server sends, and what is written to NVMe."""

import concurrent.futures
import contextlib

from lib import report

from .bench import MIB, tier

RAM_SHARE = 0.05
LEAST_NVME = 16 * MIB  # that nvme.limit allows
EFFICIENCY = 0.97  # of c: the share of the tiers that has to hold files
NODES = 8
NODE_EPOCHS = 3


def part(total, share):
    """Of the dataset, as an NVMe tier of tiny datasets needs it."""
    return max(LEAST_NVME, round(total * share) // 4096 * 4096)


def read_by_one(bench, mount, names, deadline):
    bench.epoch(mount, names, deadline)


def read_by_eight(bench, mount, names, deadline):
    """Each reads everything, in an order of its own."""
    seeds = [next(bench.seeds) for _ in range(NODES)]
    with concurrent.futures.ThreadPoolExecutor(NODES) as pool:
        list(pool.map(lambda seed: bench.epoch(mount, names, deadline, 1, seed), seeds))


def case(bench, step, name, nvme, deadline, settings=None, read=read_by_one):
    """Epochs of one mount with an NVMe tier of so many bytes; bars where the class is not given."""
    total, names = bench.tree.bytes, bench.list_of("all", bench.files, bench.tree.size)
    limits = {"nvme.limit": nvme, "ram.limit": round(total * RAM_SHARE), **(settings or {})}
    sent, written = [], []
    with bench.of_bucket(bench.fresh(bench.disk_of_caches) / "tierfs", deadline, limits) as mount:
        for _ in range(bench.options.epochs):
            sent.append(bench.during(lambda: read(bench, mount, names, deadline), deadline))
            written.append(tier(mount, "nvme")["written_bytes"])
        status, tiers = mount.status(), [tier(mount, name) for name in ("ram", "nvme")]
    room = sum(one["limit_bytes"] for one in tiers)
    c = min(1, room / total)
    dataset, unused = status["datasets"][-1], status["reads"]["prefetched_unused_bytes"]
    what = f"{name}c = {c:.2f}"
    late = (written[-1] - written[1]) / total
    yield report.figure(step, f"{what}: dataset sent in epoch 1, class {dataset['class']}", sent[0] / total, "")
    for one in tiers:
        yield report.figure(step, f"{what}: used of the limit of {one['name']}", one["used_bytes"] / one["limit_bytes"], "")
    yield report.figure(step, f"{what}: share of the limits that holds files", dataset["bytes"] / room, "")
    yield report.figure(step, f"{what}: dataset fetched ahead in vain, all epochs", unused / total, "")
    if settings:
        yield report.figure(step, f"{what}: dataset sent in an epoch", max(sent[1:]) / total, "")
        yield report.figure(step, f"{what}: dataset written to NVMe from epoch 3 on", late, "")
        return
    most = 1 - EFFICIENCY * c
    row = report.at_most(step, f"{what}: dataset sent in an epoch", max(sent[1:]) / total, "", most, 1 - c, "1 - c")
    row.samples = [[one / total for one in sent[1:]]]
    yield row
    yield report.at_most(step, f"{what}: dataset written to NVMe from epoch 3 on", late, "", 0.01)


def step_epochs(bench, deadline):
    half = part(bench.tree.bytes, 0.5)
    yield from case(bench, "epochs", "", half, deadline)
    yield from case(bench, "epochs", "class=hot, ", half, deadline, {"class": "hot"})


def step_shares(bench, deadline):
    for c in (0.1, 0.25, 0.9):
        yield from case(bench, "shares", "", part(bench.tree.bytes, c - RAM_SHARE), deadline)


def step_readers(bench, deadline):
    yield from case(bench, "readers", f"{NODES} shuffles, ", part(bench.tree.bytes, 0.5), deadline, read=read_by_eight)


def step_little(bench, deadline):
    yield from case(bench, "little", "200 MiB of NVMe, ", 200 * MIB, deadline)


def step_nodes(bench, deadline):
    """Nine tenths of each cache are NVMe."""
    total = bench.tree.bytes
    place = bench.fresh(bench.disk_of_caches)
    limits = {"nvme.limit": part(total / NODES, 0.9), "ram.limit": round(total / NODES * 0.1), "memory.limit": 384 * MIB}
    with contextlib.ExitStack() as stack:
        mounts = [stack.enter_context(bench.of_bucket(place / f"{node}/tierfs", deadline, limits, f"node{node}"))
                  for node in range(NODES)]
        lists = [bench.list_of(f"node{node}", bench.files[node::NODES], bench.tree.size) for node in range(NODES)]

        def read_all():
            with concurrent.futures.ThreadPoolExecutor(NODES) as pool:
                list(pool.map(lambda one: bench.epoch(mounts[one], lists[one], deadline, 1), range(NODES)))

        sent = [bench.during(read_all, deadline) for _ in range(NODE_EPOCHS)]
    hits = [1 - one / total for one in sent[1:]]
    row = report.at_least("nodes", f"{NODES} nodes: hit ratio from epoch 2 on", [min(hits)], "", [1], "all", 0.95)
    row.samples = [hits]
    yield row
    yield report.at_most("nodes", f"{NODES} nodes: dataset sent in all", sum(sent) / total, "", 1.1)

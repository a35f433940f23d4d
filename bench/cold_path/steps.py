"""What is measured: first epochs of small files, streams, random reads; each on fresh mounts with empty caches."""

import contextlib
import time

from lib.datasets import BUCKET
from lib.process import Failure, cpu_seconds
from lib.report import at_least, at_most, figure

from .bench import LATENCY_MS, RATE, SAMPLE
from .yardstick import files_per_second, megabytes_per_second

MIB = 1 << 20
READERS = 4
PART = 8 * MIB
PAUSE_S = 25  # before each mount: the host takes back what is free in steps of two seconds
READ_AHEAD = 512 << 10  # of the kernel, for this mount


def _gets(bench, names, deadline):
    """Files a second by plain GETs of whole objects."""
    return files_per_second(bench.server.endpoint, BUCKET, names, bench.options.connections, bench.folder, deadline)


def _parallel(bench, what="GETs"):
    return f"{bench.options.connections} {what}"


def _from_mount(bench, open_mount, names_file, count, deadline):
    """Files a second from the mount's start until the last one was read."""
    began = time.monotonic()
    with open_mount as mount:
        bench.read(deadline, "files", mount.mountpoint, names_file, READERS)
        return count / (time.monotonic() - began)


def step_epoch(bench, deadline):
    """A first epoch, cold: all small files, shuffled, by 4 readers; the clock runs from the mount's start."""
    rows, tree = [], bench.dataset.small
    names, path = bench.names(tree)
    sample, sample_path = bench.names(tree, count=SAMPLE)
    ours, gets = [], []
    for _ in range(bench.options.rounds):
        ours.append(_from_mount(bench, bench.ours(deadline), path, len(names), deadline))
        gets.append(_gets(bench, names, deadline))
    for peer, bar in (() if bench.options.without_peers else (("s3fs", 30), ("rclone", 15))):
        theirs = [_from_mount(bench, bench.theirs(peer, deadline), sample_path, len(sample), deadline)]
        rows.append(at_least("epoch", "first epoch of small files", ours, "files/s", theirs, peer, bar))
    rows.append(at_least("epoch", "first epoch of small files", ours, "files/s", gets, _parallel(bench), 0.7))
    return rows


def step_first(bench, deadline):
    """The first seconds of a job: 600 of the small files, shuffled, by 4 readers, and all of them; each from a server that
    answers at once and from one with 20 ms. Tells the price of the fill for who reads little, and its worth for who reads all."""
    rows, tree = [], bench.dataset.small
    for latency in (0, LATENCY_MS):  # as the other steps have it, at last
        bench.control(ttfb_ms=latency)
        for count in (SAMPLE, tree.files):
            _, path = bench.names(tree, count=count)
            kinds = {"ours": {}, "class=none": {"class": "none"}, "fill.ahead=off": {"fill.ahead": "off"},
                     "fill.ahead=all": {"fill.ahead": "all"}}
            bars = {"class=none": 0.9, "fill.ahead=all": 1} if count <= SAMPLE else {"fill.ahead=all": 0.85, "fill.ahead=off": 1}
            if count > SAMPLE and latency > 0:
                del bars["fill.ahead=off"]  # minutes, of four readers who wait for each
            found = {kind: [] for kind in ("ours", *bars)}
            for kind in list(found) * bench.options.rounds:
                with bench.ours(deadline, kinds[kind]) as mount:
                    _, seconds = bench.read(deadline, "files", mount.mountpoint, path, READERS)
                    found[kind].append(count / seconds)
            name = f"{count:,} of {tree.files:,} small files at {latency} ms"
            rows += [at_least("first", name, found["ours"], "files/s", found[kind], kind, bar) for kind, bar in bars.items()]
    return rows


def step_order(bench, deadline):
    """110 KiB files in the order of their directories, by one reader."""
    tree, ours, gets = bench.dataset.medium, [], []
    names, path = bench.names(tree, "sorted")
    for _ in range(bench.options.rounds):
        with bench.ours(deadline) as mount:
            _, seconds = bench.read(deadline, "files", mount.mountpoint, path, 1)
            ours.append(len(names) / seconds)
        gets.append(_gets(bench, names, deadline))
    return [at_least("order", "110 KiB files in directory order", ours, "files/s", gets, _parallel(bench), 0.8)]


def step_streams(bench, deadline):
    """The large file in order: one reader, 8 readers of an eighth each, and a mapping."""
    size = bench.dataset.large_bytes
    gets, found = [], {}
    for _ in range(bench.options.rounds):
        gets.append(megabytes_per_second(f"{bench.url}/{bench.dataset.large}", size, PART, bench.options.connections,
                                         bench.folder, deadline))
        for name, arguments in (("one stream", ("streams", size, 1)), ("8 streams in one file", ("streams", size, 8)),
                                ("sequential mmap", ("mmap", size))):
            with bench.ours(deadline) as mount:
                kind, *rest = arguments
                _, seconds = bench.read(deadline, kind, bench.large_file(mount), *rest)
                found.setdefault(name, []).append(size / 1e6 / seconds)
    return [at_least("streams", f"cold: {name}", ours, "MB/s", gets, _parallel(bench, "ranged GETs of 8 MiB"), 0.9)
            for name, ours in found.items()]


@contextlib.contextmanager
def near_server(bench):
    """It answers at once, for as long as this lasts."""
    bench.control(ttfb_ms=0, rate_bps=0)
    try:
        yield
    finally:
        bench.control(ttfb_ms=LATENCY_MS, rate_bps=RATE)


def step_memory(bench, deadline):
    """The large file by three readers at once, from a server that answers at once: with the default memory.limit beside one of
    512 MiB, which is soon used again and again. Before each a pause, in which the host of a virtual machine takes back what was free:
    memory that is touched for the first time is dearer there than what is read into it."""
    size = bench.dataset.large_bytes
    limits = {"default": None, "512M": 512 << 20}
    for kind, settings in (("an NVMe tier", {}), ("none", {"nvme.path": None, "nvme.limit": None})):
        rates, costs = {limit: [] for limit in limits}, {limit: [] for limit in limits}
        for limit in list(limits) * bench.options.rounds:
            time.sleep(PAUSE_S)
            with near_server(bench), bench.ours(deadline, {**settings, "memory.limit": limits[limit]}) as mount:
                path, before = bench.large_file(mount), cpu_seconds(mount.daemon)
                _, seconds = bench.read(deadline, "streams", path, size, 3)
                rates[limit].append(size / 1e6 / seconds)
                costs[limit].append((cpu_seconds(mount.daemon) - before) / (size / 1e9))
        yield at_least("memory", f"three streams, {kind}, default memory.limit", rates["default"], "MB/s", rates["512M"], "512M", 0.9)
        for limit in limits:
            yield figure("memory", f"processor of the daemon, {kind}, {limit}", costs[limit], "s/GB")


def step_random(bench, deadline):
    """Reads at random places of the large file: what the server sends for each byte that was asked for."""
    rows = []
    for name, arguments, size, ahead in (("64 KiB preads", ("preads", bench.options.reads, 64 << 10), 64 << 10, 0),
                                         ("4 KiB mmap reads", ("faults", bench.options.reads // 2), 4096, READ_AHEAD)):
        with bench.ours(deadline) as mount:
            kind, *rest = arguments
            path = bench.large_file(mount)
            before = bench.control()["bytes"]
            read, seconds = bench.read(deadline, kind, path, *rest)
            time.sleep(0.5)  # what is under way
            sent = bench.control()["bytes"] - before
            unused = bench.unused_bytes(mount)
        asked = read // size * max(size, ahead)
        rows.append(at_most("random", f"bytes sent for each byte of {name}", sent / asked, "", 1.1))
        rows.append(at_most("random", f"unused prefetched bytes, {name}", unused / max(1, sent), "", 0.1))
        rows.append(figure("random", name, read / size / seconds, "reads/s"))
    return rows


def step_list(bench, deadline):
    """Names alone: a directory of 100,000 files, and as many in 1,000 directories, which are read in order; beside the same LIST
    requests one after another."""
    bucket, count, folders = bench.make_names(deadline)
    url, rows = f"{bench.server.endpoint}/{bucket}", []
    for name, folder, prefixes, bar in ((f"{count:,} names in one directory", "flat", ["flat/"], 1),
                                        (f"{count:,} names in {len(folders):,} directories", "tree", ["tree/", *folders], 1)):
        ours, plain = [], []
        for _ in range(bench.options.rounds):
            with bench.ours(deadline, source=f"s3://{bucket}") as mount:
                found, seconds = bench.read(deadline, "names", mount.mountpoint / folder)
            ours.append(found / seconds)
            listed, seconds = bench.read(deadline, "lists", url, *prefixes)
            plain.append(listed / seconds)
            if found != count or listed != count:
                raise Failure(f"{name}: {found} on the mount, {listed} in the bucket")
        rows.append(at_least("list", name, ours, "names/s", plain, "LIST after LIST", bar))
    return rows


STEPS = {"epoch": step_epoch, "first": step_first, "list": step_list, "order": step_order, "streams": step_streams, "memory": step_memory,
         "random": step_random}

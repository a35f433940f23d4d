"""Codecs of the NVMe tier beside none: the space they save, the speed of reads from NVMe, the daemon's processor time."""

import contextlib
import itertools
import json
import os
import random
import statistics
import time

from lib import host, report
from lib.bench import SETTLED_S
from lib.datasets import Tree, same, write
from lib.process import Failure, run

from .bench import MIB, tier

CODECS = ("none", "lz4", "zstd")
KINDS = ("text", "jpeg")
FILE_BYTES = 64 << 10
FILES = 6000  # of each kind, times scale
WORDS = 8000


def write_text(folder, tree):
    """Lines of JSON as captions come: words by Zipf's law, a number, a box. The same bytes in each run."""
    chance = random.Random(1)
    words = ["".join(chance.choices("etaoinshrdlucmfw", k=chance.randint(2, 9))) for _ in range(WORDS)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, WORDS + 1)))
    for number in range(tree.files):
        path, lines, size = folder / f"{number % tree.directories:02d}" / f"{number:06d}.jsonl", [], 0
        path.parent.mkdir(parents=True, exist_ok=True)
        while size < tree.size:
            caption = " ".join(chance.choices(words, cum_weights=weights, k=12))
            box = [chance.randint(0, 640) for _ in range(4)]
            lines.append(json.dumps({"image_id": chance.randint(0, 10**6), "caption": caption, "bbox": box}))
            size += len(lines[-1]) + 1
        path.write_bytes(("\n".join(lines) + "\n").encode()[:tree.size])


def make_sources(bench, deadline):
    """A folder of each kind, and its list for iobench."""
    source = bench.disk_of_caches.mountpoint / "codecs"
    trees = {kind: Tree(kind, max(100, round(FILES * bench.options.scale)), FILE_BYTES, 10) for kind in KINDS}
    stamp, asked = source / "made.json", bench.options.scale
    if not same(stamp, asked):
        write_text(source / "text", trees["text"])
        run([bench.options.iobench, "gen", source / "jpeg", "--kind", "jpeg", "--files", trees["jpeg"].files,
             "--size", FILE_BYTES, "--directories", trees["jpeg"].directories], deadline)
        write(stamp, asked)
    for kind, tree in trees.items():
        files = sorted((path for path in (source / kind).rglob("*") if path.is_file()), key=str)
        (bench.folder / f"list-codecs-{kind}").write_text(
            "".join(f"{path.relative_to(source / kind)}\t{path.stat().st_size}\n" for path in files))
        tree.files = len(files)
    return source, trees


def processor_s(pid):
    """User and system time of all threads of a process."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_all(bench, mount, kind, deadline):
    """A shuffled epoch by two processes: MB/s, and processor seconds of the daemon."""
    host.drop_caches(1)
    result = bench.folder / f"codecs-{kind}.json"
    before = processor_s(mount.daemon)
    run([bench.options.iobench, "run", "--suite", "smallfiles", "--access", "shuffled", "--runs", 1, "--warm-up", 0, "--seed",
         next(bench.seeds), "--path", mount.mountpoint / kind, "--list", bench.folder / f"list-codecs-{kind}",
         "--processes", 2, "--json", result], deadline)
    spent = processor_s(mount.daemon) - before
    figures = json.loads(result.read_text())["figures"]
    rate = next(one["median"] for one in figures if one["metric"] == "files_per_s")
    return rate * FILE_BYTES / 1e6, spent


def space_of(cache):
    """Of the extents, when nothing is mounted."""
    used = sum(path.stat().st_blocks * 512 for path in cache.rglob("*.extent"))
    if not used:
        raise Failure(f"{cache}: nothing was written")
    return used


def written(mount, deadline):
    """Waits until what was read is on NVMe."""
    before, since = -1, time.monotonic()
    while time.monotonic() - since < SETTLED_S:
        deadline.left()
        now = tier(mount, "nvme")["written_bytes"]
        if now != before:
            before, since = now, time.monotonic()
        time.sleep(0.1)


def measure(bench, kind, tree, source, place, deadline):
    """All codecs' mounts at once, so that they can take turns: {codec: [MB/s]}, {codec: [s/GB]}, {codec: s/GB to fill}."""
    speeds, spent = ({codec: [] for codec in CODECS} for _ in range(2))
    filling, size = {}, tree.files * FILE_BYTES / 1e9
    with contextlib.ExitStack() as stack:
        mounts = {}
        for codec in CODECS:
            settings = {"metadata.ttl": "forever", "memory.limit": 384 * MIB, "ram.limit": 0, "nvme.limit": "4G",
                        "class": "hot", "nvme.codec": codec}
            mount = mounts[codec] = stack.enter_context(
                bench.tierfs(place / f"{kind}-{codec}", deadline, settings, source=source, name=f"{kind}-{codec}"))
            begun = processor_s(mount.daemon)
            read_all(bench, mount, kind, deadline)
            written(mount, deadline)
            filling[codec] = (processor_s(mount.daemon) - begun) / size
        fetched = {codec: mount.status()["origin"]["bytes_read"] for codec, mount in mounts.items()}
        for _ in range(bench.options.epochs):
            for codec, mount in mounts.items():
                rate, seconds = read_all(bench, mount, kind, deadline)
                speeds[codec].append(rate)
                spent[codec].append(seconds / size)
        for codec, mount in mounts.items():
            if mount.status()["origin"]["bytes_read"] != fetched[codec]:
                raise Failure(f"{kind}, {codec}: bytes came from the source while NVMe was measured")
            mount.unmount(deadline)
    return speeds, spent, filling


def beside_none(name, samples, codec, unit):
    row = report.figure("codecs", name, samples[codec], unit)
    if codec != "none":
        row.other, row.other_name = statistics.median(samples["none"]), "none"
        row.samples = [samples[codec], samples["none"]]
    return row


def step_codecs(bench, deadline):
    source, trees = make_sources(bench, deadline)
    place = bench.fresh(bench.disk_of_caches)
    for kind, tree in trees.items():
        speeds, spent, filling = measure(bench, kind, tree, source, place, deadline)
        for codec in CODECS:
            what = f"{kind}, {codec}"
            space = space_of(place / f"{kind}-{codec}") / (tree.files * FILE_BYTES)
            yield report.figure("codecs", f"{what}: space on NVMe, of the dataset", space, "")
            yield report.figure("codecs", f"{what}: processor time to fill", filling[codec], "s/GB")
            yield beside_none(f"{what}: processor time to read", spent, codec, "s/GB")
            yield beside_none(f"{what}: read from NVMe", speeds, codec, "MB/s")

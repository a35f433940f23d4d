"""A million tiny files in a directory, packed, and mounted from the pack."""

import json
import os
import random
import shutil
import statistics
import time

from lib import host, report
from lib.datasets import same, write
from lib.peers.tierfs import resident_bytes
from lib.process import Failure, run

FILES, EACH = 1_000_000, 1000  # files of a directory
LARGEST = 1024
MOST_INDEX = 60  # bytes of index a file
LONGEST_S = 3


def make_source(bench, deadline):
    source = bench.disk_of_caches.mountpoint / "million"
    stamp, count = bench.disk_of_caches.mountpoint / "million.json", round(FILES * bench.options.scale)
    if same(stamp, count):
        return source, count
    shutil.rmtree(source, ignore_errors=True)
    chance, content = random.Random(3), os.urandom(LARGEST)
    for number in range(count):
        if number % EACH == 0:
            deadline.left()
            folder = source / f"class_{number // EACH:04d}"
            folder.mkdir(parents=True)
            directory = os.open(folder, os.O_RDONLY)
            try:
                for each in range(number, min(count, number + EACH)):
                    handle = os.open(f"{each:08d}.txt", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=directory)
                    os.write(handle, content[:chance.randint(4, LARGEST)])
                    os.close(handle)
            finally:
                os.close(directory)
    os.sync()
    write(stamp, count)
    return source, count


def step_million(bench, deadline):
    source, count = make_source(bench, deadline)
    dest = bench.disk_of_caches.mountpoint / "pack-of-million"
    shutil.rmtree(dest, ignore_errors=True)
    host.drop_caches(3)
    began = time.monotonic()
    made = json.loads(run([bench.options.tierfs, "pack", source, dest, "--json"], deadline)[1])
    yield report.figure("million", f"packing {count:,} files", time.monotonic() - began, "s")
    if made["files"] != count:
        raise Failure(f"{made['files']} files are in the pack, not {count}")
    yield report.at_most("million", "index of a file", made["index_bytes"] / count, "B", MOST_INDEX)
    settings = {"memory.limit": 2 << 30, "ram.limit": 0, "nvme.limit": 1 << 30, "profile": "small", "pack": dest}
    cache, answers, memory, finds = bench.fresh_cache(), [], [], []
    with bench.tierfs(cache, deadline, settings, source=source) as mount:
        yield report.figure("million", "first mount and one stat", mount.mount_s, "s")
        mount.unmount(deadline)
    for _ in range(bench.options.rounds):
        host.drop_caches(3)
        with bench.tierfs(cache, deadline, settings, source=source) as mount:
            answers.append(mount.mount_s)
            before, began = resident_bytes(mount.daemon), time.monotonic()
            found = run(["find", mount.mountpoint, "-type", "f", "-size", "-4", "-printf", "."], deadline)[1]
            finds.append(time.monotonic() - began)
            memory.append((resident_bytes(mount.daemon) - before) / count)
            mount.unmount(deadline)
        if len(found) != count:
            raise Failure(f"find shows {len(found)} files of {count}")
    row = report.at_most("million", "mount with a local index and one stat", statistics.median(answers), "s", LONGEST_S)
    row.samples = [answers]
    yield row
    yield report.figure("million", "find of all with their sizes", finds, "s")
    yield report.figure("million", "the daemon's memory for a file that find has seen", memory, "B")

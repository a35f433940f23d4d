"""A mount whose cache holds a million objects, mounted again."""

import random
import shutil

from lib import host, report
from lib.datasets import same, write
from lib.process import Failure, run

from .bench import GIB, tier

SIZE = 512  # bytes of a file
EACH = 10_000  # files a directory
SAMPLE = 1000
LONGEST_S = 2


def make_source(bench, deadline):
    """A directory of small files."""
    source, names = bench.disk_of_caches.mountpoint / "restart", bench.options.names
    stamp = bench.disk_of_caches.mountpoint / "restart.json"
    if same(stamp, names):
        return source
    shutil.rmtree(source, ignore_errors=True)
    for number in range(names):
        file = path_of(source, number)
        if number % EACH == 0:
            deadline.left()
            file.parent.mkdir(parents=True)
        file.write_bytes(content_of(number))
    write(stamp, names)
    return source


def path_of(folder, number):
    return folder / f"{number // EACH:04d}/{number:08d}"


def content_of(number):
    return (f"{number:08d}" * (SIZE // 8)).encode()


def step_restart(bench, deadline):
    source, names = make_source(bench, deadline), bench.options.names
    cache = bench.fresh(bench.disk_of_caches) / "tierfs"
    settings = {"metadata.ttl": "forever", "memory.limit": GIB, "ram.limit": 0, "nvme.limit": 4 * GIB}
    with bench.tierfs(cache, deadline, settings, source=source) as mount:
        run([bench.options.tierfs, "warm", "--wait", mount.mountpoint], deadline)
        held = tier(mount, "nvme")["used_bytes"]
        mount.unmount(deadline)
    host.drop_caches(3)
    with bench.tierfs(cache, deadline, settings, source=source) as mount:
        for number in random.Random(1).sample(range(names), min(SAMPLE, names)):
            if path_of(mount.mountpoint, number).read_bytes() != content_of(number):
                raise Failure(f"file {number} reads wrong after the restart")
        status = mount.status()
        yield report.figure("restart", f"NVMe tier with {names:,} objects", held, "B")
        yield report.at_most("restart", "mount and one stat, caches cold", mount.mount_s, "s", LONGEST_S)
        yield report.at_most("restart", f"of {SAMPLE} reads, those from the origin", status["origin"]["requests"]["get"], "", 0)
        mount.unmount(deadline)

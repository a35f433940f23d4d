"""What all steps share: one XFS that holds the files and the cache, mounts of these files, and rounds of both in turns."""

import itertools
import json
import os
import time

from lib import host, report
from lib.bench import Bench
from lib.datasets import Dataset, same, write
from lib.process import run, wait_for

GIB = 1 << 30


def image_bytes(options):
    """Of the loop image, sparse: the files, the cache and the index of them, the names' inodes, and room to work in."""
    return round(8 * GIB * options.scale) + options.names * 2048 + 2 * GIB


class FrontEnd(Bench):
    """XFS with source/ (small, medium, large), names/ (one directory of empty files) and one cache at a time."""

    def prepare(self, say):
        deadline = self.begin()
        self.xfs = self.disk("xfs", image_bytes(self.options), deadline)
        if not self.xfs.direct:
            say("WARNING: the loop device has no direct I/O here: dropped pages may come from the page cache of the image")
        self.dataset = Dataset(self.xfs.mountpoint, self.options.scale)
        say("making the dataset")
        self.dataset.make(self.options.iobench, deadline)
        if "names" in self.options.only:
            say(f"making {self.options.names:,} names")
            self.make_names(deadline)
        self.seeds = itertools.count(1)

    def make_names(self, deadline):
        self.names = self.xfs.mountpoint / "names"
        folder, stamp = self.names / "d", self.names / "names.json"
        if same(stamp, self.options.names):
            return
        run(["rm", "-rf", self.names], deadline)
        folder.mkdir(parents=True)
        for number in range(self.options.names):
            os.close(os.open(folder / f"{number:08d}.jpg", os.O_CREAT | os.O_WRONLY, 0o644))
        write(stamp, self.options.names)

    def ours(self, deadline, settings, source=None, nvme=True, disk=None):
        """A mount with an empty cache, on that disk or beside the files, or with a RAM tier alone."""
        place = self.fresh(disk or self.xfs)
        settings = {"metadata.ttl": "forever", **settings}
        if nvme:
            settings["nvme.limit"] = 2 * self.dataset.bytes + GIB  # a file beyond half of it would not be kept
        else:
            settings.update({"nvme.path": "", "index.path": place / "index"})
            (place / "index").mkdir(parents=True)
        host.drop_caches(3)
        return self.tierfs(place / "tierfs", deadline, settings, source=source or self.dataset.folder)

    def iobench(self, deadline, *words):
        """One run of one case; {metric: value}."""
        result = self.folder / "run.json"
        result.unlink(missing_ok=True)
        run([self.options.iobench, "run", "--runs", 1, "--warm-up", 0, "--seed", next(self.seeds), "--json", result, *words],
            deadline)
        return {one["metric"]: one["median"] for one in json.loads(result.read_text())["figures"]}

    def in_turns(self, measure, native, mount):
        """measure(folder) of both in each round, another one first each time; two lists, ours first."""
        found = {native: [], mount: []}
        for number in range(self.options.rounds):
            for folder in (native, mount) if number % 2 == 0 else (mount, native):
                found[folder].append(measure(folder))
        return found[mount], found[native]

    def beside(self, step, name, unit, share, measure, native, mount):
        """The row of such a comparison."""
        ours, theirs = self.in_turns(measure, native, mount)
        return report.at_least(step, name, ours, unit, theirs, "XFS", share)


def messages(mount):
    return mount.status()["requests"]["messages"]


def messages_since(mount, before):
    """How many of each kind, but for those that drop_caches costs: forgotten nodes, not what is read."""
    now = messages(mount)
    return {kind: count - before.get(kind, 0) for kind, count in now.items()
            if count > before.get(kind, 0) and "forget" not in kind.lower()}


def on_nvme(mount, least, deadline):
    """Waits until the NVMe tier has so many bytes: what was read last is written behind the reader."""
    def there():
        return next(tier for tier in mount.status()["tiers"] if tier["name"] == "nvme")["used_bytes"] >= least

    wait_for(f"{least:,} bytes on NVMe", there, deadline, 60)


def origin_bytes(mount):
    return mount.status()["origin"]["bytes_read"]


def warm(bench, mount, paths, deadline):
    """tierfs warm, until it finds all of it in the tiers: the last files are written there after it has ended."""
    before = None
    while before != origin_bytes(mount):
        before = origin_bytes(mount)
        run([bench.options.tierfs, "warm", "--wait", *(mount.mountpoint / path for path in paths)], deadline)
        time.sleep(0.5)


def nothing_fetched(step, mount, before, what="file"):
    """What was measured came from the tiers."""
    return report.at_most(step, f"bytes from the origin meanwhile, {what}", origin_bytes(mount) - before, "B", 0)


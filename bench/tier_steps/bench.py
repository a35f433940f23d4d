"""What all steps share: a dataset at the look-alike server, a disk for caches and for origins that are directories."""

import itertools

from lib import host
from lib.bench import Bench
from lib.datasets import BUCKET, Tree
from lib.process import run

GIB, MIB = 1 << 30, 1 << 20


def image_bytes(options):
    """Of the loop image, sparse."""
    return round(12 * GIB * options.scale) + options.names * 8192 + 2 * GIB


class Tiers(Bench):
    """Files of 110 KiB in the bucket, 2 GiB of them times scale."""

    def prepare(self, say):
        deadline, options = self.begin(), self.options
        self.disk_of_caches = self.disk("caches", image_bytes(options), deadline)
        self.tree = Tree("t", max(200, round(19000 * options.scale)), 110 << 10, 20)
        self.seeds = itertools.count(1)
        if not set(options.only) - {"zipf", "memory", "restart", "threads", "codecs"}:
            return
        say(f"making {self.tree.files:,} objects, {self.tree.bytes / 1e9:.2f} GB")
        manifest = self.folder / "t.manifest"
        self.make(self.folder / f"nginx/data/{BUCKET}/t", self.tree, deadline, "--manifest", manifest)
        self.files = sorted(line.split("\t", 2)[2] for line in manifest.read_text().splitlines() if not line.startswith("#"))
        say("starting nginx")
        self.start_server("nginx", deadline)
        self.control(rescan=1)

    def make(self, folder, tree, deadline, *words):
        run([self.options.iobench, "gen", folder, "--kind", "random", "--files", tree.files, "--size", tree.size,
             "--directories", tree.directories, *words], deadline)

    def list_of(self, name, files, size):
        """For iobench, with the sizes, so that it asks for nothing before it reads."""
        path = self.folder / f"list-{name}"
        path.write_text("".join(f"{file}\t{size}\n" for file in files))
        return path

    def of_bucket(self, cache, deadline, settings, name="tierfs"):
        return self.tierfs(cache, deadline, {"metadata.ttl": "forever", "memory.limit": 768 * MIB, **settings}, self.server,
                           name=name)

    def epoch(self, mount, names, deadline, processes=4, seed=None):
        """All files of a list, shuffled, once."""
        run([self.options.iobench, "run", "--suite", "smallfiles", "--access", "shuffled", "--runs", 1, "--warm-up", 0,
             "--seed", seed or next(self.seeds), "--path", mount.mountpoint / "t", "--list", names, "--processes", processes],
            deadline)

    def during(self, read, deadline):
        """Bytes sent for read(), with what is fetched ahead for it, the page cache empty before."""
        host.drop_caches(1)
        before = self.control()["bytes"]
        read()
        return self.sent(deadline) - before


def tier(mount, name):
    return next(one for one in mount.status()["tiers"] if one["name"] == name)

"""What the steps share: the dataset and its pack at the look-alike server, a disk for caches, mounts."""

import contextlib
import pathlib
import random
import sys

from lib import host
from lib.bench import Bench
from lib.datasets import BUCKET, Tree, same, write
from lib.process import clean_environment, run

READERS = pathlib.Path(__file__).resolve().parents[1] / "cold_path/readers.py"
GIB, MIB = 1 << 30, 1 << 20
LATENCY_MS = 20
RATE = 80_000_000  # bytes a second of each connection
SOURCE, PACK = "files", "pack"  # in the bucket


def image_bytes(options):
    """Of the loop image, sparse: two caches, and the million files with their pack."""
    million = 6 * GIB if "million" in options.only else 0
    return round((4 * GIB + million) * max(options.scale, 0.25)) + 2 * GIB


class PackBench(Bench):
    def __init__(self, options):
        super().__init__(options)
        self.tree = Tree(SOURCE, max(200, round(100_000 * options.scale)), 16 << 10, 100)

    def prepare(self, say):
        deadline = self.begin()
        self.disk_of_caches = self.disk("caches", image_bytes(self.options), deadline)
        if not set(self.options.only) - {"million"}:
            return
        self.make_dataset(say, deadline)
        say("starting nginx")
        self.start_server("nginx", deadline)
        self.control(rescan=1)
        say("packing")
        self.environment = clean_environment(
            AWS_ACCESS_KEY_ID=self.server.access_key, AWS_SECRET_ACCESS_KEY=self.server.secret_key, AWS_REGION="us-east-1",
            AWS_EC2_METADATA_DISABLED="true")
        run([self.options.tierfs, "pack", f"s3://{BUCKET}/{SOURCE}", f"s3://{BUCKET}/{PACK}", "-o",
             f"s3.endpoint={self.server.endpoint}"], deadline, self.environment)
        self.control(ttfb_ms=LATENCY_MS, rate_bps=RATE)

    def make_dataset(self, say, deadline):
        data, manifest = self.folder / "nginx/data" / BUCKET, self.folder / f"{SOURCE}.manifest"
        stamp, asked = self.folder / "source.json", [self.tree.files, self.tree.size]
        if not same(stamp, asked):
            say(f"making {self.tree.files:,} objects, {self.tree.bytes / 1e9:.2f} GB")
            run(["rm", "-rf", data], deadline)
            run([self.options.iobench, "gen", data / SOURCE, "--kind", "random", "--files", self.tree.files, "--size",
                 self.tree.size, "--directories", self.tree.directories, "--manifest", manifest], deadline)
            write(stamp, asked)
        self.files = sorted(line.split("\t", 2)[2] for line in manifest.read_text().splitlines() if not line.startswith("#"))

    @property
    def pack_folder(self):
        return self.folder / "nginx/data" / BUCKET / PACK

    def urls(self, pattern):
        """Of the pack's files; at the server they are."""
        return [f"{self.url}/{PACK}/{file.relative_to(self.pack_folder)}" for file in sorted(self.pack_folder.glob(pattern))]

    def shuffled(self, seed, count=None):
        """A file with a list of names below the source, for readers.py."""
        names = list(self.files)
        random.Random(seed).shuffle(names)
        return self.list_of(f"shuffled-{seed}-{count or 'all'}", names[:count])

    def list_of(self, name, names):
        path = self.folder / f"names-{name}"
        path.write_text("\n".join(names))
        return path

    def mount(self, cache, deadline, settings=None, packed=True):
        """Of the source with or without its pack, as the example for images in a bucket has it."""
        host.drop_caches(3)
        always = {"metadata.ttl": "forever", "profile": "small", "class": "epoch", "memory.limit": GIB, "nvme.limit": 3 * GIB,
                  "origin.connections": 128, "origin.hedge": 0}
        if packed:
            always["pack"] = f"s3://{BUCKET}/{PACK}"
        return self.tierfs(cache, deadline, {**always, **(settings or {})}, self.server, f"s3://{BUCKET}/{SOURCE}")

    def fresh_cache(self):
        return self.fresh(self.disk_of_caches) / "tierfs"

    def read(self, folder, names, deadline, readers=4):
        """All files of a list, by so many processes; bytes and seconds."""
        out = run([sys.executable, READERS, "files", folder, names, readers], deadline)[1].split()
        return int(out[0]), float(out[1])

    @contextlib.contextmanager
    def counted(self):
        """A dictionary: how much more of each counter of the server there is at the end."""
        before, found = self.control(), {}
        yield found
        found.update({name: value - before[name] for name, value in self.control().items()})

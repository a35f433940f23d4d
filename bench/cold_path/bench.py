"""What all steps share: dataset, server, disk of the caches, mounts."""

import pathlib
import random
import sys

from lib import host
from lib.bench import Bench
from lib.datasets import Dataset
from lib.process import Failure, run

READERS = pathlib.Path(__file__).resolve().parent / "readers.py"
IMAGE_BYTES = 6 << 30  # of the loop image; sparse
LATENCY_MS = 20
RATE = 80_000_000  # bytes a second of each connection
SAMPLE = 600  # files that the slow mounts read
MEMORY_LIMIT = 1 << 30


class ColdPath(Bench):
    def __init__(self, options):
        super().__init__(options)
        self.dataset = Dataset(self.folder, options.scale)

    def prepare(self, say):
        deadline = self.begin()
        say("making the dataset")
        self.dataset.make(self.options.iobench, deadline)
        say("starting nginx")
        self.start_server("nginx", deadline)
        self.dataset.upload(self.server, self.folder, deadline)
        self.caches = self.disk("caches", IMAGE_BYTES, deadline)
        self.control(ttfb_ms=LATENCY_MS, rate_bps=RATE)

    def names(self, tree, order="shuffled", count=None):
        """A list of names below the bucket, and the file that it stands in."""
        names = [f"{tree.name}/{path}" for path, _ in self.dataset.names(tree)]
        if order == "shuffled":
            random.Random(7).shuffle(names)
        names = names[:count]
        path = self.folder / f"names-{tree.name}-{order}-{len(names)}"
        path.write_text("\n".join(names))
        return names, path

    def ours(self, deadline, more=None, source=None):
        """A fresh mount with an empty cache."""
        host.drop_caches(3)
        settings = {"memory.limit": MEMORY_LIMIT, "nvme.limit": 4 << 30, "origin.connections": self.options.connections,
                    "origin.hedge": 0, **(more or {})}
        return self.tierfs(self.fresh(self.caches) / "tierfs", deadline, settings, self.server, source)

    def make_names(self, deadline):
        """A bucket of its own, in which nothing but names counts: one directory of so many empty files, and as many in others.
        Returns its name, how many files each has, and the directories of the second."""
        count, folders = int(100_000 * self.options.scale), int(1000 * self.options.scale)
        name = f"names-{count}"
        bucket = self.server.folder / "data" / name
        for path in [bucket / f"flat/file{n:06}.jpg" for n in range(count)] + \
                [bucket / f"tree/class{n % folders:04}/file{n // folders:06}.jpg" for n in range(count)]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        run(["curl", "-sf", "-o", "/dev/null", self.server.endpoint + "/_ctl?rescan=1"], deadline)
        return name, count, [f"tree/class{n:04}/" for n in range(folders)]

    def theirs(self, name, deadline):
        host.drop_caches(3)
        return self.peer(name, self.server, self.fresh(self.caches), deadline)

    def read(self, deadline, *arguments):
        """One of readers.py; bytes and seconds."""
        out = run([sys.executable, READERS, *arguments], deadline)[1].split()
        return int(out[0]), float(out[1])

    def large_file(self, mount):
        path = mount.mountpoint / self.dataset.large
        if path.stat().st_size != self.dataset.large_bytes:
            raise Failure(f"{path}: {path.stat().st_size} bytes, expected {self.dataset.large_bytes}")
        return path

    def unused_bytes(self, mount):
        return mount.status()["reads"].get("prefetched_unused_bytes", 0)

"""What all steps share: dataset, server, disk of the caches, mounts, and the order in which everything is put away."""

import contextlib
import itertools
import pathlib
import random
import shutil
import sys
import urllib.request

from lib import host
from lib.datasets import BUCKET, Dataset
from lib.peers import PEERS, Place, Tierfs
from lib.process import Deadline, Failure, run
from lib.servers import Server

READERS = pathlib.Path(__file__).resolve().parent / "readers.py"
IMAGE_BYTES = 6 << 30  # of the loop image; sparse
LATENCY_MS = 20
RATE = 80_000_000  # bytes a second of each connection
SAMPLE = 600  # files that the slow mounts read
MEMORY_LIMIT = 1 << 30
CONNECTIONS = 128


class Bench:
    """Made once a run; leaving its context puts away all that it started, in reverse order."""

    def __init__(self, options):
        self.options, self.folder = options, options.folder
        self.dataset = Dataset(self.folder, options.scale)
        self.stack = contextlib.ExitStack()
        self._numbers = itertools.count(1)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stack.close()

    def _keep(self, thing):
        self.stack.callback(thing.close)
        return thing

    def prepare(self, say):
        for old in self.folder.glob("mnt-*"):  # what a run that was killed has left
            host.unmount(old)
        deadline = Deadline(self.options.prepare_limit)
        say("making the dataset")
        self.dataset.make(self.options.iobench, deadline)
        say("starting nginx")
        self.server = self._keep(Server("nginx", self.options.server_script, self.folder / "nginx", deadline))
        self.dataset.upload(self.server, self.folder, deadline)
        self.disk = self._keep(host.LoopXfs(self.folder / "caches.img", self.folder / "caches", IMAGE_BYTES, deadline))
        self.control(ttfb_ms=LATENCY_MS, rate_bps=RATE)

    def control(self, **settings):
        """Settings and counters of the server, see tests/servers/nginx_s3.sh."""
        query = "&".join(f"{key}={value}" for key, value in settings.items())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.server.endpoint}/_ctl?{query}", timeout=20) as answer:
            return {key: int(value) for key, value in (line.split("=") for line in answer.read().decode().split())}

    def names(self, tree, order="shuffled", count=None):
        """A list of names below the bucket, and the file that it stands in."""
        names = [f"{tree.name}/{path}" for path, _ in self.dataset.names(tree)]
        if order == "shuffled":
            random.Random(7).shuffle(names)
        names = names[:count]
        path = self.folder / f"names-{tree.name}-{order}-{len(names)}"
        path.write_text("\n".join(names))
        return names, path

    def cache(self):
        for old in self.disk.mountpoint.glob("cache*"):
            shutil.rmtree(old)
        return self.disk.mountpoint / f"cache{next(self._numbers)}"

    @contextlib.contextmanager
    def tierfs(self, deadline, **more):
        host.drop_caches(3)
        options = {"memory.limit": MEMORY_LIMIT, "nvme.limit": 4 << 30, "origin.connections": CONNECTIONS,
                   "origin.hedge": 0, **self.options.mount_options, **more}
        mount = Tierfs(self.options.tierfs, self.server, self.folder / "mnt-tierfs", self.cache() / "tierfs", options, [],
                       deadline)
        try:
            yield mount
        finally:
            mount.close()

    @contextlib.contextmanager
    def peer(self, name, deadline):
        host.drop_caches(3)
        mount = PEERS[name](Place(self.server, self.folder / f"mnt-{name}", self.cache(), deadline))
        try:
            yield mount
        finally:
            mount.close()

    def read(self, deadline, *arguments):
        """One of readers.py; bytes and seconds."""
        out = run([sys.executable, READERS, *arguments], deadline)[1].split()
        return int(out[0]), float(out[1])

    @property
    def url(self):
        return f"{self.server.endpoint}/{BUCKET}"

    def large_file(self, mount):
        path = mount.mountpoint / self.dataset.large
        if path.stat().st_size != self.dataset.large_bytes:
            raise Failure(f"{path}: {path.stat().st_size} bytes, expected {self.dataset.large_bytes}")
        return path

    def unused_bytes(self, mount):
        return mount.status()["reads"].get("prefetched_unused_bytes", 0)

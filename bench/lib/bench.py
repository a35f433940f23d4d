"""What the benches share while they measure: server, disks, mounts, and the order in which everything is put away."""

import contextlib
import itertools
import shutil
import time
import urllib.request

from . import host
from .datasets import BUCKET
from .peers import PEERS, Place, Tierfs
from .process import Deadline
from .servers import Server

SETTLED_S = 1.0  # without a byte from the server: what was fetched ahead has come


class Bench:
    """Made once a run; leaving its context puts away all that it started, in reverse order. A bench gives prepare(say)."""

    def __init__(self, options):
        self.options, self.folder = options, options.folder
        self.peaks = []  # of the memory of all tierfs mounts, see Tierfs
        self.server = None
        self.stack = contextlib.ExitStack()
        self._numbers = itertools.count(1)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stack.close()

    def prepare(self, say):
        """Everything that is not measured."""
        raise NotImplementedError

    def begin(self):
        """The first step of prepare: what a run that was killed has left is gone. Returns the deadline of the others."""
        for old in self.folder.glob("mnt-*"):
            host.unmount(old)
        return Deadline(self.options.prepare_limit)

    def keep(self, thing):
        """It is closed at the end."""
        self.stack.callback(thing.close)
        return thing

    def start_server(self, kind, deadline, **environment):
        self.server = self.keep(Server(kind, self.options.server_script, self.folder / kind, deadline,
                                       self.options.ports, environment))

    def control(self, **settings):
        """Settings and counters of the look-alike, see tests/servers/nginx_s3.sh."""
        query = "&".join(f"{key}={value}" for key, value in settings.items())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.server.endpoint}/_ctl?{query}", timeout=20) as answer:
            return {key: int(value) for key, value in (line.split("=") for line in answer.read().decode().split())}

    def sent(self, deadline):
        """Bytes that the server has sent, when no more come."""
        now, before, since = self.control()["bytes"], -1, time.monotonic()
        while now != before or time.monotonic() - since < SETTLED_S:
            deadline.left()
            if now != before:
                before, since = now, time.monotonic()
            time.sleep(0.1)
            now = self.control()["bytes"]
        return now

    @property
    def url(self):
        return f"{self.server.endpoint}/{BUCKET}"

    def disk(self, name, size, deadline):
        """An XFS of its own in the work folder, for caches or for files to compare with."""
        return self.keep(host.LoopXfs(self.folder / f"{name}.img", self.folder / name, size, deadline))

    def fresh(self, disk):
        """A place below which nobody has written, for a cache; what earlier mounts had there goes."""
        for old in disk.mountpoint.glob("cache*"):
            shutil.rmtree(old)
        return disk.mountpoint / f"cache{next(self._numbers)}"

    @contextlib.contextmanager
    def tierfs(self, cache, deadline, settings, endpoint=None, source=None, name="tierfs"):
        """A mount with the cache folder `cache` and these settings: of the bucket at `endpoint`, or of `source`. The options
        of the command line win."""
        mount = Tierfs(self.options.tierfs, endpoint, self.folder / f"mnt-{name}", cache,
                       {**settings, **self.options.mount_options}, self.peaks, deadline, source)
        try:
            yield mount
        finally:
            mount.close()

    @contextlib.contextmanager
    def peer(self, name, endpoint, folder, deadline):
        """`folder`: for its cache and log, not there yet; removed at the end."""
        shutil.rmtree(folder, ignore_errors=True)
        mount = PEERS[name](Place(endpoint, self.folder / f"mnt-{name}", folder, deadline))
        try:
            yield mount
        finally:
            mount.close()
            shutil.rmtree(folder, ignore_errors=True)

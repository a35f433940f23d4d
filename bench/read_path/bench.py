"""What all steps share: folders, servers, the programs under test, and the order in which everything is put away."""

import contextlib
import itertools
import shutil

from lib import host
from lib.datasets import Dataset
from lib.peers import PEERS, Place, Tierfs
from lib.peers.tierfs import MEMORY_LIMIT, NVME_LIMIT
from lib.process import Deadline, Failure
from lib.servers import CountingProxy, Server

IMAGE_BYTES = 10 << 30  # of each loop image; sparse


class Bench:
    """Made once a run; `close` by leaving its context puts away all that it started, in reverse order."""

    def __init__(self, options):
        self.options = options
        self.folder = options.folder
        self.dataset = Dataset(self.folder, options.scale)
        self.peaks = []
        self.stack = contextlib.ExitStack()
        self._numbers = itertools.count(1)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stack.close()

    def prepare(self, say):
        for old in self.folder.glob("mnt-*"):  # what a run that was killed has left
            host.unmount(old)
        deadline = Deadline(self.options.prepare_limit)
        say("making the dataset")
        self.dataset.make(self.options.iobench, deadline)
        say(f"starting {self.options.server}")
        self.server = self._keep(Server(self.options.server, self.options.server_script,
                                        self.folder / self.options.server, deadline))
        say(f"uploading {self.dataset.objects:,} objects, {self.dataset.bytes / 1e9:.2f} GB")
        self.dataset.upload(self.server, self.folder, deadline)
        self.proxy = self._keep(CountingProxy(self.folder / "proxy", self.server, deadline))
        say("making the XFS images")
        self.native = self._keep(host.LoopXfs(self.folder / "native.img", self.folder / "native", IMAGE_BYTES, deadline))
        self.nvme = self._keep(host.LoopXfs(self.folder / "nvme.img", self.folder / "nvme", IMAGE_BYTES, deadline))
        if not (self.native.direct and self.nvme.direct):
            say("WARNING: the loop devices have no direct I/O here: dropped pages may come from the page cache of the "
                "image files, for both sides of step b")
        self.dataset.copy_files(self.native.mountpoint, deadline)

    def _keep(self, thing):
        self.stack.callback(thing.close)
        return thing

    def empty_cache(self):
        """An nvme folder that nobody has used."""
        for old in self.nvme.mountpoint.glob("cache*"):
            shutil.rmtree(old)
        return self.nvme.mountpoint / f"cache{next(self._numbers)}" / "tierfs"

    @contextlib.contextmanager
    def tierfs(self, endpoint, cache, deadline):
        if self.options.without_tierfs:
            raise Failure("not measured: --without-tierfs")
        options = {"memory.limit": MEMORY_LIMIT, "nvme.limit": NVME_LIMIT, **self.options.mount_options}
        mount = Tierfs(self.options.tierfs, endpoint, self.folder / "mnt-tierfs", cache, options, self.peaks, deadline)
        try:
            yield mount
        finally:
            mount.close()

    @contextlib.contextmanager
    def peer(self, name, endpoint, deadline):
        folder = self.folder / f"peer-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        mount = PEERS[name](Place(endpoint, self.folder / f"mnt-{name}", folder, deadline))
        try:
            yield mount
        finally:
            mount.close()
            shutil.rmtree(folder, ignore_errors=True)

"""What all steps share: folders, servers, the programs under test."""

from lib.bench import Bench
from lib.datasets import Dataset
from lib.peers.tierfs import MEMORY_LIMIT, NVME_LIMIT
from lib.process import Failure
from lib.servers import CountingProxy

IMAGE_BYTES = 10 << 30  # of each loop image; sparse


class ReadPath(Bench):
    def __init__(self, options):
        super().__init__(options)
        self.dataset = Dataset(self.folder, options.scale)

    def prepare(self, say):
        deadline = self.begin()
        say("making the dataset")
        self.dataset.make(self.options.iobench, deadline)
        say(f"starting {self.options.server}")
        self.start_server(self.options.server, deadline)
        say(f"uploading {self.dataset.objects:,} objects, {self.dataset.bytes / 1e9:.2f} GB")
        self.dataset.upload(self.server, self.folder, deadline)
        self.proxy = self.keep(CountingProxy(self.folder / "proxy", self.server, deadline))
        say("making the XFS images")
        self.native = self.disk("native", IMAGE_BYTES, deadline)
        self.nvme = self.disk("nvme", IMAGE_BYTES, deadline)
        if not (self.native.direct and self.nvme.direct):
            say("WARNING: the loop devices have no direct I/O here: dropped pages may come from the page cache of the "
                "image files, for both sides of step b")
        self.dataset.copy_files(self.native.mountpoint, deadline)

    def empty_cache(self):
        """An nvme folder that nobody has used."""
        return self.fresh(self.nvme) / "tierfs"

    def ours(self, endpoint, cache, deadline):
        if self.options.without_tierfs:
            raise Failure("not measured: --without-tierfs")
        return self.tierfs(cache, deadline, {"memory.limit": MEMORY_LIMIT, "nvme.limit": NVME_LIMIT}, endpoint)

    def theirs(self, name, endpoint, deadline):
        return self.peer(name, endpoint, self.folder / f"peer-{name}", deadline)

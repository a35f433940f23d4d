"""What all steps share: dataset, servers, the relay that counts, the disk of the caches, mounts, readers made of libnfs.
What a step does not need is not there."""

import os
import pathlib
import random
import sys

from lib import host
from lib.bench import Bench
from lib.datasets import Dataset
from lib.peers.tierfs import MEMORY_LIMIT as SMALL_MEMORY_LIMIT
from lib.peers.tierfs import NVME_LIMIT
from lib.process import Deadline, Failure, run

from .relay import Relay

HERE = pathlib.Path(__file__).resolve().parent
READERS = HERE.parent / "cold_path/readers.py"
GANESHA = HERE.parents[1] / "tests/servers/ganesha.sh"
PORT = 20  # above the first port; the mount service has the next one, and the relay that after it
GIB = 1 << 30
IMAGE_BYTES = 8 * GIB  # of each loop image; sparse
MEMORY_LIMIT = GIB
BY_LIBNFS, FROM_S3 = {"stream", "epoch", "write"}, {"warm"}  # steps, by what they need
COUNTED, BESIDE_NATIVE = {"equal", "find", "crash"}, {"native"}


class Ganesha:
    """nfs-ganesha that exports `data` as /export."""

    def __init__(self, folder, data, port, deadline):
        self.folder, self.port = folder, port
        self.environment = dict(os.environ, EXPORT=str(data))
        folder.mkdir(parents=True, exist_ok=True)
        run([GANESHA, "start", folder, port], deadline, self.environment, log=folder / "start.log")

    def url(self, path="", version=False, port=None):
        options = f"nfsport={port or self.port}&mountport={self.port + 1}" + ("&version=3" if version else "")
        return f"nfs://127.0.0.1/export{path}?{options}"

    def close(self):
        run([GANESHA, "stop", self.folder], Deadline(60), self.environment, check=False, log=self.folder / "stop.log")


class NfsOrigin(Bench):
    def __init__(self, options):
        super().__init__(options)
        self.dataset = Dataset(self.folder, options.scale)
        self.libnfs = self.folder / "libnfs_client"

    def prepare(self, say):
        deadline, ports, steps = self.begin(), self.options.ports, set(self.options.only)
        if steps & BY_LIBNFS:
            run(["gcc", "-O2", "-pthread", "-o", self.libnfs, HERE / "libnfs_client.c", "-lnfs"], deadline)
        say("making the dataset")
        self.dataset.make(self.options.iobench, deadline)
        say("starting nfs-ganesha")
        self.ganesha = self.keep(Ganesha(self.folder / "ganesha", self.dataset.folder, ports + PORT, deadline))
        if steps & COUNTED:
            self.relay = self.keep(Relay(ports + PORT + 2, self.ganesha.port))
        if steps & FROM_S3:
            say("starting nginx")
            self.start_server("nginx", deadline)
            self.dataset.upload(self.server, self.folder, deadline)
        self.caches = self.disk("caches", IMAGE_BYTES, deadline)
        if steps & BESIDE_NATIVE:
            self.native = self.disk("native", IMAGE_BYTES, deadline)
            self.dataset.copy_files(self.native.mountpoint, deadline)
            if not (self.native.direct and self.caches.direct):
                say("WARNING: the loop devices have no direct I/O here: dropped pages may come from the page cache of the "
                    "image files, for both sides of the step native")

    def names(self):
        """The small files, shuffled, and a file that lists them."""
        tree = self.dataset.small
        names = [f"{tree.name}/{path}" for path, _ in self.dataset.names(tree)]
        random.Random(7).shuffle(names)
        path = self.folder / "names"
        path.write_text("\n".join(names) + "\n")
        return names, path

    def ours(self, deadline, nvme=True, s3=False, **more):
        """A fresh mount with an empty cache."""
        host.drop_caches(3)
        self.warm_the_server()
        settings = {"memory.limit": MEMORY_LIMIT, **({"nvme.limit": 4 * GIB} if nvme else {"nvme.path": ""}), **more}
        place = self.fresh(self.caches) / "tierfs"
        if s3:
            return self.tierfs(place, deadline, settings, self.server)
        return self.tierfs(place, deadline, settings, source=self.ganesha.url())

    def empty_cache(self):
        """An nvme folder that nobody has used."""
        return self.fresh(self.caches) / "tierfs"

    def direct(self, cache, deadline, port=None, **more):
        """A mount as those of bench/read-path, with this cache, which may be warm."""
        settings = {"memory.limit": SMALL_MEMORY_LIMIT, "nvme.limit": NVME_LIMIT, **more}
        return self.tierfs(cache, deadline, settings, source=self.ganesha.url(port=port))

    def counted(self, cache, deadline):
        """The same through the relay."""
        return self.direct(cache, deadline, self.relay.port)

    def warm_the_server(self):
        """Its files are in memory: what is measured is the way from there."""
        run(["sh", "-c", f"cat {self.dataset.folder}/*/* {self.dataset.folder}/*/*/* >/dev/null 2>&1"], Deadline(120),
            check=False)

    def read(self, deadline, *arguments):
        """One of cold_path/readers.py; bytes and seconds."""
        out = run([sys.executable, READERS, *arguments], deadline)[1].split()
        return int(out[0]), float(out[1])

    def by_libnfs(self, deadline, *arguments):
        """The same by libnfs_client.c."""
        self.warm_the_server()
        out = run([self.libnfs, *arguments], deadline)[1].split()
        return int(out[0]), float(out[1])

    def device_writes(self, size, deadline):
        """MB a second that fio writes to the disk of the caches, by 1 MiB, O_DIRECT, 8 under way."""
        path = self.caches.mountpoint / "fio"
        out = run(["fio", "--name=w", f"--filename={path}", f"--size={size}", "--bs=1M", "--rw=write", "--direct=1",
                   "--ioengine=libaio", "--iodepth=8", "--end_fsync=1", "--output-format=terse"], deadline)[1]
        path.unlink()
        line = next((line for line in out.splitlines() if line.startswith("3;")), None)
        if line is None:
            raise Failure(f"fio: no result: {out[-200:]}")
        return int(line.split(";")[47]) * 1024 / 1e6

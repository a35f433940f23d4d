"""What all sessions share: the dataset, the server behind a counting proxy for each latency, the disks, the samples; and
the order in which everything is put away."""

import contextlib
import dataclasses
import itertools
import random
import shutil

from lib import host
from lib.datasets import BUCKET, Dataset
from lib.peers import PEERS, Place
from lib.process import Deadline, signals_held
from lib.servers import PROXY_PORT, CountingProxy, Server

from . import steps

MIB = 1 << 20
IMAGE_BYTES = 10 << 30  # of each loop image, at least; sparse


def image_bytes(dataset):
    """Room for all files and what the file system needs beside them; whole MiB."""
    return max(IMAGE_BYTES, (dataset.bytes * 13 // 10 // MIB + 1) * MIB)


@dataclasses.dataclass
class Line:
    """The way to the server: a proxy with one latency."""

    latency_ms: float
    rate: int  # bytes a second of each connection; 0: unlimited
    proxy: CountingProxy
    first_byte_ms: float  # as measured

    def name(self):
        limit = f", {self.rate / 1e6:g} MB/s for each connection" if self.rate else ""
        return f"latency {self.latency_ms:g} ms{limit}"


class World:
    """Made once a run; leaving its context puts away all that it started, in reverse order."""

    def __init__(self, options):
        self.options, self.folder = options, options.folder
        self.dataset = Dataset(self.folder, options.scale)
        self.size = steps.size_of(self.dataset, options.sample, options.sequential, options.reads)
        self.lines, self.facts = [], {}
        self._stack = contextlib.ExitStack()
        self._numbers = itertools.count(1)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        """A second Ctrl-C must not leave mounts and servers behind."""
        with signals_held():
            self._stack.close()

    def _keep(self, thing):
        self._stack.callback(thing.close)
        return thing

    def prepare(self, say):
        options, deadline = self.options, Deadline(self.options.prepare_limit)
        for old in self.folder.glob("mnt-*"):  # what a run that was killed has left
            host.unmount(old)
        say("making the dataset")
        self.dataset.make(options.iobench, deadline)
        self._choose_samples()
        say(f"starting {options.server}")
        self.server = self._keep(Server(options.server, options.server_script, self.folder / options.server, deadline,
                                        options.ports))
        say(f"uploading {self.dataset.objects:,} objects, {self.dataset.bytes / 1e9:.2f} GB")
        self.dataset.upload(self.server, self.folder, deadline)
        for number, latency_ms in enumerate(options.latency):
            self.lines.append(self._line(number, latency_ms, deadline))
        say("making the disks: XFS on loop devices")
        self.native = self._disk("native", deadline)
        self.caches = self._disk("caches", deadline)
        if not (self.native.direct and self.caches.direct):
            say("WARNING: the loop devices have no direct I/O here: dropped pages may come from the page cache of the "
                "image files, for every mount")
        if "native" in options.peers:
            self.dataset.copy_files(self.native.mountpoint, deadline, ("small", "medium", "large"))
        for name in options.peers:
            place = self.place(name, None, deadline)
            self.facts[name] = {"version": PEERS[name].version(place), "options": PEERS[name].options(place)}

    def _disk(self, name, deadline):
        return self._keep(host.LoopXfs(self.folder / f"{name}.img", self.folder / name, image_bytes(self.dataset),
                                       deadline))

    def _line(self, number, latency_ms, deadline):
        rate = self.options.rate if latency_ms else 0
        proxy = self._keep(CountingProxy(self.folder / f"proxy-{number}", self.server, deadline,
                                         self.options.ports + PROXY_PORT + number, latency_ms, rate))
        return Line(latency_ms, rate, proxy, proxy.first_byte_ms(f"/{BUCKET}/{self.dataset.large}"))

    def _choose_samples(self):
        """The lists of files, always the same for the same dataset: disjoint for the same size. With
        the sizes, so that nothing is asked of a mount before the reading that is measured."""
        for tree in (self.dataset.small, self.dataset.medium):
            names = self.dataset.names(tree)
            random.Random(1).shuffle(names)
            for name, count in self.size.samples.items():
                if name.startswith(tree.name):
                    chosen, names = names[:count], names[count:]
                    self.sample_list(name).write_text("".join(f"{path}\t{size}\n" for path, size in chosen))

    def sample_list(self, name):
        return self.folder / f"sample-{name}"

    def place(self, peer, line, deadline):
        """Where a peer makes its next mount: with an empty cache."""
        for old in self.caches.mountpoint.glob("cache-*"):
            shutil.rmtree(old)
        folder = self.caches.mountpoint / f"cache-{next(self._numbers)}"
        return Place(line.proxy if line else None, self.folder / f"mnt-{peer}", folder, deadline, self.options.tierfs,
                     self.options.tierfs_options, self.native)

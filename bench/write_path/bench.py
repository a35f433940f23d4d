"""What the steps share: the checkpoint's bytes, the server, disks, and who writes."""

import contextlib
import itertools
import os
import pathlib
import subprocess
import sys
import time
import types

from lib.bench import Bench
from lib.datasets import BUCKET
from lib.peers.place import Place
from lib.peers.s3fs import WritableS3fs
from lib.process import clean_environment, run
from lib.s3 import make_bucket, remove_object

HERE = pathlib.Path(__file__).resolve().parent
WRITERS, LINE = HERE / "writers.py", HERE / "line.py"
RATE, DELAY_MS = 50_000_000, 20  # of a bucket that is far away
SAMPLES, SAMPLE = 2000, 110  # files, KiB: an epoch
GIB = 1 << 30
MEMORY_LIMIT = 1 << 30


class WritePath(Bench):
    """XFS caches/ (local copies of both mounts) and XFS files/ (native, and the origin of a mount)."""

    def __init__(self, options):
        super().__init__(options)
        self.size = max(1, round(1024 * options.scale)) << 20
        self.names = itertools.count(1)
        self.uploaded = []  # MB a second until the bucket has all that ranks_through_journal wrote
        self.far_uploaded, self.epochs_alone, self.epochs_beside = [], [], []  # of ranks_far_away; epochs a second

    def prepare(self, say):
        deadline = self.begin()
        self.source = self.folder / "source"
        self.source.mkdir(exist_ok=True)
        run([self.options.iobench, "gen", self.source, "--large", f"checkpoint:{self.size}"], deadline)
        self.source /= "checkpoint"
        self.caches = self.disk("caches", 4 * self.size + GIB, deadline)
        if "directory" in self.options.only:
            self.files = self.disk("files", 4 * self.size + GIB, deadline)
        if {"bucket", "back", "far"} & set(self.options.only):
            say("starting Ceph RGW")
            # What is removed it gives back hours later.
            rounds = 4 * self.options.rounds + 3
            self.start_server("rgw", deadline, SIZE_GB=str((rounds * self.size >> 30) + 6))
            make_bucket(self.server, BUCKET)
            self.by_multipart(deadline)  # at the first upload the server makes its pools

        if "far" in self.options.only:
            self.line = self.far_away(deadline)
            self.samples = self.folder / "samples"
            count = max(100, round(SAMPLES * self.options.scale))
            run([self.options.iobench, "gen", self.samples, "--kind", "random", "--files", str(count), "--size", f"{SAMPLE}K"], deadline)

    def far_away(self, deadline):
        """The server behind line.py."""
        port = self.options.ports + 90
        line = subprocess.Popen([sys.executable, LINE, str(port), str(self.server.port), str(RATE), str(DELAY_MS)],  # pylint: disable=consider-using-with
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.stack.callback(lambda: (line.stdin.close(), line.wait(10), line.stdout.close()))
        line.stdout.readline()
        deadline.left()
        return types.SimpleNamespace(endpoint=f"http://127.0.0.1:{port}", port=port, access_key=self.server.access_key,
                                     secret_key=self.server.secret_key)

    def write(self, deadline, kind, *words):
        """One of writers.py; seconds. What earlier ones have left to be written back is on the disk before."""
        os.sync()
        environment = clean_environment()
        if self.server:
            environment.update(ACCESS_KEY=self.server.access_key, SECRET_KEY=self.server.secret_key)
        return float(run([sys.executable, WRITERS, kind, self.source, *words], deadline, environment)[1])

    def settings(self):
        return {"ro": "false", "memory.limit": MEMORY_LIMIT, "nvme.limit": GIB}

    @contextlib.contextmanager
    def key(self):
        """A fresh name in the bucket and its path there; it is removed afterwards."""
        name = f"checkpoint-{next(self.names)}"
        yield name, f"/{BUCKET}/{name}"
        remove_object(self.server, f"/{BUCKET}/{name}")

    def through_tierfs(self, deadline):
        with self.tierfs(self.fresh(self.caches) / "tierfs", deadline, self.settings(), self.server) as mount, \
                self.key() as (name, key):
            return self.write(deadline, "mount", mount.mountpoint / name, self.server.endpoint, key)

    def through_s3fs(self, deadline):
        mount = WritableS3fs(Place(self.server, self.folder / "mnt-s3fs", self.fresh(self.caches), deadline))
        try:
            with self.key() as (name, key):
                return self.write(deadline, "mount", mount.mountpoint / name, self.server.endpoint, key)
        finally:
            mount.close()

    def by_multipart(self, deadline):
        with self.key() as (_, key):
            return self.write(deadline, "multipart", self.server.endpoint, key)

    def ranks_through_journal(self, deadline):
        """Until the last rank has renamed its file; what the bucket gets later is waited for outside the clock."""
        folder = self.fresh(self.caches)
        folder.mkdir(exist_ok=True)
        settings = {**self.settings(), "writes": "back", "journal.path": folder / "journal"}
        with self.tierfs(folder / "tierfs", deadline, settings, self.server) as mount:
            seconds = self.write(deadline, "ranks", mount.mountpoint)
            begun = time.monotonic()
            run([self.options.tierfs, "flush", "--wait", mount.mountpoint], deadline)
            self.uploaded.append((self.size / 1e6) / (time.monotonic() - begun + seconds))
            for name in os.listdir(mount.mountpoint):
                (mount.mountpoint / name).unlink()
            run([self.options.tierfs, "flush", "--wait", mount.mountpoint], deadline)
        return seconds

    def ranks_far_away(self, deadline):
        """The same where the bucket is behind the line; and epochs from the tiers, alone and while all that is uploaded."""
        folder = self.fresh(self.caches)
        folder.mkdir(exist_ok=True)
        settings = {**self.settings(), "writes": "back", "journal.path": folder / "journal", "metadata.ttl": "1h", "class": "epoch"}
        with self.tierfs(folder / "tierfs", deadline, settings, self.server) as mount:
            run(["cp", "-r", self.samples, mount.mountpoint / "samples"], deadline)
        with self.tierfs(folder / "tierfs", deadline, settings, self.line) as mount:
            samples = mount.mountpoint / "samples"
            self.write(deadline, "epoch", samples)  # into the tiers
            alone = [self.write(deadline, "epoch", samples) for _ in range(3)]
            seconds = self.write(deadline, "ranks", mount.mountpoint)
            begun, beside = time.monotonic(), []
            with subprocess.Popen([self.options.tierfs, "flush", "--wait", mount.mountpoint], stderr=subprocess.DEVNULL) as flush:
                while flush.poll() is None:
                    beside.append(self.write(deadline, "epoch", samples))
            self.far_uploaded.append((self.size / 1e6) / (time.monotonic() - begun + seconds))
            self.epochs_alone.append(1 / min(alone))
            self.epochs_beside.append(len(beside[:-1] or beside) / sum(beside[:-1] or beside))
        with self.tierfs(folder / "tierfs", deadline, settings, self.server) as mount:
            for name in os.listdir(mount.mountpoint):
                if name != "samples":
                    (mount.mountpoint / name).unlink()
            run(["rm", "-r", mount.mountpoint / "samples"], deadline)
        return seconds

    def ranks_onto_xfs(self, deadline):
        folder = self.fresh(self.caches)
        folder.mkdir(exist_ok=True)
        return self.write(deadline, "ranks", folder)

    def onto_xfs(self, deadline):
        path = self.files.mountpoint / "native"
        try:
            return self.write(deadline, "file", path)
        finally:
            path.unlink(missing_ok=True)

    def through_directory(self, deadline):
        origin = self.files.mountpoint / "origin"
        origin.mkdir(exist_ok=True)
        with self.tierfs(self.fresh(self.caches) / "tierfs", deadline, self.settings(), source=origin) as mount:
            path = mount.mountpoint / "written"
            try:
                return self.write(deadline, "file", path)
            finally:
                path.unlink(missing_ok=True)

    def in_turns(self, deadline, *ways):
        """MB a second of each, a list a way; another one is first in each round."""
        found = [[] for _ in ways]
        for number in range(self.options.rounds):
            for at in range(len(ways)):
                which = (number + at) % len(ways)
                found[which].append(self.size / 1e6 / ways[which](deadline))
        return found

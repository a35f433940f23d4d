"""The dataset: made by iobench, uploaded by rclone."""

import dataclasses
import hashlib
import json
import os
import shutil

from .process import Failure, clean_environment, run
from .s3 import allow_anonymous_reading, make_bucket

BUCKET = "bench"


@dataclasses.dataclass
class Tree:
    name: str
    files: int
    size: int  # of each file
    directories: int

    @property
    def bytes(self):
        return self.files * self.size


class Dataset:
    """small/: 20,000 files of 16 KiB in 20 directories; medium/: 2,000 of 110 KiB; large/big.bin: 2 GiB; all times scale."""

    def __init__(self, folder, scale):
        self.folder, self.scale = folder / "source", scale
        self.manifests = folder
        self.small = Tree("small", max(200, round(20000 * scale)), 16 << 10, 20)
        self.medium = Tree("medium", max(50, round(2000 * scale)), 110 << 10, 2)
        self.large_bytes = max(64, round(2048 * scale)) << 20
        self.large = "large/big.bin"

    @property
    def objects(self):
        return self.small.files + self.medium.files + 1

    @property
    def bytes(self):
        return self.small.bytes + self.medium.bytes + self.large_bytes

    def manifest(self, tree):
        return self.manifest_of(tree.name)

    def manifest_of(self, name):
        return self.manifests / f"{name}.manifest"

    def names(self, tree):
        """[path relative to the tree's folder, size in bytes] of each file, sorted."""
        lines = [line.split("\t", 2) for line in self.manifest(tree).read_text().splitlines() if not line.startswith("#")]
        return sorted([path, int(size)] for _, size, path in lines)

    def identity(self):
        """What was asked for."""
        return {"small": dataclasses.asdict(self.small), "medium": dataclasses.asdict(self.medium),
                "large": self.large_bytes, "seed": 1}

    def content(self):
        """What was made: two of the same content need no second upload."""
        text = b"".join(self.manifest_of(name).read_bytes() for name in ("small", "medium", "large"))
        return dict(self.identity(), manifests=hashlib.sha256(text).hexdigest())

    def make(self, iobench, deadline):
        """What is there and right is kept; a source of another scale is made anew."""
        stamp = self.manifests / "source.json"
        if self.folder.exists() and not same(stamp, self.identity()):
            shutil.rmtree(self.folder)
        write(stamp, self.identity())
        for tree in (self.small, self.medium):
            run([iobench, "gen", self.folder / tree.name, "--kind", "jpeg", "--files", tree.files, "--size", tree.size,
                 "--directories", tree.directories, "--manifest", self.manifest(tree)], deadline)
        run([iobench, "gen", self.folder / "large", "--large", f"big.bin:{self.large_bytes}",
             "--manifest", self.manifest_of("large")], deadline)

    def upload(self, server, folder, deadline):
        """Into the server's bucket, unless a run before this one has done just that."""
        stamp = folder / f"uploaded-{server.kind}.json"
        if same(stamp, self.content()):
            return
        stamp.unlink(missing_ok=True)  # true no more as soon as the bucket changes
        if server.kind == "nginx":
            target = server.folder / "data" / BUCKET
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(self.folder, target)
            run(["curl", "-sf", "-o", "/dev/null", server.endpoint + "/_ctl?rescan=1"], deadline)
        else:
            make_bucket(server, BUCKET)
            allow_anonymous_reading(server, BUCKET)
            run(["rclone", "sync", self.folder, f"bench:{BUCKET}", "--retries", "1", "--low-level-retries", "2",
                 "--transfers", "16", "--checkers", "16", "--s3-chunk-size", "16M", "--s3-upload-cutoff", "64M",
                 "--s3-no-check-bucket"], deadline, rclone_environment(server))
        write(stamp, self.content())

    def copy_files(self, target, deadline, names=("small", "medium")):
        """These parts onto a native file system, to compare with."""
        stamp, content = target / "copied.json", dict(self.content(), parts=list(names))
        if same(stamp, content):
            return
        stamp.unlink(missing_ok=True)
        for name in names:
            shutil.rmtree(target / name, ignore_errors=True)
            run(["cp", "-r", self.folder / name, target / name], deadline)
        write(stamp, content)
        os.sync()

    def check_listing(self, root, text, who):
        """`text` is what find printed: a size and a path for each file."""
        found = [line.partition(" ") for line in text.splitlines()]
        if len(found) != self.objects or sum(int(size) for size, _, _ in found) != self.bytes:
            raise Failure(f"{who}: find below {root} shows {len(found)} files, "
                          f"{sum(int(size) for size, _, _ in found)} bytes; expected {self.objects}, {self.bytes}")


def rclone_environment(server):
    prefix = "RCLONE_CONFIG_BENCH_"
    return clean_environment(**{
        "RCLONE_CONFIG": "/dev/null", prefix + "TYPE": "s3", prefix + "PROVIDER": "Ceph",
        prefix + "ENDPOINT": server.endpoint, prefix + "ACCESS_KEY_ID": server.access_key,
        prefix + "SECRET_ACCESS_KEY": server.secret_key, prefix + "REGION": "us-east-1"})


def same(stamp, identity):
    try:
        return json.loads(stamp.read_text()) == identity
    except (OSError, ValueError):
        return False


def write(stamp, identity):
    temporary = stamp.with_suffix(".tmp")
    temporary.write_text(json.dumps(identity))
    temporary.rename(stamp)

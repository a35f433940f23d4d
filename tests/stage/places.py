"""Places of every kind to judge: file systems on loop devices, tmpfs, overlayfs. Put away whatever happens."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "mount"))

from harness import daemon, disks, processes  # noqa: E402  pylint: disable=wrong-import-position

PROGRAM = Path(daemon.BINARY).with_name("tierfs-stage")


def supported(kind):
    """Whether the running kernel knows this file system."""
    return any(line.split()[-1] == kind for line in Path("/proc/filesystems").read_text(encoding="ascii").splitlines())


def require(kind, program):
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed (packaging/dependencies --test)")
    if not supported(kind):
        processes.run(["modprobe", kind])
    if not supported(kind):
        pytest.skip(f"this kernel has no {kind}")


class Formatted(disks.Disk):
    """A file system made by mkfs on a loop device. `size`: bytes of the sparse image."""

    def __init__(self, folder, kind, size, options="", mkfs=()):
        super().__init__(folder)
        self.loop = None
        image = folder / f"{kind}.img"
        with open(image, "wb") as handle:
            handle.truncate(size)
        processes.check([f"mkfs.{kind}", "-q", *mkfs, image])
        self.loop = processes.check(["losetup", "--find", "--show", image]).out.strip()
        try:
            processes.check(["mount", "-t", kind, *(["-o", options] if options else []), self.loop, self.path])
        except AssertionError:
            self.close()
            raise

    def close(self):
        super().close()
        if self.loop:
            processes.check(["losetup", "--detach", self.loop])
            self.loop = None


class Overlay(disks.Disk):
    """overlayfs, its layers on a tmpfs of its own."""

    def __init__(self, folder):
        super().__init__(folder)
        self.below = disks.Tmpfs(folder / "layers")
        try:
            for name in ("lower", "upper", "work"):
                (self.below.path / name).mkdir()
            options = ",".join(f"{key}={self.below.path / name}" for key, name in
                               (("lowerdir", "lower"), ("upperdir", "upper"), ("workdir", "work")))
            processes.check(["mount", "-t", "overlay", "overlay", "-o", options, self.path])
        except AssertionError:
            self.close()
            raise

    def close(self):
        super().close()
        self.below.close()

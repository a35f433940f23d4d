"""Small disks: tmpfs, and ext4 and XFS in an image file on a loop device. Detached whatever happens."""

from . import processes
from .daemon import mountinfo


class Disk:
    """Something mounted at .path. A context manager; close() detaches it and everything mounted on top."""

    def __init__(self, folder):
        self.path = folder / "disk"
        self.path.mkdir(parents=True)

    def close(self):
        if mountinfo(self.path) and processes.run(["umount", self.path]).returncode != 0:
            processes.check(["umount", "-l", self.path])

    def remount(self, options):
        processes.check(["mount", "-o", f"remount,{options}", self.path])

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()


class Tmpfs(Disk):
    def __init__(self, folder, size="64M"):
        super().__init__(folder)
        processes.check(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tierfs-test", self.path])


class Ext4(Disk):
    """size: bytes of the sparse image; options: of mkfs; kind: ext3 has the kernel's coarse clock."""

    def __init__(self, folder, size=64 << 20, options=(), kind="ext4"):
        super().__init__(folder)
        self.loop = None
        image = folder / "ext4.img"
        with open(image, "wb") as handle:
            handle.truncate(size)
        processes.check([f"mkfs.{kind}", "-q", "-F", *options, image])
        self.loop = processes.check(["losetup", "--find", "--show", image]).out.strip()
        try:
            processes.check(["mount", "-t", kind, self.loop, self.path])
        except AssertionError:
            self.close()
            raise

    def close(self):
        super().close()
        if self.loop:
            processes.check(["losetup", "--detach", self.loop])
            self.loop = None


class Xfs(Disk):
    """size: bytes of the sparse image; mkfs.xfs wants 300 MiB or more."""

    def __init__(self, folder, size=320 << 20):
        super().__init__(folder)
        self.loop = None
        image = folder / "disk.img"
        with open(image, "wb") as handle:
            handle.truncate(size)
        processes.check(["mkfs.xfs", "-q", "-f", image])
        self.loop = processes.check(["losetup", "--find", "--show", image]).out.strip()
        try:
            processes.check(["mount", "-t", "xfs", "-o", "nouuid", self.loop, self.path])
        except AssertionError:
            self.close()
            raise

    def shut_down(self):
        """From now on every access fails with EIO, as when a device disappears."""
        processes.check(["xfs_io", "-x", "-c", "shutdown", self.path])

    def recover(self):
        """After shut_down(), as after a power cut: mounted anew, by the log or, where that fails, by xfs_repair;
        returns which."""
        # What had files open there closes them once it has noticed, and the kernel its backing files after their last close.
        processes.wait_until(lambda: processes.run(["umount", self.path]).returncode == 0, what=f"umount {self.path}")
        if processes.run(["mount", "-t", "xfs", "-o", "nouuid", self.loop, self.path]).returncode == 0:
            return "log"
        processes.check(["xfs_repair", "-L", self.loop])
        processes.check(["mount", "-t", "xfs", "-o", "nouuid", self.loop, self.path])
        return "xfs_repair"

    def close(self):
        super().close()
        if self.loop:
            processes.check(["losetup", "--detach", self.loop])
            self.loop = None

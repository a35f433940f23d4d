"""The files on XFS on a loop device: no server and no daemon, what the disk and the kernel give."""

import time

from ..process import run


class Native:
    name, programs, packages = "native", ["mkfs.xfs", "losetup"], ["xfsprogs"]

    def __init__(self, place):
        self.disk = place.native
        self.mountpoint = self.disk.mountpoint
        self.disk.unmount()  # so that it comes back with nothing cached
        began = time.monotonic()
        self.disk.mount(place.deadline)
        run(["stat", "--", self.mountpoint], place.deadline)
        self.mount_s = time.monotonic() - began

    def pids(self):
        return []

    def close(self):
        """Stays mounted: the disk belongs to the run."""

    @staticmethod
    def version(place):
        return "XFS of kernel " + run(["uname", "-r"], place.deadline)[1].strip()

    @staticmethod
    def options(place):
        return f"noatime, loop device with direct I/O: {'yes' if place.native and place.native.direct else 'no'}"

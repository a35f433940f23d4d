"""The machine: caches, loop devices, mounts, what it was doing before."""

import fcntl
import os
import platform
import re
import shutil
import tempfile

from .process import Deadline, Failure, run, signals_held

MOUNTS = "/proc/self/mounts"
FIRST_PORT = 7700  # and the 99 after it, all on 127.0.0.1


def drop_caches(what=1):
    """1: the page cache; 3: dentries and inodes too."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write(str(what))


def mount_at(path):
    """(source, type, options) of what is mounted exactly at `path`, or None. Never touches the path itself. Names are bytes:
    only space, tab, newline, # and the backslash are escaped by the kernel."""
    found = None
    with open(MOUNTS, "rb") as file:
        for line in file:
            source, where, kind, options = (re.sub(rb"\\([0-3][0-7]{2})", lambda code: bytes([int(code[1], 8)]), field)
                                            for field in line.split(b" ")[:4])
            if where == os.fsencode(path):
                found = tuple(field.decode(errors="replace") for field in (source, kind, options))
    return found


def mounted_type(path):
    """The type of the file system mounted exactly at `path`, or None."""
    found = mount_at(path)
    return found[1] if found else None


def unmount(path, deadline=None):
    """Lazily: also what hangs or is busy goes away from the tree."""
    deadline = deadline or Deadline(20)
    while mounted_type(path):
        run(["umount", "-l", path], deadline, limit=10)


def facts():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return {"kernel": platform.release(), "cpu": names[0] if names else platform.machine(), "cpus": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            "load_average": list(os.getloadavg())}


def only_one(port=FIRST_PORT):
    """The lock of the one run with these ports: a measurement has to be alone on its machine. Keep what is returned."""
    folder = "/run" if os.access("/run", os.W_OK) else tempfile.gettempdir()
    lock = open(f"{folder}/tierfs-bench-{port}.lock", "w", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Failure(f"another bench of tierfs runs on this machine ({lock.name} is locked)") from None
    return lock


def require(programs, packages):
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        raise Failure(f"not installed: {', '.join(missing)}; on Debian: apt-get install {' '.join(packages)}")


class LoopXfs:
    """An XFS file system in a sparse file, on a loop device with direct I/O: what is dropped from its page cache is read
    from the disk again and not from the page cache of the file below."""

    def __init__(self, image, mountpoint, size, deadline):
        self.image, self.mountpoint, self.device = image, mountpoint, None
        fresh = not image.exists() or image.stat().st_size < size  # one of a smaller dataset was kept
        unmount(mountpoint)  # what a run that was killed has left
        for line in run(["losetup", "--associated", image], deadline)[1].splitlines():
            run(["losetup", "--detach", line.partition(":")[0]], deadline)
        mountpoint.mkdir(parents=True, exist_ok=True)
        try:
            if fresh:
                with open(image, "wb") as file:
                    file.truncate(size)
                run(["mkfs.xfs", "-q", "-f", image], deadline)
            self.device = run(["losetup", "--find", "--show", "--direct-io=on", image], deadline)[1].strip()
            self.mount(deadline)
        except BaseException:
            with signals_held():
                self.close()
            raise
        with open(f"/sys/block/{os.path.basename(self.device)}/loop/dio", encoding="ascii") as file:
            self.direct = file.read().strip() == "1"

    def mount(self, deadline):
        run(["mount", "-t", "xfs", "-o", "noatime", self.device, self.mountpoint], deadline)

    def unmount(self):
        """Not lazily: when this has returned the kernel has cached nothing of it."""
        run(["umount", self.mountpoint], Deadline(60))

    def close(self):
        try:
            unmount(self.mountpoint)
        finally:
            if self.device:
                run(["losetup", "--detach", self.device], Deadline(20), check=False)
                self.device = None

"""System calls, and what of two_hosts.py stays open."""

import collections
import ctypes
import errno
import faulthandler
import mmap
import os
import signal

LIBC = ctypes.CDLL(None, use_errno=True)
NAMES = ["a", "b", "c", "d", "e"]
DEEPEST = 3
MOST_OPEN = 12
MOST_NAMES = 40
LARGEST = 150_000
SIZES = (0, 1, 100, 4096, 10_000, 70_000)
HIDDEN = ".nfs-tierfs-"
CHANGING = ("mkdir", "rmdir", "unlink", "rename", "link", "put", "open")
TICK = 0.005  # Ganesha keeps what it has listed until the time of the directory changes, which its file system has in ticks
NEVER = {errno.EIO}


def renameat2(old, new, flags):
    if LIBC.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def getdents(descriptor, size):
    """The names that one small call brings; None at the end."""
    buffer = ctypes.create_string_buffer(size)
    got = LIBC.syscall(217, descriptor, buffer, size)
    if got < 0:
        raise OSError(ctypes.get_errno(), "getdents64")
    names, at = [], 0
    while at < got:
        length = int.from_bytes(buffer.raw[at + 16:at + 18], "little")
        names.append(os.fsdecode(buffer.raw[at + 19:at + length].split(b"\0", 1)[0]))
        at += length
    return [name for name in names if name not in (".", "..")] if got else None


def read_mapped(descriptor, length):
    """All pages of a file through a mapping, read by a child: the bytes, or None when it got SIGBUS."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            faulthandler.disable()  # SIGBUS is an answer here
            os.close(ours)
            with mmap.mmap(descriptor, length, access=mmap.ACCESS_READ) as pages, open(theirs, "wb") as pipe:
                pipe.write(pages[:])
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 255)
        finally:
            os._exit(255)
    os.close(theirs)
    with open(ours, "rb") as pipe:
        got = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGBUS:
        return None
    if os.WEXITSTATUS(status) or os.WIFSIGNALED(status):
        raise OSError(os.WEXITSTATUS(status) or errno.EIO, f"the child that maps it ended with {status}")
    return got


class Host:
    """A mount, or the plain client where it works in the folder itself."""

    def __init__(self, name, root, is_mount=True):
        self.name, self.root, self.is_mount = name, str(root), is_mount

    def at(self, path):
        return os.path.join(self.root, path) if path else self.root


class Handle:
    """An open file. `floor`: the first of its states that may be seen through it."""

    def __init__(self, number, host, descriptor, path, node, access, appends):
        self.number, self.host, self.descriptor, self.path, self.node = number, host, descriptor, path, node
        self.reads, self.writes, self.appends = access in ("r", "rw"), access in ("w", "rw"), appends
        self.floor, self.has_read = 0, False

    def __str__(self):
        return f"h{self.number}({self.host.name} {self.path})"


class Listing:
    """An open directory: the names that were there all the time, those that were there at some time, those it has shown."""

    def __init__(self, number, host, descriptor, node, views):
        self.number, self.host, self.descriptor, self.node = number, host, descriptor, node
        self.always, self.ever = set.intersection(*views), set.union(*views)
        self.again, self.seen = set(), collections.Counter()

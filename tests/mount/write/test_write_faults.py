"""Each call that a writable mount makes at the directory fails once: whoever asked hears of it, nothing else happens, and
the next try succeeds."""

import errno
import fcntl
import mmap
import os

import pytest

from harness import daemon, data

pytestmark = pytest.mark.test_points

POINTS = {}  # of writable mounts: point: what fails when it fails


def point(name):
    def add(call):
        POINTS["posix." + name] = call
        return call
    return add


def opened(path, flags, call):
    handle = os.open(path, flags)
    try:
        return call(handle)
    finally:
        os.close(handle)


@point("stat")
def stat(path):
    os.stat(path / "file")


@point("readlink")
def readlink(path):
    assert os.readlink(path / "link") == "file"


@point("create")
def create(path):
    os.close(os.open(path / "new", os.O_CREAT | os.O_EXCL | os.O_WRONLY))


@point("tmpfile")
def tmpfile(path):
    os.close(os.open(path, os.O_TMPFILE | os.O_WRONLY, 0o600))


@point("mkdir")
def mkdir(path):
    os.mkdir(path / "made")


@point("mknod")
def mknod(path):
    os.mkfifo(path / "fifo")


@point("symlink")
def symlink(path):
    os.symlink("file", path / "another link")


@point("link")
def link(path):
    os.link(path / "file", path / "second name")


@point("remove")
def remove(path):
    os.unlink(path / "old")


@point("rename")
def rename(path):
    os.rename(path / "old", path / "renamed")


@point("open")
def open_file(path):
    assert (path / "file").read_bytes() == b"content"


@point("opendir")
def opendir(path):
    assert "file" in os.listdir(path)


@point("readdir")
def readdir(path):
    assert "file" in os.listdir(path)


@point("chmod")
def chmod(path):
    os.chmod(path / "file", 0o600)


@point("chown")
def chown(path):
    os.chown(path / "file", 5, 6)


@point("utimens")
def utimens(path):
    os.utime(path / "file", (1, 2))


@point("truncate")
def truncate(path):
    os.truncate(path / "old", 1)


@point("getxattr")
def getxattr(path):
    assert os.getxattr(path / "file", "user.name") == b"value"


@point("listxattr")
def listxattr(path):
    assert os.listxattr(path / "file") == ["user.name"]


@point("setxattr")
def setxattr(path):
    os.setxattr(path / "file", "user.other", b"x")


@point("removexattr")
def removexattr(path):
    os.removexattr(path / "old", "user.name")


@point("statfs")
def statfs(path):
    os.statvfs(path)


@point("read")
def read(path):
    with mmap.mmap(-1, 4096) as buffer:  # the kernel tries again what it reads ahead
        opened(path / "file", os.O_RDONLY | os.O_DIRECT, lambda handle: os.preadv(handle, [buffer], 0))


@point("write")
def write(path):
    opened(path / "old", os.O_WRONLY, lambda handle: os.write(handle, b"x"))


@point("ftruncate")
def ftruncate(path):
    opened(path / "old", os.O_WRONLY, lambda handle: os.ftruncate(handle, 2))


@point("fallocate")
def fallocate(path):
    opened(path / "old", os.O_WRONLY, lambda handle: os.posix_fallocate(handle, 0, 10000))


@point("lseek")
def lseek(path):
    opened(path / "file", os.O_RDONLY, lambda handle: os.lseek(handle, 0, os.SEEK_HOLE))


@point("copy")
def copy(path):
    opened(path / "file", os.O_RDONLY,
           lambda source: opened(path / "old", os.O_WRONLY, lambda target: os.copy_file_range(source, target, 5)))


@point("fsync")
def fsync(path):
    opened(path / "old", os.O_WRONLY, os.fsync)


@point("fsyncdir")
def fsyncdir(path):
    opened(path, os.O_RDONLY, os.fsync)


@point("close")
def close(path):
    os.close(os.open(path / "old", os.O_WRONLY))


@point("locks")
def locks(path):
    opened(path / "file", os.O_RDWR, lambda handle: fcntl.lockf(handle, fcntl.LOCK_EX))


@point("lock")
def lock(path):
    opened(path / "file", os.O_RDWR, lambda handle: fcntl.lockf(handle, fcntl.LOCK_EX))


@point("getlk")
def getlk(path):
    opened(path / "file", os.O_RDWR, lambda handle: fcntl.fcntl(handle, fcntl.F_GETLK, bytes(32)))


@point("flock")
def flock(path):
    opened(path / "file", os.O_RDWR, lambda handle: fcntl.flock(handle, fcntl.LOCK_EX))


def test_every_point_has_a_test():
    assert {name for name in daemon.fault_points() if name.startswith("posix.")} == set(POINTS)


@pytest.mark.parametrize("call", ["fsync", "fsyncdir", "fallocate", "copy"])
def test_what_takes_long_is_not_cut_short(call, origin, mount):
    """Writing out as much as there is may take longer than origin.deadline allows for one operation."""
    data.write(origin / "file", b"content")
    data.write(origin / "old", b"old content")
    m = mount(origin, {"rw": None, "origin.deadline": "1s"}, env={"TIERFS_TEST_FAULTS": f"posix.{call}:1:delay=3500"})
    POINTS[f"posix.{call}"](m.path)
    assert m.status()["requests"]["timed_out"] == 0


@pytest.mark.parametrize("name", sorted(POINTS))
def test_point(name, origin, mount):
    for file, content in (("file", b"content"), ("old", b"old content")):
        data.write(origin / file, content)
        os.setxattr(origin / file, "user.name", b"value")
    os.symlink("file", origin / "link")
    # Looking at the mount point before is a call of stat, too.
    m = mount(origin, {"rw": None, "metadata.ttl": "0s", "writes.passthrough": "false"},
              env={"TIERFS_TEST_FAULTS": f"{name}:{'4+' if name == 'posix.stat' else '1'}:error={errno.EUCLEAN}"})
    with pytest.raises(OSError) as caught:
        for _ in range(5):
            POINTS[name](m.path)
    assert caught.value.errno == errno.EUCLEAN
    if name == "posix.stat":
        return
    before = sorted(os.listdir(origin))
    assert before == ["file", "link", "old"], "something was done all the same"
    POINTS[name](m.path)

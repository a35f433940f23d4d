"""writes=back with a journal on XFS: the kernel writes new files by itself, into their local copies."""

import ctypes
import errno
import mmap
import os
import random
import subprocess
import sys
import time

import pytest

from harness import data, disks, processes
from test_back import MIB, back, flush, queue, refusing, synced  # noqa: F401  pylint: disable=unused-import
from test_write_passthrough import LIBC, map_only
from test_write_s3 import body, error_of, keys

WRITE = os.O_CREAT | os.O_TRUNC | os.O_WRONLY


@pytest.fixture
def disk(folder):
    with disks.Xfs(folder / "device", size=2000 * MIB) as made:
        yield made


@pytest.fixture
def passed(disk, back):  # noqa: F811  pylint: disable=redefined-outer-name
    """passed(**options): a mount whose journal is on XFS. The disk outlives it."""
    def start(**options):
        m = back(**{"journal.path": str(disk.path / "journal"), **options})
        reason = m.status()["passthrough"]["reason"]
        if "Linux 6" in reason:
            pytest.skip(reason)
        assert reason == "", reason
        return m
    return start


def opens(m):
    return m.status()["passthrough"]["opens"]


def all_closed(m):
    processes.wait_until(lambda: m.status()["passthrough"]["open_files"] == 0, what="the end of all passthrough files")


@pytest.mark.quick
@pytest.mark.release
@pytest.mark.tsan
def test_the_kernel_writes(rgw_bucket, passed):
    m = passed()
    content = data.content("file", 9 * MIB + 17)
    handle = os.open(m.path / "file", WRITE)
    requests = m.status()["writes"]["requests"]
    for at in range(0, len(content), MIB):
        os.write(handle, content[at:at + MIB])
        assert os.stat(m.path / "file").st_size == min(at + MIB, len(content)) == os.fstat(handle).st_size
    assert opens(m) == 1 and m.status()["writes"]["requests"] == requests, "no write has reached the daemon"
    with open(m.path / "file", "rb") as reader:
        data.expect_same(reader.read(), content, "while it is open")
    os.fsync(handle)
    assert queue(m)["entries"] == 1 and queue(m)["bytes"] == len(content)
    flush(m)
    data.expect_same(body(rgw_bucket, "file"), content, "after fsync")
    os.pwrite(handle, b"end", len(content))
    os.pwrite(handle, b"BEGIN", 0)
    os.close(handle)
    flush(m)
    content = b"BEGIN" + content[5:] + b"end"
    data.expect_same(body(rgw_bucket, "file"), content, "after close")
    data.expect_same(data.read_cold(m.path / "file"), content, "afterwards")
    assert queue(m)["done"] == 2 and queue(m)["conflicts"] == 0
    all_closed(m)


def test_what_was_synced_stays_as_it_was(rgw_bucket, passed, refusing):  # noqa: F811
    """What is written after fsync goes where the journal's record does not look."""
    m = passed()
    refusing()
    handle = os.open(m.path / "file", WRITE)
    os.write(handle, b"a" * 3 * MIB)
    os.fsync(handle)
    os.pwrite(handle, b"b" * MIB, 0)
    os.ftruncate(handle, 2 * MIB)
    m.kill_hard()
    assert error_of(os.close, handle) == errno.ENOTCONN
    rgw_bucket.server.calm()
    m = passed()
    assert (m.path / "file").read_bytes() == b"a" * 3 * MIB
    flush(m)
    assert body(rgw_bucket, "file") == b"a" * 3 * MIB


def test_one_fsync_and_close_is_one_version(rgw_bucket, passed):
    m = passed()
    for number in range(20):
        synced(m.path / f"file{number}", data.content(str(number), 100_000))
    flush(m)
    assert queue(m)["done"] == 20 and m.status()["origin"]["bytes_written"] == 2_000_000


def test_who_also_reads_and_maps(rgw_bucket, passed):
    """Who joins who only writes gets the kernel's answers, too, and his mapping may be the last that is written to."""
    m = passed()
    with open(m.path / "file", "wb", buffering=0) as writer, open(m.path / "file", "r+b", buffering=0) as both, \
            open(m.path / "file", "rb", buffering=0) as reader:
        assert opens(m) == 3
        writer.write(b"0123456789")
        assert both.read() == reader.read() == b"0123456789"
        os.pwrite(both.fileno(), b"ab", 4)
        os.pwrite(writer.fileno(), b"c", 6)
        assert os.pread(both.fileno(), 20, 0) == os.pread(reader.fileno(), 20, 0) == b"0123abc789"
        os.ftruncate(both.fileno(), 5)
        assert os.fstat(writer.fileno()).st_size == os.stat(m.path / "file").st_size == 5
        with mmap.mmap(reader.fileno(), 5, prot=mmap.PROT_READ) as mapped:
            assert mapped[:] == b"0123a"
        memory = map_only(m.path / "file", 5)
        ctypes.memmove(memory, b"m", 1)
    all_closed(m)
    flush(m)
    assert body(rgw_bucket, "file") == b"m123a"
    ctypes.memmove(memory + 1, b"n", 1)
    assert (m.path / "file").read_bytes() == b"mn23a"
    with open(m.path / "file", "r+b", buffering=0) as both:
        os.pwrite(both.fileno(), b"o", 2)
        assert ctypes.string_at(memory, 5) == b"mno3a"
    ctypes.memmove(memory + 3, b"p", 1)
    LIBC.munmap(memory, 5)
    processes.wait_until(lambda: body(rgw_bucket, "file") == b"mnopa", what="what was mapped last is at the bucket")
    with open(m.path / "file", "r+b") as both, mmap.mmap(both.fileno(), 5) as mapped:
        mapped[:5] = b"story"
    flush(m)
    assert body(rgw_bucket, "file") == b"story"


def test_a_mapping_that_ends_while_it_is_read(rgw_bucket, passed):
    m = passed()
    with open(m.path / "file", "wb", buffering=0) as writer:
        writer.write(b"12345")
        memory = map_only(m.path / "file", 5)
        reader = open(m.path / "file", "rb", buffering=0)
    time.sleep(1.5)
    ctypes.memmove(memory, b"m", 1)
    LIBC.munmap(memory, 5)
    reader.close()
    processes.wait_until(lambda: keys(rgw_bucket) and body(rgw_bucket, "file") == b"m2345", what="what was mapped last")


@pytest.mark.test_points
@pytest.mark.parametrize("faults", ["", "s3.copy.lease:1+:error=EAGAIN"])
def test_a_mapping_that_ends_last_of_all(rgw_bucket, disk, mount, passed, faults):  # pylint: disable=redefined-outer-name
    options = rgw_bucket.options({"rw": None, "writes": "back", "journal.path": str(disk.path / "journal")})
    m = mount(rgw_bucket.source(), options, env={**rgw_bucket.env, "TIERFS_TEST_FAULTS": faults})
    with open(m.path / "file", "wb", buffering=0) as writer:
        writer.write(b"12345")
        memory = map_only(m.path / "file", 5)
    all_closed(m)
    ctypes.memmove(memory, b"m", 1)
    LIBC.munmap(memory, 5)
    m.umount()
    m = passed()
    assert (m.path / "file").read_bytes() == b"m2345"
    flush(m)
    assert body(rgw_bucket, "file") == b"m2345"


def test_who_writes_in_step_with_the_disk(rgw_bucket, passed, refusing):  # noqa: F811
    """O_SYNC and O_DSYNC: the journal has what such a write has returned for."""
    m = passed()
    refusing()
    handles = [os.open(m.path / f"file{flag}", WRITE | flag) for flag in (os.O_SYNC, os.O_DSYNC)]
    for handle in handles:
        os.write(handle, b"content")
    assert opens(m) == 0 and queue(m)["entries"] == 2
    m.kill_hard()
    for handle in handles:
        error_of(os.close, handle)
    rgw_bucket.server.calm()
    m = passed()
    assert {path.read_bytes() for path in m.path.iterdir()} == {b"content"}


def test_a_reader_outlives_the_writer(rgw_bucket, passed):
    """What the kernel has open is the file, to the last of those who have it open."""
    m = passed()
    with open(m.path / "file", "wb", buffering=0) as writer:
        writer.write(b"first")
        reader = open(m.path / "file", "rb", buffering=0)
    flush(m)
    assert body(rgw_bucket, "file") == b"first"
    os.chmod(m.path / "file", 0o600)
    with open(m.path / "file", "wb", buffering=0) as writer:
        assert os.pread(reader.fileno(), 10, 0) == b""
        writer.write(b"the second")
        assert os.pread(reader.fileno(), 20, 0) == b"the second"
    flush(m)
    assert body(rgw_bucket, "file") == b"the second" and (m.path / "file").read_bytes() == b"the second"
    reader.close()
    all_closed(m)
    with open(m.path / "file", "ab") as writer:
        writer.write(b" and more")
    flush(m)
    assert body(rgw_bucket, "file") == b"the second and more"
    assert os.stat(m.path / "file").st_mode & 0o777 == 0o600


def test_attributes_while_it_is_written(rgw_bucket, passed):
    m = passed()
    path = m.path / "file"
    with open(path, "wb", buffering=0) as writer:
        writer.write(b"x" * 5000)
        before = os.stat(path)
        assert abs(before.st_mtime - time.time()) < 5 and before.st_size == 5000
        time.sleep(0.02)
        writer.write(b"y")
        assert os.stat(path).st_mtime_ns > before.st_mtime_ns
        os.utime(path, ns=(10**18, 10**18))
        os.chmod(path, 0o640)
        os.setxattr(path, "user.epoch", b"7")
        assert os.stat(path).st_mtime_ns == 10**18
        os.fsync(writer.fileno())
        os.setxattr(path, "user.epoch", b"8")
        assert os.stat(path).st_mtime_ns == 10**18
    now = os.stat(path)
    assert (now.st_mtime_ns, now.st_mode & 0o777, now.st_size) == (10**18, 0o640, 5001)
    flush(m)
    m.umount()
    m = passed()
    path = m.path / "file"
    now = os.stat(path)
    assert (now.st_mtime_ns, now.st_mode & 0o777, now.st_size) == (10**18, 0o640, 5001)
    assert os.getxattr(path, "user.epoch") == b"8"


def test_renamed_and_removed_while_it_is_written(rgw_bucket, passed):
    m = passed()
    one, other = os.open(m.path / "one.tmp", WRITE), os.open(m.path / "other", WRITE)
    os.write(one, b"one")
    os.rename(m.path / "one.tmp", m.path / "one")
    os.write(one, b" and more")
    os.write(other, b"other")
    os.fsync(other)
    os.unlink(m.path / "other")
    os.write(other, b"more")
    assert os.fstat(other).st_size == 9
    os.fsync(other)
    os.close(one)
    os.close(other)
    flush(m)
    assert keys(rgw_bucket) == ["one"] and body(rgw_bucket, "one") == b"one and more"
    # With an object of its own.
    one = os.open(m.path / "one", os.O_WRONLY | os.O_TRUNC)
    os.write(one, b"new")
    os.rename(m.path / "one", m.path / "two")
    os.write(one, b"er")
    os.close(one)
    flush(m)
    assert keys(rgw_bucket) == ["two"] and body(rgw_bucket, "two") == b"newer"


def test_child_that_writes_what_it_inherited(rgw_bucket, passed):
    """Its close puts it into the journal when nobody else has the file open for writing; else that is theirs to do."""
    m = passed()
    write = [sys.executable, "-c", "import os,time; time.sleep(0.5); os.write(1, b'by the child'); os.close(1)"]
    with open(m.path / "file", "wb") as file, open(m.path / "other", "wb", buffering=0) as other:
        child = subprocess.Popen(write, stdout=file)
        other.write(b"by the pa")
        subprocess.run([sys.executable, "-c", "pass"], stdout=other, check=True)
        assert queue(m)["entries"] == 0, "half of it is acknowledged"
        other.write(b"rent")
    assert child.wait() == 0
    flush(m)
    assert body(rgw_bucket, "file") == b"by the child" and body(rgw_bucket, "other") == b"by the parent"


def test_another_host_wins(rgw_bucket, passed):
    m = passed()
    rgw_bucket.put("file", b"old")
    with open(m.path / "file", "wb", buffering=0) as file:
        file.write(b"ours")
        rgw_bucket.put("file", b"theirs")
    flush(m)
    assert body(rgw_bucket, "file") == b"theirs" and queue(m)["conflicts"] == 1
    kept = next(key for key in keys(rgw_bucket) if key.startswith("file.conflict-"))
    assert body(rgw_bucket, kept) == b"ours"


def test_a_full_device_is_told_and_loses_nothing(rgw_bucket, folder, back, refusing):  # noqa: F811
    with disks.Xfs(folder / "small") as small:
        m = back(**{"journal.path": str(small.path / "journal")})
        refusing()
        handle = os.open(m.path / "file", WRITE)
        os.write(handle, b"k" * MIB)
        os.fsync(handle)
        with pytest.raises(OSError) as error:
            while True:
                os.write(handle, b"l" * 4 * MIB)
        assert error.value.errno == errno.ENOSPC
        rgw_bucket.server.calm()
        os.ftruncate(handle, 2 * MIB)
        os.close(handle)
        all_closed(m)
        flush(m, timeout=120)
        assert body(rgw_bucket, "file") == b"k" * MIB + b"l" * MIB
        m.umount()


@pytest.mark.test_points
@pytest.mark.parametrize("rule", ["clone:2+", "stat:40+"])  # more than the mount tries
def test_a_local_copy_that_fails(rgw_bucket, disk, mount, rule):  # pylint: disable=redefined-outer-name
    options = rgw_bucket.options({"rw": None, "writes": "back", "journal.path": str(disk.path / "journal")})
    m = mount(rgw_bucket.source(), options, env={**rgw_bucket.env, "TIERFS_TEST_FAULTS": f"s3.copy.{rule}:error=EIO"})
    handle = os.open(m.path / "file", WRITE)
    assert opens(m) == 1
    os.write(handle, b"content")
    assert error_of(os.fsync, handle) == errno.EIO
    assert error_of(os.close, handle) == errno.EIO
    all_closed(m)
    assert not (m.path / "file").exists() and queue(m)["entries"] == 0


@pytest.mark.test_points
@pytest.mark.parametrize("code", ["EIO", "ENOSPC"])
def test_what_was_not_written_back_stays_an_error(rgw_bucket, disk, mount, code):  # pylint: disable=redefined-outer-name
    """The kernel tells of it once, and a second fsync must not put holes in the place of a good file."""
    rgw_bucket.put("file", b"good")
    options = rgw_bucket.options({"rw": None, "writes": "back", "journal.path": str(disk.path / "journal")})
    m = mount(rgw_bucket.source(), options, env={**rgw_bucket.env, "TIERFS_TEST_FAULTS": f"s3.copy.written:1:error={code}"})
    handle = os.open(m.path / "file", WRITE)
    os.write(handle, b"content")
    assert error_of(os.fsync, handle) == error_of(os.fsync, handle) == error_of(os.close, handle) == getattr(errno, code)
    all_closed(m)
    flush(m)
    assert body(rgw_bucket, "file") == b"good"


@pytest.mark.parametrize("options, reason", [({"writes.passthrough": "false"}, "writes.passthrough=false"), ({}, "journal.path is on a file system")])
def test_where_it_cannot_be_had(rgw_bucket, folder, back, options, reason):  # noqa: F811
    with disks.Tmpfs(folder / "memory", size="200M") as memory:
        m = back(**{"journal.path": str(memory.path / "journal"), **options})
        synced(m.path / "file", b"content")
        assert opens(m) == 0 and m.status()["passthrough"]["reason"].startswith(reason)
        flush(m)
        assert body(rgw_bucket, "file") == b"content"
        m.umount()


class Model:
    """Files by name, and handles: [handle, name of the file that it has, flags]; a file is a bytearray that handles share."""

    def __init__(self, path, chance):
        self.path, self.chance, self.files, self.handles = path, chance, {}, []

    def open(self):
        name, flags = f"file{self.chance.randrange(4)}", self.chance.choice((os.O_WRONLY, os.O_WRONLY, os.O_RDONLY, os.O_RDWR))
        if self.chance.random() < 0.3 or name not in self.files:
            flags = (flags if flags & os.O_ACCMODE else os.O_WRONLY) | os.O_TRUNC
        content = self.files.setdefault(name, bytearray())
        self.handles.append([os.open(self.path / name, flags | os.O_CREAT, 0o644), content, flags])
        if flags & os.O_TRUNC:
            del content[:]

    def write(self, handle, content, flags):
        if flags & os.O_ACCMODE == os.O_RDONLY:
            return
        at, size = self.chance.randrange(0, 300_000), self.chance.choice((1, 4096, 70_000))
        at = min(at, len(content) + 5000)
        bytes_ = self.chance.randbytes(size)
        os.pwrite(handle, bytes_, at)
        content.extend(bytes(max(0, at + size - len(content))))
        content[at:at + size] = bytes_

    def read(self, handle, content, flags):
        if flags & os.O_ACCMODE != os.O_WRONLY:
            assert os.pread(handle, 400_000, 0) == content
        assert os.fstat(handle).st_size == len(content)

    def cut(self, handle, content, flags):
        if flags & os.O_ACCMODE == os.O_RDONLY:
            return
        size = self.chance.randrange(0, 200_000)
        os.ftruncate(handle, size)
        content.extend(bytes(max(0, size - len(content))))
        del content[size:]

    def sync(self, handle, content, _):
        try:
            os.fsync(handle)
        except OSError as error:
            assert error.errno == errno.ESTALE and not any(content is one for one in self.files.values())

    def close(self, handle, *_):
        os.close(handle)
        self.handles = [one for one in self.handles if one[0] != handle]

    def rename(self):
        name, other = f"file{self.chance.randrange(4)}", f"file{self.chance.randrange(4)}"
        if name in self.files and name != other:
            os.rename(self.path / name, self.path / other)
            self.files[other] = self.files.pop(name)

    def unlink(self):
        name = f"file{self.chance.randrange(4)}"
        if name in self.files:
            os.unlink(self.path / name)
            del self.files[name]

    def step(self):
        chance = self.chance.random()
        if chance < 0.15 or not self.handles:
            return self.open() if len(self.handles) < 8 else None
        if chance < 0.2:
            return self.chance.choice((self.rename, self.unlink))()
        work = self.chance.choice((self.write,) * 5 + (self.read,) * 3 + (self.cut, self.sync, self.close, self.close))
        return work(*self.chance.choice(self.handles))

    def look(self):
        assert sorted(os.listdir(self.path)) == sorted(self.files)
        for name, content in self.files.items():
            assert os.stat(self.path / name).st_size == len(content), name
            assert (self.path / name).read_bytes() == content, name


@pytest.mark.release
def test_random_writers(rgw_bucket, passed):
    seed = int(os.environ.get("TIERFS_TEST_SEED", random.randrange(2**32)))
    steps = int(os.environ.get("TIERFS_TEST_OPERATIONS", 600))
    print(f"TIERFS_TEST_SEED={seed}")
    m = passed()
    model = Model(m.path, random.Random(seed))
    for step in range(steps):
        model.step()
        if step % 40 == 39:
            model.look()
        if step % 200 == 199:
            flush(m)
    for handle, *_ in list(model.handles):
        model.close(handle)
    model.look()
    all_closed(m)
    model.look()
    flush(m)
    assert keys(rgw_bucket) == sorted(model.files)
    for name, content in model.files.items():
        data.expect_same(body(rgw_bucket, name), bytes(content), name)
    assert queue(m)["conflicts"] == 0
    m.kill_hard()
    m = passed()
    Model.look(type("Again", (), {"path": m.path, "files": model.files}))

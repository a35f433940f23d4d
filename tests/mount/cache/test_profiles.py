"""How many messages an open costs: the profiles small, large and auto, counted by the daemon."""

import collections
import errno
import os
import time

import pytest

from harness import data, processes

pytestmark = pytest.mark.release


RECLAIMED = {"READ", "LOOKUP", "FORGET", "BATCH_FORGET"}  # what the kernel's reclaim leads to


class Messages:
    """What the kernel sent to the daemon in the body of a with statement: .counts, by kind."""

    def __init__(self, mount):
        self.mount = mount
        self.counts = None

    def now(self):
        return collections.Counter(self.mount.status()["requests"]["messages"])

    def __enter__(self):
        self.before = self.now()
        return self

    def __exit__(self, kind, error, trace):
        self.counts = self.now() - self.before


def read_all(mount, files):
    """open, read to the end, close, as C programs do it."""
    for name, expected in files.items():
        handle = os.open(mount.path / name, os.O_RDONLY)
        try:
            found = os.read(handle, len(expected) + 1)
            assert os.read(handle, 1) == b""
        finally:
            os.close(handle)
        data.expect_same(found, expected, name)


def expect_silence(mount, action):
    """The action costs no message. The kernel may reclaim pages, names and inodes at any time (DAMON does so without
    need): what follows from that tells nothing unless it comes every time."""
    for _ in range(10):
        with Messages(mount) as heard:
            action()
        assert set(heard.counts) <= RECLAIMED
        if not heard.counts:
            return
    raise AssertionError(f"never without messages: {heard.counts}")


def test_small_warm_files_cost_no_message(origin, mount):
    files = data.make_files(origin, 100, 5000)
    m = mount(origin, {"profile": "small", "metadata.ttl": "1h"})
    read_all(m, files)

    def read_and_stat():
        read_all(m, files)
        for name in files:
            assert os.stat(m.path / name).st_size == len(files[name])

    expect_silence(m, read_and_stat)
    # Python asks whether it is a terminal, which nothing but the daemon can answer.
    with Messages(m) as python:
        data.expect_files(m.path, files, cold=False)
    assert python.counts["IOCTL"] == len(files)
    assert set(python.counts) - RECLAIMED == {"IOCTL"}
    assert m.status()["profile"] == {"kind": "small", "reason": "asked for with profile=small"}


def test_small_reads_again_what_was_dropped(origin, mount):
    files = data.make_files(origin, 20, 5000)
    m = mount(origin, {"profile": "small", "metadata.ttl": "1h"})
    read_all(m, files)
    with Messages(m) as cold:
        data.expect_files(m.path, files)  # drops each one's pages
    assert set(cold.counts) == {"READ"}


def test_small_immutable_directories_cost_no_message(origin, mount):
    data.make_files(origin, 60, 10, fan=3)
    m = mount(origin, {"profile": "small", "metadata.ttl": "forever"})
    found = data.names(m.path)
    assert found == data.names(origin)
    expect_silence(m, lambda: data.names(m.path))
    assert data.names(m.path) == found


def test_large_asks_for_each_open(origin, mount):
    files = data.make_files(origin, 30, 5000)
    m = mount(origin, {"profile": "large", "metadata.ttl": "1h"})
    read_all(m, files)
    rounds = []
    for _ in range(10):
        with Messages(m) as warm:
            read_all(m, files)
        assert warm.counts["OPEN"] == len(files)
        rounds.append(set(warm.counts))
        if rounds[-1] <= {"OPEN", "RELEASE"}:
            break
    assert rounds[-1] <= {"OPEN", "RELEASE"}, f"the page cache is not kept: {rounds}"
    assert m.status()["profile"] == {"kind": "large", "reason": "asked for with profile=large"}


def test_auto_begins_as_large(origin, mount):
    files = data.make_files(origin, 50, 1000)
    m = mount(origin, {"metadata.ttl": "1h"})
    read_all(m, files)
    profile = m.status()["profile"]
    assert profile["kind"] == "large" and "50 of 50" in profile["reason"]


@pytest.mark.tsan
def test_auto_becomes_small(origin, mount):
    files = data.make_files(origin, 1050, 100)
    first = next(iter(files))
    m = mount(origin, {"metadata.ttl": "1h"})
    handle = os.open(m.path / first, os.O_RDONLY)
    assert m.status()["profile"]["kind"] == "large"
    data.names(m.path)
    read_all(m, files)
    profile = m.status()["profile"]
    assert profile["kind"] == "small" and "auto" in profile["reason"] and "smaller than 1 MiB" in profile["reason"]
    expect_silence(m, lambda: read_all(m, files))
    # What was opened before goes on; the kernel does not tell of its end either.
    with Messages(m) as end:
        assert os.pread(handle, 1000, 0) == files[first]
        os.close(handle)
    assert set(end.counts) <= RECLAIMED


def test_auto_stays_large_where_files_are_large(origin, mount):
    for number in range(1020):
        with open(origin / f"shard{number}", "wb") as handle:
            handle.truncate(2 << 20)
    m = mount(origin, {"metadata.ttl": "1h"})
    assert len(os.listdir(m.path)) == 1020
    for _ in range(3):
        os.close(os.open(m.path / "shard7", os.O_RDONLY))
    profile = m.status()["profile"]
    assert profile["kind"] == "large" and "0 of 1020" in profile["reason"]


@pytest.mark.parametrize("profile", ["small", "large"])
def test_changed_object_gets_a_new_node(origin, mount, profile):
    old, new = data.content("old", 50_000), data.content("new", 60_000)
    data.write(origin / "file", old)
    m = mount(origin, {"profile": profile, "metadata.ttl": "1s"})
    data.write(origin / "other", b"x")
    assert (m.path / "file").read_bytes() == old
    number = os.stat(m.path / "file").st_ino
    handle = os.open(m.path / "file", os.O_RDONLY)
    data.write(origin / "part", new)
    os.rename(origin / "part", origin / "file")
    processes.wait_until(lambda: (m.path / "file").read_bytes() == new, timeout=15, what="the new version")
    assert os.stat(m.path / "file").st_ino == number
    # Who had it open goes on with the version it opened, or is told that it is gone.
    try:
        data.expect_same(os.pread(handle, 100_000, 0), old, "the version that was opened")
    except OSError as error:
        assert error.errno == errno.ESTALE
    finally:
        os.close(handle)


@pytest.mark.parametrize("profile", ["small", "large"])
def test_operations_on_an_open_file(origin, mount, profile):
    body = data.write(origin / "file", data.content("file", 10_000))
    m = mount(origin, {"profile": profile, "metadata.ttl": "1s"})
    with open(m.path / "file", "rb", buffering=0) as handle:
        assert not handle.isatty()
        assert os.fstat(handle.fileno()).st_size == len(body)
        time.sleep(1.1)  # the attributes have to be asked again, by the node
        assert os.fstat(handle.fileno()).st_size == len(body)
        assert os.getxattr(handle.fileno(), "user.tierfs.version")
        os.fsync(handle.fileno())
        copy = os.dup(handle.fileno())
        os.close(copy)
        handle.seek(-4, os.SEEK_END)
        assert handle.read() == body[-4:]
    with pytest.raises(OSError) as caught:
        os.open(m.path / "file", os.O_WRONLY)
    assert caught.value.errno == errno.EROFS

"""A writable mount of a directory outlives its daemon: who writes notices nothing but a pause, and each change is made once."""

import contextlib
import fcntl
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from harness import data, processes

FULL = os.environ.get("TIERFS_TEST_FULL", "") == "1"
OFTEN = {"restart.limit": "1000"}
SWITCHED_ON = {"TIERFS_TEST_TAKEOVER": "1"}  # for tests alone as yet
pytestmark = pytest.mark.skipif(not FULL, reason="writable mounts are not taken over yet: with TIERFS_TEST_FULL=1 only")

# Makes, writes, reads, renames, links and removes in a directory of its own, compares all of it with what it knows, and ends when
# its standard input does. Any error ends it.
WORKER = r"""
import os, random, select, sys
os.chdir(sys.argv[1])
chance = random.Random(int(sys.argv[2]))
os.mkdir(sys.argv[2]); os.chdir(sys.argv[2])
known, kept, rounds = {}, [], 0
def piece():
    return bytes([chance.randrange(256)]) * chance.choice((1, 5000, 200_000))
def make(name):
    handle = os.open(name, os.O_CREAT | os.O_EXCL | chance.choice((os.O_RDWR, os.O_WRONLY)), 0o640)
    content = b""
    for _ in range(chance.randrange(1, 4)):
        more = piece()
        assert os.write(handle, more) == len(more)
        content += more
    if chance.random() < 0.3:
        os.fsync(handle)
    if chance.random() < 0.3:
        kept.append((handle, content))
    else:
        os.close(handle)
    known[name] = content
def check(name):
    with open(name, "rb") as file:
        assert file.read() == known[name], name
def grow(name):
    more = piece()
    with open(name, "ab", buffering=0) as file:
        assert file.write(more) == len(more)
    known[name] += more
def remove(name):
    os.unlink(name)
    del known[name]
def rename(name):
    new = f"r{rounds}" if chance.random() < 0.5 or len(known) < 2 else chance.choice(sorted(known))
    if new == name:
        return
    os.rename(name, new)
    known[new] = known.pop(name)
def link(name):
    os.link(name, f"l{rounds}")
    os.unlink(name)
    known[f"l{rounds}"] = known.pop(name)
def folder(name):
    os.mkdir(f"d{rounds}"); os.rename(f"d{rounds}", f"e{rounds}")
    os.symlink("x", f"e{rounds}/s")
    assert os.readlink(f"e{rounds}/s") == "x" and os.listdir(f"e{rounds}") == ["s"]
    os.unlink(f"e{rounds}/s"); os.rmdir(f"e{rounds}")
def attributes(name):
    os.chmod(name, 0o600); os.utime(name, (1, 2))
    os.setxattr(name, "user.a", b"1", os.XATTR_CREATE); os.removexattr(name, "user.a")
    at = os.stat(name)
    assert at.st_mode & 0o777 == 0o600 and at.st_mtime == 2 and at.st_size == len(known[name])
def old_handle(name):
    if not kept:
        return
    handle, content = kept.pop(chance.randrange(len(kept)))
    assert os.fstat(handle).st_size >= len(content) and os.fstat(handle).st_nlink <= 1
    os.close(handle)
print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    rounds += 1
    if len(known) < 10:
        make(f"f{rounds}")
    else:
        chance.choice((check, check, grow, remove, rename, link, folder, attributes, old_handle))(
            chance.choice(sorted(known))) if chance.random() < 0.8 else make(f"f{rounds}")
    if len(known) > 40:
        remove(sorted(known)[0])
assert sorted(os.listdir(".")) == sorted(known), (sorted(os.listdir(".")), sorted(known))
for name in known:
    check(name)
print(rounds, flush=True)
"""


class Workers:
    def __init__(self, place, count, first=0):
        self.started = [subprocess.Popen([sys.executable, "-c", WORKER, str(place), str(first + number)], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for number in range(count)]

    def __enter__(self):
        for one in self.started:
            assert one.stdout.readline() == "ready\n", one.stderr.read()
        return self

    def __exit__(self, kind, error, trace):
        problems, self.rounds = [], 0
        for one in self.started:
            one.stdin.close()
        for one in self.started:
            try:
                one.wait(60 * processes.SLOWNESS)
            except subprocess.TimeoutExpired:
                one.kill()
                problems.append("a worker hangs")
            said = one.stdout.read()
            if one.returncode == 0:
                self.rounds += int(said)
            else:
                problems.append(one.stderr.read())
            one.stdout.close()
            one.stderr.close()
        if kind is None:
            assert not problems, "\n".join(problems)
            assert self.rounds


def kill(m, status):
    os.kill(status["pid"], signal.SIGKILL)
    return m.wait_for_daemon(other_than=status["pid"])


@pytest.mark.parametrize("passthrough", ["false", "auto"])
def test_writers_notice_nothing(origin, mount, passthrough):
    m = mount(origin, {"rw": None, "writes.passthrough": passthrough, **OFTEN}, env=SWITCHED_ON)
    status = m.status()
    chance = random.Random(1)
    with Workers(m.path, 3):
        for _ in range(60 if FULL else 8):
            time.sleep(chance.random() * (4 if FULL else 0.6))
            status = kill(m, status)
    assert status["supervisor"]["restarts"] == (60 if FULL else 8)
    assert "taking an open file over" not in m.log.read_text()
    m.umount()


@pytest.mark.parametrize("passthrough", ["false", "auto"])
def test_what_is_open_stays_open(origin, mount, passthrough):
    m = mount(origin, {"rw": None, "writes.passthrough": passthrough, **OFTEN}, env=SWITCHED_ON)
    status = m.status()
    (m.path / "dir").mkdir()
    (m.path / "dir/inner").write_bytes(b"inner")
    with open(m.path / "gone", "w+b", buffering=0) as gone, open(m.path / "log", "ab", buffering=0) as log, \
            os.scandir(m.path / "dir") as listing:
        place = os.open(m.path / "dir", os.O_RDONLY | os.O_DIRECTORY)
        gone.write(b"one")
        log.write(b"1")
        os.unlink(m.path / "gone")
        os.rename(m.path / "dir", m.path / "moved")
        for number in range(2, 5):
            status = kill(m, status)
            log.write(b"%d" % number)
            gone.write(b"more")
            assert os.pread(gone.fileno(), 3, 0) == b"one" and os.fstat(gone.fileno()).st_nlink == 0
            assert os.listdir(place) == ["inner"]
            handle = os.open("inner", os.O_RDONLY, dir_fd=place)
            assert os.read(handle, 10) == b"inner"
            os.close(handle)
        assert [entry.name for entry in listing] == ["inner"]
        os.close(place)
        assert os.pread(gone.fileno(), 100, 0) == b"one" + 3 * b"more"
    assert (origin / "log").read_bytes() == b"1234"
    assert sorted(os.listdir(origin)) == ["log", "moved"]
    m.umount()


def test_daemon_with_locks_is_not_replaced(origin, mount):
    """Locks go with the daemon: nobody is to believe that he still has one."""
    m = mount(origin, {"rw": None, **OFTEN}, env=SWITCHED_ON)
    status = m.status()
    with contextlib.suppress(OSError), open(m.path / "file", "wb", buffering=0) as file:  # the last close fails
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(1)  # the answer comes before it is counted
        status = kill(m, status)
        fcntl.lockf(file, fcntl.LOCK_EX)
        os.kill(status["pid"], signal.SIGKILL)
        with pytest.raises(OSError):
            for _ in range(1000):
                os.fsync(file)
                time.sleep(0.01)
    m.expect_gone()
    assert m.mounted()
    m.start()


@pytest.mark.parametrize("point", ["fuse.reply", "fuse.read"])
def test_killed_at_a_point(origin, mount, point):
    """The daemon dies there again and again: before an answer that the kernel waits for, or right before the next request."""
    m = mount(origin, {"rw": None, **OFTEN}, env={**SWITCHED_ON, "TIERFS_TEST_FAULTS": f"{point}:3%7:kill"})
    with Workers(m.path, 2):
        time.sleep(15 if FULL else 4)
    assert m.status()["supervisor"]["restarts"] > 3
    m.umount()

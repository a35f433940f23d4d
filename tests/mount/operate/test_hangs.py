"""Sources that hang: a directory whose server is dead, an S3 that never answers. Whatever is asked ends at its deadline,
a reader can be killed, the mount can be ended, and the log says what the threads wait for."""

import errno
import os
import signal
import subprocess
import threading
import time

import pytest

from harness import data, processes

DEADLINE = 2  # seconds


class DeadDirectory:
    """A directory whose file system stops to answer: a tierfs mount of an S3 that falls silent, and that has much more
    patience than the mount that has it as its source. stall() and answer_again()."""

    def __init__(self, mount, faulty):
        self.faulty = faulty
        faulty.objects = {f"d{n}/f{m}": data.content((n, m), 30_000) for n in range(30) for m in range(2)}
        faulty.objects["known"] = data.content("known", 200_000)
        self.mount = mount("s3://bucket", {**faulty.options, "origin.deadline": "10m", "metadata.ttl": "0s",
                                           "allow_other": None}, env=faulty.env)
        self.path = self.mount.path

    def stall(self):
        self.faulty.fault = lambda method, key, number: "stall"


@pytest.fixture
def dead(mount, faulty):
    return DeadDirectory(mount, faulty)


def show(mount, source, **options):
    return mount(source, {"origin.deadline": f"{DEADLINE}s", "metadata.ttl": "0s", **options})


def outcome(act):
    """(errno or 0, seconds)"""
    begun = time.monotonic()
    try:
        act()
    except OSError as error:
        return error.errno, time.monotonic() - begun
    return 0, time.monotonic() - begun


def done(act):
    """Does what should work; again where a busy machine needed longer than the short deadline."""
    results = []

    def is_answered():
        try:
            results.append(act())
        except TimeoutError:
            return False
        return True

    processes.wait_until(is_answered, timeout=60, what="an answer in time")
    return results[0]


def all_at_once(acts):
    """The outcomes of actions that begin together."""
    results = [None] * len(acts)

    def work(number):
        results[number] = outcome(acts[number])

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60 * processes.SLOWNESS)
    assert None not in results, "some never ended"
    return results


LONGEST = DEADLINE + 4  # a read that fails as readahead is sent once more by the kernel, and fails at once


@pytest.mark.tsan
def test_everything_ends_on_a_dead_directory(mount, dead):
    m = show(mount, dead.path)
    assert done(lambda: (m.path / "known").stat().st_size) == 200_000
    done(lambda: os.listdir(m.path))
    handle = done(lambda: os.open(m.path / "known", os.O_RDONLY))
    dead.stall()
    acts = [lambda n=n: os.stat(m.path / f"d{n}") for n in range(30)]  # more than there are threads of any kind
    acts += [lambda n=n: os.listdir(m.path / f"d{n}") for n in range(4)]
    acts += [lambda n=n: os.pread(handle, 4096, n * 50_000) for n in range(4)]
    for number, seconds in all_at_once(acts):
        assert number == errno.ETIMEDOUT and seconds < LONGEST * processes.SLOWNESS
    # All threads are held: answered all the same.
    for act in acts[:3] + acts[30:32]:
        number, seconds = outcome(act)
        assert number == errno.ETIMEDOUT and seconds < LONGEST * processes.SLOWNESS
    status = m.status()
    assert status["requests"]["under_way"] == 0
    os.close(handle)
    begun = time.monotonic()
    m.umount()
    assert time.monotonic() - begun < 20 * processes.SLOWNESS


def test_everything_ends_on_a_writable_mount_of_a_dead_directory(mount, dead):
    m = show(mount, dead.path, rw=None)
    assert done(lambda: (m.path / "known").stat().st_size) == 200_000
    done(lambda: os.listdir(m.path))
    dead.stall()
    acts = [lambda n=n: os.stat(m.path / f"d{n}") for n in range(30)]  # more than there are threads
    acts += [lambda n=n: os.mkdir(m.path / f"d{n}/new") for n in range(4)]
    for number, seconds in all_at_once(acts):
        assert number == errno.ETIMEDOUT and seconds < 2 * LONGEST * processes.SLOWNESS
    # All threads but one are held: answered all the same, and without a wait.
    for act in acts[:3] + acts[30:32]:
        number, seconds = outcome(act)
        assert number == errno.ETIMEDOUT and seconds < LONGEST * processes.SLOWNESS
    assert m.status()["requests"]["under_way"] == 0
    begun = time.monotonic()
    m.umount()
    assert time.monotonic() - begun < 25 * processes.SLOWNESS


def test_a_writable_mount_of_a_directory_that_comes_back(mount, dead):
    m = show(mount, dead.path, rw=None)
    done(lambda: os.listdir(m.path))
    dead.stall()
    assert all(number == errno.ETIMEDOUT for number, _ in
               all_at_once([lambda n=n: os.stat(m.path / f"d{n}") for n in range(30)]))
    dead.faulty.fault = lambda method, key, number: None
    dead.faulty.release()
    processes.wait_until(lambda: outcome(lambda: os.stat(m.path / "d1"))[0] == 0, timeout=40, what="served again")
    assert done((m.path / "known").read_bytes) == dead.faulty.objects["known"]


def test_a_directory_that_comes_back_is_served_again(mount, dead):
    m = show(mount, dead.path)
    done(lambda: os.listdir(m.path))
    dead.stall()
    assert all(number == errno.ETIMEDOUT for number, _ in
               all_at_once([lambda n=n: os.stat(m.path / f"d{n}") for n in range(30)]))
    dead.faulty.fault = lambda method, key, number: None
    dead.faulty.release()
    processes.wait_until(lambda: outcome(lambda: os.stat(m.path / "d1"))[0] == 0, timeout=40, what="served again")
    assert done((m.path / "known").read_bytes) == dead.faulty.objects["known"]


@pytest.mark.tsan
def test_sigterm_ends_a_mount_whose_source_is_dead(mount, dead):
    m = show(mount, dead.path)
    done(lambda: os.listdir(m.path))
    dead.stall()
    all_at_once([lambda n=n: os.stat(m.path / f"d{n}") for n in range(20)])
    waiting = threading.Thread(target=lambda: outcome(lambda: os.stat(m.path / "d25")), daemon=True)
    waiting.start()
    begun = time.monotonic()
    m.terminate()
    m.expect_gone()
    assert time.monotonic() - begun < 25 * processes.SLOWNESS
    assert not m.mounted()
    waiting.join(20)
    assert not waiting.is_alive()


def killed_while(act, until):
    """A process that runs `act` (Python text with `path`), and is killed once until() holds; must end."""
    child = subprocess.Popen(["/usr/bin/python3", "-c", "import mmap, os\n" + act])
    try:
        processes.wait_until(until, what="the request is under way")
        child.send_signal(signal.SIGKILL)
        return child.wait(15 * processes.SLOWNESS)
    finally:
        if child.poll() is None:
            print(processes.describe([child.pid]))


@pytest.mark.tsan
@pytest.mark.parametrize("act", ["os.stat({path!r} + '/file')", "os.listdir({path!r} + '/d')",
                                 "h = os.open({path!r} + '/known', os.O_RDONLY | os.O_DIRECT)\n"
                                 "os.preadv(h, [mmap.mmap(-1, 65536)], 0)"])
def test_a_reader_that_is_killed_ends(mount, faulty, act):
    faulty.objects = {"file": b"x", "d/f": b"y", "known": data.content("known", 200_000)}
    m = mount("s3://bucket", {**faulty.options, "origin.deadline": "10m", "metadata.ttl": "1h"}, env=faulty.env)
    (m.path / "known").stat()
    faulty.fault = lambda method, key, number: "stall"
    status = killed_while(act.format(path=str(m.path)), lambda: m.status()["requests"]["under_way"] > 0)
    assert status == -signal.SIGKILL
    processes.wait_until(lambda: m.status()["requests"]["under_way"] == 0, what="nothing under way")
    assert m.status()["requests"]["interrupted"] == 1


def test_the_log_tells_what_is_late_and_why(mount, dead):
    m = show(mount, dead.path)
    handle = done(lambda: os.open(m.path / "known", os.O_RDONLY))
    dead.stall()  # a read that a thread has begun is not answered by the floors below
    number, _ = outcome(lambda: os.pread(handle, 4096, 0))
    os.close(handle)
    assert number == errno.ETIMEDOUT
    processes.wait_until(lambda: "stack of " in m.log.read_text(), what="a stack in the log")
    text = m.log.read_text()
    assert "over the deadline after" in text
    stacks = [line for line in text.splitlines() if "stack of" in line]
    assert any(" < " in line and "waits in" in line for line in stacks), "\n".join(stacks)
    requests = m.status()["requests"]
    assert requests["over_deadline"] >= 1 and requests["timed_out"] >= 1

"""Locks on a directory that is mounted writable are the directory's: who works there, who uses the mount and who uses another
mount of it exclude each other."""

import errno
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from harness import data, processes
from harness.locker import Locker

SH, EX, UN, NB = fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN, fcntl.LOCK_NB
RW, RO = os.O_RDWR, os.O_RDONLY
SOON = 10  # seconds in which a lock that is free is had, also when nobody tells that it is


def begin_to_wait(mount, one, *words):
    """The daemon has the request, too, and has had a moment to put it where it belongs."""
    def heard():
        return mount.status()["requests"]["messages"].get("SETLKW", 0)
    before = heard()
    one.begin(*words)
    processes.wait_until(lambda: heard() > before)
    assert one.is_waiting(0.1 * processes.SLOWNESS)


@pytest.fixture
def locker(watchdog):
    """locker(path, flags): a process that has opened a file; its first descriptor is `handle`."""
    made = []

    def start(path=None, flags=RW):
        one = Locker()
        made.append(one)
        if path is not None:
            one.handle = one.ask("open", path, flags)
        return one

    yield start
    for one in made:
        one.close()


@pytest.fixture
def show(origin, mount):
    def start(env=None, **options):
        data.write(origin / "file", b"0" * 1000)
        return mount(origin, {"rw": None, "metadata.ttl": "1h", **options}, env=env)
    return start


@pytest.fixture(params=["on the mount", "at the origin", "from the origin", "on two mounts"])
def places(request, origin, show, mount):
    """Two paths of one file: whoever locks one excludes whoever locks the other."""
    ours = show().path / "file"
    if request.param == "on two mounts":
        return ours, mount(origin, {"rw": None, "metadata.ttl": "1h"}).path / "file"
    if request.param == "on the mount":
        return ours, ours
    return (ours, origin / "file") if request.param == "at the origin" else (origin / "file", ours)


@pytest.mark.release
def test_ranges(places, locker):
    one, two = locker(places[0]), locker(places[1])
    one.ask("set", one.handle, "read", 0, 100)
    two.ask("set", two.handle, "read", 50, 100)
    assert two.tries("set", two.handle, "write", 99, 1) == errno.EAGAIN
    two.ask("set", two.handle, "write", 100, 50)
    assert one.tries("set", one.handle, "read", 0, 0) == errno.EAGAIN, "up to the end, wherever that is"
    two.ask("set", two.handle, "none", 50, 50)
    one.ask("set", one.handle, "write", 0, 100)  # more than it had
    assert two.tries("set", two.handle, "read", 0, 1) == errno.EAGAIN
    one.ask("set", one.handle, "none", 40, 20)  # out of the middle
    two.ask("set", two.handle, "write", 40, 20)
    assert two.tries("set", two.handle, "read", 39, 1) == two.tries("set", two.handle, "read", 60, 1) == errno.EAGAIN
    one.ask("set", one.handle, "read", 0, 40)  # less than it had
    two.ask("set", two.handle, "read", 0, 40)
    one.ask("set", one.handle, "none")
    two.ask("set", two.handle, "write")
    assert one.tries("set", one.handle, "read", 1 << 40, 1) == errno.EAGAIN


@pytest.mark.quick
@pytest.mark.release
def test_whole_files(places, locker):
    one, two = locker(places[0], RO), locker(places[1], RO)
    one.ask("flock", one.handle, SH)
    two.ask("flock", two.handle, SH | NB)
    assert two.tries("flock", two.handle, EX | NB) == errno.EAGAIN
    two.ask("flock", two.handle, UN)
    one.ask("flock", one.handle, EX | NB)
    assert two.tries("flock", two.handle, SH | NB) == errno.EAGAIN
    one.ask("flock", one.handle, SH)
    two.ask("flock", two.handle, SH | NB)
    one.ask("flock", one.handle, UN)
    two.ask("flock", two.handle, EX | NB)
    another = locker(places[0])
    another.ask("set", another.handle, "write")  # of another kind, they do not meet


@pytest.mark.release
@pytest.mark.tsan
@pytest.mark.parametrize("way", ["fcntl", "flock"])
def test_waiting(places, locker, way):
    one, two = locker(places[0]), locker(places[1])
    take = {"fcntl": ("wait", "write"), "flock": ("flock", EX)}[way]
    leave = {"fcntl": ("set", "none"), "flock": ("flock", UN)}[way]
    one.ask(take[0], one.handle, take[1])
    two.begin(take[0], two.handle, take[1])
    assert two.is_waiting()
    one.ask(leave[0], one.handle, leave[1])
    two.answer(SOON)
    one.begin(take[0], one.handle, take[1])
    assert one.is_waiting()
    two.ask("close", two.handle)
    one.answer(SOON)


@pytest.mark.release
@pytest.mark.tsan
@pytest.mark.parametrize("holder", ["at the mount", "at the origin"])
def test_a_signal_ends_waiting(origin, show, locker, holder):
    m = show()
    one = locker(m.path / "file" if holder == "at the mount" else origin / "file")
    two = locker(m.path / "file")
    for take, leave in ((("wait", "write"), ("set", "none")), (("flock", EX), ("flock", UN))):
        one.ask(take[0], one.handle, take[1])
        begin_to_wait(m, two, take[0], two.handle, take[1])
        os.kill(two.pid, signal.SIGUSR1)
        with pytest.raises(OSError) as caught:
            two.answer()
        assert caught.value.errno == errno.EINTR
        # It does not get it later, either.
        one.ask(leave[0], one.handle, leave[1])
        time.sleep(0.1)
        one.ask(take[0], one.handle, take[1])
        one.ask(leave[0], one.handle, leave[1])
    assert m.status()["requests"]["under_way"] == 0


@pytest.fixture
def forgetting(show):
    """forgetting(action): a mount for which the kernel is told what to forget with that fault."""
    return lambda action: show(env={"TIERFS_TEST_FAULTS": f"live.forget:{action}"})


@pytest.mark.test_points
@pytest.mark.tsan
@pytest.mark.parametrize("way", ["fcntl", "flock"])
def test_a_signal_takes_nothing_that_was_given(origin, forgetting, locker, way):
    """It comes when somebody has the lock, and does not know yet."""
    m = forgetting(f"1+:delay={int(1000 * processes.SLOWNESS)}")
    native, one = locker(origin / "file"), locker(m.path / "file")
    take = {"fcntl": ("wait", "write"), "flock": ("flock", EX)}[way]
    leave = {"fcntl": ("set", "none"), "flock": ("flock", UN)}[way]
    attempt = {"fcntl": ("set", native.handle, "read"), "flock": ("flock", native.handle, SH | NB)}[way]
    native.ask(take[0], native.handle, take[1])
    begin_to_wait(m, one, take[0], one.handle, take[1])
    native.ask("write", native.handle, "changed", 0)
    native.ask(leave[0], native.handle, leave[1])
    while native.tries(*attempt) == 0:
        native.ask(leave[0], native.handle, leave[1])
        assert one.is_waiting(0.01), "it must take its time for this"
    os.kill(one.pid, signal.SIGUSR2)
    one.answer()
    end = time.monotonic() + 1.5 * processes.SLOWNESS
    while time.monotonic() < end:
        assert native.tries(*attempt) == errno.EAGAIN
        time.sleep(0.1)
    one.ask(leave[0], one.handle, leave[1])
    assert native.tries(*attempt) == 0


@pytest.mark.release
def test_who_does_not_wait_hears_of_no_signal(show, locker):
    """Not in the moment, either, in which a lock may yet go with the open file that was closed."""
    m = show()
    one, two = locker(m.path / "file"), locker(m.path / "file")
    one.ask("flock", one.handle, EX)
    child = one.ask("fork")  # has the open file
    before = m.status()["requests"]["messages"].get("SETLK", 0)
    one.ask("close", one.handle)
    two.begin("flock", two.handle, EX | NB)
    if two.is_waiting(0.02):
        os.kill(two.pid, signal.SIGUSR2)
    with pytest.raises(OSError) as caught:
        two.answer()
    assert caught.value.errno == errno.EAGAIN
    assert m.status()["requests"]["messages"].get("SETLK", 0) == before + 1, "it was asked again"
    one.ask("end", child)


@pytest.mark.release
def test_who_waits_can_be_killed(show, locker):
    m = show()
    one, two, three = (locker(m.path / "file") for _ in range(3))
    one.ask("set", one.handle, "write")
    two.begin("wait", two.handle, "write")
    assert two.is_waiting()
    two.process.kill()
    two.process.wait(20 * processes.SLOWNESS)
    three.begin("wait", three.handle, "write")
    assert three.is_waiting()
    one.ask("set", one.handle, "none")
    three.answer(SOON)


@pytest.mark.tsan
def test_first_come_first_served(show, locker):
    m = show()
    holder = locker(m.path / "file")
    holder.ask("set", holder.handle, "write")
    row = [locker(m.path / "file") for _ in range(5)]
    for one in row:
        begin_to_wait(m, one, "wait", one.handle, "write", 0, 10)
    holder.ask("set", holder.handle, "none")
    for place, one in enumerate(row):
        one.answer(SOON)
        assert all(other.is_waiting(0.05) for other in row[place + 1:])
        one.ask("set", one.handle, "none")


@pytest.mark.release
def test_those_who_can_share_pass_those_who_cannot(show, locker):
    """As natively; else owners could come to wait for each other."""
    m = show()
    one, two, three = (locker(m.path / "file") for _ in range(3))
    one.ask("set", one.handle, "read")
    two.begin("wait", two.handle, "write")
    assert two.is_waiting()
    three.ask("wait", three.handle, "read")
    one.ask("set", one.handle, "none")
    assert two.is_waiting()
    three.ask("set", three.handle, "none")
    two.answer(SOON)


@pytest.mark.release
@pytest.mark.tsan
def test_more_wait_than_there_are_threads(origin, show, locker):
    m = show()
    holder = locker(origin / "file")
    holder.ask("set", holder.handle, "write", 0, 1)
    row = [locker(m.path / "file") for _ in range(40)]
    for one in row:
        one.begin("wait", one.handle, "write", 0, 1)
    assert row[-1].is_waiting(1)
    assert all(one.is_waiting(0) for one in row)
    data.write(m.path / "another", b"content")  # everything else is answered
    assert (m.path / "another").read_bytes() == b"content"
    assert (m.path / "file").stat().st_size == 1000
    assert m.status()["requests"]["under_way"] == 0
    holder.ask("close", holder.handle)
    waiting = list(row)
    end = time.monotonic() + 60 * processes.SLOWNESS
    while waiting and time.monotonic() < end:
        ready = [one for one in waiting if not one.is_waiting(0)]
        assert len(ready) <= 1, "two have it"
        for one in ready:
            one.answer()
            one.ask("set", one.handle, "none")
            waiting.remove(one)
    assert not waiting


@pytest.mark.release
@pytest.mark.tsan
@pytest.mark.parametrize("end", ["close", "exit", "kill"])
def test_locks_end_with_their_owner(origin, show, locker, end):
    m = show()
    one = locker(m.path / "file")
    one.ask("set", one.handle, "write", 0, 10)
    one.ask("flock", one.handle, EX)
    other = one.ask("open", m.path / "file", RO)
    one.ask("ofd_set", other, "read", 20, 10)
    native = locker(origin / "file")
    assert native.tries("set", native.handle, "read", 0, 10) == errno.EAGAIN
    assert native.tries("set", native.handle, "write", 20, 10) == errno.EAGAIN
    assert native.tries("flock", native.handle, SH | NB) == errno.EAGAIN
    if end == "close":
        one.ask("close", one.handle)
        one.ask("close", other)
    elif end == "exit":
        one.process.stdin.close()
        assert one.process.wait(20 * processes.SLOWNESS) == 0
    else:
        one.process.kill()
        one.process.wait(20 * processes.SLOWNESS)
    native.ask("set", native.handle, "write", 0, 10)  # those are gone when close returns
    native.begin("wait", native.handle, "write").answer(SOON)
    native.begin("flock", native.handle, EX).answer(SOON)


def test_any_close_ends_locks_of_the_process(origin, show, locker):
    """Surprising, but POSIX."""
    m = show()
    one, native = locker(m.path / "file"), locker(origin / "file")
    one.ask("set", one.handle, "write")
    other = one.ask("open", m.path / "file", RO)
    assert native.tries("set", native.handle, "read") == errno.EAGAIN
    one.ask("close", other)
    native.ask("set", native.handle, "write")


@pytest.mark.release
def test_a_process_is_not_in_its_own_way(origin, show, locker):
    m = show()
    one, native = locker(m.path / "file", RO), locker(origin / "file")
    one.ask("set", one.handle, "read", 0, 100)
    assert one.tries("set", one.handle, "write", 0, 10) == errno.EBADF
    other = one.ask("open", m.path / "file", RW)
    one.ask("set", other, "write", 0, 10)
    assert native.tries("set", native.handle, "read", 0, 10) == errno.EAGAIN
    assert native.tries("set", native.handle, "write", 50, 10) == errno.EAGAIN
    native.ask("set", native.handle, "read", 10, 10)
    assert one.tries("set", other, "write", 0, 100) == errno.EAGAIN
    assert native.tries("set", native.handle, "write", 50, 10) == errno.EAGAIN, "what it had it has still"
    one.ask("set", one.handle, "read", 0, 10)
    native.ask("set", native.handle, "read", 0, 10)


def test_write_only_descriptors(origin, show, locker):
    m = show()
    one, native = locker(m.path / "file", os.O_WRONLY), locker(origin / "file")
    one.ask("set", one.handle, "write", 0, 10)
    assert native.tries("set", native.handle, "read", 0, 10) == errno.EAGAIN
    assert one.tries("set", one.handle, "read", 0, 10) == errno.EBADF


@pytest.mark.release
def test_a_flock_that_was_closed_is_gone_for_the_next(show, locker):
    """Nobody tells in time which close(2) was the last of an open file."""
    m = show()
    one, two = locker(), locker()
    for _ in range(100):
        for process in (one, two):
            handle = process.ask("open", m.path / "file", RO)
            process.ask("flock", handle, EX | NB)
            process.ask("close", handle)


@pytest.mark.release
def test_fork(origin, show, locker):
    m = show()
    one, native = locker(m.path / "file"), locker(origin / "file")
    one.ask("flock", one.handle, EX)
    one.ask("set", one.handle, "write")
    child = one.ask("fork")  # has the open file, and none of the ranges
    one.ask("close", one.handle)
    native.ask("set", native.handle, "write")
    assert native.tries("flock", native.handle, SH | NB) == errno.EAGAIN
    one.ask("end", child)
    native.begin("flock", native.handle, EX).answer(SOON)
    again = one.ask("open", m.path / "file", RW)
    native.ask("set", native.handle, "none")
    one.ask("set", again, "write")
    child = one.ask("fork")
    one.ask("end", child)
    assert native.tries("set", native.handle, "read") == errno.EAGAIN, "a child's end ends none of its parent's"


def test_directories_are_locked_on_the_mount(origin, show, locker):
    """The kernel does not ask."""
    m = show()
    os.mkdir(origin / "folder")
    one, two, native = locker(m.path / "folder", RO), locker(m.path / "folder", RO), locker(origin / "folder", RO)
    one.ask("flock", one.handle, EX)
    assert two.tries("flock", two.handle, SH | NB) == errno.EAGAIN
    native.ask("flock", native.handle, EX | NB)


@pytest.mark.release
def test_locks_of_open_files(origin, show, locker):
    """F_OFD_SETLK: descriptors of one process exclude each other."""
    m = show()
    one, native = locker(m.path / "file"), locker(origin / "file")
    other = one.ask("open", m.path / "file", RW)
    one.ask("ofd_set", one.handle, "write", 0, 10)
    assert one.tries("ofd_set", other, "read", 0, 10) == errno.EAGAIN
    assert one.tries("set", one.handle, "read", 0, 10) == errno.EAGAIN
    assert one.ask("ofd_get", other, "read", 0, 20) == ["write", 0, 10, -1]
    assert native.tries("set", native.handle, "read", 0, 10) == errno.EAGAIN
    copy = one.ask("dup", one.handle)
    one.ask("close", copy)
    assert one.tries("ofd_set", other, "read", 0, 10) == errno.EAGAIN
    one.ask("close", one.handle)
    one.begin("ofd_wait", other, "write", 0, 10).answer(SOON)
    native.begin("ofd_wait", native.handle, "write")
    assert native.is_waiting()
    one.ask("ofd_set", other, "none")
    native.answer(SOON)


@pytest.mark.release
def test_who_has_a_lock(origin, show, locker):
    m = show()
    one, two, native = locker(m.path / "file"), locker(m.path / "file"), locker(origin / "file")
    one.ask("set", one.handle, "write", 10, 20)
    native.ask("set", native.handle, "read", 100, 50)
    assert two.ask("get", two.handle, "read", 0, 50) == ["write", 10, 20, one.pid]
    assert two.ask("get", two.handle, "write", 90, 0) == ["read", 100, 50, native.pid]
    assert two.ask("get", two.handle, "read", 90, 0)[0] == "none"
    assert one.ask("get", one.handle, "write", 0, 50)[0] == "none", "its own"
    assert native.ask("get", native.handle, "write", 0, 50) == ["write", 10, 20, -1]
    native.ask("set", native.handle, "none")
    native.ask("ofd_set", native.handle, "write", 200, 1)
    assert two.ask("get", two.handle, "write", 200, 0) == ["write", 200, 1, 0], "of an open file, which no process is"


@pytest.mark.release
def test_a_file_without_a_name(origin, show, locker):
    m = show()
    one, two, native = locker(m.path / "file"), locker(m.path / "file"), locker(origin / "file")
    os.unlink(m.path / "file")
    one.ask("set", one.handle, "write")
    assert two.tries("set", two.handle, "read") == native.tries("set", native.handle, "read") == errno.EAGAIN
    one.ask("flock", one.handle, EX)
    assert two.tries("flock", two.handle, SH | NB) == native.tries("flock", native.handle, SH | NB) == errno.EAGAIN


@pytest.mark.release
@pytest.mark.tsan
@pytest.mark.parametrize("way", ["fcntl", "flock"])
def test_who_gets_a_lock_sees_what_was_written(origin, show, locker, way):
    """Whatever the kernel and the tiers hold of the file, and however quickly one change follows another."""
    m = show()
    ours, native = locker(m.path / "file"), locker(origin / "file")
    reader = locker(m.path / "file", RO)
    take = {"fcntl": ("wait", "write"), "flock": ("flock", EX)}[way]
    share = {"fcntl": ("wait", "read"), "flock": ("flock", SH)}[way]
    leave = {"fcntl": ("set", "none"), "flock": ("flock", UN)}[way]
    for turn in range(30):
        for process, other in ((native, ours), (ours, native)):
            text = f"{turn:04d}{'native' if process is native else 'mount!'}"
            process.ask(take[0], process.handle, take[1])
            process.ask("write", process.handle, text, 500)
            process.ask("write", process.handle, "end", 1000 + turn)
            process.ask(leave[0], process.handle, leave[1])
            for one in (other, reader):
                one.ask(share[0], one.handle, share[1])
                assert one.ask("read", one.handle, 10, 500) == text
                assert one.ask("size", one.handle) == 1003 + turn
                assert one.ask("read", one.handle, 10, 1000 + turn) == "end"
                one.ask(leave[0], one.handle, leave[1])


@pytest.mark.test_points
@pytest.mark.tsan
@pytest.mark.parametrize("action", ["delay", "error"])
def test_all_who_get_a_lock_see_what_was_written(origin, forgetting, locker, action):
    """Who is second does not come in before the kernel has forgotten for the first one, nor when it has not."""
    m = forgetting(f"1+:delay={int(1000 * processes.SLOWNESS)}" if action == "delay" else f"1:error={errno.EIO}")
    time.sleep(1.5)  # a version that can be told from the next one: the kernel keeps its pages
    native = locker(origin / "file")
    readers = [locker(m.path / "file", RO) for _ in range(3)]
    native.ask("flock", native.handle, EX)
    for one in readers:
        assert one.ask("read", one.handle, 5, 0) == "00000"
        begin_to_wait(m, one, "flock", one.handle, SH)
    native.ask("write", native.handle, "after", 0)
    time.sleep(1.5)
    native.ask("flock", native.handle, UN)
    refused = 0
    for one in reversed(readers):
        try:
            one.answer()
            assert one.ask("read", one.handle, 5, 0) == "after"
        except OSError as error:
            assert error.errno == errno.EIO
            refused += 1
    assert refused == (1 if action == "error" else 0)


@pytest.mark.release
def test_pages_stay_while_nobody_writes(show, locker):
    m = show()
    time.sleep(1.5)  # a version that can be told from the next one
    one = locker(m.path / "file", RO)

    def read_locked():
        one.ask("flock", one.handle, SH)
        one.ask("read", one.handle, 1000, 0)
        one.ask("flock", one.handle, UN)
        return m.status()["requests"]["messages"]["READ"]

    read_locked()
    before = read_locked()
    assert read_locked() == before


COUNT = """
import fcntl, os, random, sys
path, way, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
random.seed(path + sys.argv[4])
handle = os.open(path, os.O_RDWR)
for turn in range(turns):
    if random.random() < 0.2:
        os.close(handle)
        handle = os.open(path, os.O_RDWR)
    (fcntl.flock if way == "flock" else fcntl.lockf)(handle, fcntl.LOCK_EX)
    value = int(os.pread(handle, 10, 500))
    os.pwrite(handle, b"%010d" % (value + 1), 500)
    (fcntl.flock if way == "flock" else fcntl.lockf)(handle, fcntl.LOCK_UN)
"""


@pytest.mark.release
@pytest.mark.tsan
@pytest.mark.parametrize("way", ["fcntl", "flock"])
def test_no_count_is_lost(origin, show, way):
    m = show()
    turns = 60
    users = [subprocess.Popen([sys.executable, "-c", COUNT, str(path / "file"), way, str(turns), str(number)])
             for number in range(4) for path in (m.path, origin)]
    try:
        assert [user.wait(80 * processes.SLOWNESS) for user in users] == [0] * len(users)
    finally:
        for user in users:
            user.kill()
            user.wait(20 * processes.SLOWNESS)
    for path in (m.path, origin):
        assert int((path / "file").read_bytes()[500:510]) == turns * len(users)


@pytest.mark.release
def test_sqlite(origin, show):
    """One database, used on the mount and in the directory at the same time: no count is lost."""
    m = show(**{"metadata.ttl": "0s"})
    with sqlite3.connect(origin / "db") as made:
        made.execute("create table counts (name text primary key, value integer)")
        made.execute("insert into counts values ('both', 0)")
    made.close()
    script = ("import sqlite3, sys\n"
              "db = sqlite3.connect(sys.argv[1], timeout=100, isolation_level=None)\n"
              "for _ in range(int(sys.argv[2])):\n"
              "    db.execute('begin immediate')\n"
              "    db.execute(\"update counts set value = value + 1 where name = 'both'\")\n"
              "    db.execute('insert into counts values (?, ?)', (f'{sys.argv[1]}{_}', _))\n"
              "    db.execute('commit')\n")
    turns = 40
    users = [subprocess.Popen([sys.executable, "-c", script, str(path / "db"), str(turns)])
             for path in (m.path, origin)]
    try:
        assert [user.wait(80 * processes.SLOWNESS) for user in users] == [0, 0]
    finally:
        for user in users:
            user.kill()
            user.wait(20 * processes.SLOWNESS)
    for path in (m.path, origin):
        db = sqlite3.connect(path / "db")
        assert db.execute("select value from counts where name = 'both'").fetchone() == (2 * turns,)
        assert db.execute("select count(*) from counts").fetchone() == (2 * turns + 1,)
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        db.close()


@pytest.mark.release
def test_a_dead_daemon_has_no_locks(origin, show, locker):
    m = show()
    one, native = locker(m.path / "file"), locker(origin / "file")
    one.ask("set", one.handle, "write")
    one.ask("flock", one.handle, EX)
    native.begin("wait", native.handle, "write")
    assert native.is_waiting()
    m.kill_hard()
    native.answer(SOON)
    native.ask("flock", native.handle, EX | NB)


@pytest.mark.release
@pytest.mark.tsan
@pytest.mark.parametrize("holder", ["at the mount", "at the origin"])
def test_waiting_ends_with_the_mount(origin, show, locker, holder):
    m = show()
    one = locker(m.path / "file" if holder == "at the mount" else origin / "file")
    two, three = locker(m.path / "file"), locker(m.path / "file")
    one.ask("set", one.handle, "write")
    one.ask("flock", one.handle, EX)
    two.begin("wait", two.handle, "write")
    three.begin("flock", three.handle, EX)
    assert two.is_waiting() and three.is_waiting()
    m.terminate()
    for waiting in (two, three):
        with pytest.raises(OSError) as caught:
            waiting.answer(40)
        assert caught.value.errno in (errno.ENOTCONN, errno.ECONNABORTED, errno.ENODEV, errno.EIO)
    m.expect_gone()


@pytest.mark.test_points
def test_a_file_system_without_locks(origin, mount, locker):
    data.write(origin / "file", b"content")
    m = mount(origin, {"rw": None}, env={"TIERFS_TEST_FAULTS": f"posix.lock:1+:error={errno.ENOLCK};"
                                                               f"posix.flock:1+:error={errno.EOPNOTSUPP}"})
    one = locker(m.path / "file")
    assert one.tries("set", one.handle, "write") == one.tries("wait", one.handle, "read") == errno.ENOLCK
    assert one.tries("flock", one.handle, EX) == errno.EOPNOTSUPP
    assert (m.path / "file").read_bytes() == b"content"

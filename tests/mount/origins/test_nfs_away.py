"""An NFS server that is away for a while: with nfs.mode=hard whatever is asked waits for it, and who is killed ends; with soft
it fails at the deadline."""

import contextlib
import errno
import os
import signal
import subprocess
import time

import pytest

from harness import data, processes

pytestmark = pytest.mark.release

AWAY = 3  # seconds: more than origin.deadline and what the watchdog adds to it
MOST_THREADS = 16  # of a writable mount


@contextlib.contextmanager
def away(server, how):
    """Takes the server away, and brings it back."""
    (server.pause if how == "paused" else server.kill)()
    try:
        yield
    finally:
        (server.resume if how == "paused" else server.start)()


def begin(folder, act):
    """A process that runs Python text in the folder; its status is the errno. (This one must have nothing of the mount
    open: processes that it starts would close it.)"""
    script = "import os, sys, time\ntry:\n os.chdir(sys.argv[1])\n exec(sys.argv[2])\nexcept OSError as e:\n sys.exit(e.errno)"
    return subprocess.Popen(["/usr/bin/python3", "-S", "-c", script, folder, act])


@contextlib.contextmanager
def all_at_once(folder, acts):
    children = [begin(folder, act) for act in acts]
    try:
        yield children
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.wait()


READS = ["assert open('whole', 'rb').read() == bytes(300_000)", "os.stat('folder/file')", "os.listdir('folder')",
         "assert os.readlink('link') == 'target'"]
WRITES = ["f = open('new', 'wb'); f.write(bytes(3_000_000)); f.close()",
          "f = os.open('known', os.O_WRONLY); os.pwrite(f, b'changed', 0); os.fsync(f); os.close(f)", "os.mkdir('made')",
          "os.rename('old name', 'new name')", "os.unlink('removed')", "os.truncate('cut', 5)", "os.chmod('mode', 0o600)"]


def fill(folder):
    data.write(folder / "whole", bytes(300_000))
    for name in ("known", "folder/file", "old name", "removed", "cut", "mode"):
        data.write(folder / name, b"x" * 1000)
    (folder / "link").symlink_to("target")


def show(server, mount, writable, **options):
    fill(server.data)
    return mount(server.url("", mode=options.pop("mode", None)),
                 {"origin.deadline": "1s", "metadata.ttl": "1h", **({"rw": None} if writable else {}), **options})


@pytest.mark.parametrize("how", ["paused", "killed"])
@pytest.mark.parametrize("writable", [False, True], ids=["ro", "rw"])
def test_hard_mounts_wait(own_nfs_server, mount, how, writable):
    m = show(own_nfs_server, mount, writable, mode="hard")
    acts = READS + (WRITES if writable else [])
    with contextlib.ExitStack() as stack:
        with away(own_nfs_server, how):
            children = stack.enter_context(all_at_once(m.path, acts))
            time.sleep(AWAY)
            assert [child.poll() for child in children] == [None] * len(acts), "somebody did not wait"
        assert [child.wait(60 * processes.SLOWNESS) for child in children] == [0] * len(acts)
    requests = m.status()["requests"]
    assert requests["timed_out"] == 0 and requests["under_way"] == 0
    if writable:
        at = own_nfs_server.data
        assert (at / "new").read_bytes() == bytes(3_000_000) and (at / "known").read_bytes()[:8] == b"changedx"
        assert (at / "made").is_dir() and (at / "new name").exists() and not (at / "removed").exists()
        assert (at / "cut").stat().st_size == 5 and (at / "mode").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("writable", [False, True], ids=["ro", "rw"])
def test_soft_mounts_fail_at_the_deadline(own_nfs_server, mount, writable):
    m = show(own_nfs_server, mount, writable)
    acts = READS + (WRITES if writable else [])
    with away(own_nfs_server, "paused"), all_at_once(m.path, acts) as children:
        begun = time.monotonic()
        found = {child.wait(30 * processes.SLOWNESS) for child in children}
        assert time.monotonic() - begun < 8 * processes.SLOWNESS
    assert found <= {errno.EIO, errno.ETIMEDOUT}
    data.expect_same(data.read_cold(m.path / "whole"), bytes(300_000), "when it is back")


@pytest.mark.parametrize("writable", [False, True], ids=["ro", "rw"])
def test_who_waits_can_be_killed(own_nfs_server, mount, writable):
    """More of them than there are threads; also who is killed while it has written, and whose close has to wait."""
    m = show(own_nfs_server, mount, writable, mode="hard")
    acts = [f"os.stat('none{number}')" for number in range(MOST_THREADS + 8)] + READS
    if writable:
        acts = ["f = open('unsaved', 'wb', 0); f.write(bytes(100_000)); open('../written', 'w'); time.sleep(1000)"] + acts
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(all_at_once(m.path, acts[:writable]))
        if writable:
            processes.wait_until((m.path.parent / "written").exists, what="something was written")
        with away(own_nfs_server, "paused"):
            children = first + stack.enter_context(all_at_once(m.path, acts[writable:]))
            processes.wait_until(lambda: m.status()["requests"]["under_way"] >= (MOST_THREADS - 2 if writable else 20),
                                 what="all threads are taken")
            # Who makes a name holds the directory, and nobody looks one up in it behind him.
            children += stack.enter_context(all_at_once(m.path, WRITES if writable else []))
            time.sleep(1)
            for child in children:
                child.send_signal(signal.SIGKILL)
            for child in children:
                assert child.wait(20 * processes.SLOWNESS) == -signal.SIGKILL
    assert data.read_cold(m.path / "whole") == bytes(300_000)
    if writable:
        data.write(m.path / "after", b"after")
        assert (own_nfs_server.data / "after").read_bytes() == b"after"


SILENT = """
import errno, random, threading
import os
mode, count, tolerated = sys.argv[3], int(sys.argv[4]), (errno.EIO, errno.ETIMEDOUT) if sys.argv[5] == 'soft' else ()
over = threading.Event()
def read(number):
    path = f'file{random.randrange(64)}'
    file = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        assert os.pread(file, 100_000, 0) in (b'', bytes(100_000)), path
    finally:
        os.close(file)
def write(number):
    file = os.open(f'written{number}', os.O_WRONLY | os.O_CREAT)
    try:
        os.pwrite(file, b'w' * 100_000, 0)
        os.fsync(file)
    finally:
        os.close(file)
def run(number):
    while not over.is_set():
        try:
            (read if mode == 'read' else write)(number)
        except OSError as error:
            if error.errno not in tolerated:
                print(mode, error, flush=True)
                os._exit(1)
    if mode == 'write':  # what failed while the server was away is told by then
        write(number)
threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
for thread in threads:
    thread.start()
sys.stdin.readline()
over.set()
for thread in threads:
    thread.join()
"""


@contextlib.contextmanager
def busy(folder, kind, count, mode):
    """So many threads of another process that read or write until this ends; errors that are none of the mode's fail."""
    child = subprocess.Popen(["/usr/bin/python3", "-I", "-S", "-c", f"import os, sys\nos.chdir(sys.argv[1])\n{SILENT}", folder, "", kind,
                              str(count), mode], stdin=subprocess.PIPE)
    try:
        yield child
        child.communicate(b"\n", timeout=30 * processes.SLOWNESS)
        assert child.returncode == 0
    finally:
        child.kill()
        child.wait()


@pytest.mark.tsan
@pytest.mark.parametrize("connections", [1, 4])
@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_server_that_is_silent_under_readers_and_writers(own_nfs_server, mount, mode, connections):
    """Threads that bring answers wait for none: what they hand on, a read that failed among it, does not hold them."""
    deadline = 30 if os.environ.get("TIERFS_TEST_FULL") else 2
    for number in range(64):
        data.write(own_nfs_server.data / f"file{number}", bytes(100_000))
    time.sleep(1.5)  # a version that has just come is not taken into the tiers
    m = mount(own_nfs_server.url("", mode=mode), {"rw": None, "origin.deadline": f"{deadline}s", "nfs.connections": connections,
                                                  "class": "none", "ram.limit": "0", "metadata.ttl": "1h"})
    with busy(m.path, "read", 32, mode), busy(m.path, "write", 32, mode):
        processes.wait_until(lambda: len(list(own_nfs_server.data.glob("written*"))) == 32, what="all write")
        with away(own_nfs_server, "paused"):
            time.sleep(3 * deadline)
        back = time.monotonic()
        with all_at_once(m.path, ["assert len(os.listdir()) >= 96", "assert open('file1', 'rb').read() == bytes(100_000)",
                                  "f = open('anew', 'wb'); f.write(b'x'); f.close()"]) as children:
            assert [child.wait(20 * processes.SLOWNESS) for child in children] == [0] * len(children)
        assert time.monotonic() - back < 2 * processes.SLOWNESS
    for number in range(32):
        assert (own_nfs_server.data / f"written{number}").read_bytes() == b"w" * 100_000
    m.umount()

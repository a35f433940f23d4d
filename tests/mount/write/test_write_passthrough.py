"""Files of a directory that is mounted writable are written and read by the kernel itself (writes.passthrough)."""

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time

import pytest

from harness import daemon, data, processes, servers
from test_link_s3 import link_descriptor
from test_metrics import served, value
from test_profiles import Messages
from test_trace import Trace
from test_write import NOBODY, SETTLED, by_nobody, error_of

both = pytest.mark.parametrize("way", ["true", "false"])
LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def show(origin, mount):
    """show(way): the origin, mounted writable."""
    def start(way="auto", source=origin, env=None, **options):
        m = mount(source, {"rw": None, "metadata.ttl": "1h", "writes.passthrough": way, **options}, env=env)
        if way != "false" and not passthrough(m)["enabled"] and "Linux 6.9" in passthrough(m)["reason"]:
            pytest.skip("the kernel has no passthrough")
        return m
    return start


def passthrough(mount):
    return mount.status()["passthrough"]


def is_passed(mount, name, flags=os.O_WRONLY):
    """Opens and closes the file; whether that open was passed through."""
    before = passthrough(mount)["opens"]
    os.close(os.open(mount.path / name, flags))
    return passthrough(mount)["opens"] > before


def all_closed(mount):
    """RELEASE comes after close() has returned."""
    processes.wait_until(lambda: passthrough(mount)["open_files"] == 0, what="the end of all passthrough files")


@pytest.mark.release
@pytest.mark.tsan
def test_the_kernel_writes_and_reads(origin, show):
    m = show()
    assert passthrough(m)["enabled"] and passthrough(m)["reason"] == ""
    expected = data.content("checkpoint", (5 << 20) + 123)
    with Messages(m) as quiet:
        with open(m.path / "file", "wb", buffering=0) as file:
            for offset in range(0, len(expected), 1 << 20):
                file.write(expected[offset:offset + (1 << 20)])
            assert passthrough(m)["open_files"] == 1
            os.fsync(file.fileno())
        os.utime(origin / "file")  # however long that took, it has just changed
        data.expect_same(data.read_cold(m.path / "file"), expected, "read")
        os.utime(origin / "file")
        data.expect_same((m.path / "file").read_bytes(), expected, "read again")
    assert quiet.counts["WRITE"] == 0 and quiet.counts["READ"] == 0
    assert quiet.counts["CREATE"] == 1 and quiet.counts["FSYNC"] == 1
    assert (origin / "file").read_bytes() == expected
    all_closed(m)
    status = m.status()
    assert status["writes"] == {**status["writes"], "requests": 0, "bytes": 0, "errors": 0}, "the daemon sees none"
    assert status["passthrough"]["opens"] == 3
    assert status["profile"]["kind"] == "large"


def test_asked_not_to(origin, show):
    m = show("false")
    with Messages(m) as seen:
        (m.path / "file").write_bytes(b"x" * 100_000)
    assert seen.counts["WRITE"] > 0
    assert passthrough(m) == {"enabled": False, "reason": "writes.passthrough=false", "opens": 0, "open_files": 0}
    assert m.status()["writes"]["bytes"] == 100_000


def test_read_only_mounts_are_as_they_were(origin, mount):
    data.write(origin / "file", b"x")
    m = mount(origin, {"writes.passthrough": "true"})
    assert (m.path / "file").read_bytes() == b"x"
    assert "nvme" in passthrough(m)["reason"]


def test_only_directories_can_be_asked_for(mount):
    for source in ("s3://bucket/prefix", "nfs://127.0.0.1/export"):
        said = mount.prepare(source, {"rw": None, "writes.passthrough": "true"}).refuse()
        assert "writes.passthrough" in said and "directories" in said


@pytest.mark.release
@pytest.mark.tsan
def test_modes_are_not_mixed(origin, show):
    expected = bytearray(data.write(origin / "file", data.content("old", 300_000)))
    time.sleep(SETTLED)
    m = show()
    reader = os.open(m.path / "file", os.O_RDONLY)
    data.expect_same(os.pread(reader, 300_000, 0), bytes(expected), "through the tiers")
    with open(m.path / "file", "r+b", buffering=0) as writer:
        assert passthrough(m)["opens"] == 0, "beside a reader through the tiers"
        writer.write(b"new")
        expected[:3] = b"new"
        data.expect_same(os.pread(reader, 300_000, 0), bytes(expected), "after a write by the daemon")
    os.close(reader)
    processes.wait_until(lambda: is_passed(m, "file"), what="passthrough once all have closed")
    with open(m.path / "file", "r+b", buffering=0) as writer, Messages(m) as quiet:
        for number in range(5):
            piece = data.content(f"piece {number}", 50_000)
            os.pwrite(writer.fileno(), piece, number * 60_000)
            expected[number * 60_000:number * 60_000 + 50_000] = piece
            with open(m.path / "file", "rb") as other:
                data.expect_same(other.read(), bytes(expected), f"beside a writer {number}")
    assert quiet.counts["READ"] == 0 and quiet.counts["WRITE"] == 0


@pytest.mark.release
def test_many_open_and_close_at_once(origin, show):
    """Whichever comes first decides, and no open fails."""
    data.write(origin / "file", bytes(100_000))
    time.sleep(SETTLED)
    m = show()
    script = ("import os, sys, random\n"
              "chance = random.Random(int(sys.argv[2]))\n"
              "for _ in range(300):\n"
              "    flags = chance.choice((os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_APPEND))\n"
              "    handle = os.open(sys.argv[1], flags)\n"
              "    if flags & os.O_ACCMODE != os.O_WRONLY: assert os.pread(handle, 10, 5) == bytes(10)\n"
              "    if flags & os.O_ACCMODE != os.O_RDONLY and not flags & os.O_APPEND: os.pwrite(handle, bytes(9), 50)\n"
              "    os.close(handle)\n")
    many = [subprocess.Popen([sys.executable, "-c", script, m.path / "file", str(seed)]) for seed in range(4)]
    for one in many:
        assert one.wait(timeout=60 * processes.SLOWNESS) == 0
    all_closed(m)


def test_bits_and_permissions(origin, show):
    """The kernel writes with the credentials of the daemon, which must not keep what the writer could not."""
    os.chmod(origin, 0o777)
    m = show(allow_other=None)
    for who, left in (("root", 0o6777), ("nobody", 0o777)):
        path = m.path / who
        path.write_bytes(b"before")
        os.chmod(path, 0o6777)
        if who == "root":
            with open(path, "r+b", buffering=0) as file:
                file.write(b"x")
        else:
            done = by_nobody("f = open('nobody', 'r+b', buffering=0); f.write(b'x'); f.close()", m.path)
            assert done.returncode == 0, done
        assert stat.S_IMODE(os.stat(origin / who).st_mode) == left, who
        assert stat.S_IMODE(os.stat(path).st_mode) == left, who
    (m.path / "closed").write_bytes(b"secret")
    os.chmod(m.path / "closed", 0o600)
    with open(m.path / "closed", "r+b") as held:
        assert passthrough(m)["open_files"] >= 1 and held.read(1) == b"s"
        for mode in ("rb", "r+b", "ab"):
            tried = by_nobody(f"try:\n    open('closed', {mode!r})\nexcept PermissionError:\n    print('refused')", m.path)
            assert tried.stdout.strip() == "refused", (mode, tried)
    done = by_nobody("f = open('own', 'xb'); f.write(b'mine'); f.close()", m.path)
    assert done.returncode == 0, done
    assert os.stat(origin / "own").st_uid == NOBODY and (origin / "own").read_bytes() == b"mine"


def map_only(path, size):
    """The address of a shared mapping of a file that is open no more."""
    LIBC.mmap.restype = ctypes.c_void_p
    LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    with open(path, "r+b") as file:
        memory = LIBC.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file.fileno(), 0)
    assert memory not in (None, ctypes.c_void_p(-1).value)
    return memory


@pytest.mark.release
@pytest.mark.tsan
def test_mapping_outlives_its_descriptor(origin, show):
    """What it writes is read at once, and never an older version through the tiers."""
    m = show()
    path = m.path / "file"
    path.write_bytes(bytes(1 << 16))
    with open(path, "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)  # duplicates the descriptor
    memory = map_only(path, 1 << 16)
    mapped.close()
    all_closed(m)
    ctypes.memmove(memory, b"one", 3)
    assert path.read_bytes()[:3] == b"one"
    time.sleep(SETTLED + 1)
    assert data.read_cold(path)[:3] == b"one"
    ctypes.memmove(memory, b"two", 3)
    assert data.read_cold(path)[:3] == b"two", "an older version"
    changed = os.stat(path).st_mtime_ns
    assert changed == os.stat(origin / "file").st_mtime_ns
    LIBC.munmap(memory, 1 << 16)

    def through_tiers():
        assert data.read_cold(path)[:3] == b"two"
        return not is_passed(m, "file", os.O_RDONLY)
    processes.wait_until(through_tiers, timeout=20, what="reads through the tiers once nobody has it mapped")
    assert os.stat(path).st_mtime_ns == changed
    with open(path, "r+b") as file:
        file.write(b"three")
    assert data.read_cold(path)[:5] == b"three"


@pytest.mark.release
def test_mapping_of_a_page_that_was_read_before(tmpfs, show):
    """The first store to it moves no time on tmpfs."""
    expected = bytearray(data.write(tmpfs.path / "file", data.content("old", 100_000)))
    time.sleep(SETTLED)
    m = show(source=tmpfs.path)
    data.expect_same(data.read_cold(m.path / "file"), bytes(expected), "through the tiers")
    with open(m.path / "file", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        assert passthrough(m)["open_files"] == 1 and mapped[0] == expected[0]
        mapped[0:3] = expected[0:3] = b"NEW"
    processes.wait_until(lambda: not is_passed(m, "file", os.O_RDONLY), timeout=20, what="reads through the tiers")
    data.expect_same(data.read_cold(m.path / "file"), bytes(expected), "through the tiers again")


@pytest.mark.parametrize("name", ["file", "other"])
def test_a_time_that_has_just_moved_is_shown(origin, show, name):
    """By GETATTR, and by LOOKUP, which has asked the origin before it turns out that nobody has the file mapped."""
    m = show()
    (m.path / "file").write_bytes(bytes(4096))
    os.link(origin / "file", origin / "other")
    memory = map_only(m.path / "file", 4096)
    all_closed(m)
    ctypes.memmove(memory, b"x", 1)
    os.stat(m.path / "file")
    time.sleep(0.05)  # beyond a tick of the file system's clock
    before = os.stat(origin / "file").st_ctime_ns
    LIBC.munmap(memory, 4096)
    os.stat(m.path / name)
    processes.wait_until(lambda: os.stat(origin / "file").st_ctime_ns > before, what="the time of change has moved")
    assert os.stat(m.path / name).st_ctime_ns == os.stat(origin / "file").st_ctime_ns


@both
def test_times_that_were_known_before_it_was_mapped(show, way):
    """Not by stat(2), which asks for the time of access too: the kernel does not know that one."""
    m = show(way)
    path = m.path / "file"
    path.write_bytes(bytes(4096))

    def times():
        return processes.check(["stat", "-c", "%.9Y %.9Z", path]).out.split()
    before = times()
    time.sleep(0.05)
    with open(path, "r+b", buffering=0) as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[0:1] = b"x"
    processes.wait_until(lambda: all(now > old for now, old in zip(times(), before, strict=True)), timeout=1,
                         what="the times have moved")


def test_mapping_beside_writes(origin, show):
    m = show()
    path = m.path / "file"
    path.write_bytes(bytes(3 * 4096 + 100))
    with open(path, "r+b", buffering=0) as file, mmap.mmap(file.fileno(), 0) as mapped, Messages(m) as quiet:
        before = os.stat(path).st_mtime_ns
        time.sleep(0.05)
        mapped[8190:8195] = b"world"
        assert os.stat(path).st_mtime_ns > before, "an old time for metadata.ttl"
        assert os.pread(file.fileno(), 5, 8190) == b"world"
        assert (origin / "file").read_bytes()[8190:8195] == b"world"
        os.pwrite(file.fileno(), b"both", 100)
        assert mapped[100:104] == b"both"
        mapped.flush()
        mapped.resize(4 * 4096)
        mapped[-3:] = b"end"
    assert quiet.counts["WRITE"] == 0
    assert (origin / "file").read_bytes()[-3:] == b"end" and os.stat(path).st_size == 4 * 4096


@both
def test_sizes_and_times_are_shown_at_once(origin, show, way):
    m = show(way)
    path = m.path / "file"
    size = 0
    with open(path, "wb", buffering=0) as file:
        for number in range(20):
            size += file.write(b"x" * (1000 * number + 1))
            assert os.stat(path).st_size == size == os.fstat(file.fileno()).st_size == os.stat(origin / "file").st_size
            assert os.stat(path).st_mtime_ns == os.stat(origin / "file").st_mtime_ns
            assert file.seek(0, os.SEEK_END) == size
    os.utime(path, ns=(1_000_000_001, 2_000_000_002))
    assert os.stat(path).st_mtime_ns == 2_000_000_002
    with open(path, "r+b") as file:
        os.utime(path, ns=(1, 3_000_000_003))
        assert os.fstat(file.fileno()).st_mtime_ns == 3_000_000_003
        os.fchmod(file.fileno(), 0o640)
        os.fchown(file.fileno(), 5, 6)
    found = os.stat(path)
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_size) == (0o640, 5, 6, size)


@both
def test_appends(origin, show, way):
    m = show(way)
    path = m.path / "log"
    handles = [os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) for _ in range(3)]
    expected = b""
    for number in range(30):
        line = b"line %d\n" % number
        assert os.write(handles[number % 3], line) == len(line)
        expected += line
    for handle in handles:
        os.close(handle)
    script = ("import os, sys\nfile = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)\n"
              "for _ in range(200): os.write(file, sys.argv[2].encode() * 100 + b'\\n')")
    many = [subprocess.Popen([sys.executable, "-c", script, path, letter]) for letter in "abcd"]
    for one in many:
        assert one.wait(timeout=60 * processes.SLOWNESS) == 0
    found = path.read_bytes()
    assert found.startswith(expected) and found == (origin / "log").read_bytes()
    lines = found[len(expected):].splitlines()
    assert len(lines) == 800 and {len(set(line)) for line in lines} == {1} and {len(line) for line in lines} == {100}


@both
def test_truncation(origin, show, way):
    m = show(way)
    path = m.path / "file"
    with open(path, "w+b", buffering=0) as file, open(path, "rb", buffering=0) as reader:
        file.write(b"0123456789" * 1000)
        os.ftruncate(file.fileno(), 5)
        assert os.pread(reader.fileno(), 100, 0) == b"01234"
        os.truncate(path, 8000)
        assert os.pread(reader.fileno(), 9000, 0) == b"01234" + bytes(7995)
        os.pwrite(file.fileno(), b"end", 7998)
        assert os.fstat(reader.fileno()).st_size == 8001
        with open(path, "wb"):
            assert os.pread(reader.fileno(), 100, 0) == b"" and os.stat(path).st_size == 0
        os.pwrite(file.fileno(), b"again", 0)
        assert os.pread(reader.fileno(), 100, 0) == b"again"
    assert (origin / "file").read_bytes() == b"again"
    os.close(os.open(path, os.O_RDONLY | os.O_TRUNC))
    assert (origin / "file").read_bytes() == b"" == path.read_bytes()


@both
def test_holes_and_copies(origin, show, way):
    m = show(way)
    with open(m.path / "file", "w+b", buffering=0) as file, open(m.path / "to", "w+b", buffering=0) as target:
        os.posix_fallocate(file.fileno(), 0, 1 << 20)
        assert os.fstat(file.fileno()).st_size == 1 << 20
        os.pwrite(file.fileno(), b"x" * (1 << 20), 0)
        processes.check(["fallocate", "--punch-hole", "--offset", "65536", "--length", "131072", m.path / "file"])
        assert os.pread(file.fileno(), 131072, 65536) == bytes(131072)
        assert os.lseek(file.fileno(), 0, os.SEEK_HOLE) == 65536
        assert os.lseek(file.fileno(), 65536, os.SEEK_DATA) == 65536 + 131072
        assert os.copy_file_range(file.fileno(), target.fileno(), 100_000, 0, 0) == 100_000
        os.pwrite(target.fileno(), b"more", 100_000)
        assert os.pread(target.fileno(), 200_000, 0) == b"x" * 65536 + bytes(100_000 - 65536) + b"more"
        with mmap.mmap(target.fileno(), 0) as mapped:
            mapped[0:6] = b"mapped"
            assert os.copy_file_range(target.fileno(), file.fileno(), 6, 0, 0) == 6
        assert os.pread(file.fileno(), 8, 0) == b"mappedxx"


@both
def test_unlinked_and_renamed_while_open(mount, tmpfs, show, way):
    m = show(way, source=tmpfs.path)
    room = os.statvfs(tmpfs.path).f_bavail
    with open(m.path / "gone", "w+b", buffering=0) as gone, open(m.path / "moved", "w+b", buffering=0) as moved:
        os.unlink(m.path / "gone")
        os.rename(m.path / "moved", m.path / "elsewhere")
        gone.write(b"x" * (8 << 20))
        moved.write(b"moved")
        assert os.pread(gone.fileno(), 10, 0) == b"x" * 10 and os.fstat(gone.fileno()).st_nlink == 0
        assert os.statvfs(tmpfs.path).f_bavail < room - (8 << 20) // os.statvfs(tmpfs.path).f_frsize + 16
    assert (m.path / "elsewhere").read_bytes() == b"moved"
    assert os.listdir(tmpfs.path) == ["elsewhere"]
    processes.wait_until(lambda: os.statvfs(tmpfs.path).f_bavail >= room - 16, what="space after the last close")


@both
def test_hard_links_are_one_file(origin, show, way):
    m = show(way)
    (m.path / "one").write_bytes(b"first")
    os.link(m.path / "one", m.path / "two")
    with open(m.path / "one", "r+b", buffering=0) as one, open(m.path / "two", "r+b", buffering=0) as two:
        one.write(b"FIRST")
        assert two.read() == b"FIRST"
        assert passthrough(m)["open_files"] == (1 if way == "true" else 0)
        os.unlink(m.path / "one")
        two.write(b" and more")
        assert os.pread(one.fileno(), 100, 0) == b"FIRST and more"
    assert (origin / "two").read_bytes() == b"FIRST and more"


@both
def test_files_without_a_name(origin, show, way):
    m = show(way)
    handle = os.open(m.path, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(handle, b"content")
    link_descriptor(handle, m.path / "file")
    os.pwrite(handle, b"CON", 0)
    os.close(handle)
    assert (origin / "file").read_bytes() == b"CONtent" == (m.path / "file").read_bytes()


@pytest.mark.release
def test_direct_writes(xfs, show):
    m = show("true", source=xfs.path)
    with mmap.mmap(-1, 1 << 16) as buffer, Messages(m) as quiet:
        buffer[:] = data.content("direct", 1 << 16)
        handle = os.open(m.path / "file", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
        for offset in (0, 1 << 16):
            assert os.pwritev(handle, [buffer], offset) == 1 << 16
        assert os.preadv(handle, [buffer], 1 << 16) == 1 << 16
        os.close(handle)
        expected = bytes(buffer) * 2
    assert quiet.counts["WRITE"] == 0
    assert (xfs.path / "file").read_bytes() == expected
    assert (m.path / "file").read_bytes() == expected


def test_flags_that_are_taken_off(xfs, folder, show):
    """dd turns O_DIRECT off for an odd last block; the kernel holds on to the flags of what it passes through."""
    m = show(source=xfs.path)
    expected = data.write(folder / "from", data.content("odd", (1 << 20) + 777))
    processes.check(["dd", f"if={folder}/from", f"of={m.path}/file", "bs=128k", "oflag=direct", "status=none"])
    assert (xfs.path / "file").read_bytes() == expected
    handle = os.open(m.path / "file", os.O_WRONLY | os.O_APPEND)
    os.write(handle, b"tail")
    fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) & ~os.O_APPEND)
    os.pwrite(handle, b"head", 0)
    os.close(handle)
    assert (xfs.path / "file").read_bytes() == b"head" + expected[4:] + b"tail"


@both
def test_errors_of_the_writer(mount, tmpfs, show, way):
    m = show(way, source=tmpfs.path)
    room = os.statvfs(tmpfs.path)
    with open(m.path / "file", "wb", buffering=0) as file:
        with pytest.raises(OSError) as caught:
            for _ in range(room.f_bavail * room.f_frsize // (1 << 20) + 2):
                assert file.write(bytes(1 << 20)) >= 0
        assert caught.value.errno == errno.ENOSPC
    os.unlink(m.path / "file")
    # The kernel tells of the last close when that has returned.
    processes.wait_until(lambda: os.statvfs(tmpfs.path).f_bavail == room.f_bavail, what="its room is free")
    (m.path / "file").write_bytes(b"room again")
    limited = ("import os, signal, sys\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
               "file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)\nos.write(file, b'x' * 4096)\n"
               "try:\n    os.write(file, b'x')\nexcept OSError as error:\n    print(error.errno)")
    found = subprocess.run([sys.executable, "-c", limited, m.path / "limited"], check=True, capture_output=True, text=True,
                           timeout=60, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
    assert found.stdout.strip() == str(errno.EFBIG)
    assert (m.path / "file").read_bytes() == b"room again"


@pytest.mark.test_points
def test_errors_of_sync_and_close(origin, show):
    for point, code in (("posix.fsync", errno.EIO), ("posix.close", errno.EDQUOT)):
        m = show(env={"TIERFS_TEST_FAULTS": f"{point}:1:error={code}"})
        handle = os.open(m.path / "file", os.O_CREAT | os.O_WRONLY)
        assert os.write(handle, b"x" * 10) == 10
        found = []
        for step in (os.fsync, os.close):
            try:
                step(handle)
            except OSError as error:
                found.append(error.errno)
        assert found == [code] and passthrough(m)["opens"] == 1
        m.umount()


@pytest.mark.release
def test_daemon_that_dies(origin, show, folder):
    """The bytes of writes that returned are there; nothing of the mount is left, no lock either; it can be mounted again."""
    m = show()
    handle = os.open(m.path / "file", os.O_CREAT | os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.write(handle, b"acknowledged")
    m.kill_daemon()
    m.expect_gone()
    assert m.mounted(), "the mount point is bare"
    try:
        os.write(handle, b", and after its death")
    except OSError as error:
        assert error.errno in (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO)
    assert (origin / "file").read_bytes().startswith(b"acknowledged")
    with open(origin / "file", "r+b") as native:
        fcntl.flock(native, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert error_of(os.fsync, handle) in (errno.ENOTCONN, errno.ECONNABORTED)
    try:
        os.close(handle)
    except OSError as error:
        assert error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    m = m.start()
    with open(m.path / "file", "ab") as file:
        file.write(b"!")
    assert (origin / "file").read_bytes().endswith(b"!")


@both
def test_locks(show, way):
    m = show(way)
    (m.path / "file").touch()
    attempt = ("import fcntl, sys\nfile = open(sys.argv[1], 'r+')\n"
               "try:\n    getattr(fcntl, sys.argv[2])(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
               "except BlockingIOError:\n    sys.exit(3)")
    for kind in ("flock", "lockf"):
        with open(m.path / "file", "r+b") as file:
            getattr(fcntl, kind)(file, fcntl.LOCK_EX)
            assert processes.run([sys.executable, "-c", attempt, m.path / "file", kind]).returncode == 3
        assert processes.run([sys.executable, "-c", attempt, m.path / "file", kind]).returncode == 0


@both
def test_programs_are_run(show, way):
    m = show(way)
    (m.path / "program").write_bytes(open("/bin/true", "rb").read())
    os.chmod(m.path / "program", 0o755)
    processes.check([m.path / "program"])
    with open(m.path / "program", "r+b"):
        assert error_of(subprocess.run, [m.path / "program"], check=False) == errno.ETXTBSY
    (m.path / "script").write_text("#!/bin/sh\nexit 7\n")
    os.chmod(m.path / "script", 0o755)
    assert processes.run([m.path / "script"]).returncode == 7


def held(mount, source, nodes=True):
    """What the daemon has open of the files of `source`. nodes: also those that it only knows (O_PATH)."""
    process = f"/proc/{mount.status()['pid']}"
    found = []
    for one in os.listdir(f"{process}/fd"):
        try:
            path = os.readlink(f"{process}/fd/{one}")
            with open(f"{process}/fdinfo/{one}", encoding="ascii") as about:
                flags = next(int(line.split()[1], 8) for line in about if line.startswith("flags:"))
        except FileNotFoundError:
            continue
        if path.startswith(f"{source}/f") and (nodes or not flags & os.O_PATH):
            found.append(path)
    return found


def test_nothing_stays_open(origin, show):
    m = show()
    for number in range(200):
        with open(m.path / f"f{number}", "w+b" if number % 2 else "wb") as file:
            file.write(b"x")
    for number in range(200):
        os.unlink(m.path / f"f{number}")
    all_closed(m)
    processes.wait_until(lambda: not held(m, origin), what="no descriptor of a removed file is left")


@pytest.mark.test_points
@pytest.mark.parametrize("way", ["auto", "true"])
@pytest.mark.parametrize("error", ["EPERM", "EOPNOTSUPP"])
def test_falls_back(origin, show, way, error):
    m = show(way, env={"TIERFS_TEST_FAULTS": f"passthrough.add:1+:error={error}"})
    (m.path / "file").write_bytes(b"x" * 10_000)
    assert (origin / "file").read_bytes() == b"x" * 10_000
    status = m.status()
    assert not status["passthrough"]["enabled"] and "registering" in status["passthrough"]["reason"]
    assert status["writes"]["bytes"] == 10_000
    warned = "writes.passthrough=true cannot be had" in m.log.read_text()
    assert warned == (way == "true")


@pytest.mark.skipif(not shutil.which("fusermount3"), reason="fusermount3 (Debian's fuse3) is not installed")
def test_without_privileges(mount, origin, fuse_for_all):  # noqa: F811
    """Who mounts by fusermount3 writes through the daemon, and is told so."""
    m = mount.prepare(origin, {"rw": None})
    m.path.mkdir(exist_ok=True)
    for path in (m.folder, m.path, origin):
        os.chown(path, NOBODY, NOBODY)
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    m.start(as_nobody + m.command())
    processes.check(as_nobody + ["sh", "-ec", f"echo written > {m.path}/file; cat {m.path}/file"], suspects=m.processes)
    assert (origin / "file").read_bytes() == b"written\n"
    status = processes.check(as_nobody + [daemon.BINARY, "status", str(m.path), "--json"], env=m.env).out
    assert "registering a file for passthrough" in status
    processes.check(as_nobody + ["fusermount3", "-u", str(m.path)])
    processes.wait_until(lambda: not m.processes(), timeout=15, what="its processes end")


@pytest.mark.test_points
@pytest.mark.parametrize("fault", ["passthrough.add:2:error=ENOMEM", "passthrough.reopen:1:error=EMFILE"])
def test_lack_of_something_for_one_open_is_no_end(origin, show, fault):
    m = show(env={"TIERFS_TEST_FAULTS": fault})
    with open(m.path / "file", "wb", buffering=0) as file:
        file.write(b"by the daemon")
        assert passthrough(m)["opens"] == 0
    (m.path / "other").write_bytes(b"by the kernel")
    assert passthrough(m)["enabled"] and passthrough(m)["opens"] == 1
    assert (origin / "file").read_bytes() == b"by the daemon" and (origin / "other").read_bytes() == b"by the kernel"


@pytest.mark.test_points
def test_a_lease_that_cannot_be_had(origin, show):
    """Nobody could ever say that such a file is not mapped any more."""
    m = show(env={"TIERFS_TEST_FAULTS": "passthrough.lease:1+:error=EINVAL"})
    with open(m.path / "file", "w+b") as file:
        file.write(b"by the daemon")
    assert passthrough(m)["opens"] == 0 and (origin / "file").read_bytes() == b"by the daemon"
    with open(m.path / "file", "wb") as file:
        file.write(b"by the kernel")
    assert passthrough(m)["opens"] == 1 and (origin / "file").read_bytes() == b"by the kernel"
    all_closed(m)
    time.sleep(SETTLED)
    assert not is_passed(m, "file", os.O_RDONLY), "reads through the tiers"


@pytest.mark.test_points
def test_a_lease_that_cannot_be_had_any_more(origin, show):
    """The file stays the kernel's, and right."""
    m = show(env={"TIERFS_TEST_FAULTS": "passthrough.lease:2+:error=EINVAL"})
    with open(m.path / "file", "w+b") as file:
        file.write(b"content")
    time.sleep(SETTLED)
    assert is_passed(m, "file", os.O_RDONLY)
    assert (m.path / "file").read_bytes() == b"content"


@pytest.mark.release
def test_files_of_others_without_the_right_to_leases(origin, mount):
    """They are written by the daemon when they can be mapped, and none stays open; nor one that somebody else made the
    kernel's before."""
    for number in range(20):
        data.write(origin / f"f{number}", b"old")
        os.chown(origin / f"f{number}", NOBODY, NOBODY)
    m = mount.prepare(origin, {"rw": None})
    m.start(["setpriv", "--bounding-set=-lease"] + m.command())
    if not passthrough(m)["enabled"] and "Linux 6.9" in passthrough(m)["reason"]:
        pytest.skip("the kernel has no passthrough")
    for number in range(10):
        assert is_passed(m, f"f{number}", os.O_RDWR if number % 2 else os.O_WRONLY) == (number % 2 == 0)
    all_closed(m)
    processes.wait_until(lambda: not held(m, origin, nodes=False), what="no descriptor is left")
    for number in range(10, 20):
        path = m.path / f"f{number}"
        for _ in range(2):
            before = passthrough(m)["opens"]
            with open(path, "wb"), open(path, "r+b") as second:
                second.write(b"joined")
                assert passthrough(m)["opens"] == before + 2
            assert path.read_bytes() == b"joined"
        os.unlink(path)
    all_closed(m)
    processes.wait_until(lambda: all(map(os.path.exists, held(m, origin))), what="no descriptor of a removed file is left")


@pytest.mark.test_points
def test_a_descriptor_that_could_not_be_had_is_had_later(origin, show):
    """The second: of who may map a file that is the kernel's already."""
    m = show(env={"TIERFS_TEST_FAULTS": "passthrough.reopen:2:error=EMFILE"})
    with open(m.path / "file", "wb"), open(m.path / "file", "r+b"):
        assert passthrough(m)["opens"] == 2
    all_closed(m)
    time.sleep(SETTLED)
    assert is_passed(m, "file", os.O_RDONLY), "who knows whether it is mapped"
    assert is_passed(m, "file", os.O_RDWR)
    processes.wait_until(lambda: not is_passed(m, "file", os.O_RDONLY), timeout=20, what="reads through the tiers")


@pytest.mark.test_points
def test_a_time_that_cannot_be_moved(origin, show):
    m = show(env={"TIERFS_TEST_FAULTS": "passthrough.touch:1+:error=EIO"})
    with open(m.path / "file", "w+b") as file:
        file.write(b"content")
    processes.wait_until(lambda: "time of change" in m.log.read_text(), what="a word of it")
    assert (m.path / "file").read_bytes() == b"content"


@pytest.mark.release
@pytest.mark.parametrize("given", ["bits", "capabilities"])
def test_what_was_given_while_it_was_open_stays(origin, show, given):
    """When the time of change moves on; so do the other times."""
    m = show()
    may_bind = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)  # cap_net_bind_service+ep
    with open(m.path / "file", "w+b", buffering=0) as file:
        file.write(b"content")
        if given == "bits":
            os.fchmod(file.fileno(), 0o6755)
        else:
            os.setxattr(m.path / "file", "security.capability", may_bind)
        before = os.stat(origin / "file")
        time.sleep(0.05)  # beyond a tick of the file system's clock
    all_closed(m)
    processes.wait_until(lambda: os.stat(origin / "file").st_ctime_ns > before.st_ctime_ns, what="the time of change")
    after = os.stat(origin / "file")
    assert (after.st_mode, after.st_mtime_ns, after.st_atime_ns) == (before.st_mode, before.st_mtime_ns, before.st_atime_ns)
    assert os.stat(m.path / "file").st_mode == before.st_mode
    if given == "capabilities":
        assert os.getxattr(origin / "file", "security.capability") == may_bind
        assert os.getxattr(m.path / "file", "security.capability") == may_bind


@pytest.mark.parametrize("way", ["auto", "true"])
def test_source_on_overlayfs(show, xfs, way):
    for name in ("lower", "upper", "work", "merged"):
        (xfs.path / name).mkdir()
    data.write(xfs.path / "lower/file", b"below")
    merged = xfs.path / "merged"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                    f"lowerdir={xfs.path}/lower,upperdir={xfs.path}/upper,workdir={xfs.path}/work", merged], check=True)
    try:
        m = show(way, source=merged)
        with open(m.path / "file", "ab") as file:
            file.write(b", above")
        assert (m.path / "file").read_bytes() == b"below, above" == (xfs.path / "upper/file").read_bytes()
        assert passthrough(m)["enabled"] == (way == "true")
        if way == "auto":
            assert "writes.passthrough=auto" in passthrough(m)["reason"]
        m.umount()
    finally:
        subprocess.run(["umount", "-l", merged], check=True)


@pytest.mark.parametrize("way", ["auto", "true"])
def test_file_systems_inside_the_source(origin, show, xfs, way):
    """Each is judged by itself; one that cannot be passed through does not end it for the others."""
    for name in ("lower", "upper", "work"):
        (xfs.path / name).mkdir()
    for name in ("local", "stacked"):
        (origin / name).mkdir()
    processes.check(["mount", "-t", "tmpfs", "-o", "size=8M", "tierfs-test", origin / "local"])
    try:
        processes.check(["mount", "-t", "overlay", "overlay", "-o",
                         f"lowerdir={xfs.path}/lower,upperdir={xfs.path}/upper,workdir={xfs.path}/work", origin / "stacked"])
        m = show(way)
        for name, passed in (("local/file", 1), ("stacked/file", 0), ("file", 1)):
            before = passthrough(m)["opens"]
            (m.path / name).write_bytes(name.encode())
            assert passthrough(m)["opens"] - before == passed, name
            assert (origin / name).read_bytes() == name.encode() == (m.path / name).read_bytes()
        assert passthrough(m)["enabled"]
        m.umount()
    finally:
        for name in ("stacked", "local"):
            processes.run(["umount", "-l", origin / name])


def test_what_the_nvme_tier_holds_is_not_read_any_more(origin, show, cache):
    """Files that the kernel changes past the daemon are other versions from then on."""
    expected = data.write(origin / "file", data.content("old", 3 << 20))
    time.sleep(SETTLED)
    m = show(**cache)
    for number in range(3):
        data.expect_same(data.read_cold(m.path / "file"), expected, f"{number} through the tiers")
        assert not is_passed(m, "file", os.O_RDONLY), "read through the tiers"
        with open(m.path / "file", "r+b", buffering=0) as file, mmap.mmap(file.fileno(), 0) as mapped:
            os.pwrite(file.fileno(), b"%d" % number, 1 << 20)
            data.expect_same(data.read_cold(m.path / "file")[:1 << 20], expected[:1 << 20], f"{number} while open")
            mapped[0:1] = b"%d" % number
        expected = b"%d" % number + expected[1:1 << 20] + b"%d" % number + expected[(1 << 20) + 1:]
        data.expect_same(data.read_cold(m.path / "file"), expected, f"{number} just closed")
        processes.wait_until(lambda: not is_passed(m, "file", os.O_RDONLY), timeout=20, what="reads through the tiers")
        data.expect_same(data.read_cold(m.path / "file"), expected, f"{number} later")


def test_shown_in_status_metrics_and_trace(show):
    port = servers.free_ports()
    m = show(**{"metrics.listen": f"127.0.0.1:{port}"})
    with Trace(m, "--json") as trace:
        with open(m.path / "file", "w+b") as file:
            file.write(b"x")
            file.flush()
            assert passthrough(m)["open_files"] == 1
            text = served(port)
            assert value(text, "tierfs_passthrough_files") == 1 and value(text, "tierfs_passthrough_opens_total") == 1
            assert value(text, "tierfs_write_bytes_total") == 0
            assert "1 open now" in processes.check([daemon.BINARY, "status", m.path], env=m.env).out
        assert (m.path / "file").read_bytes() == b"x"
        events = trace.events()
    assert [(event["event"], event["path"], event["length"], event["tier"]) for event in events] == [
        ("passthrough", "file", 1, "origin")], events
    all_closed(m)


def test_killed_writers_leave_nothing(show):
    m = show()
    script = ("import os, sys, time\nfile = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
              "print('go', flush=True)\nwhile True: os.write(file, bytes(100000)) if os.fstat(file).st_size < 5000000 else os.ftruncate(file, 0)")
    for number in range(5):
        with subprocess.Popen([sys.executable, "-c", script, m.path / f"file{number}"], stdout=subprocess.PIPE) as one:
            assert one.stdout.readline() == b"go\n"
            time.sleep(0.1)
            one.send_signal(signal.SIGKILL)
            one.wait(timeout=30 * processes.SLOWNESS)
    all_closed(m)

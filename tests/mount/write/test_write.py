"""A directory mounted writable: what is done on the mount is done at the origin, and is seen here at once."""

import errno
import fcntl
import mmap
import os
import stat
import subprocess
import sys
import time

import pytest

from harness import daemon, data, processes

NOBODY = 65534
BY_DAEMON = {"writes.passthrough": "false"}  # else the kernel writes: test_write_passthrough.py
SETTLED = 1.5  # seconds after which a version can be told from the next one, and comes through the tiers


@pytest.fixture
def show(origin, mount):
    """show(**options): the origin, mounted writable."""
    def start(**options):
        return mount(origin, {"rw": None, "metadata.ttl": "1h", **options})
    return start


def by_nobody(script, cwd):
    """Runs Python as nobody, in a folder of the mount."""
    return subprocess.run([sys.executable, "-c", f"import os, stat\nos.chdir({str(cwd)!r})\n{script}"], check=False,
                          user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, timeout=60)


def error_of(call, *arguments, **named):
    with pytest.raises(OSError) as caught:
        call(*arguments, **named)
    return caught.value.errno


@pytest.mark.quick
@pytest.mark.release
@pytest.mark.tsan
def test_created_file_is_at_the_origin(origin, show):
    m = show(**BY_DAEMON)
    expected = data.content("new", 3_000_001)
    (m.path / "folder").mkdir()
    (m.path / "folder/file").write_bytes(expected)
    assert (origin / "folder/file").read_bytes() == expected
    data.expect_same((m.path / "folder/file").read_bytes(), expected, "at once")
    data.expect_same(data.read_cold(m.path / "folder/file"), expected, "not from the kernel's memory")
    assert os.listdir(m.path) == ["folder"] and os.listdir(m.path / "folder") == ["file"]
    status = m.status()
    assert status["read_only"] is False and status["writes"]["errors"] == 0
    assert status["writes"]["bytes"] == len(expected) and status["writes"]["dirty_bytes"] == 0
    assert status["origin"]["bytes_written"] == len(expected)
    assert status["profile"] == {"kind": "large", "reason": "read-write mount"}


def test_options_of_the_mount(origin, show):
    m = show()
    info = daemon.mountinfo(m.path)
    assert {"rw", "nosuid", "nodev"} <= set(info["options"])


def test_read_only_is_the_default(origin, mount):
    m = mount(origin)
    assert error_of(os.mkdir, m.path / "x") == errno.EROFS


@pytest.mark.release
def test_mount_command_wants_ro_false(origin, mount, folder):
    """mount(8) says rw where nobody said anything."""
    m = mount.prepare(origin)
    finished = m.attempt([daemon.BINARY, str(origin), str(m.path), "-o", f"ro=false,log.file={m.log},memory.limit=256M"])
    assert finished.returncode == 0, finished
    (m.path / "file").write_bytes(b"x")
    assert (origin / "file").read_bytes() == b"x"


def test_writes_in_the_middle_and_beyond_the_end(origin, show):
    expected = bytearray(data.write(origin / "file", data.content("before", 300_000)))
    m = show()
    with open(m.path / "file", "r+b", buffering=0) as file:
        assert file.read(10) == expected[:10]
        for offset, length in ((0, 1), (4095, 2), (100_000, 70_000), (299_999, 5), (500_000, 10)):
            piece = data.content(f"piece {offset}", length)
            os.pwrite(file.fileno(), piece, offset)
            if len(expected) < offset + length:
                expected.extend(bytes(offset + length - len(expected)))
            expected[offset:offset + length] = piece
            data.expect_same(os.pread(file.fileno(), 600_000, 0), bytes(expected), offset)
        os.fsync(file.fileno())
        os.fdatasync(file.fileno())
    assert (origin / "file").read_bytes() == expected
    data.expect_same(data.read_cold(m.path / "file"), bytes(expected), "cold")


@pytest.mark.quick
def test_append_and_truncate(origin, show):
    m = show()
    path = m.path / "file"
    path.write_bytes(b"one")
    with open(path, "ab") as file:
        file.write(b"two")
    assert path.read_bytes() == b"onetwo" == (origin / "file").read_bytes()
    os.truncate(path, 2)
    assert path.read_bytes() == b"on" and os.stat(path).st_size == 2
    os.truncate(path, 5)
    assert path.read_bytes() == b"on\0\0\0"
    with open(path, "r+b") as file:
        file.truncate(1)
    assert path.read_bytes() == b"o" == (origin / "file").read_bytes()
    with open(path, "wb"):
        assert os.stat(path).st_size == 0
    assert path.read_bytes() == b"" == (origin / "file").read_bytes()


def test_exclusive_create(show):
    m = show()
    os.close(os.open(m.path / "file", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    assert error_of(os.open, m.path / "file", os.O_CREAT | os.O_EXCL | os.O_WRONLY) == errno.EEXIST


@pytest.mark.release
@pytest.mark.tsan
def test_reader_sees_each_write_at_once(origin, show):
    """A reader that has the file open before, through the tiers, never gets what was there before a write."""
    data.write(origin / "file", data.content("old", 1 << 20))
    time.sleep(SETTLED)
    m = show()
    with open(m.path / "file", "rb", buffering=0) as reader:
        data.expect_same(os.pread(reader.fileno(), 1 << 20, 0), data.content("old", 1 << 20), "old")
        assert m.status()["reads"]["by_tier"]["origin"] == 1 << 20
        with open(m.path / "file", "r+b", buffering=0) as writer:
            for number in range(20):
                piece = data.content(f"new {number}", 1 << 20)
                writer.seek(0)
                writer.write(piece)
                os.posix_fadvise(reader.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                data.expect_same(os.pread(reader.fileno(), 1 << 20, 0), piece, number)
        os.posix_fadvise(reader.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        data.expect_same(os.pread(reader.fileno(), 1 << 20, 0), piece, "after the writer closed")
    data.expect_same(data.read_cold(m.path / "file"), piece, "opened anew")


def test_quick_rewrites_of_one_length_are_told_apart(origin, show):
    """Within one tick of the file system's clock versions look the same."""
    m = show()
    path = m.path / "file"
    for number in range(200):
        piece = data.content(f"rewrite {number}", 5000)
        with open(path, "r+b" if number else "wb") as file:
            file.write(piece)
        data.expect_same(data.read_cold(path), piece, number)


@pytest.mark.release
def test_what_was_written_is_read_through_the_tiers_later(origin, show):
    m = show()
    expected = data.content("file", 200_000)
    (m.path / "file").write_bytes(expected)
    time.sleep(SETTLED)
    data.expect_same(data.read_cold(m.path / "file"), expected, "first")
    before = m.requests(["get"])
    for _ in range(3):
        data.expect_same(data.read_cold(m.path / "file"), expected, "again")
    assert m.requests(["get"]) == before, "read from the origin again"
    assert os.getxattr(m.path / "file", "user.tierfs.tier") == b"ram"
    with open(m.path / "file", "r+b") as file:
        file.write(b"changed")
    data.expect_same(data.read_cold(m.path / "file"), b"changed" + expected[7:], "changed")


def test_changes_elsewhere_are_seen_by_the_next_open(origin, mount):
    m = mount(origin, {"rw": None, "metadata.ttl": "0s"})
    for number in range(5):
        expected = data.write(origin / "file", data.content(f"other host {number}", 100_000 + number))
        with open(m.path / "file", "rb") as file:
            data.expect_same(file.read(), expected, number)
    os.rename(origin / "file", origin / "moved")
    assert os.listdir(m.path) == ["moved"]
    data.expect_same((m.path / "moved").read_bytes(), expected, "moved")
    (origin / "moved").unlink()
    assert error_of(os.stat, m.path / "moved") == errno.ENOENT


def use_what_was_renamed_elsewhere(m, origin):
    """A file that was made here and has lost the name that this mount knows, while it is open."""
    handle = os.open(m.path / "made", os.O_CREAT | os.O_RDWR, 0o644)  # nothing else is done to it before
    os.rename(origin / "made", origin / "moved")
    os.ftruncate(handle, 3)
    os.fchmod(handle, 0o640)
    assert os.fstat(handle).st_size == 3 and os.fstat(handle).st_mode & 0o777 == 0o640
    os.close(handle)
    assert (origin / "moved").read_bytes() == bytes(3)


def test_what_was_made_here_and_renamed_elsewhere(origin, mount):
    use_what_was_renamed_elsewhere(mount(origin, {"rw": None, "metadata.ttl": "1s", "writes.passthrough": "false"}), origin)


@pytest.mark.quick
def test_rename(origin, show):
    m = show()
    (m.path / "a").mkdir()
    (m.path / "b").mkdir()
    (m.path / "a/file").write_bytes(b"one")
    (m.path / "b/file").write_bytes(b"two")
    os.rename(m.path / "a/file", m.path / "b/other")
    assert os.listdir(m.path / "a") == [] and sorted(os.listdir(m.path / "b")) == ["file", "other"]
    assert not (m.path / "a/file").exists()
    os.rename(m.path / "b/other", m.path / "b/file")  # replaces
    assert (m.path / "b/file").read_bytes() == b"one" == (origin / "b/file").read_bytes()
    os.rename(m.path / "b", m.path / "a/inside")  # a directory with what is in it
    assert (m.path / "a/inside/file").read_bytes() == b"one"
    (m.path / "a/inside/new").write_bytes(b"new")
    assert (origin / "a/inside/new").read_bytes() == b"new"
    (m.path / "full").mkdir()
    (m.path / "full/x").touch()
    assert error_of(os.rename, m.path / "a/inside", m.path / "full") == errno.ENOTEMPTY
    assert error_of(os.rename, m.path / "a", m.path / "a/inside/below") == errno.EINVAL


def renameat2(old, new, flags):
    script = ("import ctypes, os, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
              "old, new, flags = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2]), int(sys.argv[3])\n"
              "sys.exit(0 if libc.renameat2(-100, old, -100, new, flags) == 0 else ctypes.get_errno())")
    return processes.run([sys.executable, "-c", script, old, new, str(flags)]).returncode


def test_rename_without_replacing_and_exchange(origin, show):
    m = show()
    (m.path / "a").write_bytes(b"a")
    (m.path / "d").mkdir()
    (m.path / "d/in").write_bytes(b"in")
    assert renameat2(m.path / "a", m.path / "d", 1) == errno.EEXIST
    assert renameat2(m.path / "a", m.path / "free", 1) == 0
    assert renameat2(m.path / "free", m.path / "d", 2) == 0
    assert (m.path / "d").read_bytes() == b"a" and (m.path / "free/in").read_bytes() == b"in"
    assert (origin / "d").read_bytes() == b"a" and (origin / "free/in").read_bytes() == b"in"


def test_hard_links_are_one_file(origin, show):
    m = show()
    (m.path / "one").write_bytes(b"first")
    os.link(m.path / "one", m.path / "two")
    (m.path / "d").mkdir()
    os.link(m.path / "two", m.path / "d/three")
    seen = [os.stat(m.path / name) for name in ("one", "two", "d/three")]
    assert len({one.st_ino for one in seen}) == 1 and {one.st_nlink for one in seen} == {3}
    with open(m.path / "two", "r+b") as file:
        file.write(b"FIRST")
    assert (m.path / "d/three").read_bytes() == b"FIRST"
    os.chmod(m.path / "one", 0o600)
    assert stat.S_IMODE(os.stat(m.path / "two").st_mode) == 0o600
    os.unlink(m.path / "one")
    assert os.stat(m.path / "two").st_nlink == 2 and (m.path / "two").read_bytes() == b"FIRST"
    assert error_of(os.link, m.path / "two", m.path / "d/three") == errno.EEXIST


@pytest.mark.quick
@pytest.mark.release
@pytest.mark.tsan
def test_unlinked_and_renamed_while_open(origin, show):
    m = show()
    with open(m.path / "gone", "w+b", buffering=0) as gone, open(m.path / "moved", "w+b", buffering=0) as moved:
        os.unlink(m.path / "gone")
        os.rename(m.path / "moved", m.path / "elsewhere")
        gone.write(b"x" * 10_000)
        moved.write(b"moved")
        os.posix_fadvise(gone.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert os.pread(gone.fileno(), 20_000, 0) == b"x" * 10_000
        assert os.fstat(gone.fileno()).st_nlink == 0 and os.fstat(gone.fileno()).st_size == 10_000
        os.ftruncate(gone.fileno(), 5)
        os.fchmod(gone.fileno(), 0o600)
        assert os.fstat(gone.fileno()).st_size == 5
        (m.path / "gone").write_bytes(b"another file of the same name")
        assert os.pread(gone.fileno(), 100, 0) == b"xxxxx"
    assert (m.path / "elsewhere").read_bytes() == b"moved"
    assert sorted(os.listdir(origin)) == ["elsewhere", "gone"]


def test_replaced_while_open(show):
    """How editors and checkpoints write: who has the old file open goes on reading it."""
    m = show()
    (m.path / "file").write_bytes(b"old")
    with open(m.path / "file", "rb") as reader:
        (m.path / "file.new").write_bytes(b"new")
        os.rename(m.path / "file.new", m.path / "file")
        assert reader.read() == b"old" and (m.path / "file").read_bytes() == b"new"


def test_directory_removed_while_it_is_somebodys_own(origin, show):
    m = show()
    (m.path / "d").mkdir()
    here = os.open(m.path / "d", os.O_RDONLY)
    try:
        os.rmdir(m.path / "d")
        assert os.fstat(here).st_nlink == 0
        assert os.listdir(here) == []
        assert error_of(os.open, "x", os.O_CREAT | os.O_WRONLY, dir_fd=here) == errno.ENOENT
    finally:
        os.close(here)


@pytest.mark.quick
def test_directories(origin, show):
    m = show()
    assert error_of(os.mkdir, m.path / "none/below") == errno.ENOENT
    (m.path / "d").mkdir(mode=0o750)
    assert stat.S_IMODE(os.stat(m.path / "d").st_mode) == 0o750
    assert error_of(os.mkdir, m.path / "d") == errno.EEXIST
    links = os.stat(m.path).st_nlink
    (m.path / "d/e").mkdir()
    assert error_of(os.rmdir, m.path / "d") == errno.ENOTEMPTY
    assert error_of(os.unlink, m.path / "d") == errno.EISDIR
    os.rmdir(m.path / "d/e")
    os.rmdir(m.path / "d")
    assert not (m.path / "d").exists() and os.stat(m.path).st_nlink == links - 1
    assert error_of(os.stat, m.path / "d") == errno.ENOENT


def test_names_that_were_missing(origin, show):
    """What is known as missing, and a listing, end with what is made here."""
    m = show()
    assert not (m.path / "x").exists() and os.listdir(m.path) == []
    (m.path / "x").touch()
    assert (m.path / "x").exists() and os.listdir(m.path) == ["x"]
    os.unlink(m.path / "x")
    assert not (m.path / "x").exists() and os.listdir(m.path) == []
    os.symlink("target", m.path / "x")
    assert os.readlink(m.path / "x") == "target" == os.readlink(origin / "x")


@pytest.mark.release
def test_removing_all_of_a_large_directory(origin, show):
    (origin / "many").mkdir()
    for number in range(3000):
        (origin / "many" / f"name-{number:05}").touch()
    m = show()
    assert len(os.listdir(m.path / "many")) == 3000
    processes.check(["rm", "-r", m.path / "many"], timeout=60)
    assert os.listdir(origin) == []


def test_attributes(origin, show):
    m = show()
    path = m.path / "file"
    path.touch()
    os.chmod(path, 0o4751)
    os.chown(path, 1234, 4321)
    seen = os.stat(path)
    assert (seen.st_uid, seen.st_gid, stat.S_IMODE(seen.st_mode)) == (1234, 4321, 0o751), "chown clears set-user-ID"
    os.utime(path, ns=(1_500_000_000_000_000_001, 1_600_000_000_123_456_789))
    seen = os.stat(path)
    assert (seen.st_atime_ns, seen.st_mtime_ns) == (1_500_000_000_000_000_001, 1_600_000_000_123_456_789)
    at_origin = os.stat(origin / "file")
    for field in ("st_uid", "st_gid", "st_mode", "st_size", "st_mtime_ns", "st_atime_ns", "st_ctime_ns", "st_ino", "st_blocks"):
        assert getattr(seen, field) == getattr(at_origin, field), field
    before = time.time_ns() - 1_000_000_000
    os.utime(path)
    assert os.stat(path).st_mtime_ns > before


def test_attributes_of_a_symbolic_link(show):
    m = show()
    os.symlink("nowhere", m.path / "link")
    os.chown(m.path / "link", 5, 6, follow_symlinks=False)
    os.utime(m.path / "link", ns=(1, 2), follow_symlinks=False)
    seen = os.lstat(m.path / "link")
    assert (seen.st_uid, seen.st_gid, seen.st_mtime_ns) == (5, 6, 2)


def test_owner_of_what_is_made(origin, show):
    os.chmod(origin, 0o777)
    (origin / "shared").mkdir()
    os.chown(origin / "shared", 0, 4321)
    os.chmod(origin / "shared", 0o2777)
    m = show(allow_other=None)
    made = by_nobody("os.umask(0o027)\nos.close(os.open('file', os.O_CREAT | os.O_WRONLY, 0o666))\nos.mkdir('folder')\n"
                     "os.symlink('x', 'link')\nos.mkfifo('fifo')\nos.mkdir('shared/folder')\n"
                     "os.close(os.open('shared/file', os.O_CREAT | os.O_WRONLY, 0o666))", m.path)
    assert made.returncode == 0, made.stderr
    for name, mode in (("file", 0o640), ("folder", 0o750), ("link", 0o777), ("fifo", 0o640)):
        for place in (m.path, origin):
            seen = os.lstat(place / name)
            assert (seen.st_uid, seen.st_gid, stat.S_IMODE(seen.st_mode)) == (NOBODY, NOBODY, mode), (place, name)
    assert os.stat(origin / "shared/file").st_gid == 4321
    assert stat.S_IMODE(os.stat(m.path / "shared/folder").st_mode) == 0o2750
    assert os.stat(m.path / "shared/folder").st_gid == 4321
    (m.path / "mine").touch()  # the next request of the same threads is root's again
    assert os.stat(origin / "mine").st_uid == 0


def test_permissions_are_enforced(origin, show):
    os.chmod(origin, 0o777)
    for name, mode in (("closed", 0o700), ("sticky", 0o1777), ("open", 0o777)):
        (origin / name).mkdir()
        os.chmod(origin / name, mode)
        data.write(origin / name / "file", b"root's")
    m = show(allow_other=None)
    for script, code in (("open('closed/new', 'w')", "EACCES"), ("open('open/file', 'w')", "EACCES"),
                         ("os.unlink('sticky/file')", "EPERM"), ("os.rename('sticky/file', 'open/x')", "EPERM"),
                         ("os.chmod('open/file', 0o777)", "EPERM"), ("os.chown('open/file', 65534, -1)", "EPERM"),
                         ("os.truncate('open/file', 0)", "EACCES"), ("os.setxattr('open/file', 'user.x', b'')", "EACCES"),
                         ("os.utime('open/file', (1, 1))", "EPERM"), ("os.mkdir('closed/x')", "EACCES")):
        tried = by_nobody(f"import errno\ntry:\n    {script}\nexcept OSError as error:\n    print(errno.errorcode[error.errno])",
                          m.path)
        assert tried.stdout.strip() == code, (script, tried)
    assert by_nobody("os.unlink('open/file')", m.path).returncode == 0
    assert (origin / "sticky/file").read_bytes() == b"root's"


def test_set_user_id_is_cleared_by_a_write(origin, show):
    os.chmod(origin, 0o777)
    m = show(allow_other=None)
    for name, script in (("write", "f = open(name, 'r+b'); f.write(b'x'); f.close()"), ("cut", "os.truncate(name, 0)"),
                         ("open", "open(name, 'wb')")):
        (m.path / name).write_bytes(b"before")
        os.chmod(m.path / name, 0o6777)
        assert stat.S_IMODE(os.stat(m.path / name).st_mode) == 0o6777
        done = by_nobody(f"name = {name!r}\n{script}", m.path)
        assert done.returncode == 0, done
        assert stat.S_IMODE(os.stat(m.path / name).st_mode) == 0o777, name
        assert stat.S_IMODE(os.stat(origin / name).st_mode) == 0o777, name


def test_special_files(origin, show):
    m = show()
    os.mkfifo(m.path / "fifo", 0o600)
    os.mknod(m.path / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod(m.path / "plain", 0o600 | stat.S_IFREG)
    assert stat.S_ISFIFO(os.stat(m.path / "fifo").st_mode) and stat.S_ISFIFO(os.stat(origin / "fifo").st_mode)
    assert os.stat(m.path / "device").st_rdev == os.makedev(1, 3)
    assert error_of(open, m.path / "device", "rb") == errno.EACCES, "nodev"
    reader = os.open(m.path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(m.path / "fifo", os.O_WRONLY)
    os.write(writer, b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    os.close(writer)
    assert {entry.name for entry in os.scandir(m.path)} == {"fifo", "device", "plain"}


def test_extended_attributes(origin, show):
    m = show()
    path = m.path / "file"
    path.touch()
    os.setxattr(path, "user.name", b"value\0with zero")
    assert os.getxattr(path, "user.name") == b"value\0with zero" == os.getxattr(origin / "file", "user.name")
    assert os.listxattr(path) == ["user.name"]
    assert error_of(os.setxattr, path, "user.name", b"x", os.XATTR_CREATE) == errno.EEXIST
    assert error_of(os.setxattr, path, "user.other", b"x", os.XATTR_REPLACE) == errno.ENODATA
    os.removexattr(path, "user.name")
    assert os.listxattr(path) == [] and error_of(os.getxattr, path, "user.name") == errno.ENODATA
    assert error_of(os.setxattr, path, "user.tierfs.tier", b"ram") == errno.EPERM
    assert os.getxattr(path, "user.tierfs.version")


def test_access_control_lists_are_enforced_and_handed_down(origin, show):
    def acl(*entries):
        return b"\x02\0\0\0" + b"".join(tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + who.to_bytes(4, "little")
                                       for tag, bits, who in entries)
    anybody = 0xffffffff
    m = show(allow_other=None)
    (m.path / "file").write_bytes(b"secret")
    os.chmod(m.path / "file", 0o600)
    try:
        os.setxattr(m.path / "file", "system.posix_acl_access", acl((1, 6, anybody), (2, 4, NOBODY), (4, 0, anybody),
                                                                    (16, 4, anybody), (32, 0, anybody)))
    except OSError as error:
        assert error.errno == errno.EOPNOTSUPP
        pytest.skip("the file system below has no access control lists")
    assert by_nobody("assert open('file').read() == 'secret'", m.path).returncode == 0
    assert by_nobody("open('file', 'w')", m.path).returncode != 0
    (m.path / "d").mkdir()
    os.setxattr(m.path / "d", "system.posix_acl_default", acl((1, 7, anybody), (2, 6, NOBODY), (4, 5, anybody),
                                                              (16, 7, anybody), (32, 0, anybody)))
    os.close(os.open(m.path / "d/new", os.O_CREAT | os.O_WRONLY, 0o666))
    assert os.getxattr(m.path / "d/new", "system.posix_acl_access") == os.getxattr(origin / "d/new", "system.posix_acl_access")
    assert stat.S_IMODE(os.stat(m.path / "d/new").st_mode) == 0o660, "the list, not the umask"


def test_dates_beyond_what_nanoseconds_count(origin, show):
    m = show()
    (m.path / "file").write_bytes(b"x")
    for year in (2400, 1600):
        seconds = int((year - 1970) * 365.2425 * 86400)
        os.utime(m.path / "file", (seconds, seconds))
        assert (m.path / "file").stat().st_mtime == (origin / "file").stat().st_mtime
        assert data.read_cold(m.path / "file") == b"x"
    assert os.getxattr(m.path / "file", "user.tierfs.version")


def test_trusted_attributes_are_shown_to_root_alone(show):
    m = show(allow_other=None)
    (m.path / "file").write_bytes(b"x")
    os.setxattr(m.path / "file", "user.a", b"1")
    try:
        os.setxattr(m.path / "file", "trusted.secret", b"1")
    except OSError as error:
        assert error.errno == errno.EOPNOTSUPP
        pytest.skip("the file system below has no trusted attributes")
    assert sorted(os.listxattr(m.path / "file")) == ["trusted.secret", "user.a"]
    assert by_nobody("print(os.listxattr('file'))", m.path).stdout == "['user.a']\n"


def test_a_file_that_another_host_made_meanwhile_is_not_opened_unchecked(origin, show):
    """The kernel remembers that there was none, and asks for it to be made: what is there by then has permissions."""
    origin.chmod(0o777)
    m = show(allow_other=None)
    script = """
assert not os.path.exists('file')
sys.stdout.write('x'); sys.stdout.flush(); sys.stdin.readline()
try:
    os.open('file', os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o666)
except OSError as error:
    print(errno.errorcode[error.errno])
"""
    words = [sys.executable, "-c", f"import errno, os, sys\nos.chdir({str(m.path)!r})\n{script}"]
    with subprocess.Popen(words, user=NOBODY, group=NOBODY, extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as nobody:
        try:
            assert nobody.stdout.read(1) == "x"
            data.write(origin / "file", b"of another")
            (origin / "file").chmod(0o600)
            assert nobody.communicate("\n", timeout=60)[0] == "EACCES\n"
        finally:
            nobody.kill()
    assert (origin / "file").read_bytes() == b"of another"
    # Who may gets what is there, or is told that it is there.
    with pytest.raises(FileNotFoundError):
        (m.path / "second").stat()
    data.write(origin / "second", b"of another")
    assert error_of(os.open, m.path / "second", os.O_CREAT | os.O_EXCL | os.O_WRONLY) == errno.EEXIST
    with pytest.raises(FileNotFoundError):
        (m.path / "third").stat()
    data.write(origin / "third", b"of another")
    with open(m.path / "third", "a+b") as file:
        file.write(b", and mine")
    assert (origin / "third").read_bytes() == b"of another, and mine"


@pytest.mark.release
def test_shared_mapping(origin, show):
    m = show()
    path = m.path / "file"
    path.write_bytes(bytes(3 * 4096 + 100))
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[0:5] = b"hello"
        mapped[8190:8195] = b"world"
        mapped[-3:] = b"end"
        mapped.flush()
        expected = bytes(mapped)
        assert (origin / "file").read_bytes() == expected
        os.pwrite(file.fileno(), b"both", 100)
        assert mapped[100:104] == b"both"
    assert data.read_cold(path)[:5] == b"hello" and os.stat(path).st_size == 3 * 4096 + 100


def test_mapping_of_a_file_that_somebody_appends_to(origin, show):
    """Pages may be written through any descriptor; one with O_APPEND must not put them at the end."""
    m = show()
    path = m.path / "file"
    path.write_bytes(bytes(8192))
    with open(path, "ab", buffering=0) as appender, open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        appender.write(b"tail")
        mapped[0:4] = b"head"
        mapped.flush()
        appender.write(b"tail")
    assert (origin / "file").read_bytes() == b"head" + bytes(8188) + b"tailtail"


def test_allocate_punch_and_seek(origin, show):
    m = show()
    with open(m.path / "file", "w+b") as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 20)
        assert os.fstat(file.fileno()).st_size == 1 << 20 and os.fstat(file.fileno()).st_blocks * 512 >= 1 << 20
        os.pwrite(file.fileno(), b"x" * (1 << 20), 0)
        processes.check(["fallocate", "--punch-hole", "--offset", "65536", "--length", "131072", m.path / "file"])
        assert os.pread(file.fileno(), 131072, 65536) == bytes(131072)
        assert os.lseek(file.fileno(), 0, os.SEEK_HOLE) == 65536
        assert os.lseek(file.fileno(), 65536, os.SEEK_DATA) == 65536 + 131072
        assert error_of(os.lseek, file.fileno(), 1 << 20, os.SEEK_DATA) == errno.ENXIO


def test_copy_file_range(origin, show):
    m = show()
    expected = data.content("copied", 1 << 20)
    (m.path / "from").write_bytes(expected)
    with open(m.path / "from", "rb") as source, open(m.path / "to", "w+b") as target:
        copied = os.copy_file_range(source.fileno(), target.fileno(), 1 << 20)
        assert copied > 0
        data.expect_same(os.pread(target.fileno(), 1 << 20, 0), expected[:copied], "copied")


@pytest.mark.release
def test_direct_writes(origin, show):
    m = show()
    buffer = mmap.mmap(-1, 1 << 16)
    buffer[:] = data.content("direct", 1 << 16)
    handle = os.open(m.path / "file", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    try:
        assert os.pwritev(handle, [buffer], 0) == 1 << 16
        assert os.pwritev(handle, [buffer], 1 << 16) == 1 << 16
        assert os.preadv(handle, [buffer], 1 << 16) == 1 << 16
    finally:
        os.close(handle)
    assert (origin / "file").read_bytes() == bytes(buffer) * 2
    buffer.close()


def test_locks(show):
    m = show()
    (m.path / "file").touch()
    attempt = ("import fcntl, sys\nfile = open(sys.argv[1], 'r+')\n"
               "try:\n    getattr(fcntl, sys.argv[2])(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
               "except BlockingIOError:\n    sys.exit(3)")
    for kind in ("flock", "lockf"):
        with open(m.path / "file", "r+b") as file:
            getattr(fcntl, kind)(file, fcntl.LOCK_EX)
            assert processes.run([sys.executable, "-c", attempt, m.path / "file", kind]).returncode == 3
        assert processes.run([sys.executable, "-c", attempt, m.path / "file", kind]).returncode == 0


def test_file_system_statistics(origin, show):
    m = show()
    ours, theirs = os.statvfs(m.path), os.statvfs(origin)
    assert (ours.f_blocks, ours.f_bsize, ours.f_namemax) == (theirs.f_blocks, theirs.f_bsize, theirs.f_namemax)


@pytest.mark.release
def test_full_disk(mount, tmpfs, folder):
    """The error comes with the write that has no room, and there is room again afterwards."""
    m = mount(tmpfs.path, {"rw": None, **BY_DAEMON})
    room = os.statvfs(tmpfs.path)
    with open(m.path / "file", "wb", buffering=0) as file:
        piece = bytes(1 << 20)
        with pytest.raises(OSError) as caught:
            for _ in range(room.f_bavail * room.f_frsize // len(piece) + 2):
                assert file.write(piece) >= 0
        assert caught.value.errno == errno.ENOSPC
    assert m.status()["writes"]["errors"] >= 1
    os.unlink(m.path / "file")
    (m.path / "file").write_bytes(b"room again")
    assert (m.path / "file").read_bytes() == b"room again"


@pytest.mark.test_points
@pytest.mark.parametrize("point,code", [("posix.write", errno.EIO), ("posix.fsync", errno.EIO), ("posix.close", errno.EDQUOT)])
def test_errors_reach_the_writer(origin, mount, point, code):
    m = mount(origin, {"rw": None, **BY_DAEMON}, env={"TIERFS_TEST_FAULTS": f"{point}:1:error={code}"})
    handle = os.open(m.path / "file", os.O_CREAT | os.O_WRONLY)
    found = []
    for step in (lambda: os.write(handle, b"x" * 10), lambda: os.fsync(handle), lambda: os.close(handle)):
        try:
            step()
        except OSError as error:
            found.append(error.errno)
    assert found == [code]
    (m.path / "file").write_bytes(b"later")
    assert (origin / "file").read_bytes() == b"later"


def test_daemon_that_dies_leaves_a_dead_mount(origin, show):
    """Nobody hangs; what was written is there; whoever goes on by path gets an error, too (operate/test_dead_mount.py)."""
    m = show(**BY_DAEMON)
    handle = os.open(m.path / "file", os.O_CREAT | os.O_WRONLY)
    os.write(handle, b"acknowledged")
    m.kill_daemon()
    with pytest.raises(OSError) as caught:
        for _ in range(1000):
            os.write(handle, b"x")
            time.sleep(0.01)
    assert caught.value.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    assert error_of(os.close, handle) in (errno.ENOTCONN, errno.ECONNABORTED)
    m.expect_gone()
    assert m.mounted() and error_of(os.mkdir, m.path / "folder") == errno.ENOTCONN
    assert (origin / "file").read_bytes().startswith(b"acknowledged")


def test_supervisor_says_that_nobody_takes_over(show):
    m = show()
    status = m.status()
    assert status["supervisor"]["enabled"] is False and "writable" in status["supervisor"]["reason"]
    finished = processes.run([daemon.BINARY, "reload", m.path], env=m.env)
    assert finished.returncode == 1 and "writable" in finished.err


@pytest.mark.alone
def test_files_that_are_forgotten_are_found_again(origin, show):
    """More files than descriptors are kept, and than the kernel remembers."""
    m = show()
    for number in range(300):
        path = m.path / f"d{number % 7}" / f"e{number % 3}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number)
    data.drop_caches(2)
    os.rename(m.path / "d0", m.path / "moved")
    for number in range(300):
        folder = f"d{number % 7}" if number % 7 else "moved"
        path = m.path / folder / f"e{number % 3}" / f"f{number}"
        os.chmod(path, 0o600)
        assert path.read_bytes() == b"%d" % number

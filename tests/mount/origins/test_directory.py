"""A directory as origin: the mount shows what is there, byte for byte, and refuses to write."""

import errno
import mmap
import os
import random
import stat
import time

import pytest

from harness import data, disks, processes

pytestmark = pytest.mark.release


def show(origin, mount, **options):
    return mount(origin, {"metadata.ttl": "1s", **options})


def eventually(condition, what):
    """Within metadata.ttl (1 s in these tests), with room for a busy machine."""
    processes.wait_until(condition, timeout=15, what=what)


@pytest.mark.quick
@pytest.mark.tsan
def test_tree_is_equal(origin, mount):
    files = data.make_files(origin, 200, 3000)
    files["empty"] = data.write(origin / "empty", b"")
    files["sub/deep/er/file"] = data.write(origin / "sub/deep/er/file", b"deep")
    (origin / "empty folder").mkdir()
    (origin / "link").symlink_to("sub/deep/er/file")
    (origin / "dangling").symlink_to("/nowhere/at all")
    m = show(origin, mount)
    # --no-dereference: links are compared as links
    processes.check(["diff", "-r", "--no-dereference", origin, m.path])
    assert data.names(m.path) == data.names(origin)
    data.expect_files(m.path, files)
    assert os.readlink(m.path / "dangling") == "/nowhere/at all"
    assert (m.path / "link").read_bytes() == b"deep"


def test_attributes(origin, mount):
    data.write(origin / "file", b"x" * 12345)
    os.chmod(origin / "file", 0o640)
    os.chown(origin / "file", 1234, 4321)
    os.utime(origin / "file", ns=(1, 1_600_000_000_123_456_789))
    (origin / "folder").mkdir()
    os.chmod(origin / "folder", 0o711)
    m = show(origin, mount)
    seen = os.stat(m.path / "file")
    assert (seen.st_size, stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid) == (12345, 0o640, 1234, 4321)
    assert seen.st_mtime_ns == 1_600_000_000_123_456_789
    assert stat.S_ISREG(seen.st_mode) and seen.st_nlink >= 1
    assert stat.S_IMODE(os.stat(m.path / "folder").st_mode) == 0o711
    assert os.stat(m.path / "file").st_ino == seen.st_ino


def test_inode_numbers_differ_and_match_readdir(origin, mount):
    data.make_files(origin, 50, 10, fan=1)
    m = show(origin, mount)
    listed = {entry.name: entry.inode() for entry in os.scandir(m.path / "d00")}
    assert len(set(listed.values())) == 50
    for name, inode in listed.items():
        assert os.stat(m.path / "d00" / name).st_ino == inode


def test_reads_at_offsets_and_at_the_end(origin, mount):
    size = 3 * 1024 * 1024 + 123
    expected = data.write(origin / "file", data.content("offsets", size))
    m = show(origin, mount)
    chance = random.Random(1)
    spans = [(0, 1), (0, size), (size - 1, 1), (size - 1, 100), (size, 1), (size, 4096), (size + 4096, 10),
             (4095, 2), (131071, 2), (1 << 20, 1 << 20)]
    spans += [(chance.randrange(size), chance.randrange(1, 300_000)) for _ in range(60)]
    handle = os.open(m.path / "file", os.O_RDONLY)
    try:
        for offset, length in spans:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            data.expect_same(os.pread(handle, length, offset), expected[offset:offset + length], (offset, length))
    finally:
        os.close(handle)


def test_direct_reads(origin, mount):
    size = (1 << 20) + 1000
    expected = data.write(origin / "file", data.content("direct", size))
    m = show(origin, mount)
    handle = os.open(m.path / "file", os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, 1 << 18)
    try:
        for offset in (0, 4096, 1 << 18, size // 4096 * 4096):
            count = os.preadv(handle, [buffer], offset)
            data.expect_same(buffer[:count], expected[offset:offset + (1 << 18)], offset)
    finally:
        os.close(handle)
        buffer.close()


def test_big_file(origin, mount):
    piece = data.content("big", 1 << 20)
    with open(origin / "big", "wb") as out:
        for number in range(200):
            out.write(number.to_bytes(8, "little") + piece[8:])
    m = show(origin, mount)
    processes.check(["cmp", origin / "big", m.path / "big"], timeout=60)


def test_hole_is_zeros(origin, mount):
    with open(origin / "sparse", "wb") as out:
        out.seek(5 << 20)
        out.write(b"end")
    m = show(origin, mount)
    data.expect_same(data.read_cold(m.path / "sparse"), bytes(5 << 20) + b"end", "sparse")


def test_mmap(origin, mount):
    expected = data.write(origin / "file", data.content("mmap", 2_000_003))
    m = show(origin, mount)
    with open(m.path / "file", "rb") as handle, mmap.mmap(handle.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        for offset in (0, 4096, 1_999_999, 777_777):
            data.expect_same(mapped[offset:offset + 5000], expected[offset:offset + 5000], offset)
        data.expect_same(mapped[:], expected, "all")


@pytest.mark.tsan
def test_many_names_in_one_directory(origin, mount):
    expected = {f"name-{number:05}" for number in range(10_000)}
    (origin / "many").mkdir()
    for name in expected:
        (origin / "many" / name).touch()
    m = show(origin, mount)
    listed = os.listdir(m.path / "many")
    assert len(listed) == 10_000 and set(listed) == expected
    handle = os.open(m.path / "many", os.O_RDONLY)  # a second pass over the same open directory starts anew
    try:
        assert set(os.listdir(handle)) == expected
        assert set(os.listdir(handle)) == expected
    finally:
        os.close(handle)


@pytest.mark.quick
def test_odd_names(origin, mount):
    names = [b"new\nline", b"tab\t", b"not utf-8 \xff\xfe\x80", b"n" * 255, "grüße-日本".encode(), b" leading", b"-rf",
             b"quote'\"", b"back\\slash", b"per%cent", b"*?[]", b"...", b"..x", b"\x01\x7f", b"semi;colon:equal=,"]
    for name in names:
        with open(os.path.join(os.fsencode(origin), name), "wb") as out:
            out.write(b"content of " + name)
    m = show(origin, mount)
    assert sorted(os.listdir(os.fsencode(m.path))) == sorted(names)
    for name in names:
        path = os.path.join(os.fsencode(m.path), name)
        assert data.read_cold(path) == b"content of " + name
        assert os.stat(path).st_size == len(name) + 11
    with pytest.raises(OSError) as error:
        os.stat(os.path.join(os.fsencode(m.path), b"n" * 256))
    assert error.value.errno == errno.ENAMETOOLONG


def test_more_names_than_memory_takes(origin, mount):
    """Read once for each stretch of them (of some 44,000 with the least memory), whatever order readdir has."""
    names = [f"{number * 7919 % 60_000:06}{'n' * 210}" for number in range(60_000)]
    for name in names:
        os.close(os.open(origin / name, os.O_CREAT | os.O_WRONLY))
    m = mount(origin, {"memory.limit": "96M", "metadata.ttl": "1h"})
    found = os.listdir(m.path)
    assert len(found) == len(names) and sorted(found) == sorted(names)
    assert os.stat(m.path / names[5]).st_size == 0


def test_missing_names(origin, mount):
    data.write(origin / "file", b"x")
    m = show(origin, mount)
    for name in ("none", "none/below", "file2", "File"):
        assert not os.path.lexists(m.path / name)
    with pytest.raises(NotADirectoryError):
        os.stat(m.path / "file" / "below")
    with pytest.raises(FileNotFoundError):
        open(m.path / "none", "rb")  # pylint: disable=consider-using-with
    # What was missing is found within metadata.ttl once it is there.
    data.write(origin / "none", b"now")
    eventually((m.path / "none").exists, "a new file is seen")
    assert (m.path / "none").read_bytes() == b"now"


def test_missing_names_cost_few_requests(origin, mount):
    m = mount(origin, {"metadata.ttl": "1h"})
    os.path.exists(m.path / "none")
    before = m.requests()
    for _ in range(50):
        assert not os.path.exists(m.path / "none")
    assert m.requests() - before <= 1


@pytest.mark.quick
def test_changed_file(origin, mount):
    data.write(origin / "file", b"old content")
    m = show(origin, mount)
    assert (m.path / "file").read_bytes() == b"old content"
    data.write(origin / "file", b"the new and longer content")
    eventually(lambda: (m.path / "file").read_bytes() == b"the new and longer content", "new content")
    assert os.stat(m.path / "file").st_size == 26


def test_replaced_file_of_the_same_size(origin, mount):
    data.write(origin / "file", data.content("one", 200_000))
    m = show(origin, mount)
    (m.path / "file").read_bytes()
    new = data.write(origin / ".file.part", data.content("two", 200_000))
    os.rename(origin / ".file.part", origin / "file")
    eventually(lambda: (m.path / "file").read_bytes() == new, "content of the replacement")


def test_rewrites_within_one_tick_of_the_clock(folder, mount):
    """Same size, same times: nothing but the bytes tells the two apart."""
    with disks.Ext4(folder, kind="ext3") as disk:
        path, twins = disk.path / "file", 0
        data.write(path, b"0" * 5000)
        m = mount(disk.path, {"metadata.ttl": "0s"})
        for number in range(1, 3000):  # a busy machine needs more of them
            if number >= 60 and twins > 3:
                break
            old = os.stat(path)
            with open(path, "r+b") as file:
                file.write(b"%d" % (number % 10) * 5000)
            twins += os.stat(path).st_ctime_ns == old.st_ctime_ns
            assert (m.path / "file").read_bytes() == b"%d" % (number % 10) * 5000, number
        assert twins > 3, "the clock is finer than the test"
        time.sleep(0.1)
        before = m.status()["origin"]["bytes_read"]
        for _ in range(5):
            (m.path / "file").read_bytes()
        assert m.status()["origin"]["bytes_read"] - before <= 5000, "it is a file like any other by now"


def test_deleted_file(origin, mount):
    data.write(origin / "folder/file", b"x")
    m = show(origin, mount)
    assert (m.path / "folder/file").exists()
    os.unlink(origin / "folder/file")
    eventually(lambda: not os.path.exists(m.path / "folder/file"), "deletion is seen")
    eventually(lambda: os.listdir(m.path / "folder") == [], "deletion is seen in the listing")
    os.rmdir(origin / "folder")
    eventually(lambda: not os.path.exists(m.path / "folder"), "deletion of the folder is seen")


@pytest.mark.parametrize("how", ["rename", "in place"])
def test_replaced_while_open_is_never_a_mixture(origin, mount, how):
    size = 24 << 20
    old, new = bytes([1]) * size, bytes([2]) * size
    data.write(origin / "file", old)
    m = show(origin, mount, **{"prefetch.window": "1M"})
    with open(m.path / "file", "rb", buffering=0) as handle:
        assert handle.read(65536) == old[:65536]
        if how == "rename":
            data.write(origin / "new", new)
            os.rename(origin / "new", origin / "file")
        else:
            data.write(origin / "file", new)
        time.sleep(0.05)
        for offset in range(65536, size, 1 << 20):
            try:
                piece = os.pread(handle.fileno(), 65536, offset)
            except OSError as error:
                assert error.errno == errno.ESTALE
                break
            assert set(piece) <= {1}, f"bytes of the new version at {offset} of a file that was open"
    eventually(lambda: _whole(m.path / "file") == new, "the new version under its name")


def _whole(path):
    try:
        return path.read_bytes()
    except OSError as error:
        assert error.errno == errno.ESTALE
        return None


def test_file_becomes_directory(origin, mount):
    data.write(origin / "thing", b"file")
    m = show(origin, mount)
    assert (m.path / "thing").is_file()
    os.unlink(origin / "thing")
    data.write(origin / "thing/inside", b"now a folder")
    eventually(lambda: os.path.isdir(m.path / "thing") and (m.path / "thing/inside").exists(), "folder in its place")
    assert (m.path / "thing/inside").read_bytes() == b"now a folder"


def test_statfs(origin, mount):
    m = show(origin, mount)
    seen = os.statvfs(m.path)
    assert seen.f_namemax == 255 and seen.f_bsize >= 512
    assert seen.f_bfree <= seen.f_blocks
    assert seen.f_flag & os.ST_RDONLY
    processes.check(["df", m.path])


@pytest.mark.parametrize("name,act", [
    ("create", lambda p: open(p / "new", "wb")),
    ("write", lambda p: open(p / "file", "r+b")),
    ("append", lambda p: open(p / "file", "ab")),
    ("truncate", lambda p: os.truncate(p / "file", 0)),
    ("mkdir", lambda p: os.mkdir(p / "d")),
    ("unlink", lambda p: os.unlink(p / "file")),
    ("rmdir", lambda p: os.rmdir(p / "folder")),
    ("rename", lambda p: os.rename(p / "file", p / "other")),
    ("symlink", lambda p: os.symlink("x", p / "link")),
    ("link", lambda p: os.link(p / "file", p / "hard")),
    ("chmod", lambda p: os.chmod(p / "file", 0o600)),
    ("chown", lambda p: os.chown(p / "file", 1, 1)),
    ("utime", lambda p: os.utime(p / "file")),
    ("mkfifo", lambda p: os.mkfifo(p / "fifo")),
    ("setxattr", lambda p: os.setxattr(p / "file", "user.x", b"y")),
])
def test_writes_are_refused(origin, mount, name, act):
    data.write(origin / "file", b"keep")
    (origin / "folder").mkdir()
    m = show(origin, mount)
    with pytest.raises(OSError) as error:
        act(m.path)
    assert error.value.errno == errno.EROFS, name
    assert data.names(origin) == [b"file", b"folder"] and (origin / "file").read_bytes() == b"keep"


def test_extended_attributes(origin, mount):
    data.write(origin / "file", data.content("xattr", 50_000))
    m = show(origin, mount)
    (m.path / "file").read_bytes()
    tier = os.getxattr(m.path / "file", "user.tierfs.tier").decode()
    assert tier and all(word in ("ram", "nvme", "shared", "origin") for word in tier.replace("+", ",").split(",")), tier
    version = os.getxattr(m.path / "file", "user.tierfs.version")
    assert version
    with pytest.raises(OSError) as error:
        os.getxattr(m.path / "file", "user.nothing")
    assert error.value.errno == errno.ENODATA
    data.write(origin / "file", b"other")
    eventually(lambda: os.getxattr(m.path / "file", "user.tierfs.version") != version, "another version")


def test_special_files_do_no_harm(origin, mount):
    os.mkfifo(origin / "fifo")
    data.write(origin / "file", b"x")
    m = show(origin, mount)
    assert "file" in os.listdir(m.path)
    if os.path.lexists(m.path / "fifo"):
        assert stat.S_ISFIFO(os.lstat(m.path / "fifo").st_mode)
    assert (m.path / "file").read_bytes() == b"x"


@pytest.mark.quick
@pytest.mark.tsan
def test_many_readers_at_once(origin, mount):
    files = data.make_files(origin, 64, 40_000)
    data.write(origin / "shared", data.content("shared", 8 << 20))
    m = show(origin, mount)
    script = "; ".join([f"cd '{m.path}'",
                        "for i in 1 2 3 4 5 6 7 8; do (find . -type f | sort -R --random-source=/bin/ls | "
                        "xargs cat | wc -c) & done; wait"])
    total = sum(map(len, files.values())) + (8 << 20)
    seen = processes.check(["bash", "-c", script], timeout=60, suspects=m.processes).out.split()
    assert seen == [str(total)] * 8
    data.expect_files(m.path, files)


@pytest.mark.parametrize("first", ["ls", "stat"])
def test_names_of_one_file_have_one_inode_number(origin, mount, first):
    """du, tar and rsync -H go by it."""
    data.write(origin / "a", bytes(100_000))
    (origin / "d").mkdir()
    os.link(origin / "a", origin / "d/b")
    data.write(origin / "single", b"x")
    m = mount(origin)
    if first == "ls":
        os.listdir(m.path)
        os.listdir(m.path / "d")
    one, other, single = (os.stat(m.path / name) for name in ("a", "d/b", "single"))
    assert one.st_ino == other.st_ino != single.st_ino and one.st_nlink == other.st_nlink == 2
    assert {entry.name: entry.inode() for entry in os.scandir(m.path)}["a"] == one.st_ino
    used = processes.check(["du", "-s", "-B1", m.path]).out.split()[0]
    assert int(used) < 2 * 100_000, "it is counted once"


def test_df_shows_the_file_system_of_the_directory(mount, folder, xfs):
    data.write(xfs.path / "file", bytes(50 << 20))
    m = mount(xfs.path)
    one, other = os.statvfs(m.path), os.statvfs(xfs.path)
    assert one.f_blocks * one.f_frsize == other.f_blocks * other.f_frsize
    assert abs(one.f_bavail * one.f_frsize - other.f_bavail * other.f_frsize) < 1 << 20

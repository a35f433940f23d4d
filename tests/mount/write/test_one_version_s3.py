"""An open file of a writable bucket is one version, whatever another host, here a plain client, puts in its place."""

import contextlib
import errno
import os
import subprocess
import time

import pytest

from harness import data

MIB = 1 << 20
SIZE = 12 * MIB
FIRST = 256 << 10


@pytest.fixture
def show(rgw_bucket, mount):
    """show(**options): the bucket, mounted writable; what was asked once is believed for an hour."""
    def start(**options):
        return mount(rgw_bucket.source(), rgw_bucket.options({"rw": None, "metadata.ttl": "1h", **options}),
                     env=rgw_bucket.env)
    return start


@pytest.fixture
def put(rgw_bucket):
    def put(key, body):
        rgw_bucket.server.client.put_object(Bucket=rgw_bucket.name, Key=key, Body=body)
    return put


def version(letter, size=SIZE):
    return letter.encode() * size


def read_on(descriptor, offset, size=SIZE):
    """What is read from there on, until the end or ESTALE; and whether that came."""
    pieces = []
    while offset < 2 * size:
        try:
            piece = os.pread(descriptor, 1 * MIB, offset)
        except OSError as error:
            assert error.errno == errno.ESTALE, error
            return b"".join(pieces), True
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces), False


def nothing(path):
    pass


def open_it(path):
    with open(path, "rb") as file:
        assert file.read() in (version("1"), version("2", os.fstat(file.fileno()).st_size))


def write_to_it(path):
    with open(path, "r+b") as file:
        file.write(b"3")


def change_its_mode(path):
    os.chmod(path, 0o600)


def rename_it(path):
    os.rename(path, path.with_name("elsewhere"))


def remove_it(path):
    os.unlink(path)


def replace_it(path):
    path.with_name("other").write_bytes(b"4" * SIZE)
    os.rename(path.with_name("other"), path)


CHANGES = [nothing, open_it, write_to_it, change_its_mode, rename_it, remove_it, replace_it]


@pytest.mark.parametrize("size", [SIZE // 2, SIZE, 2 * SIZE], ids=["shorter", "equal", "longer"])
@pytest.mark.parametrize("change", CHANGES, ids=[one.__name__ for one in CHANGES])
def test_open_file_is_one_version(show, put, change, size):
    m = show()
    put("f", version("1"))
    descriptor = os.open(m.path / "f", os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        assert os.pread(descriptor, FIRST, 0) == version("1", FIRST)
        put("f", version("2", size))
        change(m.path / "f")
        assert os.fstat(descriptor).st_size == SIZE
        rest, is_stale = read_on(descriptor, FIRST)
        assert rest == version("1", len(rest))
        assert is_stale or len(rest) == SIZE - FIRST
        assert os.fstat(descriptor).st_size == SIZE
    finally:
        os.close(descriptor)


MAPPED = """
import mmap, os, sys
with open(sys.argv[1], "rb") as file:
    pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    print(pages[0], flush=True)
    sys.stdin.readline()
    print(all(pages[at] == pages[0] for at in range(0, len(pages), 4096)), flush=True)
"""


def test_mapped_file_is_one_version(show, put):
    m = show()
    put("f", version("1"))
    reader = subprocess.Popen(["/usr/bin/python3", "-c", MAPPED, m.path / "f"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    assert reader.stdout.readline() == "49\n"
    put("f", version("2"))
    write_to_it(m.path / "f")
    said, _ = reader.communicate("\n", timeout=60)
    # SIGBUS: what was not read before is not to be had any more.
    assert said == "True\n" if reader.returncode == 0 else reader.returncode == -7
    assert (m.path / "f").read_bytes() == b"3" + version("2", SIZE - 1)


@pytest.mark.parametrize("sizes", [(MIB, MIB), (MIB, 3 * MIB), (100_000, 50_000)], ids=["equal", "longer", "shorter"])
def test_name_that_was_looked_up_and_replaced_is_the_new_file(show, put, sizes):
    """While nothing of the old version has been seen, the new one is served: no error."""
    m = show()
    for turn in range(6):
        name, letters = f"f{turn}", ("1", "2")
        put(name, version(letters[0], sizes[0]))
        assert os.stat(m.path / name).st_size == sizes[0]
        put(name, version(letters[1], sizes[1]))
        data.expect_same((m.path / name).read_bytes(), version(letters[1], sizes[1]), name)
        assert os.stat(m.path / name).st_size == sizes[1]


@pytest.mark.parametrize("sizes", [(100, 5272), (100, 300), (5000, 8193), (5000, 12_288), (812, 815), (3 * MIB, 40 * MIB)], ids=str)
def test_one_read_of_a_name_that_was_looked_up_and_replaced_is_no_part_of_it(show, put, sizes):
    """Readers that take a short read for the end: all of the new version, or an error once, where the kernel's end cannot be moved."""
    m = show()
    for turn in range(12 if sizes[1] < MIB else 3):  # the answer to fstat() races with the next read
        name = f"f{turn}"
        put(name, version("1", sizes[0]))
        descriptor = os.open(m.path / name, os.O_RDONLY)
        try:
            put(name, version("2", sizes[1]))
            try:
                found = os.pread(descriptor, 64 << 10, 0)
                assert found == version("2", min(sizes[1], 64 << 10)), len(found)
            except OSError as error:
                assert error.errno == errno.ESTALE and (sizes[1] - 1) % 4096 == 0 or (sizes[0] - 1) // 4096 == (sizes[1] - 1) // 4096
            assert os.fstat(descriptor).st_size == sizes[1]
            end = os.pread(descriptor, 64 << 10, max(0, sizes[1] - 1000))
            assert end == version("2", min(sizes[1], 1000))
        finally:
            os.close(descriptor)


def test_long_name_that_was_looked_up_and_replaced_by_a_shorter_one(show, put):
    """The kernel asks for the old length by several requests: an error, once, and never bytes of neither."""
    m = show()
    for turn in range(6):
        put(f"f{turn}", version("1", 3 * MIB))
        (m.path / f"f{turn}").stat()
        put(f"f{turn}", version("2", MIB))
        with pytest.raises(OSError) as caught:
            (m.path / f"f{turn}").read_bytes()
        assert caught.value.errno == errno.ESTALE
        data.expect_same((m.path / f"f{turn}").read_bytes(), version("2", MIB), "the next time")


def test_shorter_version_behind_a_page_that_could_not_be_written(show, put):
    """The kernel reads such a page in the reader's own turn, and looks at the answer only when that runs again: by then it
    must not have been told of anything else, or it takes zeros for the bytes up to the old end."""
    m = show()
    for turn in range(15):
        name = f"f{turn}"
        put(name, version("1", 100))
        writer, reader = os.open(m.path / name, os.O_WRONLY), os.open(m.path / name, os.O_RDONLY)
        put(name, version("2", 100))
        assert (m.path / name).read_bytes() == version("2", 100)
        with pytest.raises(OSError) as caught:
            os.pwrite(writer, version("3", 10_000), 100)
        assert caught.value.errno == errno.ESTALE
        os.close(writer)
        put(name, b"")
        with contextlib.suppress(OSError):
            assert os.pread(reader, 1 << 20, 44) == b""
        os.close(reader)


def test_descriptor_that_was_refused_stays_so(show, put):
    """It was told that its file is gone: what comes to the name afterwards is another one, however long."""
    m = show()
    put("f", version("1", 10_000))
    descriptor = os.open(m.path / "f", os.O_RDONLY)
    try:
        put("f", b"2")
        with pytest.raises(OSError) as caught:
            os.pread(descriptor, 100, 9000)
        assert caught.value.errno == errno.ESTALE
        put("f", version("3", 70_000))
        with pytest.raises(OSError) as caught:
            os.pread(descriptor, 100, 9000)
        assert caught.value.errno == errno.ESTALE
        data.expect_same((m.path / "f").read_bytes(), version("3", 70_000), "who opens it now")
    finally:
        os.close(descriptor)


def mapped(descriptor, length):
    """A child reads this through a mapping of its standard input; None: SIGBUS."""
    program = """
import mmap, sys
with mmap.mmap(0, int(sys.argv[1]), access=mmap.ACCESS_READ) as pages:
    sys.stdout.buffer.write(pages[:])
"""
    child = subprocess.run(["/usr/bin/python3", "-c", program, str(length)], stdin=descriptor, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, timeout=60, check=False)
    assert child.returncode in (0, -7)
    return child.stdout if child.returncode == 0 else None


@pytest.mark.parametrize("renamed", [False, True], ids=["in-its-place", "renamed"])
@pytest.mark.parametrize("beside", ["nobody", "a-writer", "a-writer-who-is-refused"])
def test_size_that_fstat_shows_is_of_the_bytes_that_come(show, put, beside, renamed):
    """Nothing was read of a file that another host replaces: it may be the new one, but whole."""
    m = show(**{"metadata.ttl": "0s"})
    put("f", b"11")
    name = "g" if renamed else "f"
    descriptor = os.open(m.path / "f", os.O_RDONLY)
    try:
        writer = None if beside == "nobody" else os.open(m.path / "f", os.O_RDWR)
        if renamed:
            os.rename(m.path / "f", m.path / name)
        put(name, version("2", 10_000))
        with contextlib.suppress(OSError):
            if beside == "a-writer-who-is-refused":
                os.pread(writer, SIZE, 0)
        with contextlib.suppress(OSError):
            if writer is not None:
                os.close(writer)
        size = os.fstat(descriptor).st_size
        assert mapped(descriptor, size) in (None, b"11" if size == 2 else version("2", 10_000))
        found, is_stale = read_on(descriptor, 0)
        assert is_stale or len(found) == size
    finally:
        os.close(descriptor)


def test_polling_reader_sees_whole_versions(show, put):
    """Each time the whole of a version, an old one within metadata.ttl, and never one before that again."""
    m = show(**{"metadata.ttl": "100ms"})
    sizes = [MIB, 300_000, 2 * MIB, 5000]
    put("f", version("0", sizes[0]))
    seen = 0
    for turn in range(1, 30):
        (m.path / "f").stat()
        put("f", version(chr(48 + turn), sizes[turn % len(sizes)]))
        try:
            found = (m.path / "f").read_bytes()
        except OSError as error:
            assert error.errno == errno.ESTALE and sizes[turn % len(sizes)] < max(sizes)
            found = (m.path / "f").read_bytes()
        at = found[0] - 48
        assert seen <= at <= turn
        seen = at
        data.expect_same(found, version(chr(48 + at), sizes[at % len(sizes)]), f"round {turn}")


@pytest.mark.parametrize("reads", ["after-close", "before-close"])
def test_exclusive_create_that_another_host_won(show, put, reads):
    m = show(**{"writes.claim": "false"})
    for turn in range(5):
        path = m.path / f"x{turn}"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        os.write(descriptor, b"ours")
        put(f"x{turn}", b"theirs, and longer")
        with pytest.raises(OSError) as caught:
            os.fsync(descriptor)
        assert caught.value.errno == errno.EEXIST
        if reads == "before-close":
            assert path.read_bytes() == b"theirs, and longer"
        with pytest.raises(OSError) as caught:
            os.close(descriptor)
        assert caught.value.errno in (errno.EEXIST, errno.ESTALE)
        assert path.read_bytes() == b"theirs, and longer"


def test_old_bytes_put_again_are_a_file_that_can_be_read(show, put):
    """The same bytes have the same version; those who have the first one open may read on."""
    m = show()
    put("f", version("1", MIB))
    with open(m.path / "f", "rb", buffering=0) as first:
        assert first.read(1000) == version("1", 1000)
        put("f", version("2", 1000))
        os.chmod(m.path / "f", 0o640)
        assert (m.path / "f").read_bytes() == version("2", 1000)
        put("f", version("1", MIB))
        os.chmod(m.path / "f", 0o600)
        for _ in range(3):
            assert (m.path / "f").read_bytes() == version("1", MIB)
        rest, _ = read_on(first.fileno(), 1000, MIB)
        assert rest == version("1", len(rest))


def test_symlink_that_another_host_replaced(show, put, rgw_bucket):
    m = show(**{"metadata.ttl": "100ms"})
    os.symlink("old", m.path / "link")
    assert os.readlink(m.path / "link") == "old"
    client = rgw_bucket.server.client
    metadata = client.head_object(Bucket=rgw_bucket.name, Key="link")["Metadata"]
    client.put_object(Bucket=rgw_bucket.name, Key="link", Body=b"newer", Metadata=metadata)
    time.sleep(0.3)
    assert os.readlink(m.path / "link") == "newer"


@pytest.mark.parametrize("then", ["shorter", "longer", "removed"])
def test_open_for_writing_is_no_reason_to_hide_what_another_host_did(rgw_bucket, show, put, then):
    """Nothing has been written here yet: the name is the other host's, and a write would be lost."""
    m = show(**{"metadata.ttl": "0s"})
    put("f", b"1" * 100)
    with open(m.path / "f", "r+b", buffering=0) as writer:
        if then == "removed":
            rgw_bucket.server.client.delete_object(Bucket=rgw_bucket.name, Key="f")
            assert not (m.path / "f").exists() and os.listdir(m.path) == []
        else:
            put("f", b"2" * (1 if then == "shorter" else 200))
            assert os.stat(m.path / "f").st_size == (1 if then == "shorter" else 200)
            for _ in range(2):
                with open(m.path / "f", "rb") as reader:
                    assert reader.read() == b"2" * (1 if then == "shorter" else 200)
        with pytest.raises(OSError) as refused:
            writer.write(b"3")
        assert refused.value.errno == errno.ESTALE
        assert os.fstat(writer.fileno()).st_size == 100
    if then == "removed":
        assert not (m.path / "f").exists()
    else:
        (m.path / "f").write_bytes(b"4")
        assert rgw_bucket.server.client.get_object(Bucket=rgw_bucket.name, Key="f")["Body"].read() == b"4"


@pytest.mark.parametrize("second", ["reader", "writer"])
def test_what_was_written_here_is_shown_here(rgw_bucket, show, put, second):
    """Until its close, and then it is the last."""
    m = show(**{"metadata.ttl": "0s"})
    put("f", b"1" * 100)
    with open(m.path / "f", "r+b", buffering=0) as writer:
        assert writer.write(b"3" * 100) == 100
        put("f", b"2")
        assert os.stat(m.path / "f").st_size == 100
        with open(m.path / "f", "rb" if second == "reader" else "r+b") as other:
            assert other.read() == b"3" * 100
    assert (m.path / "f").read_bytes() == b"3" * 100
    assert rgw_bucket.server.client.get_object(Bucket=rgw_bucket.name, Key="f")["Body"].read() == b"3" * 100


def test_mode_that_another_host_sets_meanwhile_stays(rgw_bucket, mount, show):
    """It is of the same bytes; what is not changed here is not written back."""
    m = show(**{"metadata.ttl": "0s"})
    other = show(**{"metadata.ttl": "0s"})
    (m.path / "f").write_bytes(b"1" * 100)
    with open(m.path / "f", "r+b", buffering=0) as writer:
        os.chmod(other.path / "f", 0o640)
        assert os.stat(m.path / "f").st_mode & 0o7777 == 0o640
        writer.write(b"3")
    assert os.stat(m.path / "f").st_mode & 0o7777 == 0o640 == os.stat(other.path / "f").st_mode & 0o7777
    assert (other.path / "f").read_bytes() == b"3" + b"1" * 99

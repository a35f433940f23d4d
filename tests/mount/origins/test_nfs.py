"""An NFS server as origin, without the kernel's client: right bytes, one READ for a small file, and trouble on the way."""

import errno
import os
import struct
import threading
import time

import pytest

from harness import daemon, data, nfs, processes
from test_directory import eventually


def show(exported, mount, **options):
    return mount(exported.url(), {"metadata.ttl": "1s", **options})


@pytest.mark.quick
@pytest.mark.release
@pytest.mark.tsan
def test_tree_is_equal(exported, mount):
    files = data.make_files(exported.path, 200, 3000)
    files["empty"] = data.write(exported.path / "empty", b"")
    files["large"] = data.write(exported.path / "large", data.content("large", 9_000_001))
    files["sub/deep/er/file"] = data.write(exported.path / "sub/deep/er/file", b"deep")
    (exported.path / "empty folder").mkdir()
    (exported.path / "link").symlink_to("sub/deep/er/file")
    (exported.path / "dangling").symlink_to("/nowhere/at all")
    m = show(exported, mount)
    processes.check(["diff", "-r", "--no-dereference", exported.path, m.path])
    assert data.names(m.path) == data.names(exported.path)
    data.expect_files(m.path, files)
    assert os.readlink(m.path / "dangling") == "/nowhere/at all"
    assert (m.path / "link").read_bytes() == b"deep"
    assert m.status()["source"].startswith("nfs://")


def test_attributes(exported, mount):
    data.write(exported.path / "file", b"x" * 12345)
    os.chmod(exported.path / "file", 0o640)
    os.chown(exported.path / "file", 1234, 4321)
    os.utime(exported.path / "file", ns=(1, 1_600_000_000_123_456_789))
    m = show(exported, mount)
    seen = os.stat(m.path / "file")
    assert (seen.st_size, seen.st_mode & 0o7777, seen.st_uid, seen.st_gid) == (12345, 0o640, 1234, 4321)
    assert seen.st_mtime_ns == 1_600_000_000_123_456_789


@pytest.mark.quick
@pytest.mark.release
def test_small_file_costs_one_read(exported, mount):
    files = data.make_files(exported.path, 300, 5000, fan=1)
    m = mount(exported.url(), {"metadata.ttl": "1h", "prefetch.window": "0"})
    assert len(os.listdir(m.path / "d00")) == 300
    before = m.status()["origin"]["requests"]
    data.expect_files(m.path, files)
    after = m.status()["origin"]["requests"]
    assert after["get"] - before["get"] == 300
    assert {kind: after[kind] - before[kind] for kind in ("head", "list", "put", "delete", "other")} == {
        "head": 0, "list": 0, "put": 0, "delete": 0, "other": 0}


def test_odd_names(exported, mount):
    names = [b"new\nline", b"not utf-8 \xff\xfe\x80", b"n" * 255, "grüße-日本".encode(), b"back\\slash", b"...", b"..x"]
    for name in names:
        with open(os.path.join(os.fsencode(exported.path), name), "wb") as out:
            out.write(b"content of " + name)
    m = show(exported, mount)
    assert sorted(os.listdir(os.fsencode(m.path))) == sorted(names)
    for name in names:
        assert data.read_cold(os.path.join(os.fsencode(m.path), name)) == b"content of " + name
    with pytest.raises(OSError) as error:
        os.stat(os.path.join(os.fsencode(m.path), b"n" * 256))
    assert error.value.errno == errno.ENAMETOOLONG


def test_thirty_thousand_names(exported, mount):
    (exported.path / "many").mkdir()
    for number in range(30_000):
        os.close(os.open(exported.path / "many" / f"name-{number:06}", os.O_CREAT | os.O_WRONLY))
    m = mount(exported.url())
    assert sorted(os.listdir(m.path / "many")) == [f"name-{number:06}" for number in range(30_000)]
    assert m.status()["origin"]["requests"]["list"] < 300


def test_more_names_than_memory_takes(exported, mount):
    """Asked for once for each stretch of them, of some 60,000 with the least memory."""
    names = [f"{number * 7919 % 70_000:06}{'n' * 240}" for number in range(70_000)]
    for name in names:
        os.close(os.open(exported.path / name, os.O_CREAT | os.O_WRONLY))
    m = mount(exported.url(), {"memory.limit": "96M", "metadata.ttl": "1h"})
    found = os.listdir(m.path)
    assert len(found) == len(names) and sorted(found) == sorted(names)
    assert os.stat(m.path / names[5]).st_size == 0


def test_sparse_file_of_more_than_four_gigabytes(exported, mount):
    size = (5 << 30) + 123
    with open(exported.path / "sparse", "wb") as out:
        out.truncate(size)
        out.seek((4 << 30) - 3)
        out.write(b"across the limit")
        out.seek(size - 3)
        out.write(b"end")
    m = show(exported, mount)
    assert os.stat(m.path / "sparse").st_size == size
    with open(m.path / "sparse", "rb", buffering=0) as file:
        assert os.pread(file.fileno(), 20, (4 << 30) - 5) == b"\0\0across the limit\0\0"
        assert os.pread(file.fileno(), 100, size - 5) == b"\0\0end"


def test_missing_and_new_names(exported, mount):
    data.write(exported.path / "file", b"x")
    m = show(exported, mount)
    for name in ("none", "none/below"):
        assert not os.path.lexists(m.path / name)
    with pytest.raises(NotADirectoryError):
        os.stat(m.path / "file" / "below")
    data.write(exported.path / "none", b"now")
    eventually((m.path / "none").exists, "a new file is seen")
    assert (m.path / "none").read_bytes() == b"now"
    os.unlink(exported.path / "none")
    eventually(lambda: not os.path.exists(m.path / "none"), "deletion is seen")


def test_permission_denied_by_the_server(exported, mount):
    data.write(exported.path / "open", b"for all")
    data.write(exported.path / "secret", b"for root")
    os.chmod(exported.path / "secret", 0o600)
    (exported.path / "closed").mkdir(mode=0o700)
    os.chmod(exported.path, 0o755)
    m = mount(exported.server.url(exported.name, export="squashed"), {"metadata.ttl": "1s"})
    assert (m.path / "open").read_bytes() == b"for all"
    with pytest.raises(PermissionError):
        data.read_cold(m.path / "secret")
    with pytest.raises(PermissionError):
        os.listdir(m.path / "closed")


def test_asked_as_another_user(exported, mount):
    data.write(exported.path / "mine", b"of 1234")
    os.chown(exported.path / "mine", 1234, 1234)
    os.chmod(exported.path / "mine", 0o600)
    os.chmod(exported.path, 0o755)
    m = mount(exported.url(uid=4321, gid=4321))
    with pytest.raises(PermissionError):
        data.read_cold(m.path / "mine")
    other = mount(exported.url(), {"nfs.uid": "1234", "nfs.gid": "1234"})
    assert data.read_cold(other.path / "mine") == b"of 1234"


def test_what_cannot_be_mounted(exported, mount):
    server = exported.server
    said = mount.prepare(server.url("", export="nowhere")).refuse()
    assert "no such export" in said and "it exports" in said and "/export" in said
    assert "noent" in mount.prepare(exported.url("none")).refuse()
    said = mount.prepare(exported.url(version=4)).refuse(status=2)
    assert "version 4" in said and "mount -t nfs" in said
    said = mount.prepare(server.url(exported.name, port=1)).refuse()
    assert "refused" in said
    assert "allowed is" in mount.prepare("nfs://host").refuse(status=2)


def test_first_host_is_down(exported, mount):
    """Hosts are addresses of one server: the next one does, at the mount and for each connection."""
    files = data.make_files(exported.path, 50, 3000)
    url = exported.url().replace("127.0.0.1", "127.0.0.9,127.0.0.8,127.0.0.1", 1)
    m = mount(url, {"metadata.ttl": "1s", "origin.deadline": "5s"})
    data.expect_files(m.path, files)
    assert m.status()["origin"]["errors"] == 0


def test_export_below_an_export(exported, mount):
    data.write(exported.path / "a/b/file", b"deep")
    m = mount(exported.url("a/b"))
    assert (m.path / "file").read_bytes() == b"deep"


def test_ports_from_the_portmapper(folder, mount):
    if nfs.missing():
        pytest.skip(f"not installed: {nfs.missing()}")
    server = nfs.Ganesha(folder / "nfs", address="127.45.67.89", portmap=True)
    try:
        data.write(server.data / "file", b"found")
        m = mount("nfs://127.45.67.89/export")
        assert (m.path / "file").read_bytes() == b"found"
    finally:
        server.stop()
    said = mount.prepare("nfs://127.45.67.90/export").refuse()
    assert "portmapper" in said and "nfs.mount_port" in said


@pytest.mark.parametrize("how", ["rename", "in place"])
def test_replaced_while_open_is_never_a_mixture(exported, mount, how):
    size = 24 << 20
    old, new = bytes([1]) * size, bytes([2]) * size
    data.write(exported.path / "file", old)
    m = show(exported, mount, **{"prefetch.window": "1M"})
    with open(m.path / "file", "rb", buffering=0) as handle:
        assert handle.read(65536) == old[:65536]
        if how == "rename":
            data.write(exported.path / "new", new)
            os.rename(exported.path / "new", exported.path / "file")
        else:
            data.write(exported.path / "file", new)
        time.sleep(0.05)
        for offset in range(65536, size, 1 << 20):
            try:
                piece = os.pread(handle.fileno(), 65536, offset)
            except OSError as error:
                assert error.errno == errno.ESTALE
                break
            assert set(piece) <= {1}, f"bytes of the new version at {offset} of a file that was open"

    def whole():
        try:
            return (m.path / "file").read_bytes()
        except OSError as error:
            assert error.errno == errno.ESTALE
            return None
    eventually(lambda: whole() == new, "the new version under its name")


def test_directory_replaced_on_the_server(exported, mount):
    data.write(exported.path / "folder/file", b"of the first")
    m = show(exported, mount)
    assert (m.path / "folder/file").read_bytes() == b"of the first"
    os.rename(exported.path / "folder", exported.path / "moved")
    data.write(exported.path / "folder/file", b"of the second")
    eventually(lambda: (m.path / "folder/file").read_bytes() == b"of the second", "the other folder's file")
    assert (m.path / "moved/file").read_bytes() == b"of the first"


# -- writing ----------------------------------------------------------------------------------------------------------


def send(folder, url, *more, status=0):
    """`tierfs-stage out`; what it said."""
    stage = daemon.BINARY.removesuffix("tierfs") + "tierfs-stage"
    env = daemon.environment(folder.parent, "tierfs-test-stage-out")
    done = processes.run([stage, "out", folder, url, "--state", folder.parent / "state", "-o", "memory.limit=256M", *more],
                         env=env, timeout=90)
    assert done.returncode == status, done
    return done.out + done.err


def make_checkpoint(folder):
    source = folder / "checkpoint"
    data.make_files(source, 30, 7000)
    data.write(source / "large", data.content("large", 40_000_001))
    data.write(source / "empty", b"")
    os.chmod(source / "large", 0o640)
    os.utime(source / "large", ns=(1, 1_600_000_000_123_456_789))
    return source


def expect_equal(source, sent):
    processes.check(["diff", "-r", "--exclude=.tierfs-stage", source, sent])
    assert not [name for name in data.names(sent) if b".tierfs-upload-" in name]


def test_checkpoints_are_sent_to_a_server(exported, folder):
    source = make_checkpoint(folder)
    said = send(source, exported.url())
    assert "32 sent" in said, said
    expect_equal(source, exported.path)
    seen = os.stat(exported.path / "large")
    assert seen.st_mode & 0o7777 == 0o640 and seen.st_mtime_ns == 1_600_000_000_123_456_789
    assert "32 there already" in send(source, exported.url())
    data.write(source / "large", data.content("another", 3_000_000))
    assert "1 sent" in send(source, exported.url())
    expect_equal(source, exported.path)


def test_sending_to_where_it_cannot_go(exported, folder):
    source = make_checkpoint(folder)
    assert "NOENT" in send(source, exported.url("none"), status=1)
    assert "ROFS" in send(source, exported.server.url(exported.name, export="readonly"), status=1)
    assert data.names(exported.path) == []


def test_server_killed_while_it_is_written_to(own_nfs_server, folder):
    """Writes that were not committed are lost with the server: its verifier says so."""
    source = folder / "checkpoint"
    for number in range(6):
        data.write(source / f"large{number}", data.content(number, 60_000_000))
    sender = threading.Thread(target=send, args=(source, own_nfs_server.url("", mode="hard")))
    sender.start()
    processes.wait_until(lambda: data.disk_use(own_nfs_server.data) > 20_000_000, what="something was written")
    own_nfs_server.kill()
    own_nfs_server.start()
    sender.join()
    expect_equal(source, own_nfs_server.data)


# -- trouble ----------------------------------------------------------------------------------------------------------


class Readers:
    """Four threads that read all files again and again, and note wrong bytes and errors."""

    def __init__(self, mount, files):
        self.mount, self.files = mount, files
        self.errors, self.wrong, self.read, self.slowest = [], [], 0, 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(4)]

    def _run(self, number):
        names = list(self.files)[number::4]
        while not self._stop.is_set():
            for name in names:
                begun = time.monotonic()
                try:
                    if data.read_cold(self.mount.path / name) != self.files[name]:
                        self.wrong.append(name)
                except OSError as error:
                    self.errors.append(error.errno)
                self.read += 1
                self.slowest = max(self.slowest, time.monotonic() - begun)
                if self._stop.is_set():
                    return

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, more):
        goal = self.read + more
        processes.wait_until(lambda: self.read >= goal, timeout=40, what=f"{more} more reads")

    def wait_until_held(self):
        """Nobody reads on, as each waits for the server."""
        before = None
        while before != self.read:
            before = self.read
            time.sleep(0.3)


UNCACHED = {"class": "none", "ram.limit": "0", "metadata.ttl": "1h", "prefetch.window": "0"}


@pytest.mark.release
@pytest.mark.tsan
def test_server_killed_under_readers_hard(own_nfs_server, mount):
    files = data.make_files(own_nfs_server.data, 200, 20_000)
    m = mount(own_nfs_server.url("", mode="hard"), {"origin.deadline": "1s", **UNCACHED})
    os.listdir(m.path)
    with Readers(m, files) as readers:
        for _ in range(20 if os.environ.get("TIERFS_TEST_FULL") == "1" else 3):
            readers.wait_for(100)
            own_nfs_server.pause()
            readers.wait_until_held()  # so that it dies with calls that it has not answered
            own_nfs_server.kill()
            time.sleep(1.5)
            own_nfs_server.start()
    assert not readers.wrong and not readers.errors
    assert m.status()["origin"]["retries"] > 0


def test_server_killed_under_readers_soft(own_nfs_server, mount):
    files = data.make_files(own_nfs_server.data, 200, 20_000)
    m = mount(own_nfs_server.url(""), {"origin.deadline": "2s", **UNCACHED})
    with Readers(m, files) as readers:
        readers.wait_for(100)
        own_nfs_server.kill()
        processes.wait_until(lambda: len(readers.errors) >= 4, timeout=20, what="errors in bounded time")
        own_nfs_server.start()
        readers.wait_for(4)
        before = len(readers.errors)
        readers.wait_for(100)
        assert len(readers.errors) == before, "it serves again"
    assert not readers.wrong and set(readers.errors) <= {errno.EIO, errno.ETIMEDOUT}
    assert readers.slowest < 10 * processes.SLOWNESS


@pytest.mark.release
def test_connections_cut_within_replies(exported, relay, mount):
    files = data.make_files(exported.path, 60, 200_000)
    relay.spoil = lambda number, record: None if number % 7 == 6 else record
    m = mount(exported.url(port=relay.port), UNCACHED)
    data.expect_files(m.path, files)
    status = m.status()["origin"]
    assert status["retries"] > 0 and status["errors"] == 0


READDIRPLUS = 17


@pytest.mark.parametrize("options", [{}, {"rw": None}], ids=["read-only", "rw"])
def test_server_without_readdirplus(exported, relay, mount, options):
    """READDIRPLUS is optional: names come by READDIR then, and what they are by LOOKUP. It is asked for once."""
    files = data.make_files(exported.path, 700, 100, fan=2)
    (exported.path / "link").symlink_to("d00")
    os.mkfifo(exported.path / "pipe")
    relay.lacking, relay.heard = (READDIRPLUS,), []
    m = mount(exported.url(port=relay.port), {"metadata.ttl": "1h", **options})
    expected = data.names(exported.path)
    assert data.names(m.path) == [name for name in expected if options or name != b"pipe"]
    data.expect_files(m.path, files)
    refused = sum(call[0] == READDIRPLUS for call in relay.heard)
    # The tiers' listings, which a writable mount need not have needed yet, and its directories.
    assert refused in ((1, 2) if options else (1,)), f"each asks once, not {refused} times"


def word(record, at, value):
    """The record with another word at the byte `at`."""
    return record[:at] + struct.pack(">I", value) + record[at + 4:] if len(record) >= at + 4 else record


SPOILT = {
    "another direction": lambda record: word(record, 4, 0),
    "denied": lambda record: word(record, 8, 1),
    "a verifier without end": lambda record: word(record, 16, 0xFFFFFFF0),
    "a verifier that leads back": lambda record: word(record, 16, 0xFFFFFFF4),
    "another state of acceptance": lambda record: word(record, 20, 77),
    "attributes of nothing": lambda record: word(record, 28, 5),
    "of a strange type": lambda record: word(record, 32, 99),
    "more data than asked for": lambda record: word(word(record, 116, 0xFFFFFF00), 124, 0xFFFFFF00),
    "data that are not there": lambda record: word(record, 124, 17),
    "a short record": lambda record: record[:40] + bytes(len(record) - 40),
    "noise": lambda record: record[:4] + os.urandom(len(record) - 4),
    "nothing but noise": lambda record: os.urandom(len(record)),
    "the end of a file in the middle": lambda record: word(word(word(record, 116, 0), 120, 1), 124, 0),
}


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.replace(" ", "-")) for kind in SPOILT])
def test_replies_that_make_no_sense(exported, relay, mount, kind):
    files = data.make_files(exported.path, 20, 50_000)
    m = mount(exported.url(port=relay.port), {"origin.deadline": "2s", **UNCACHED})
    data.expect_files(m.path, files)
    relay.spoil = lambda _, record: SPOILT[kind](record)
    with pytest.raises(OSError) as error:
        data.read_cold(m.path / next(iter(files)))
    assert error.value.errno in (errno.EIO, errno.ETIMEDOUT, errno.ESTALE, errno.EACCES, errno.ENOENT, errno.EOPNOTSUPP)
    relay.spoil = None

    def good():
        try:
            data.expect_files(m.path, files)
            return True
        except OSError:
            return False
    eventually(good, "right bytes after it")

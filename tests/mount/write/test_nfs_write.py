"""An NFS server's export mounted writable: what holds of directories holds of it (the same tests), and what only a server
can do: die between a write and its COMMIT, refuse root, be changed by others."""

import errno
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import threading
import time

import pytest

from harness import daemon, data, processes
from test_conformance import (count, fsx, place, tree, test_build, test_editors_and_checkpoints, test_files_against_a_model_in_memory,  # noqa: F401
                              test_git, test_sqlite, test_tree_against_a_native_directory, way)
from test_write import (NOBODY, by_nobody, error_of, show, test_append_and_truncate, test_attributes, test_changes_elsewhere_are_seen_by_the_next_open,  # noqa: F401
                        test_copy_file_range, test_created_file_is_at_the_origin, test_direct_writes, test_directories,
                        test_exclusive_create, test_files_that_are_forgotten_are_found_again, test_file_system_statistics,
                        test_hard_links_are_one_file, test_locks, test_mapping_of_a_file_that_somebody_appends_to,
                        test_names_that_were_missing, test_owner_of_what_is_made, test_permissions_are_enforced,
                        test_quick_rewrites_of_one_length_are_told_apart, test_reader_sees_each_write_at_once,
                        test_removing_all_of_a_large_directory, test_rename, test_replaced_while_open, test_set_user_id_is_cleared_by_a_write,
                        test_shared_mapping,
                        test_special_files, test_unlinked_and_renamed_while_open, test_writes_in_the_middle_and_beyond_the_end)


@pytest.fixture
def origin(exported):
    return exported.path


@pytest.fixture
def lacks():
    return ("hole", "setxattr", "removexattr", "exchange", "removal")


@pytest.fixture
def ways():
    return ("false",)


@pytest.fixture
def operations():
    return count(100_000, 4000)


@pytest.fixture
def mount(mount, exported):  # pylint: disable=redefined-outer-name
    """Mounts the export where a test says its folder."""
    def start(source, options=None, **more):
        return prepare(source, options, **more).start()

    def prepare(source, options=None, **more):
        return mount.prepare(exported.url() if source == exported.path else source, options, **more)

    start.prepare = prepare
    return start


def hidden(folder):
    return [name for name in os.listdir(folder) if name.startswith(".nfs")]


def test_hidden_names_go_with_the_last_close(origin, show):  # noqa: F811
    m = show()
    for name in ("removed", "replaced"):
        (m.path / name).write_bytes(name.encode())
    (m.path / "new").write_bytes(b"new")
    removed, replaced = (os.open(m.path / name, os.O_RDWR) for name in ("removed", "replaced"))
    os.unlink(m.path / "removed")
    os.rename(m.path / "new", m.path / "replaced")
    assert len(hidden(origin)) == 2
    assert os.fstat(removed).st_nlink == 0 and os.pread(removed, 100, 0) == b"removed"
    assert os.pread(replaced, 100, 0) == b"replaced" and (m.path / "replaced").read_bytes() == b"new"
    os.pwrite(removed, b"R", 0)
    assert os.pread(removed, 100, 0) == b"Removed"
    os.close(removed)
    os.close(replaced)
    processes.wait_until(lambda: not hidden(origin), what="the hidden names are gone")
    assert sorted(os.listdir(origin)) == ["replaced"]


def test_hidden_names_are_listed_and_keep_their_directory(origin, show):  # noqa: F811
    m = show()
    for name in ("folder", "other"):
        (m.path / name).mkdir()
    (m.path / "folder/file").write_bytes(b"x")
    with open(m.path / "folder/file", "rb") as file:
        os.unlink(m.path / "folder/file")
        assert os.listdir(m.path / "folder") == hidden(origin / "folder") != []
        assert error_of(os.rmdir, m.path / "folder") == errno.ENOTEMPTY
        assert error_of(os.rename, m.path / "other", m.path / "folder") == errno.ENOTEMPTY
        os.rename(m.path / "folder", m.path / "moved")
        os.utime(m.path / "moved", (1, 1))
        assert file.read() == b"x"
    processes.wait_until(lambda: not hidden(origin / "moved"), what="the hidden name is gone")
    assert os.stat(origin / "moved").st_mtime > 1
    os.rename(m.path / "other", m.path / "moved")
    os.rmdir(m.path / "moved")
    assert os.listdir(origin) == []


def test_special_files_that_are_gone_are_stale(show):  # noqa: F811
    """The kernel opens them by itself, and so nobody knows that they are open."""
    m = show()
    for way in (os.unlink, lambda path: os.rename(m.path / "new", path)):
        os.mkfifo(m.path / "fifo")
        (m.path / "new").write_bytes(b"new")
        handle = os.open(m.path / "fifo", os.O_RDWR | os.O_NONBLOCK)
        try:
            way(m.path / "fifo")
            assert not hidden(m.path)
            assert error_of(os.fstat, handle) == error_of(os.fchmod, handle, 0o640) == errno.ESTALE
            os.write(handle, b"goes on")
            assert os.read(handle, 100) == b"goes on"
        finally:
            os.close(handle)


def test_replacing_a_file_that_is_read_leaves_no_gap(origin, show):  # noqa: F811
    """Checkpoints are renamed over the one that others have open. (One that is replaced twice between look-up and open is
    stale, as it is for the kernel's client: nobody replaces checkpoints that fast.)"""
    m = show()
    (m.path / "latest").write_bytes(b"0")
    problems, end = [], time.monotonic() + 2

    def read():
        while time.monotonic() < end:
            try:
                with open(m.path / "latest", "rb") as file:
                    file.read()
            except OSError as error:
                if error.errno != errno.ESTALE:
                    problems.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    number = 0
    while time.monotonic() < end:
        number += 1
        (m.path / "next").write_bytes(str(number).encode())
        os.rename(m.path / "next", m.path / "latest")
        assert (origin / "latest").exists()
    reader.join()
    assert not problems, problems[0]
    assert (m.path / "latest").read_bytes() == str(number).encode()


class Writer:
    """A program that writes. This one must not have files of the mount open: those that it starts close their copies, which
    waits for a server that is away."""

    def __init__(self, script, *arguments):
        self.process = subprocess.Popen([sys.executable, "-c", f"import os, sys\n{script}", *map(str, arguments)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def hears(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def says(self, word):
        assert self.process.stdout.readline().strip() == word

    def end(self):
        self.process.stdin.close()
        try:
            assert self.process.wait(120) == 0
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


def test_server_that_forgets_what_was_not_committed(own_nfs_server, mount):
    """It dies after a write and before fsync, and its file system has lost the bytes: they are written again. (Fewer than
    what is committed early.)"""
    m = mount(own_nfs_server.url("", mode="hard"), {"rw": None})
    expected = data.content("lost", 1_500_000)
    (own_nfs_server.folder / "expected").write_bytes(expected)
    writer = Writer("""
with open(sys.argv[1], "wb", buffering=0) as file:
    file.write(open(sys.argv[2], "rb").read())
    os.stat(sys.argv[1])  # the server has answered
    print("written", flush=True)
    input()
    os.fsync(file.fileno())
    print("durable", flush=True)
    input()
""", m.path / "file", own_nfs_server.folder / "expected")
    try:
        writer.says("written")
        own_nfs_server.kill()
        os.truncate(own_nfs_server.data / "file", 0)
        time.sleep(1.1)  # nfs-ganesha's verifier is the second in which it was started
        own_nfs_server.start()
        writer.hears("sync")
        writer.says("durable")
        data.expect_same((own_nfs_server.data / "file").read_bytes(), expected, "after fsync")
        writer.hears("end")
    finally:
        writer.end()
    assert m.status()["origin"]["bytes_written"] >= 2 * len(expected)
    data.expect_same(data.read_cold(m.path / "file"), expected, "from the mount")


def test_server_that_dies_again_and_again_while_it_is_written_to(own_nfs_server, mount):
    m = mount(own_nfs_server.url("", mode="hard"), {"rw": None})
    expected = data.content("away", 20_000_000)
    (own_nfs_server.folder / "expected").write_bytes(expected)
    writer = Writer("""
content = open(sys.argv[2], "rb").read()
os.chdir(sys.argv[1])
for number in range(5):
    with open(f"file{number}", "wb") as file:
        file.write(content)
    os.rename(f"file{number}", f"done{number}")
""", m.path, own_nfs_server.folder / "expected")
    try:
        pause = 0.3
        while writer.process.poll() is None:
            time.sleep(pause)
            pause *= 1.2  # else a machine that is busy may get nowhere between two deaths
            own_nfs_server.kill()
            time.sleep(0.2)
            own_nfs_server.start()
    finally:
        writer.end()
    for number in range(5):
        data.expect_same((own_nfs_server.data / f"done{number}").read_bytes(), expected, f"file {number}")
    assert sorted(os.listdir(own_nfs_server.data)) == [f"done{number}" for number in range(5)]


def test_server_that_is_away_while_it_is_written_to_soft(own_nfs_server, mount):
    """The writer hears of it, by close at the latest, and the mount goes on when the server is back."""
    m = mount.prepare(own_nfs_server.url("", mode="soft"), {"rw": None, "origin.deadline": "2s"}).start()
    file = os.open(m.path / "file", os.O_WRONLY | os.O_CREAT)
    own_nfs_server.kill()
    with pytest.raises(OSError) as caught:
        try:
            os.write(file, b"x" * 100_000)
            os.fsync(file)
        finally:
            os.close(file)
    assert caught.value.errno in (errno.EIO, errno.ETIMEDOUT)
    own_nfs_server.start()
    processes.wait_until(lambda: error_free(m.path / "again"), what="writing works again", timeout=30)
    assert (own_nfs_server.data / "again").read_bytes() == b"y"


def error_free(path):
    try:
        path.write_bytes(b"y")
        return True
    except OSError:
        return False


def test_what_the_server_has_not(show):  # noqa: F811
    m = show()
    (m.path / "file").write_bytes(b"x")
    assert error_of(os.setxattr, m.path / "file", "user.x", b"y") == errno.EOPNOTSUPP
    with open(m.path / "file", "r+b") as file:
        assert os.lseek(file.fileno(), 0, os.SEEK_HOLE) == 1
        with pytest.raises(OSError) as caught:
            fsx.fallocate(file.fileno(), 0, 0, 1 << 20)
        assert caught.value.errno == errno.EOPNOTSUPP
        assert error_of(os.lseek, file.fileno(), 5, os.SEEK_DATA) == errno.ENXIO


def test_root_that_the_server_takes_for_nobody(exported, mount):
    """Who mounts as a user of the server writes as that user."""
    os.chown(exported.path, 1234, 1234)
    url = exported.server.url(exported.name, export="squashed", uid=1234, gid=1234)
    m = mount.prepare(url, {"rw": None}).start()
    (m.path / "file").write_bytes(b"mine")
    os.rename(m.path / "file", m.path / "moved")
    assert os.stat(exported.path / "moved").st_uid == 1234


def test_times_beyond_what_the_protocol_has(origin, show):  # noqa: F811
    m = show()
    (m.path / "file").touch()
    os.utime(m.path / "file", (1 << 32, 1 << 32))
    assert os.stat(origin / "file").st_mtime == (1 << 32) - 1


def test_known_failures_of_pjdfstest():
    """What tierfs-semantics(7) counts is what tests/conformance/pjdfstest expects; the tests themselves are not here."""
    path = daemon.REPOSITORY / "tests/conformance/pjdfstest"
    loader = importlib.machinery.SourceFileLoader("pjdfstest", str(path))
    pjdfstest = importlib.util.module_from_spec(importlib.util.spec_from_loader("pjdfstest", loader))
    loader.exec_module(pjdfstest)
    reasons = [reason for numbers in pjdfstest.known_failures("nfs").values() for reason in numbers.values()]
    manual = (daemon.REPOSITORY / "man/tierfs-semantics.7").read_text(encoding="utf-8")
    section = manual[manual.index("On an export of nfs"):]
    said = [int(number) for number in re.findall(r"^([0-9]+) (?:go on|set|sets) ", section, re.MULTILINE)]
    assert sorted(said) == sorted(reasons.count(reason) for reason in set(reasons))
    assert int(re.search(r"all but ([0-9]+) pass", section)[1]) == len(reasons)


LOOKUP, READ, WRITE, CREATE, MKDIR, SYMLINK, REMOVE, RENAME, COMMIT = 3, 6, 7, 8, 9, 10, 12, 14, 21  # RFC 1813


def test_ids_that_requests_carry(exported, relay, mount):
    """As the caller is made what belongs to the caller; the mount does all the rest."""
    relay.heard = []
    os.chmod(exported.path, 0o777)
    m = mount.prepare(exported.url(port=relay.port), {"rw": None, "allow_other": None}).start()
    done = by_nobody("open('file', 'w').write('x')\nos.mkdir('folder')\nos.symlink('x', 'link')\nassert open('file').read() == 'x'\n"
                     "os.rename('file', 'renamed')\nos.unlink('renamed')", m.path)
    assert done.returncode == 0, done.stderr
    for procedure, *ids in relay.heard:
        if procedure in (CREATE, MKDIR, SYMLINK):
            assert ids == [NOBODY, NOBODY, ()]
        elif procedure in (LOOKUP, READ, WRITE, REMOVE, RENAME, COMMIT):
            assert ids[:2] == [0, 0] and set(ids[2]) == set(os.getgroups())
    assert {call[0] for call in relay.heard} >= {LOOKUP, READ, WRITE, CREATE, MKDIR, SYMLINK, REMOVE, RENAME, COMMIT}


def test_configured_ids_are_those_of_all_requests(exported, relay, mount):
    relay.heard = []
    files = data.make_files(exported.path, 20, 3000, fan=1)
    os.chmod(exported.path, 0o777)
    m = mount(exported.url(port=relay.port, uid=1234, gid=4321), {"allow_other": None})
    name = next(iter(files))
    done = by_nobody(f"assert len(open({name!r}, 'rb').read()) == {len(files[name])}", m.path)  # and what is fetched ahead
    assert done.returncode == 0, done.stderr
    data.expect_files(m.path, files)
    assert {tuple(ids) for _, *ids in relay.heard} == {(1234, 4321, ())}
    relay.heard.clear()
    writable = mount.prepare(exported.url(port=relay.port, uid=1234, gid=4321), {"rw": None, "allow_other": None}).start()
    done = by_nobody("open('made', 'w').write('x')", writable.path)
    assert done.returncode == 0, done.stderr
    assert {tuple(ids) for _, *ids in relay.heard} == {(1234, 4321, ())} and os.stat(exported.path / "made").st_uid == 1234


def test_rename_without_replacing(origin, show):  # noqa: F811
    m = show()
    for name in ("one", "two"):
        (m.path / name).write_bytes(name.encode())
    (m.path / "folder").mkdir()
    assert renameat2(m.path / "one", m.path / "two", tree.NOREPLACE) == errno.EEXIST
    assert renameat2(m.path / "one", m.path / "two", tree.EXCHANGE) == errno.EINVAL
    assert renameat2(m.path / "one", m.path / "three", tree.NOREPLACE) == 0
    assert renameat2(m.path / "folder", m.path / "moved", tree.NOREPLACE) == 0
    assert sorted(os.listdir(origin)) == ["moved", "three", "two"]
    assert (origin / "three").read_bytes() == b"one" and (origin / "two").read_bytes() == b"two"


def renameat2(old, new, flags):
    try:
        tree.renameat2(str(old), str(new), flags)
        return 0
    except OSError as error:
        return error.errno

"""What handles of an NFS server's files are good for: names that were listed, directories that were renamed elsewhere, and files
whose creation was not answered."""

import errno
import os
import time

import pytest

from harness import data, processes
from test_nfs_write import Writer
from test_write import error_of, use_what_was_renamed_elsewhere

SETATTR, CREATE, RENAME, LINK = 2, 8, 14, 15  # RFC 1813


@pytest.mark.parametrize("lost", ["CREATE's answer", "SETATTR"])
def test_file_whose_create_was_not_answered(exported, relay, mount, lost):
    """Servers keep the verifier of an exclusive CREATE in the times of the file until a SETATTR follows."""
    m = mount.prepare(exported.url(port=relay.port), {"rw": None, "origin.deadline": "2s"}).start()
    if lost == "SETATTR":
        relay.lost = (SETATTR,)
    else:
        relay.unheard = (CREATE,)
    assert error_of(os.open, m.path / "file", os.O_CREAT | os.O_WRONLY, 0o640) in (errno.ETIMEDOUT, errno.EIO)
    assert (exported.path / "file").exists() and abs(os.stat(exported.path / "file").st_mtime - time.time()) > 3600
    relay.lost = relay.unheard = ()
    processes.wait_until(lambda: abs(os.stat(exported.path / "file").st_mtime - time.time()) < 600, what="its times are right")
    seen = os.stat(exported.path / "file")
    assert seen.st_mode & 0o777 == 0o640 and abs(seen.st_atime - time.time()) < 600
    (m.path / "file").write_bytes(b"goes on")
    assert (exported.path / "file").read_bytes() == b"goes on"


def test_file_whose_create_reaches_a_server_that_was_silent(own_nfs_server, mount):
    """It may be carried out after its client has given up."""
    m = mount.prepare(own_nfs_server.url("", mode="soft"), {"rw": None, "origin.deadline": "1s"}).start()
    os.listdir(m.path)
    own_nfs_server.pause()
    try:
        assert error_of(os.open, m.path / "file", os.O_CREAT | os.O_WRONLY, 0o640) in (errno.ETIMEDOUT, errno.EIO)
    finally:
        own_nfs_server.resume()

    def is_right():
        names = os.listdir(own_nfs_server.data)
        return not names or abs(os.stat(own_nfs_server.data / "file").st_mtime - time.time()) < 600
    time.sleep(2)
    processes.wait_until(is_right, what="its times are right")


def test_look_ups_after_a_listing_ask_nothing(exported, mount):
    """Attributes come along with names: `find` after `ls` has them already, and asks in another order, many names later."""
    for number in range(20_000):
        os.close(os.open(exported.path / f"name-{number:05}", os.O_CREAT | os.O_WRONLY, 0o644))
    m = mount.prepare(exported.url(), {"rw": None, "metadata.ttl": "1h"}).start()
    processes.check(["ls", "-U", m.path])
    before = m.status()["origin"]["requests"]["head"]
    found = processes.check(["find", m.path, "-type", "f", "-newermt", "2001-01-01", "-size", "0"])
    assert len(found.out.splitlines()) == 20_000
    assert m.status()["origin"]["requests"]["head"] - before < 200


def test_what_a_listing_brought_and_was_changed_since(exported, mount):
    """What was changed here since then is asked for."""
    names = [f"name-{number:02}" for number in range(40)]
    for name in names + ["replacing"]:
        data.write(exported.path / name, b"before")
    (exported.path / "folder").mkdir()
    m = mount.prepare(exported.url(), {"rw": None, "metadata.ttl": "1h"}).start()
    for act, seen in (
            (lambda path: path.write_bytes(b"longer than before"), lambda path: path.stat().st_size == 18),
            (lambda path: os.truncate(path, 2), lambda path: path.stat().st_size == 2),
            (lambda path: os.chmod(path, 0o600), lambda path: path.stat().st_mode & 0o777 == 0o600),
            (lambda path: os.chown(path, 7, 8), lambda path: (path.stat().st_uid, path.stat().st_gid) == (7, 8)),
            (lambda path: os.utime(path, (5, 6)), lambda path: path.stat().st_mtime == 6),
            (os.unlink, lambda path: not path.exists()),
            (lambda path: os.link(path, path.with_name("linked")), lambda path: path.stat().st_nlink == 2),
            (lambda path: os.rename(path.with_name("replacing"), path), lambda path: path.read_bytes() == b"before"),
            (lambda path: os.rename(path, path.with_name("moved")), lambda path: not path.exists()),
            (lambda path: (path.with_name("folder") / "made").mkdir(), lambda path: path.with_name("folder").stat().st_nlink == 3)):
        name = names.pop()
        os.stat(m.path / name)  # the kernel knows it, so that only the listing tells the mount
        assert name in os.listdir(m.path)
        act(m.path / name)
        forget_names()
        assert seen(m.path / name), name


def forget_names():
    """The kernel's, which it asks for again."""
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as out:
        out.write("2")


def test_directory_renamed_elsewhere_under_who_works_in_it(exported, mount):
    """Its handle is what it was: who is there goes on."""
    for name in ("folder", "other"):
        (exported.path / name).mkdir()
    data.write(exported.path / "folder/inner/file", b"inner")
    m = mount.prepare(exported.url(), {"rw": None, "metadata.ttl": "1s"}).start()
    writer = Writer("""
os.chdir(sys.argv[1])
print("there", flush=True)
input()
here = os.stat('.')
assert os.listdir() == ['inner'] and open('inner/file').read() == 'inner'
open('made', 'w').write('made')
os.mkdir('below')
os.rename('made', 'below/made')
assert os.stat('.').st_ino == here.st_ino
print("done", flush=True)
input()
assert sorted(os.listdir()) == ['below', 'inner']
os.rmdir('inner') if os.listdir('inner') == [] else None
""", m.path / "folder")
    try:
        writer.says("there")
        os.rename(exported.path / "folder", exported.path / "moved")
        os.rename(exported.path / "other", exported.path / "folder")
        time.sleep(1.5)
        writer.hears("go on")
        writer.says("done")
        assert (exported.path / "moved/below/made").read_bytes() == b"made"
        assert os.listdir(m.path / "folder") == [] and sorted(os.listdir(m.path / "moved")) == ["below", "inner"]
        writer.hears("end")
    finally:
        writer.end()


@pytest.mark.parametrize("then", ["replaced", "removed"])
def test_file_that_another_host_takes_while_its_name_is_given_away(exported, relay, mount, then):
    """One that is open here is kept under a hidden name before its own goes: by then it may be gone, and nothing is to be kept."""
    m = mount(exported.url(port=relay.port), {"rw": None})

    def taken():
        data.write(exported.path / "other", b"of another host")
        os.replace(exported.path / "other", exported.path / "file")
        if then == "removed":
            os.unlink(exported.path / "file")

    for removed in (False, True):
        data.write(m.path / "file", b"first")
        with open(m.path / "file", "rb") as held:
            assert held.read(1) == b"f"
            data.write(m.path / "next", b"second")
            relay.meanwhile = {RENAME if removed else LINK: taken}
            if not removed:
                os.rename(m.path / "next", m.path / "file")
                assert (exported.path / "file").read_bytes() == b"second" == (m.path / "file").read_bytes()
            elif then == "replaced":
                os.unlink(m.path / "file")
                assert not (exported.path / "file").exists()
            else:
                assert error_of(os.unlink, m.path / "file") == errno.ENOENT
            assert not relay.meanwhile
    assert os.listdir(m.path) == ["next"]


def test_what_was_made_here_and_renamed_elsewhere(exported, mount):
    m, other = (mount(exported.url(), {"rw": None, "metadata.ttl": "1s"}) for _ in range(2))
    use_what_was_renamed_elsewhere(m, other.path)

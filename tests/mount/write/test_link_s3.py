"""link(2) on a writable bucket: a second object, made only where there is none of that name."""

import ctypes
import errno
import os
import stat
import subprocess

import pytest

from harness import data

MIB = 1 << 20


@pytest.fixture
def show(rgw_bucket, mount):
    """show(**options): the bucket, mounted writable."""
    def start(**options):
        return mount(rgw_bucket.source(), rgw_bucket.options({"rw": None, "metadata.ttl": "1h", **options}),
                     env=rgw_bucket.env)
    return start


def error_of(call, *arguments):
    with pytest.raises(OSError) as caught:
        call(*arguments)
    return caught.value.errno


def link_descriptor(descriptor, new):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.linkat(descriptor, b"", -100, os.fsencode(new), 0x1000) != 0:  # AT_EMPTY_PATH
        raise OSError(ctypes.get_errno(), "linkat")


@pytest.mark.parametrize("size", [0, 1000, 9 * MIB, 20 * MIB])
def test_link_is_a_second_file(rgw_bucket, show, size):
    m = show()
    content = data.content("linked", size)
    (m.path / "file").write_bytes(content)
    os.chmod(m.path / "file", 0o640)
    os.link(m.path / "file", m.path / "other")
    data.expect_same((m.path / "other").read_bytes(), content, "on the mount")
    client = rgw_bucket.server.client
    data.expect_same(client.get_object(Bucket=rgw_bucket.name, Key="other")["Body"].read(), content, "at the bucket")
    found = os.stat(m.path / "other")
    assert stat.S_IMODE(found.st_mode) == 0o640 and found.st_nlink == os.stat(m.path / "file").st_nlink == 1
    assert found.st_ino != os.stat(m.path / "file").st_ino
    (m.path / "other").write_bytes(b"changed")
    data.expect_same((m.path / "file").read_bytes(), content, "the first one")
    os.unlink(m.path / "file")
    assert (m.path / "other").read_bytes() == b"changed"


def test_link_does_not_replace(rgw_bucket, show):
    m = show()
    (m.path / "file").write_bytes(b"ours")
    (m.path / "taken").write_bytes(b"old")
    (m.path / "folder").mkdir()
    assert error_of(os.link, m.path / "file", m.path / "taken") == errno.EEXIST
    assert error_of(os.link, m.path / "file", m.path / "folder") == errno.EEXIST
    assert error_of(os.stat, m.path / "new") == errno.ENOENT
    rgw_bucket.server.client.put_object(Bucket=rgw_bucket.name, Key="new", Body=b"theirs")
    assert error_of(os.link, m.path / "file", m.path / "new") == errno.EEXIST
    assert (m.path / "new").read_bytes() == b"theirs" and (m.path / "taken").read_bytes() == b"old"


def test_link_of_what_is_being_written_and_of_a_descriptor(show):
    m = show()
    with open(m.path / "file", "wb", buffering=0) as file:
        file.write(b"written")
        os.link(m.path / "file", m.path / "other")
        assert (m.path / "other").read_bytes() == b"written"
        file.write(b" on")
        link_descriptor(file.fileno(), m.path / "third")
    assert (m.path / "other").read_bytes() == b"written"
    assert (m.path / "third").read_bytes() == (m.path / "file").read_bytes() == b"written on"


def test_what_cannot_be_linked(show):
    m = show(**{"writes.link": "false"})
    (m.path / "file").write_bytes(b"x")
    assert error_of(os.link, m.path / "file", m.path / "other") == errno.EPERM
    m.umount()
    m = show()
    os.symlink("file", m.path / "symbolic")
    assert error_of(os.link, m.path / "symbolic", m.path / "other") == errno.EPERM
    assert sorted(os.listdir(m.path)) == ["file", "symbolic"]


COMMIT = """
import os, sys
table, me, commits = sys.argv[1], sys.argv[2], int(sys.argv[3])
version = 0
for n in range(commits):
    temporary = f"{table}/_log/.tmp-{me}-{n}"
    with open(temporary, "w") as file:
        file.write(f"{me} {n}")
    while True:
        try:
            os.link(temporary, f"{table}/_log/{version:020}.json")
            break
        except FileExistsError:
            version += 1
    os.unlink(temporary)
"""


def test_commits_of_two_hosts_are_all_there(rgw_bucket, show):
    """As table formats commit: the next number is whose link(2) succeeds."""
    mounts = [show(), show()]
    (mounts[0].path / "_log").mkdir()
    jobs = [subprocess.Popen(["/usr/bin/python3", "-c", COMMIT, m.path, f"{host}-{n}", "10"],
                             stderr=subprocess.PIPE, text=True)
            for host, m in enumerate(mounts) for n in range(2)]
    for job in jobs:
        _, said = job.communicate(timeout=300)
        assert job.returncode == 0, said
    for m in mounts:
        names = sorted(name for name in os.listdir(m.path / "_log"))
        assert names == [f"{n:020}.json" for n in range(40)]
        said = {(m.path / "_log" / name).read_text() for name in names}
        assert said == {f"{host}-{n} {commit}" for host in range(2) for n in range(2) for commit in range(10)}

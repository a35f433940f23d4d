"""writes.exclusive: what another host wrote to a bucket since a file was opened for writing here is not overwritten."""

import errno
import os
import stat

import pytest

from harness import data, processes
from test_write_s3 import PART, body, error_of, head, keys, uploads


@pytest.fixture
def hosts(rgw_bucket, mount):
    """Two mounts of the bucket, the first with writes.exclusive."""
    options = rgw_bucket.options({"rw": None, "metadata.ttl": "1s"})
    return [mount(rgw_bucket.source(), {**options, **more}, env=rgw_bucket.env)
            for more in ({"writes.exclusive": "true"}, {})]


def log_of(m):
    return [line for line in m.log_tail(1000).splitlines() if "another host has written" in line]


@pytest.mark.release
@pytest.mark.parametrize("size", [1000, 2 * PART + 5], ids=["at once", "in parts"])
def test_lost_update_is_an_error(rgw_bucket, hosts, size):
    one, other = hosts
    rgw_bucket.put("file", data.content("old", size))
    mine, theirs = data.content("mine", size), data.content("theirs", size)
    handle = os.open(one.path / "file", os.O_RDWR | os.O_TRUNC)
    os.write(handle, mine)
    (other.path / "file").write_bytes(theirs)
    assert error_of(os.fsync, handle) == errno.ESTALE
    data.expect_same(os.pread(handle, size, 0), mine, "what was written is kept while it is open")
    status = one.status()["writes"]
    assert status["errors"] >= 1 and status["dirty_bytes"] == size
    assert error_of(os.close, handle) == errno.ESTALE
    data.expect_same(body(rgw_bucket, "file"), theirs, "at the bucket")
    assert len(log_of(one)) == 1, log_of(one)
    processes.wait_until(lambda: uploads(rgw_bucket) == [], what="the upload is given up")
    again = data.content("again", size)
    (one.path / "file").write_bytes(again)  # opened anew, it is no lost update
    data.expect_same(body(rgw_bucket, "file"), again, "at the bucket")


@pytest.mark.parametrize("size", [1000, PART + 5], ids=["at once", "in parts"])
def test_new_file_that_another_host_makes_too(rgw_bucket, hosts, size):
    one, other = hosts
    handle = os.open(one.path / "file", os.O_CREAT | os.O_WRONLY)
    os.write(handle, bytes(size))
    (other.path / "file").write_bytes(b"theirs")
    assert error_of(os.close, handle) == errno.EEXIST
    assert body(rgw_bucket, "file") == b"theirs"
    processes.wait_until(lambda: uploads(rgw_bucket) == [], what="the upload is given up")


def test_file_that_another_host_removes(rgw_bucket, hosts):
    one, other = hosts
    rgw_bucket.put("file", b"old")
    handle = os.open(one.path / "file", os.O_WRONLY | os.O_APPEND)
    os.write(handle, b" and new")
    os.unlink(other.path / "file")
    assert error_of(os.close, handle) == errno.ESTALE
    assert keys(rgw_bucket) == []


@pytest.mark.release
def test_own_changes_are_no_lost_updates(rgw_bucket, hosts):
    one = hosts[0]
    expected = data.content("own", PART + 100)
    handle = os.open(one.path / "file", os.O_CREAT | os.O_RDWR)
    for piece in (expected[:10], expected[10:PART], expected[PART:]):
        os.write(handle, piece)
        os.fsync(handle)
        os.fchmod(handle, 0o600)
        os.setxattr(one.path / "file", "user.size", b"%d" % len(piece))
    os.rename(one.path / "file", one.path / "renamed")
    os.pwrite(handle, b"x", 0)
    os.ftruncate(handle, PART)
    os.close(handle)
    os.chmod(one.path / "renamed", 0o640)
    with open(one.path / "renamed", "r+b") as file:
        file.write(b"y")
    data.expect_same(body(rgw_bucket, "renamed"), b"y" + expected[1:PART], "at the bucket")
    assert int(head(rgw_bucket, "renamed")["Metadata"]["mode"]) == stat.S_IFREG | 0o640
    assert one.status()["writes"]["errors"] == 0 and log_of(one) == []


def test_without_it_the_last_writer_wins(rgw_bucket, hosts):
    one, other = hosts
    rgw_bucket.put("file", b"old")
    handle = os.open(other.path / "file", os.O_WRONLY | os.O_TRUNC)
    os.write(handle, b"last")
    (one.path / "file").write_bytes(b"first")  # nobody has it open exclusively
    os.close(handle)
    assert body(rgw_bucket, "file") == b"last"

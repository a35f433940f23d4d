"""A bucket mounted writable: what is done on the mount is at the bucket when close, fsync or the call has returned."""

import concurrent.futures
import ctypes
import errno
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from harness import data, processes
from harness.servers import ACCESS_KEY, SECRET_KEY
from test_write import test_locks  # noqa: F401  pylint: disable=unused-import

PART = 8 << 20


@pytest.fixture
def show(rgw_bucket, mount):
    """show(prefix, **options): the bucket, mounted writable."""
    def start(prefix="", **options):
        return mount(rgw_bucket.source(prefix), rgw_bucket.options({"rw": None, "metadata.ttl": "1h", **options}),
                     env=rgw_bucket.env)
    return start


def error_of(call, *arguments, **named):
    with pytest.raises(OSError) as caught:
        call(*arguments, **named)
    return caught.value.errno


def raises(call, *arguments):
    try:
        call(*arguments)
    except OSError:
        return True
    return False


def body(bucket, key):
    return bucket.server.client.get_object(Bucket=bucket.name, Key=key)["Body"].read()


def keys(bucket, prefix=""):
    found = bucket.server.client.list_objects_v2(Bucket=bucket.name, Prefix=prefix).get("Contents", [])
    return [entry["Key"] for entry in found]


def head(bucket, key):
    return bucket.server.client.head_object(Bucket=bucket.name, Key=key)


def uploads(bucket):
    found = bucket.server.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])
    return [(entry["Key"], entry["UploadId"]) for entry in found]


@pytest.mark.quick
@pytest.mark.release
@pytest.mark.tsan
def test_created_file_is_at_the_bucket(rgw_bucket, show):
    m = show()
    expected = data.content("new", 3_000_001)
    (m.path / "folder").mkdir()
    (m.path / "folder/file").write_bytes(expected)
    assert body(rgw_bucket, "folder/file") == expected
    data.expect_same((m.path / "folder/file").read_bytes(), expected, "at once")
    data.expect_same(data.read_cold(m.path / "folder/file"), expected, "not from the kernel's memory")
    assert os.listdir(m.path) == ["folder"] and os.listdir(m.path / "folder") == ["file"]
    status = m.status()
    assert status["read_only"] is False and status["writes"]["errors"] == 0
    assert status["writes"]["bytes"] == len(expected) and status["writes"]["dirty_bytes"] == 0
    assert status["origin"]["requests"]["put"] == 2 and status["origin"]["bytes_written"] == len(expected)
    assert error_of(os.stat, m.path / "folder/none") == errno.ENOENT


def test_read_only_is_the_default(rgw_bucket, mount):
    m = mount(rgw_bucket.source(), rgw_bucket.options(), env=rgw_bucket.env)
    assert error_of(os.mkdir, m.path / "x") == errno.EROFS


@pytest.mark.release
def test_large_file_is_sent_while_it_is_written(rgw_bucket, show):
    m = show()
    expected = data.content("large", 5 * PART + 12345)
    handle = os.open(m.path / "large", os.O_CREAT | os.O_WRONLY)
    for at in range(0, 4 * PART, 1 << 20):
        os.write(handle, expected[at:at + (1 << 20)])
    processes.wait_until(lambda: m.status()["origin"]["bytes_written"] >= 3 * PART, what="parts before the close")
    assert keys(rgw_bucket) == []
    assert len(uploads(rgw_bucket)) == 1, uploads(rgw_bucket)
    assert m.status()["writes"]["dirty_bytes"] == 4 * PART and m.status()["writes"]["oldest_dirty_s"] > 0
    assert os.listdir(m.path) == ["large"] and os.stat(m.path / "large").st_size == 4 * PART
    os.write(handle, expected[4 * PART:])
    os.close(handle)
    assert keys(rgw_bucket) == ["large"] and uploads(rgw_bucket) == []
    data.expect_same(body(rgw_bucket, "large"), expected, "at the bucket")
    data.expect_same(data.read_cold(m.path / "large"), expected, "on the mount")
    assert m.status()["origin"]["bytes_written"] < len(expected) + PART  # no part was sent again


def test_child_that_closes_what_it_inherited_publishes_nothing(rgw_bucket, show):
    """A program that starts another one while it writes: the half of its file stays unseen."""
    m = show()
    with open(m.path / "file", "wb") as handle:
        handle.write(b"half")
        handle.flush()
        os.set_inheritable(handle.fileno(), True)
        subprocess.run(["true"], check=True, close_fds=False)
        assert keys(rgw_bucket) == []
        subprocess.run([sys.executable, "-c", f"import os; os.write({handle.fileno()}, b' and half')"], check=True,
                       close_fds=False)
        assert body(rgw_bucket, "file") == b"half and half"  # who writes, and closes, gets what close promises


def test_empty_file_and_modes(rgw_bucket, show):
    m = show()
    os.close(os.open(m.path / "empty", os.O_CREAT | os.O_WRONLY, 0o640))
    assert body(rgw_bucket, "empty") == b""
    assert stat.S_IMODE(os.stat(m.path / "empty").st_mode) == 0o640
    metadata = head(rgw_bucket, "empty")["Metadata"]
    assert int(metadata["mode"]) & stat.S_IFREG and metadata["uid"] == "0"


@pytest.mark.quick
def test_directories(rgw_bucket, show):
    m = show()
    (m.path / "a/b").mkdir(parents=True)
    assert keys(rgw_bucket) == ["a/", "a/b/"]
    assert error_of(os.mkdir, m.path / "a") == errno.EEXIST
    assert error_of(os.rmdir, m.path / "a") == errno.ENOTEMPTY
    (m.path / "a/b/file").write_bytes(b"x")
    assert error_of(os.rmdir, m.path / "a/b") == errno.ENOTEMPTY
    os.unlink(m.path / "a/b/file")
    assert os.listdir(m.path / "a/b") == []
    os.rmdir(m.path / "a/b")
    os.rmdir(m.path / "a")
    assert keys(rgw_bucket) == [] and os.listdir(m.path) == []


def test_directory_stays_when_its_last_name_goes(rgw_bucket, show):
    """One that only a key made: it gets a marker before the key goes."""
    rgw_bucket.put_all({"deep/er/one": b"1", "deep/er/two": b"2"})
    m = show()
    os.unlink(m.path / "deep/er/one")
    assert keys(rgw_bucket) == ["deep/er/two"]
    os.unlink(m.path / "deep/er/two")
    assert keys(rgw_bucket) == ["deep/er/"]
    assert os.listdir(m.path / "deep") == ["er"] and os.listdir(m.path / "deep/er") == []


def test_times_of_a_directory(show):
    m = show()
    (m.path / "folder").mkdir()
    os.utime(m.path / "folder", (1000, 1000))
    (m.path / "folder/file").write_bytes(b"x")
    os.unlink(m.path / "folder/file")
    assert os.stat(m.path / "folder").st_mtime == 1000


def test_prefix_that_is_not_there_yet(rgw_bucket, show):
    m = show("new/place")
    assert os.listdir(m.path) == []
    (m.path / "file").write_bytes(b"x")
    assert keys(rgw_bucket) == ["new/place/file"]
    os.unlink(m.path / "file")
    m.umount()
    show("new/place")


@pytest.mark.quick
def test_overwrite_append_and_truncate(rgw_bucket, show):
    rgw_bucket.put("file", b"0123456789")
    m = show()
    with open(m.path / "file", "r+b") as handle:
        handle.seek(3)
        handle.write(b"xyz")
    assert body(rgw_bucket, "file") == b"012xyz6789"
    with open(m.path / "file", "ab") as handle:
        handle.write(b"!")
    assert body(rgw_bucket, "file") == b"012xyz6789!"
    os.truncate(m.path / "file", 4)
    assert body(rgw_bucket, "file") == b"012x"
    os.truncate(m.path / "file", 6)
    assert body(rgw_bucket, "file") == b"012x\0\0"
    (m.path / "file").write_bytes(b"new")
    assert body(rgw_bucket, "file") == b"new" and (m.path / "file").read_bytes() == b"new"


@pytest.mark.release
def test_change_of_a_large_file_copies_the_rest_at_the_server(rgw_bucket, show):
    expected = bytearray(data.content("old", 3 * PART + 100))
    rgw_bucket.put("large", bytes(expected))
    m = show()
    before = m.status()["origin"]
    with open(m.path / "large", "r+b") as handle:
        handle.seek(PART + 7)
        handle.write(b"changed")
        handle.flush()
        assert os.pread(handle.fileno(), 20, PART) == bytes(expected[PART:PART + 7]) + b"changed" + bytes(
            expected[PART + 14:PART + 20])
    expected[PART + 7:PART + 14] = b"changed"
    data.expect_same(body(rgw_bucket, "large"), bytes(expected), "at the bucket")
    data.expect_same(data.read_cold(m.path / "large"), bytes(expected), "on the mount")
    after = m.status()["origin"]
    assert after["bytes_written"] - before["bytes_written"] < 2 * PART
    assert uploads(rgw_bucket) == []


def test_fsync_makes_what_is_there_the_object(rgw_bucket, show):
    m = show()
    expected = data.content("synced", 2 * PART + 5)
    handle = os.open(m.path / "file", os.O_CREAT | os.O_RDWR)
    os.write(handle, expected[:PART + 100])
    assert keys(rgw_bucket) == []
    os.fsync(handle)
    assert body(rgw_bucket, "file") == expected[:PART + 100]
    os.write(handle, expected[PART + 100:])
    assert os.pread(handle, 100, PART + 50) == expected[PART + 50:PART + 150]
    os.close(handle)
    data.expect_same(body(rgw_bucket, "file"), expected, "at the bucket")


@pytest.mark.release
def test_unlinked_and_renamed_while_open(rgw_bucket, show):
    rgw_bucket.put("old", b"old bytes")
    m = show()
    reader = os.open(m.path / "old", os.O_RDONLY)
    os.unlink(m.path / "old")
    assert os.pread(reader, 100, 0) == b"old bytes" and os.fstat(reader).st_nlink == 0
    os.close(reader)
    writer = os.open(m.path / "tmp", os.O_CREAT | os.O_RDWR)
    os.write(writer, b"first ")
    os.rename(m.path / "tmp", m.path / "final")
    os.write(writer, b"second")
    os.close(writer)
    assert keys(rgw_bucket) == ["final"] and body(rgw_bucket, "final") == b"first second"
    writer = os.open(m.path / "gone", os.O_CREAT | os.O_RDWR)
    os.write(writer, b"never seen")
    os.unlink(m.path / "gone")
    assert os.pread(writer, 100, 0) == b"never seen"
    os.close(writer)
    assert keys(rgw_bucket) == ["final"]


@pytest.mark.quick
def test_rename(rgw_bucket, show):
    m = show()
    (m.path / "a").write_bytes(b"A")
    (m.path / "b").write_bytes(b"B")
    inode = os.stat(m.path / "a").st_ino
    os.rename(m.path / "a", m.path / "b")
    assert keys(rgw_bucket) == ["b"] and (m.path / "b").read_bytes() == b"A"
    assert os.stat(m.path / "b").st_ino == inode and not os.path.exists(m.path / "a")
    (m.path / "a").write_bytes(b"again")
    assert os.stat(m.path / "a").st_ino != inode
    (m.path / "d/e").mkdir(parents=True)
    for n in range(40):
        (m.path / f"d/e/f{n}").write_bytes(b"%d" % n)
    (m.path / "to").mkdir()
    handle = os.open(m.path / "d/e/f7", os.O_RDONLY)
    os.rename(m.path / "d", m.path / "to/d")
    assert sorted(os.listdir(m.path / "to/d/e")) == sorted(f"f{n}" for n in range(40))
    assert (m.path / "to/d/e/f9").read_bytes() == b"9" and os.pread(handle, 9, 0) == b"7"
    os.close(handle)
    assert not os.path.exists(m.path / "d") and keys(rgw_bucket, "d/") == []
    assert len(keys(rgw_bucket, "to/d/e/f")) == 40
    assert error_of(os.rename, m.path / "to/d", m.path / "to/d/e/x") == errno.EINVAL
    assert error_of(os.rename, m.path / "b", m.path / "to") == errno.EISDIR


def test_directory_that_replaces_an_empty_one_is_there_at_once(show):
    m = show()
    for name in ("from", "to"):
        (m.path / name).mkdir()
    (m.path / "from/file").write_bytes(b"x")
    os.rename(m.path / "from", m.path / "to")
    assert (m.path / "to/file").read_bytes() == b"x"


def test_rename_flags(rgw_bucket, show):
    m = show()
    (m.path / "a").write_bytes(b"A")
    (m.path / "b").write_bytes(b"B")
    libc = ctypes.CDLL(None, use_errno=True)

    def renameat2(flags):
        result = libc.renameat2(-100, os.fsencode(m.path / "a"), -100, os.fsencode(m.path / "b"), flags)
        return 0 if result == 0 else ctypes.get_errno()

    assert renameat2(1) == errno.EEXIST and renameat2(2) == errno.EINVAL
    assert (m.path / "a").read_bytes() == b"A" and (m.path / "b").read_bytes() == b"B"
    os.unlink(m.path / "b")
    assert renameat2(1) == 0 and keys(rgw_bucket) == ["b"]


@pytest.mark.release
def test_refused_upload_is_told_and_tried_again(rgw_bucket, show):
    rgw_bucket.put("file", b"old")
    m = show(**{"origin.deadline": "3s"})
    handle = os.open(m.path / "file", os.O_WRONLY | os.O_TRUNC)
    os.write(handle, b"new bytes")
    rgw_bucket.server.control(fail_every=1)  # each request is answered with 503
    assert error_of(os.fsync, handle) == errno.ETIMEDOUT
    status = m.status()["writes"]
    assert status["errors"] == 1 and status["dirty_bytes"] == 9 and status["oldest_dirty_s"] > 0
    rgw_bucket.server.calm()
    assert body(rgw_bucket, "file") == b"old"
    os.close(handle)
    assert body(rgw_bucket, "file") == b"new bytes"
    assert m.status()["writes"]["dirty_bytes"] == 0


def test_bucket_that_refuses_writes(rgw_bucket, show):
    """A policy of the bucket says no: an error of the call, the object as it was, and no remount once it says yes."""
    rgw_bucket.put("file", b"old")
    m = show()
    resource = f"arn:aws:s3:::{rgw_bucket.name}/*"
    rgw_bucket.server.client.put_bucket_policy(Bucket=rgw_bucket.name, Policy=json.dumps({
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": resource}]}))
    try:
        small, large = (os.open(m.path / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("file", "large"))
        os.write(small, b"new bytes")
        assert error_of(os.fsync, small) == errno.EACCES
        seen = []
        for call in [lambda: os.write(large, bytes(PART))] * 3 + [lambda: os.close(large)]:
            try:
                call()
            except OSError as error:
                seen.append(error.errno)
        assert set(seen) == {errno.EACCES}, seen
        assert m.status()["writes"]["errors"] >= 2
        assert body(rgw_bucket, "file") == b"old" and keys(rgw_bucket) == ["file"]
    finally:
        rgw_bucket.server.client.delete_bucket_policy(Bucket=rgw_bucket.name)
    os.close(small)  # what could not be sent is sent
    assert body(rgw_bucket, "file") == b"new bytes"
    (m.path / "large").write_bytes(b"another")
    assert body(rgw_bucket, "large") == b"another" and uploads(rgw_bucket) == []


def passing_credentials(folder, lifetime):
    """The environment of a mount whose credentials are good for so many seconds, and the file without which it gets no new ones."""
    helper, there = folder / "credentials", folder / "there"
    there.write_text("")
    helper.write_text(f"#!/bin/sh\n[ -e {there} ] || exit 1\n" + """echo '{"Version": 1, "AccessKeyId": "%s",'""" % ACCESS_KEY +
                      """' "SecretAccessKey": "%s", "Expiration": "'""" % SECRET_KEY +
                      f"$(date -u -d '+{lifetime} sec' +%FT%TZ)" + """'"}'\n""")
    helper.chmod(0o700)
    profile = folder / "aws"
    profile.write_text(f"[default]\ncredential_process = {helper}\n")
    return {"AWS_CONFIG_FILE": str(profile), "AWS_SHARED_CREDENTIALS_FILE": str(profile)}, there


def test_credentials_that_expire_in_the_middle(rgw_bucket, mount, folder):
    """Who gives them is away for a while: an error of fsync, nothing lost, and no remount when there are new ones."""
    lifetime = 4 + 2 * int(processes.SLOWNESS)
    env, there = passing_credentials(folder, lifetime)
    rgw_bucket.put("file", b"old")
    m = mount(rgw_bucket.source(), rgw_bucket.options({"rw": None}),
              env=env)
    expected = data.content("large", 2 * PART + 5)
    small, large = (os.open(m.path / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("file", "large"))
    os.write(large, expected[:PART])
    there.unlink()
    time.sleep(lifetime + 1)
    os.write(small, b"new bytes")
    assert error_of(os.fsync, small) == errno.EACCES
    assert m.status()["writes"]["errors"] >= 1 and body(rgw_bucket, "file") == b"old"
    there.write_text("")
    processes.wait_until(lambda: not raises(os.fsync, small), timeout=60, what="new credentials are taken")
    assert body(rgw_bucket, "file") == b"new bytes"
    os.close(small)
    for place in range(PART, len(expected), PART):
        os.write(large, expected[place:place + PART])
    os.close(large)
    data.expect_same(body(rgw_bucket, "large"), expected, "the upload that had begun before")


@pytest.mark.test_points
@pytest.mark.parametrize("point", ["open", "write", "read", "truncate"])
def test_local_copy_that_fails(rgw_bucket, mount, point):
    """Whoever writes hears of it, and the object stays as it was; what fails once while it is sent is sent again."""
    rgw_bucket.put("file", b"old")
    when = "1+" if point == "open" else "1"  # there are several folders
    m = mount(rgw_bucket.source(), rgw_bucket.options({"rw": None}),
              env={**rgw_bucket.env, "TIERFS_TEST_FAULTS": f"s3.copy.{point}:{when}:error=ENOSPC"})
    seen = []
    try:
        handle = os.open(m.path / "file", os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(handle, b"new bytes")
        except OSError as error:
            seen.append(error.errno)
        os.close(handle)
    except OSError as error:
        seen.append(error.errno)
    if point == "read":
        assert seen == [] and body(rgw_bucket, "file") == b"new bytes"
    else:
        assert errno.ENOSPC in seen
    if point == "open":
        assert body(rgw_bucket, "file") == b"old"
        return
    (m.path / "other").write_bytes(b"the next one works")
    assert body(rgw_bucket, "other") == b"the next one works"
    assert body(rgw_bucket, "file") in (b"old", b"new bytes")
    (m.path / "file").write_bytes(b"works again")
    assert body(rgw_bucket, "file") == b"works again"


def test_what_a_bucket_cannot(rgw_bucket, show):
    m = show()
    (m.path / "file").write_bytes(b"x")
    assert error_of(os.mkfifo, m.path / "fifo") == errno.EPERM
    assert error_of(os.mknod, m.path / "null", 0o600 | stat.S_IFCHR, os.makedev(1, 3)) == errno.EPERM
    assert error_of(os.mkdir, m.path / ("n" * 256)) == errno.ENAMETOOLONG
    assert keys(rgw_bucket) == ["file"]
    (m.path / "folder/one").mkdir(parents=True)
    assert os.stat(m.path / "folder").st_nlink == 2
    deep = m.path.joinpath(*["d" * 200] * 5)
    deep.mkdir(parents=True)
    assert error_of((deep / ("d" * 30)).mkdir) == errno.ENAMETOOLONG


def test_attributes_are_kept(rgw_bucket, show):
    m = show()
    (m.path / "file").write_bytes(b"bytes")
    os.chmod(m.path / "file", 0o751)
    os.chown(m.path / "file", 1234, 5678)
    os.utime(m.path / "file", ns=(1_500_000_000_123456789, 1_600_000_000_987654321))
    os.setxattr(m.path / "file", "user.note", b"\0binary\xff")
    os.symlink("some/where", m.path / "link")
    (m.path / "folder").mkdir(mode=0o700)
    os.chmod(m.path / "folder", 0o1733)
    metadata = head(rgw_bucket, "file")["Metadata"]
    assert metadata["mode"] == str(stat.S_IFREG | 0o751) and (metadata["uid"], metadata["gid"]) == ("1234", "5678")
    assert metadata["mtime"] == "1600000000.987654321" and body(rgw_bucket, "file") == b"bytes"
    m.umount()
    m = show()
    found = os.stat(m.path / "file")
    assert stat.S_IMODE(found.st_mode) == 0o751 and (found.st_uid, found.st_gid) == (1234, 5678)
    assert found.st_mtime_ns == 1_600_000_000_987654321 and found.st_atime_ns == 1_500_000_000_123456789
    assert os.listxattr(m.path / "file") == ["user.note"]
    assert os.getxattr(m.path / "file", "user.note") == b"\0binary\xff"
    os.removexattr(m.path / "file", "user.note")
    assert os.listxattr(m.path / "file") == []
    assert os.readlink(m.path / "link") == "some/where" and os.path.islink(m.path / "link")
    assert stat.S_IMODE(os.stat(m.path / "folder").st_mode) == 0o1733
    assert error_of(os.setxattr, m.path / "file", "user.big", b"x" * 2000) == errno.ENOSPC
    assert error_of(os.setxattr, m.path / "file", "trusted.x", b"x") == errno.EOPNOTSUPP


def test_changes_right_after_the_close_are_kept(rgw_bucket, show):
    """The kernel tells of the last close later than close returns."""
    m = show()
    for n in range(20):
        name = m.path / f"f{n}"
        name.write_bytes(b"bytes")
        os.chmod(name, 0o711)
        os.chown(name, n, n)
        metadata = head(rgw_bucket, f"f{n}")["Metadata"]
        assert metadata["mode"] == str(stat.S_IFREG | 0o711) and metadata["uid"] == str(n), n


@pytest.mark.release
def test_many_writers(rgw_bucket, show):
    m = show()
    failures = []

    def work(number):
        try:
            for n in range(5):
                expected = data.content((number, n), 200_000 * n + number)
                (m.path / f"w{number}-{n}").write_bytes(expected)
                data.expect_same(data.read_cold(m.path / f"w{number}-{n}"), expected, (number, n))
        except (OSError, AssertionError) as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(keys(rgw_bucket)) == 120


def test_exclusive_create_is_told_by_the_open(rgw_bucket, show):
    """Of those who make the same file on two hosts one has it, before anything is written, whatever was known of the name."""
    mounts, names = [show(), show()], [f"lock{number}" for number in range(20)]
    assert not any((m.path / name).exists() for m in mounts for name in names)

    def make(job):
        name, m, text = job
        try:
            handle = os.open(m.path / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return None
        os.write(handle, text)
        os.close(handle)
        return text

    jobs = [(name, m, f"{name} of {number}".encode()) for name in names for number, m in enumerate(mounts * 2)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        made = list(pool.map(make, jobs))
    for at, name in enumerate(names):
        winners = [text for text in made[4 * at:4 * at + 4] if text is not None]
        assert len(winners) == 1 and body(rgw_bucket, name) == winners[0]
        assert [(m.path / name).read_bytes() for m in mounts] == winners * 2


def test_exclusive_create_makes_an_empty_object(rgw_bucket, show):
    m = show()
    handle = os.open(m.path / "new", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640)
    assert body(rgw_bucket, "new") == b"" and int(head(rgw_bucket, "new")["Metadata"]["mode"]) & 0o7777 == 0o640
    before = m.status()["origin"]["requests"]["put"]
    os.close(os.open(m.path / "new", os.O_RDONLY))
    os.close(handle)
    assert m.status()["origin"]["requests"]["put"] == before, "there is nothing to send"
    rgw_bucket.put("d/below", b"")
    assert error_of(os.open, m.path / "d", os.O_CREAT | os.O_EXCL | os.O_WRONLY) == errno.EEXIST
    assert keys(rgw_bucket) == ["d/below", "new"]


def test_exclusive_create_loses_to_another_host(rgw_bucket, show):
    m = show(**{"writes.claim": "false"})
    handle = os.open(m.path / "lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.write(handle, b"mine")
    rgw_bucket.put("lock", b"theirs")
    assert error_of(os.close, handle) == errno.EEXIST
    assert body(rgw_bucket, "lock") == b"theirs"


def test_what_others_write_is_seen_after_the_ttl(rgw_bucket, mount):
    options = rgw_bucket.options({"rw": None, "metadata.ttl": "1s"})
    one = mount(rgw_bucket.source(), options, env=rgw_bucket.env)
    other = mount(rgw_bucket.source(), options, env=rgw_bucket.env)
    for n in range(3):
        expected = data.content(n, 100_000)  # the same length
        (one.path / "shared").write_bytes(expected)
        processes.wait_until(lambda: os.path.exists(other.path / "shared")
                             and (other.path / "shared").read_bytes() == expected, what="the other mount sees it")


def frozen(server):
    """The store's process, to be stopped and continued."""
    return int((server.folder / "ceph/rgw.pid").read_text())


def test_a_silent_server_costs_an_error_and_no_more(rgw_bucket, show):
    """Who writes hears of it in time, the mount can be unmounted, and nothing half is at the bucket."""
    m = show(**{"origin.deadline": "4s"})
    (m.path / "before").write_bytes(b"before")
    pid = frozen(rgw_bucket.server)
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(OSError) as caught:
            (m.path / "small").write_bytes(b"x" * 1000)
        assert caught.value.errno in (errno.EIO, errno.ETIMEDOUT)
        with pytest.raises(OSError):
            (m.path / "large").write_bytes(b"x" * (3 * PART))
        assert time.monotonic() - began < 60 * processes.SLOWNESS
        m.umount()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert keys(rgw_bucket) == ["before"]

"""A bucket that is mounted writable while another host, here a plain client, changes it too."""

import ctypes
import errno
import os
import stat
import subprocess
import time
from urllib.parse import quote

import pytest

from harness import data

PART = 8 << 20
MIB = 1 << 20


@pytest.fixture
def show(rgw_bucket, mount):
    """show(**options): the bucket, mounted writable; what was asked once is believed for an hour."""
    def start(**options):
        return mount(rgw_bucket.source(), rgw_bucket.options({"rw": None, "metadata.ttl": "1h", **options}),
                     env=rgw_bucket.env)
    return start


@pytest.fixture
def other(rgw_bucket):
    """The other host's view of the bucket: put(key, body, **more), body(key), head(key)."""
    class Other:
        client, bucket = rgw_bucket.server.client, rgw_bucket.name

        def put(self, key, body=b"", **more):
            self.client.put_object(Bucket=self.bucket, Key=key, Body=body, **more)

        def body(self, key):
            return self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()

        def head(self, key):
            return self.client.head_object(Bucket=self.bucket, Key=key)

        def keys(self):
            return [one["Key"] for one in self.client.list_objects_v2(Bucket=self.bucket).get("Contents", [])]

        def abort_uploads(self):
            uploads = self.client.list_multipart_uploads(Bucket=self.bucket).get("Uploads", [])
            for one in uploads:
                self.client.abort_multipart_upload(Bucket=self.bucket, Key=one["Key"], UploadId=one["UploadId"])
            return len(uploads)
    return Other()


def error_of(call, *arguments, **named):
    with pytest.raises(OSError) as caught:
        call(*arguments, **named)
    return caught.value.errno


def sent(m):
    return m.status()["origin"]["bytes_written"]


# Versions: local bytes are of the version that was copied, and of no other.

@pytest.mark.parametrize("change", ["chmod", "utime", "rename"])
def test_local_copies_do_not_become_versions_of_others(show, other, change):
    m = show()
    ours, theirs = data.content("ours", 100_000), data.content("theirs", 100_000)
    (m.path / "f").write_bytes(ours)
    other.put("f", theirs)
    where = "f"
    if change == "chmod":
        os.chmod(m.path / "f", 0o600)
    elif change == "utime":
        os.utime(m.path / "f", (1, 2))
    else:
        where = "g"
        os.rename(m.path / "f", m.path / "g")
    data.expect_same(other.body(where), theirs, "at the bucket")
    data.expect_same(data.read_cold(m.path / where), theirs, "on the mount")


# What fsync and close send.

def test_appends_send_what_was_appended(show, other):
    m = show()
    piece = data.content("piece", 16 * MIB)
    with open(m.path / "log", "wb") as log:
        for _ in range(6):
            log.write(piece)
            log.flush()
            os.fsync(log.fileno())
    whole = 6 * len(piece)
    assert other.head("log")["ContentLength"] == whole
    assert sent(m) <= 1.3 * whole + 6 * PART
    data.expect_same(other.body("log"), piece * 6, "at the bucket")


def test_one_byte_of_a_large_file_sends_one_part(show, other):
    m = show()
    content = bytearray(data.content("large", 64 * MIB))
    with open(m.path / "large", "w+b", buffering=0) as large:
        large.write(content)
        os.fsync(large.fileno())
        before = sent(m)
        os.pread(large.fileno(), MIB, 0)
        os.pwrite(large.fileno(), b"!", 33 * MIB)
        os.fsync(large.fileno())
        assert sent(m) - before <= PART + 65536
    content[33 * MIB:33 * MIB + 1] = b"!"
    data.expect_same(other.body("large"), bytes(content), "at the bucket")


@pytest.mark.parametrize("size", [5 * MIB, 20 * MIB, 40 * MIB])
def test_cut_and_grown_files_are_right(show, other, size):
    """Parts that are copied at the server hold what the file has there now."""
    m = show()
    content = bytearray(data.content("cut", 32 * MIB))
    with open(m.path / "f", "w+b", buffering=0) as file:
        file.write(content)
        os.fsync(file.fileno())
        os.ftruncate(file.fileno(), 12 * MIB)
        os.ftruncate(file.fileno(), size)
        os.pwrite(file.fileno(), b"x" * 1000, 3 * MIB)
        os.fsync(file.fileno())
    expected = content[:12 * MIB]
    expected = expected[:size].ljust(size, b"\0")
    expected[3 * MIB:3 * MIB + 1000] = b"x" * 1000
    data.expect_same(other.body("f"), bytes(expected), "at the bucket")


def test_another_hosts_object_is_not_mixed_with_what_is_written(show, other):
    """Who closes last wins, with the whole of it."""
    m = show()
    ours, theirs = bytearray(data.content("ours", 24 * MIB)), data.content("theirs", 24 * MIB)
    with open(m.path / "f", "w+b", buffering=0) as file:
        file.write(ours)
        os.fsync(file.fileno())
        other.put("f", theirs)
        os.pwrite(file.fileno(), b"?", 9 * MIB)
        os.fsync(file.fileno())
    ours[9 * MIB:9 * MIB + 1] = b"?"
    data.expect_same(other.body("f"), bytes(ours), "at the bucket")


def test_renamed_while_written_and_replaced_is_not_mixed(show, other):
    """What has the name then is moved, and who writes to what had it before is told."""
    m = show()
    ours, theirs = data.content("ours", 24 * MIB), data.content("theirs", 30 * MIB)
    with open(m.path / "f", "w+b", buffering=0) as file:
        file.write(ours)
        os.fsync(file.fileno())
        other.put("f", theirs)
        os.rename(m.path / "f", m.path / "g")
        with pytest.raises(OSError) as refused:
            os.pwrite(file.fileno(), b"?", 9 * MIB)
        assert refused.value.errno == errno.ESTALE
    data.expect_same(other.body("g"), theirs, "at the bucket")


def test_uploads_that_the_server_gave_up_are_begun_anew(show, other):
    m = show()
    content = data.content("upload", 40 * MIB)
    with open(m.path / "f", "wb", buffering=0) as file:
        file.write(content[:30 * MIB])
        deadline = time.monotonic() + 30
        while other.abort_uploads() == 0:
            assert time.monotonic() < deadline, "no upload was begun"
            time.sleep(0.05)
        file.write(content[30 * MIB:])
    data.expect_same(other.body("f"), content, "at the bucket")


# Closing.

def test_file_made_anew_while_the_one_before_is_open(show, other):
    """Two files have two inode numbers; and a close by who writes to the one puts the other there."""
    m = show()
    with open(m.path / "f", "wb", buffering=0) as before:
        before.write(b"before")
        os.rename(m.path / "f", m.path / "g")
        os.unlink(m.path / "g")
        with open(m.path / "f", "xb") as file:
            assert os.fstat(file.fileno()).st_ino != os.fstat(before.fileno()).st_ino
        assert other.body("f") == b""
        os.unlink(m.path / "f")
        (m.path / "f").write_bytes(b"after")
        assert os.stat(m.path / "f").st_ino != os.fstat(before.fileno()).st_ino
    os.unlink(m.path / "f")
    (m.path / "f").write_bytes(b"again")
    assert other.body("f") == b"again"


def test_one_process_writes_the_same_name_on_two_mounts(show, other):
    """Its descriptor of the other mount is no reason to put off what it cuts to nothing here."""
    m, second = show(), show()
    other.put("f", b"1" * 9000)
    with open(second.path / "f", "wb") as there:
        with open(m.path / "f", "wb"):
            pass
        assert other.body("f") == b""
        there.write(b"second")
    assert other.body("f") == b"second"


def test_closing_a_duplicate_publishes_nothing(show, other):
    m = show()
    other.put("f", b"old")
    job = subprocess.Popen(["/bin/bash", "-c", "(read line; echo new) >f"], cwd=m.path, stdin=subprocess.PIPE)
    deadline = time.monotonic() + 20
    while (m.path / "f").stat().st_size != 0:  # the mount's own view: it has been cut
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.3)
    assert other.body("f") == b"old"
    job.communicate(b"go\n", timeout=30)
    assert job.returncode == 0 and other.body("f") == b"new\n"


def test_dd_publishes_once(show, other):
    m = show()
    other.put("f", b"old")
    before = m.status()["origin"]["requests"]["put"]
    subprocess.run(["dd", "if=/dev/zero", "of=f", "bs=1000", "count=3"], cwd=m.path, check=True, capture_output=True)
    assert other.body("f") == bytes(3000)
    assert m.status()["origin"]["requests"]["put"] == before + 1


@pytest.mark.parametrize("flags", [os.O_RDONLY | os.O_CREAT, os.O_RDONLY | os.O_TRUNC, os.O_WRONLY | os.O_TRUNC],
                         ids=["created", "cut", "cut-for-writing"])
def test_empty_files_are_there_after_close(show, other, flags):
    m = show()
    if not flags & os.O_CREAT:
        other.put("f", b"old")
    os.close(os.open(m.path / "f", flags, 0o644))
    assert other.body("f") == b""


# Names.

def rename_without_replacing(old, new):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), 1) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


@pytest.mark.parametrize("taken", ["file", "directory"])
def test_names_that_another_host_has_taken(show, other, taken):
    m = show()
    (m.path / "mine").write_bytes(b"mine")
    (m.path / "tree").mkdir()
    (m.path / "tree/x").write_bytes(b"x")
    assert error_of(os.stat, m.path / "t") == errno.ENOENT
    time.sleep(0.05)
    other.put("t" if taken == "file" else "t/same", b"theirs")
    assert error_of(os.open, m.path / "t", os.O_CREAT | os.O_EXCL | os.O_WRONLY) == errno.EEXIST
    assert error_of(os.mkdir, m.path / "t") == errno.EEXIST
    assert error_of(os.symlink, "x", m.path / "t") == errno.EEXIST
    assert error_of(rename_without_replacing, m.path / "mine", m.path / "t") == errno.EEXIST
    code = error_of(os.rename, m.path / "tree", m.path / "t")
    assert code == (errno.ENOTDIR if taken == "file" else errno.ENOTEMPTY)
    assert stat.S_ISDIR(os.stat(m.path / "t").st_mode) == (taken == "directory")
    assert other.body("t" if taken == "file" else "t/same") == b"theirs" and other.body("mine") == b"mine"


def test_make_directories_beside_another_host(show, other):
    m = show()
    assert not (m.path / "a").exists()
    other.put("a/b/c", b"")
    os.makedirs(m.path / "a/b/d", exist_ok=True)
    assert sorted(os.listdir(m.path / "a/b")) == ["c", "d"]


MAKE_DIRECTORIES = """
import os, sys
place, rounds = sys.argv[1], int(sys.argv[2])
for n in range(rounds):
    os.makedirs(f"{place}/r{n}/a/b", exist_ok=True)
    open(f"{place}/r{n}/a/b/{os.getpid()}", "w").close()
"""


@pytest.mark.parametrize("ttl", ["1h", "0s"])
def test_two_hosts_make_the_same_directories(rgw_bucket, mount, ttl):
    """As every job of many ranks begins: makedirs(exist_ok=True) of the same names, at the same time."""
    options = {"rw": None, "metadata.ttl": ttl}
    mounts = [mount(rgw_bucket.source(), rgw_bucket.options(options), env=rgw_bucket.env) for _ in range(2)]
    rounds, processes_each = 10, 4
    jobs = [subprocess.Popen(["/usr/bin/python3", "-c", MAKE_DIRECTORIES, m.path, str(rounds)], stderr=subprocess.PIPE,
                             text=True)
            for m in mounts for _ in range(processes_each)]
    for job in jobs:
        _, said = job.communicate(timeout=300)
        assert job.returncode == 0, said
    found = rgw_bucket.server.client.list_objects_v2(Bucket=rgw_bucket.name).get("Contents", [])
    files = [one["Key"] for one in found if not one["Key"].endswith("/")]
    assert len(files) == rounds * 2 * processes_each


# Listings.

def getdents(descriptor, size):
    buffer = ctypes.create_string_buffer(size)
    libc = ctypes.CDLL(None, use_errno=True)
    got = libc.syscall(217, descriptor, buffer, size)
    assert got >= 0, os.strerror(ctypes.get_errno())
    names, at = [], 0
    while at < got:
        length = int.from_bytes(buffer.raw[at + 16:at + 18], "little")
        names.append(buffer.raw[at + 19:at + length].split(b"\0", 1)[0].decode())
        at += length
    return [name for name in names if name not in (".", "..")], got


def test_directory_emptied_with_a_small_buffer(show, other):
    m = show()
    for number in range(1050):  # a page has 1,000
        other.put(f"d/file-{number:05}", b"x")
    descriptor = os.open(m.path / "d", os.O_RDONLY | os.O_DIRECTORY)
    try:
        while True:
            names, got = getdents(descriptor, 2048)
            if got == 0:
                break
            for name in names:
                os.unlink(m.path / "d" / name)
    finally:
        os.close(descriptor)
    assert [key for key in other.keys() if key != "d/"] == []


def test_file_and_directory_of_one_name_on_two_pages(show, other):
    m = show()
    other.put("a", b"file")
    for number in range(1010):
        other.put(f"a-{number:05}", b"x")
    other.put("a/x", b"below")
    names = os.listdir(m.path)
    assert len(names) == len(set(names)) == 1011 and "a" in names
    assert stat.S_ISDIR(os.stat(m.path / "a").st_mode)


# What others gave an object.

@pytest.mark.parametrize("change", ["chmod", "append", "xattr", "rename"])
def test_headers_and_metadata_of_others_stay(show, other, change):
    m = show()
    given = {"ContentType": "text/html", "CacheControl": "max-age=60", "ContentDisposition": "inline",
             "ContentLanguage": "de", "ContentEncoding": "identity"}
    other.put("f", b"content", Metadata={"owner-team": "vision"}, **given)
    where = "f"
    if change == "chmod":
        os.chmod(m.path / "f", 0o640)
    elif change == "append":
        with open(m.path / "f", "ab") as file:
            file.write(b" more")
    elif change == "xattr":
        os.setxattr(m.path / "f", "user.a", b"b")
    else:
        where = "g"
        os.rename(m.path / "f", m.path / "g")
    found = other.head(where)
    assert {name: found.get(name) for name in given} == given
    assert found["Metadata"]["owner-team"] == "vision"
    if change != "rename":
        assert found["Metadata"]["mode"]


@pytest.mark.parametrize("change", [lambda path: os.chmod(path, 0o750), lambda path: os.utime(path, (1, 2))],
                         ids=["chmod", "utime"])
def test_markers_of_others_keep_what_they_have(show, other, change):
    m = show()
    other.put("d/", b"content of others", ContentType="text/html", Metadata={"owner-team": "vision"})
    change(m.path / "d")
    found = other.head("d/")
    assert other.body("d/") == b"content of others"
    assert found["ContentType"] == "text/html" and found["Metadata"]["owner-team"] == "vision"
    assert found["Metadata"]["mode"]
    assert error_of(os.rmdir, m.path / "d") == errno.ENOTEMPTY
    assert other.body("d/") == b"content of others"


def test_directory_without_a_marker_gets_one_with_its_attributes(show, other):
    m = show()
    other.put("d/file", b"x")
    os.chmod(m.path / "d", 0o750)
    assert other.head("d/")["Metadata"]["mode"] == str(stat.S_IFDIR | 0o750) and other.body("d/file") == b"x"


@pytest.mark.parametrize("command", [["rsync", "-a", "{}/", "."], ["cp", "-a", "{}/.", "."],
                                     ["/bin/sh", "-c", "tar -C {} -c . | tar -x"]], ids=["rsync", "cp", "tar"])
def test_trees_are_copied_into_the_root(show, other, tmp_path, command):
    """The root of a bucket has no object that could keep its attributes."""
    m = show()
    (tmp_path / "tree/below").mkdir(parents=True)
    (tmp_path / "tree/below/file").write_bytes(b"content")
    os.chmod(tmp_path / "tree", 0o1777)
    os.utime(tmp_path / "tree", (1, 2))
    done = subprocess.run([word.format(tmp_path / "tree") for word in command], cwd=m.path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done
    assert other.body("below/file") == b"content" and sorted(other.keys()) == ["below/", "below/file"]
    assert stat.S_IMODE(os.stat(m.path).st_mode) == 0o1777 and int(os.stat(m.path).st_mtime) == 2


@pytest.mark.parametrize("change", ["chmod", "append", "write-large", "rename", "link"])
def test_tags_of_others_stay(show, other, change):
    m = show()
    tags = {"team": "vision & sound", "cost centre": "4711/a+b"}
    other.put("f", b"content", Tagging="&".join(f"{quote(key)}={quote(value)}" for key, value in tags.items()))
    where = "f"
    if change == "chmod":
        os.chmod(m.path / "f", 0o640)
    elif change == "append":
        with open(m.path / "f", "ab") as file:
            file.write(b" more")
    elif change == "write-large":
        with open(m.path / "f", "wb") as file:
            file.write(data.content("large", 20 * MIB))
    else:
        where = "g"
        (os.rename if change == "rename" else os.link)(m.path / "f", m.path / "g")
    found = other.client.get_object_tagging(Bucket=other.bucket, Key=where)["TagSet"]
    assert {one["Key"]: one["Value"] for one in found} == tags


def test_keys_that_cannot_be_files_are_counted(show, other):
    m = show()
    for key in ("d/file", "d//empty", "d/./dot", "a", "a/x", "long/" + "n" * 300):
        other.put(key, b"x")
    for directory in ("", "d", "long"):
        os.listdir(m.path / directory)
    hidden = {one["reason"]: one["count"] for one in m.status()["hidden_keys"]}
    assert hidden["file beside a directory of the same name"] == 1 and sum(hidden.values()) >= 3, hidden
    other.client.delete_object(Bucket=other.bucket, Key="a")
    os.listdir(m.path)
    assert "file beside a directory of the same name" not in {one["reason"] for one in m.status()["hidden_keys"]}

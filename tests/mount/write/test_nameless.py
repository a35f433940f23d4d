"""Files that are made without a name (O_TMPFILE of open(2)) and get one when they are complete, by linkat(2)."""

import contextlib
import errno
import os
import stat

import pytest

from harness import data, processes
from test_link_s3 import link_descriptor
from test_write import error_of

MIB = 1 << 20


class Source:
    def __init__(self, mount, listing, read, put):
        self.mount, self.listing, self.read, self.put = mount, listing, read, put


def in_folder(mounted, folder):
    return Source(mounted, lambda: sorted(os.listdir(folder)), lambda name: (folder / name).read_bytes(),
                  lambda name, content: data.write(folder / name, content))


@pytest.fixture(params=["directory", pytest.param("directory that has none", marks=pytest.mark.test_points), "bucket", "nfs"])
def source(request, mount):
    """A writable mount; what its source has; and how others put something there."""
    options = {"rw": None, "metadata.ttl": "1h"}
    if request.param == "bucket":
        bucket = request.getfixturevalue("rgw_bucket")
        client, name = bucket.server.client, bucket.name
        return Source(mount(bucket.source(), bucket.options(options), env=bucket.env),
                      lambda: sorted(entry["Key"] for entry in client.list_objects_v2(Bucket=name).get("Contents", [])),
                      lambda key: client.get_object(Bucket=name, Key=key)["Body"].read(),
                      lambda key, content: client.put_object(Bucket=name, Key=key, Body=content))
    if request.param == "nfs":
        exported = request.getfixturevalue("exported")
        return in_folder(mount.prepare(exported.url(), options).start(), exported.path)
    origin = request.getfixturevalue("origin")
    env = {"TIERFS_TEST_FAULTS": f"posix.tmpfile:1+:error={errno.EOPNOTSUPP}"} if request.param != "directory" else None
    return in_folder(mount(origin, options, env=env), origin)


@contextlib.contextmanager
def nameless(m, flags=os.O_RDWR, mode=0o640):
    handle = os.open(m.path, os.O_TMPFILE | flags, mode)
    try:
        yield handle
    finally:
        os.close(handle)


def visible(names):
    return [name for name in names if not name.startswith(".")]


@pytest.mark.parametrize("size", [0, 1000, 20 * MIB])
def test_named_when_complete(source, size):
    m, content = source.mount, data.content("nameless", size)
    with nameless(m) as handle:
        for at in range(0, size, MIB):
            os.pwrite(handle, content[at:at + MIB], at)
        os.fsync(handle)
        data.expect_same(os.pread(handle, size + 1, 0), content, "before it has a name")
        assert visible(os.listdir(m.path)) == [] == visible(source.listing())
        inode = os.fstat(handle).st_ino
        link_descriptor(handle, m.path / "file")
        data.expect_same(source.read("file"), content, "at the source, when link has returned")
        found = os.stat(m.path / "file")
        assert (found.st_ino, found.st_size, stat.S_IMODE(found.st_mode)) == (inode, size, 0o640)
        os.pwrite(handle, b"more", size)
        os.fsync(handle)
    data.expect_same(source.read("file"), content + b"more", "written when it had a name")
    data.expect_same((m.path / "file").read_bytes(), content + b"more", "on the mount")
    processes.wait_until(lambda: source.listing() == ["file"], what="no other name is left")
    processes.wait_until(lambda: os.stat(m.path / "file").st_nlink == 1, what="nor counted")


def test_by_its_place_in_proc(source):
    """As programs without CAP_DAC_READ_SEARCH do it: see open(2)."""
    m = source.mount
    folder = os.open(m.path, os.O_RDONLY)
    with nameless(m, os.O_WRONLY) as handle:
        os.write(handle, b"content")
        os.link(f"/proc/self/fd/{handle}", "file", dst_dir_fd=folder, follow_symlinks=True)
    os.close(folder)
    assert source.read("file") == b"content"


def test_goes_with_its_last_close(source):
    m = source.mount
    with nameless(m) as handle:
        os.write(handle, b"x" * MIB)
        assert os.fstat(handle).st_size == MIB
        os.fsync(handle)
    processes.wait_until(lambda: source.listing() == [], what="nothing is left")
    assert os.listdir(m.path) == []


@pytest.mark.parametrize("size", [4, 20 * MIB])
def test_does_not_replace(source, size):
    """And gets another name instead, with what was written meanwhile."""
    m, content = source.mount, data.content("ours", size)
    assert os.listdir(m.path) == []
    with nameless(m) as handle:
        os.pwrite(handle, content, 0)
        source.put("taken", b"another host's")
        assert error_of(link_descriptor, handle, m.path / "taken") == errno.EEXIST
        assert source.read("taken") == b"another host's"
        os.pwrite(handle, b"more", size)
        link_descriptor(handle, m.path / "free")
    data.expect_same(source.read("free"), content + b"more", "under the free name")
    assert source.read("taken") == b"another host's"


def test_a_second_name(source):
    m = source.mount
    with nameless(m) as handle:
        os.write(handle, b"content")
        for name in ("one", "two"):
            link_descriptor(handle, m.path / name)
    assert [source.read(name) for name in ("one", "two")] == [b"content"] * 2
    os.unlink(m.path / "one")
    assert (m.path / "two").read_bytes() == b"content"


def test_none_where_no_link_could_name_it(rgw_bucket, mount):
    m = mount(rgw_bucket.source(), rgw_bucket.options({"rw": None, "writes.link": "false"}), env=rgw_bucket.env)
    assert error_of(os.open, m.path, os.O_TMPFILE | os.O_WRONLY) == errno.EOPNOTSUPP


def test_one_that_is_to_get_no_name(source):
    m = source.mount
    with nameless(m, os.O_RDWR | os.O_EXCL) as handle:
        os.write(handle, b"x")
        assert error_of(link_descriptor, handle, m.path / "file") == errno.ENOENT

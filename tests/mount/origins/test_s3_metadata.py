"""Read-only mounts of a bucket show what writable ones keep with objects: modes, owners, times, symbolic links."""

import os
import stat
import subprocess
import time

import pytest


@pytest.fixture
def show(rgw_bucket, mount):
    def start(**options):
        return mount(rgw_bucket.source(), rgw_bucket.options(options), env=rgw_bucket.env)
    return start


def make_tree(show, below="."):
    """By a writable mount, which ends before this returns."""
    m = show(rw=None)
    top = m.path / below
    top.mkdir(exist_ok=True)
    (top / "folder").mkdir(mode=0o750)
    (top / "folder/script").write_bytes(b"#!/bin/sh\necho it runs\n")
    os.chmod(top / "folder/script", 0o755)
    (top / "folder/private").write_bytes(b"secret")
    os.chmod(top / "folder/private", 0o600)
    os.chown(top / "folder/private", 1234, 5678)
    os.utime(top / "folder/script", ns=(1_500_000_000_123456789, 1_600_000_000_987654321))
    os.symlink("folder/script", top / "link")
    os.symlink("nowhere", top / "folder/dangling")
    m.umount()


def seen(top):
    """lstat of all that is below."""
    found = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            found[os.path.relpath(path, top)] = (
                stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid,
                0 if stat.S_ISDIR(status.st_mode) else status.st_mtime_ns,
                os.readlink(path) if stat.S_ISLNK(status.st_mode) else "")
    return found


@pytest.mark.parametrize("below", [".", "below"], ids=["root", "directory"])
@pytest.mark.parametrize("first", ["walk", "stat"])
def test_read_only_mounts_show_what_writable_ones_keep(show, below, first):
    make_tree(show, below)
    writable = show(rw=None)
    expected = seen(writable.path / below)
    assert expected["folder/script"][1] == 0o755 and stat.S_ISLNK(expected["link"][0])
    m = show()
    if first == "stat":
        assert stat.S_IMODE(os.stat(m.path / below / "folder/script").st_mode) == 0o755
        assert os.readlink(m.path / below / "folder/dangling") == "nowhere"
    assert seen(m.path / below) == expected
    assert subprocess.run([m.path / below / "link"], capture_output=True, check=True).stdout == b"it runs\n"


def test_a_prefix_that_is_mounted_is_a_root_as_well(rgw_bucket, mount):
    """It has no object of its own, unless somebody has made one."""
    def show(**options):
        return mount(rgw_bucket.source("run42"), rgw_bucket.options(options), env=rgw_bucket.env)
    make_tree(show)
    expected = seen(show(rw=None).path)
    assert expected["folder/script"][1] == 0o755 and stat.S_ISLNK(expected["link"][0])
    assert seen(show().path) == expected


def test_never_shows_files(show):
    make_tree(show)
    m = show(**{"s3.metadata": "never"})
    assert {kind for kind, *_ in seen(m.path).values()} == {stat.S_IFREG, stat.S_IFDIR}
    assert stat.S_IMODE(os.stat(m.path / "folder/private").st_mode) == 0o444
    assert (m.path / "link").read_bytes() == b"folder/script"


def test_buckets_without_a_sign_cost_no_requests(rgw_bucket, show):
    for number in range(20):
        rgw_bucket.put(f"data/part-{number % 4}/file-{number}", b"x")
    m = show()
    assert len(seen(m.path)) == 25
    requests = m.status()["origin"]["requests"]
    assert requests["head"] <= 3 and requests["list"] <= 7, requests


def test_a_bucket_that_is_asked_for_all(rgw_bucket, show):
    rgw_bucket.server.client.put_object(Bucket=rgw_bucket.name, Key="data/file", Body=b"x",
                                        Metadata={"mode": str(stat.S_IFREG | 0o640), "uid": "7"})
    rgw_bucket.put("data/other", b"y")
    m = show(**{"s3.metadata": "always"})
    found = seen(m.path)
    assert found["data/file"][1:3] == (0o640, 7) and found["data/other"][1] == 0o444


@pytest.mark.parametrize("options", [{}, {"rw": None}], ids=["ro", "rw"])
def test_directories_that_are_keys_alone_have_the_time_of_the_mount(rgw_bucket, show, options):
    rgw_bucket.put("folder/below/file", b"x")
    began = time.time()
    m = show(**options)
    for path in (m.path, m.path / "folder", m.path / "folder/below"):
        status = os.stat(path)
        assert began - 1 <= status.st_mtime <= time.time() and began - 1 <= status.st_ctime <= time.time(), path
    assert os.stat(m.path / "folder").st_mtime == os.stat(m.path / "folder").st_mtime

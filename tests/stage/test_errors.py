"""What goes wrong is said, with an exit status, and there is never half a file under its final name."""

import fcntl
import os

import pytest
import shape
from conftest import content
from harness import data, faults, processes


def test_wrong_usage(stage, folder, xfs):
    stage(expect=2)
    stage("in", expect=2)
    stage("in", "s3://", xfs.path, expect=1)
    stage("in", folder, xfs.path, "--shard", "5/4", expect=2)
    stage("in", folder, xfs.path, "--keep-free", "-1", expect=2)
    stage("in", folder, xfs.path, "-o", "no.such=1", expect=2)
    assert not (xfs.path / ".tierfs-stage").exists()
    for name in ("plan", "in", "status", "verify", "pin", "unpin", "evict", "gc"):
        assert "DEST" in stage(name, "--help").out


def test_other_file_systems_are_refused(stage, source, tmpfs):
    data.write(source / "a", b"1")
    assert "only XFS and ext4" in stage("in", source, tmpfs.path, expect=1).err
    assert not (tmpfs.path / ".tierfs-stage").exists()
    found = stage("in", source, tmpfs.path, "--force-unsuitable")
    assert "warning" in found.err and (tmpfs.path / "a").read_bytes() == b"1"


def test_disk_full(stage, source, make_xfs):
    xfs = make_xfs(320 << 20)
    for number in range(4):
        data.write(source / f"f{number}", content(number, 70 << 20))
    found = stage("in", source, xfs.path, expect=1)
    assert "too little room" in found.err and "nothing was copied" in found.err
    assert shape.files_of(xfs.path) == {}


@pytest.mark.test_points
def test_the_disk_fills_while_it_is_staged(stage, source, make_xfs):
    xfs = make_xfs(320 << 20)
    files = {f"f{number}": data.write(source / f"f{number}", content(number, 40 << 20)) for number in range(3)}
    found = stage("in", source, xfs.path, "--workers", 1, expect=1, env={"TIERFS_TEST_FAULTS": "stage.write:15+:error=ENOSPC"})
    assert "no space is left" in found.err and "the same command again" in found.err
    for path in shape.files_of(xfs.path):
        assert shape.read_direct(xfs.path / path) == files[path]
    done = stage("in", source, xfs.path, "--json").event("done")
    assert done["bytes_reused"] > 0 or done["files_kept"] > 0
    shape.expect_staged(xfs.path, files)


def test_keep_free(stage, source, xfs):
    data.write(source / "a", content("a", 10 << 20))
    assert "too little room" in stage("in", source, xfs.path, "--keep-free", "99%", expect=1).err
    stage("in", source, xfs.path, "--keep-free", "10M")


def test_the_source_is_away(stage, xfs, folder):
    assert "source" in stage("in", folder / "nothing", xfs.path, expect=1).err
    found = stage("in", "s3://bucket", xfs.path, "-o", "s3.endpoint=http://127.0.0.1:1", "-o", "origin.deadline=1s",
                  expect=1)
    assert "127.0.0.1:1" in found.err
    assert shape.files_of(xfs.path) == {}


def test_the_source_goes_away(stage, xfs, bucket):
    files = {f"f{number:02}": content(number, 100000) for number in range(40)}
    bucket.put_all(files)
    bucket.server.control(fail_every=2)
    words = ["in", bucket.url, xfs.path, *bucket.options, "-o", "origin.deadline=1s"]
    stage(*words, expect=None)
    bucket.server.control(fail_every=0)
    for path in shape.files_of(xfs.path):
        assert shape.read_direct(xfs.path / path) == files[path]
    stage(*words)
    shape.expect_staged(xfs.path, files)


@pytest.mark.test_points
def test_a_file_that_may_not_be_read(stage, source, xfs):
    files = {f"f{number}": data.write(source / f"f{number}", content(number, 5000)) for number in range(5)}
    found = stage("in", source, xfs.path, "--json", expect=1, env={"TIERFS_TEST_FAULTS": "dir.read:3:error=EACCES"})
    failed = found.all("failed")
    assert len(failed) == 1 and failed[0]["errno"] == 13 and failed[0]["path"] in files
    lost = files.pop(failed[0]["path"])
    shape.expect_staged(xfs.path, files)
    stage("in", source, xfs.path)
    shape.expect_staged(xfs.path, {**files, failed[0]["path"]: lost})


def test_foreign_files_are_left_alone(stage, source, xfs):
    data.write(source / "a", b"ours")
    data.write(source / "b/c", b"ours too")
    data.write(source / "d", b"ours three")
    data.write(xfs.path / "a", b"theirs")
    data.write(xfs.path / "b", b"their file, our folder")
    data.write(xfs.path / "else", b"not in the way")
    found = stage("in", source, xfs.path, expect=1)
    assert found.err.count("is not of tierfs-stage") == 2 and "--overwrite" in found.err
    assert (xfs.path / "a").read_bytes() == b"theirs" and (xfs.path / "b").read_bytes() == b"their file, our folder"
    assert (xfs.path / "d").read_bytes() == b"ours three"
    os.unlink(xfs.path / "b")
    stage("in", source, xfs.path, "--overwrite")
    assert (xfs.path / "a").read_bytes() == b"ours" and (xfs.path / "b/c").read_bytes() == b"ours too"
    assert (xfs.path / "else").read_bytes() == b"not in the way"


def test_a_staged_file_that_was_changed_is_left_alone(stage, source, xfs):
    data.write(source / "a", b"1")
    stage("in", source, xfs.path)
    (xfs.path / "a").write_bytes(b"changed")
    data.write(source / "a", b"2")
    assert "was changed since it was staged" in stage("in", source, xfs.path, expect=1).err
    assert (xfs.path / "a").read_bytes() == b"changed"
    stage("evict", xfs.path)
    assert (xfs.path / "a").read_bytes() == b"changed"


def test_no_symbolic_link_is_followed_out(stage, source, xfs, folder):
    outside = folder / "outside"
    outside.mkdir()
    os.symlink(outside, xfs.path / "d")
    data.write(source / "d/e/f", b"1")
    stage("in", source, xfs.path, expect=1)
    assert not list(outside.iterdir())


def test_another_dataset_is_refused(stage, source, xfs, folder):
    data.write(source / "a", b"1")
    stage("in", source, xfs.path)
    other = folder / "other"
    other.mkdir()
    assert "holds another dataset" in stage("in", other, xfs.path, "--delete", expect=1).err
    assert (xfs.path / "a").exists()


def test_source_and_destination_within_each_other(stage, xfs):
    data.write(xfs.path / "a", b"1")
    assert "within the source" in stage("in", xfs.path, xfs.path / "d", expect=1).err


def test_names_that_collide(stage, xfs):
    """A key that is a file and a folder too: one of them is staged, and the other is not passed over in silence."""
    with faults.FaultyS3({"a": b"a file", "a/b": b"below it", "c": b"fine"}) as server:
        found = stage("in", "s3://bucket", xfs.path, "-o", f"s3.endpoint={server.endpoint}", "-o", "s3.region=us-east-1",
                      expect=1)
    assert "file beside a directory" in found.err
    shape.expect_staged(xfs.path, {"a/b": b"below it", "c": b"fine"})


def test_an_unreadable_journal(stage, source, xfs):
    data.write(source / "a", b"1")
    stage("in", source, xfs.path)
    journal = xfs.path / ".tierfs-stage/journal.jsonl"
    journal.write_bytes(b"\xff\xfe garbage\n{}\n{\"part\":\"../x\",\"path\":\"y\",\"size\":1}\n" + b"x" * 100)
    found = stage("in", source, xfs.path)
    assert "3 lines of the journal" in found.err
    journal.mkdir()
    assert "the journal cannot be read" in stage("in", source, xfs.path, expect=1).err
    journal.rmdir()
    manifest = xfs.path / ".tierfs-stage/manifest.jsonl"
    lines = manifest.read_bytes()
    manifest.write_bytes(lines + b'{"path":"b"')  # torn by a kill
    stage("in", source, xfs.path)
    manifest.write_bytes(lines + b"damage\n")
    found = stage("in", source, xfs.path, expect=1)
    assert "manifest.jsonl:3" in found.err and "move the manifest away" in found.err
    assert "manifest.jsonl:3" in stage("status", xfs.path, expect=1).err


def test_two_at_once(stage, source, xfs):
    data.write(source / "a", b"1")
    stage("in", source, xfs.path)
    with open(xfs.path / ".tierfs-stage/lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another tierfs-stage" in stage("in", source, xfs.path, expect=1).err
        assert "another tierfs-stage" in stage("in", source, xfs.path, "--shard", "0/2", expect=1).err
        stage("status", xfs.path)
        waiting = stage.start("in", source, xfs.path, "--wait")
        processes.wait_until(lambda: "tierfs-stage/lock" in os.popen(f"ls -l /proc/{waiting.pid}/fd").read(), 30,
                             "it has opened the lock")
        assert waiting.poll() is None
    waiting.wait(60)
    assert waiting.returncode == 0


def test_a_read_only_destination(stage, source, xfs):
    data.write(source / "a", b"1")
    xfs.remount("ro")
    assert "ead-only" in stage("in", source, xfs.path, expect=1).err
    xfs.remount("rw")


def test_an_object_that_is_not_what_its_etag_says(stage, xfs):
    with faults.FaultyS3({"a": b"a" * 5000, "b": b"b" * 5000}) as server:
        words = ["in", "s3://bucket", xfs.path, "-o", f"s3.endpoint={server.endpoint}", "-o", "s3.region=us-east-1", "--check-md5"]
        server.fault = lambda method, key, number: "flip" if method == "GET" and key == "a" else None
        assert "MD5" in stage(*words, expect=1).err
        shape.expect_staged(xfs.path, {"b": b"b" * 5000})
        server.fault = lambda method, key, number: None
        stage(*words)
    shape.expect_staged(xfs.path, {"a": b"a" * 5000, "b": b"b" * 5000})

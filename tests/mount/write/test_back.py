"""writes=back: close and fsync return when what was written stands in the journal, and the bucket has it later, in order."""

import concurrent.futures
import contextlib
import errno
import os
import threading
import time

import pytest

from harness import daemon, data, disks, processes
from test_write_s3 import body, error_of, head, keys, uploads

MIB = 1 << 20


@pytest.fixture
def back(rgw_bucket, mount, folder):
    """back(**options): the bucket, mounted with write-back; each time with the same journal."""
    def start(**options):
        named = {"rw": None, "metadata.ttl": "1h", "writes": "back", "journal.path": str(folder / "journal"), **options}
        return mount(rgw_bucket.source(), rgw_bucket.options(named), env=rgw_bucket.env)
    return start


@pytest.fixture
def refusing(rgw_bucket):
    """refusing(): from now on the server refuses all changes, until refusing.server.calm()."""
    def start():
        rgw_bucket.server.control(fail_changes=1)
    start.server = rgw_bucket.server
    return start


def flush(m, *more, timeout=60):
    return processes.check([daemon.BINARY, "flush", "--wait", *more, m.path], timeout=timeout)


def queue(m):
    return m.status()["writes"]["queue"]


def synced(path, content, flags=os.O_CREAT | os.O_TRUNC | os.O_WRONLY):
    handle = os.open(path, flags, 0o644)
    try:
        os.write(handle, content)
        os.fsync(handle)
    finally:
        os.close(handle)


@pytest.mark.quick
@pytest.mark.release
@pytest.mark.tsan
def test_what_was_closed_is_here_at_once_and_at_the_bucket_later(rgw_bucket, back):
    m = back()
    small, large = data.content("small", 70_001), data.content("large", 21 * MIB)
    (m.path / "folder").mkdir()
    (m.path / "folder/small").write_bytes(small)
    (m.path / "large").write_bytes(large)
    (m.path / "empty").touch()
    assert "large" not in keys(rgw_bucket), "it lingers"
    assert sorted(os.listdir(m.path)) == ["empty", "folder", "large"] and os.listdir(m.path / "folder") == ["small"]
    data.expect_same(data.read_cold(m.path / "large"), large, "from the journal")
    assert os.stat(m.path / "large").st_size == len(large)
    flush(m)
    assert keys(rgw_bucket) == ["empty", "folder/", "folder/small", "large"]
    data.expect_same(body(rgw_bucket, "large"), large, "at the bucket")
    data.expect_same(body(rgw_bucket, "folder/small"), small, "at the bucket")
    data.expect_same(data.read_cold(m.path / "large"), large, "afterwards")
    assert queue(m)["entries"] == 0 and queue(m)["done"] == 3 and queue(m)["conflicts"] == 0
    m.umount()
    m = back()
    data.expect_same((m.path / "large").read_bytes(), large, "on the next mount")


def test_by_itself_and_while_it_is_open(rgw_bucket, back):
    m = back()
    handle = os.open(m.path / "log", os.O_CREAT | os.O_WRONLY, 0o644)
    written = b""
    for number in range(5):
        line = data.content(f"line {number}", 100_000)
        os.write(handle, line)
        os.fsync(handle)
        written += line
        time.sleep(0.3)
    processes.wait_until(lambda: keys(rgw_bucket) == ["log"] and body(rgw_bucket, "log") == written, what="the log is there")
    os.write(handle, b"more")
    os.close(handle)
    flush(m)
    data.expect_same(body(rgw_bucket, "log"), written + b"more", "at the bucket")


@pytest.mark.release
def test_renamed_before_it_is_there(rgw_bucket, back):
    """tmp, fsync, rename: the bucket hears of the last name alone."""
    m = back()
    rgw_bucket.put("file", b"old")
    content = data.content("file", 300_000)
    synced(m.path / "file.tmp", content)
    os.rename(m.path / "file.tmp", m.path / "file")
    assert sorted(os.listdir(m.path)) == ["file"] and body(rgw_bucket, "file") == b"old"
    data.expect_same(data.read_cold(m.path / "file"), content, "here")
    flush(m)
    # This server takes If-Match without quotes alone, so that the number of requests tells nothing.
    assert keys(rgw_bucket) == ["file"] and m.status()["origin"]["bytes_written"] == len(content)
    data.expect_same(body(rgw_bucket, "file"), content, "at the bucket")


@pytest.mark.release
@pytest.mark.parametrize("then", ["rename", "unlink"])
def test_an_upload_of_what_gets_another_name_is_given_up(rgw_bucket, back, then):
    """A rank that renames its shard when the others are ready does not wait until the bucket has it under its first name."""
    m = back()
    content = data.content("shard", 100 * MIB)
    rgw_bucket.server.control(ttfb_ms=1500)
    synced(m.path / "shard.tmp", content)
    processes.wait_until(lambda: queue(m)["running"] == 1 and uploads(rgw_bucket), what="it is on its way")
    if then == "rename":
        os.rename(m.path / "shard.tmp", m.path / "shard")
    else:
        os.unlink(m.path / "shard.tmp")
    assert keys(rgw_bucket) == []
    rgw_bucket.server.calm()
    flush(m)
    assert keys(rgw_bucket) == (["shard"] if then == "rename" else [])
    processes.wait_until(lambda: uploads(rgw_bucket) == [], what="the upload is gone")
    if then == "rename":
        data.expect_same(body(rgw_bucket, "shard"), content, "at the bucket")


def test_times_and_modes_cost_nothing_more(rgw_bucket, back):
    m = back()
    (m.path / "file").write_bytes(b"content")
    os.chmod(m.path / "file", 0o640)
    os.utime(m.path / "file", ns=(5, 1_000_000_007))
    os.setxattr(m.path / "file", "user.note", b"kept")
    flush(m)
    assert rgw_bucket.server.control()["put"] == 1
    metadata = head(rgw_bucket, "file")["Metadata"]
    assert metadata["mtime"] == "1.000000007" and int(metadata["mode"]) & 0o777 == 0o640 and "xattr" in metadata
    os.chmod(m.path / "file", 0o600)
    assert int(head(rgw_bucket, "file")["Metadata"]["mode"]) & 0o777 == 0o600, "what the bucket has is changed there"


@pytest.mark.release
def test_what_was_removed_before_it_was_there(rgw_bucket, back):
    m = back()
    (m.path / "scratch").write_bytes(b"temporary")
    os.unlink(m.path / "scratch")
    assert os.listdir(m.path) == [] and queue(m)["entries"] == 0
    flush(m)
    assert keys(rgw_bucket) == [] and rgw_bucket.server.control()["put"] == 0


@pytest.mark.release
def test_the_old_goes_after_the_new_has_come(rgw_bucket, back, refusing):
    rgw_bucket.put("old", b"the checkpoint before")
    m = back(**{"origin.deadline": "8s"})  # so long the first attempt lasts
    assert os.listdir(m.path) == ["old"]
    refusing()
    synced(m.path / "new", b"a checkpoint")
    os.unlink(m.path / "old")
    assert os.listdir(m.path) == ["new"] and error_of(os.stat, m.path / "old") == errno.ENOENT
    processes.wait_until(lambda: queue(m)["error"], what="the bucket refuses")
    assert keys(rgw_bucket) == ["old"] and queue(m)["entries"] == 2
    refusing.server.calm()
    flush(m)
    assert keys(rgw_bucket) == ["new"] and os.listdir(m.path) == ["new"]


@pytest.mark.release
@pytest.mark.parametrize("who", ["daemon", "both"])
def test_a_killed_daemon_loses_nothing(rgw_bucket, back, refusing, who):
    rgw_bucket.put("gone", b"to be removed")
    rgw_bucket.put("changed", b"before")
    m = back()
    names = os.listdir(m.path)
    assert sorted(names) == ["changed", "gone"]
    refusing()
    files = {f"file{number}": data.content(f"file{number}", 50_000 + number) for number in range(20)}
    for name, content in files.items():
        (m.path / name).write_bytes(content)
    (m.path / "changed").write_bytes(b"after")
    os.unlink(m.path / "gone")
    synced(m.path / "tmp", b"renamed")
    os.rename(m.path / "tmp", m.path / "final")
    unsynced = os.open(m.path / "unsynced", os.O_CREAT | os.O_WRONLY)
    os.write(unsynced, b"never acknowledged")
    if who == "daemon":
        m.kill_daemon()
    else:
        m.kill_hard()
    with contextlib.suppress(OSError):
        os.close(unsynced)
    refusing.server.calm()
    rgw_bucket.server.control(ttfb_ms=300)
    m = back()
    expected = sorted([*files, "changed", "final"])
    assert sorted(os.listdir(m.path)) == expected
    for name, content in files.items():
        data.expect_same((m.path / name).read_bytes(), content, name)
    rgw_bucket.server.calm()
    flush(m)
    assert keys(rgw_bucket) == expected and queue(m)["conflicts"] == 0
    for name, content in {**files, "changed": b"after", "final": b"renamed"}.items():
        data.expect_same(body(rgw_bucket, name), content, name)


@pytest.mark.release
def test_in_the_order_of_acknowledgement(rgw_bucket, back):
    """A watcher of the bucket never sees a manifest before what it names, nor a part of a file."""
    m = back()
    size = 12 * MIB
    wrong, seen = [], set()
    end = threading.Event()

    def watch():
        while not end.is_set():
            there = set(keys(rgw_bucket))
            for number in range(4):
                if f"manifest{number}" in there and not {f"shard{number}-{part}" for part in range(3)} <= there:
                    wrong.append((number, there))
            seen.update(there)
    watcher = threading.Thread(target=watch)
    watcher.start()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for number in range(4):
            def shard(part, number=number):
                synced(m.path / f"shard{number}-{part}.tmp", data.content(f"{number} {part}", size))
                os.rename(m.path / f"shard{number}-{part}.tmp", m.path / f"shard{number}-{part}")
            list(pool.map(shard, range(3)))
            (m.path / f"manifest{number}").write_text(str(number))
    flush(m, timeout=120)
    end.set()
    watcher.join()
    assert not wrong and len(keys(rgw_bucket)) == 16
    for number in range(4):
        for part in range(3):
            data.expect_same(body(rgw_bucket, f"shard{number}-{part}"), data.content(f"{number} {part}", size), f"{number} {part}")


def test_an_empty_marker_comes_last(rgw_bucket, back, refusing):
    m = back()
    os.listdir(m.path)
    refusing()
    synced(m.path / "data", b"what it marks")
    (m.path / "_SUCCESS").touch()
    time.sleep(2.5)
    rgw_bucket.server.control(fail_changes=0, fail_next=0)
    seen = []
    processes.wait_until(lambda: seen.append(keys(rgw_bucket)) or len(seen[-1]) == 2, timeout=30, what="both are there")
    assert ["_SUCCESS"] not in seen


def test_times_of_what_is_cut_before_it_is_there(back):
    m = back()
    (m.path / "file").write_bytes(b"content")
    os.utime(m.path / "file", ns=(5, 5))
    os.truncate(m.path / "file", 3)
    assert os.stat(m.path / "file").st_mtime_ns > 10 ** 18 and (m.path / "file").read_bytes() == b"con"


def test_zeros_at_the_end_are_found_again(rgw_bucket, back, refusing):
    rgw_bucket.put("file", bytes(range(1, 101)))
    m = back()
    refusing()
    handle = os.open(m.path / "file", os.O_RDWR)
    processes.check(["fallocate", "--zero-range", "--offset", "50", "--length", "50", f"/proc/{os.getpid()}/fd/{handle}"])
    os.close(handle)
    m.kill_hard()
    refusing.server.calm()
    m = back()
    expected = bytes(range(1, 51)) + bytes(50)
    data.expect_same((m.path / "file").read_bytes(), expected, "found again")
    flush(m)
    data.expect_same(body(rgw_bucket, "file"), expected, "at the bucket")


def test_renames_while_others_write(rgw_bucket, back):
    """What the bucket has is renamed after what was written before, whatever is written meanwhile."""
    rgw_bucket.put("folder/file", b"x")
    rgw_bucket.put("one", b"x")
    m = back()
    end = threading.Event()

    def write():
        number = 0
        while not end.is_set():
            number += 1
            (m.path / f"busy{number % 5}").write_bytes(b"x" * number)
            time.sleep(0.05)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        os.rename(m.path / "folder", m.path / "renamed")
        os.rename(m.path / "one", m.path / "two")
    finally:
        end.set()
        writer.join()
    assert (m.path / "renamed/file").read_bytes() == b"x" and {"renamed/file", "two"} <= set(keys(rgw_bucket))


def test_what_a_journal_holds_is_not_forgotten(rgw_bucket, back, mount, refusing, folder):
    m = back()
    refusing()
    (m.path / "file").write_bytes(b"x")
    processes.check([daemon.BINARY, "umount", "--leave", m.path], timeout=60)
    refusing.server.calm()
    options = rgw_bucket.options({"rw": None, "writes": "through", "journal.path": str(folder / "journal")})
    text = ",".join(key if value is None else f"{key}={value}" for key, value in options.items())
    made = processes.run([daemon.BINARY, rgw_bucket.source(), m.path, "-o", text], env={**os.environ, **rgw_bucket.env})
    assert made.returncode != 0 and "1 changes that an earlier mount has acknowledged" in made.err, made
    other = mount(rgw_bucket.source(), rgw_bucket.options({"journal.path": str(folder / "journal")}), env=rgw_bucket.env)
    assert "holds 1 changes" in other.log_tail()


@pytest.mark.release
def test_another_hosts_object_is_not_overwritten(rgw_bucket, back):
    rgw_bucket.put("file", b"first")
    m = back()
    assert (m.path / "file").read_bytes() == b"first"
    handle = os.open(m.path / "file", os.O_WRONLY | os.O_TRUNC)
    os.write(handle, b"ours")
    os.fsync(handle)
    synced(m.path / "new", b"our new one")
    large = data.content("large", 12 * MIB)
    synced(m.path / "large", large)
    rgw_bucket.put("file", b"theirs")
    rgw_bucket.put("new", b"their new one")
    rgw_bucket.put("large", b"their large one")
    flush(m)
    assert body(rgw_bucket, "file") == b"theirs" and body(rgw_bucket, "new") == b"their new one"
    beside = {key.split(".conflict-")[0]: key for key in keys(rgw_bucket) if ".conflict-" in key}
    assert body(rgw_bucket, beside["file"]) == b"ours" and body(rgw_bucket, beside["new"]) == b"our new one"
    assert body(rgw_bucket, "large") == b"their large one" and body(rgw_bucket, beside["large"]) == large
    assert queue(m)["conflicts"] == 3
    assert error_of(os.fsync, handle) == errno.ESTALE
    os.close(handle)
    assert (m.path / "file").read_bytes() == b"theirs" and (m.path / "new").read_bytes() == b"their new one"
    assert "another host has changed it" in m.log_tail()


def test_another_hosts_object_is_not_removed(rgw_bucket, back):
    rgw_bucket.put("file", b"first")
    m = back()
    assert (m.path / "file").read_bytes() == b"first"
    os.unlink(m.path / "file")
    rgw_bucket.put("file", b"theirs")
    flush(m)
    assert body(rgw_bucket, "file") == b"theirs" and queue(m)["conflicts"] == 1
    processes.wait_until(lambda: (m.path / "file").exists(), what="it is seen here")


@pytest.mark.release
def test_unmounting_waits_or_leaves(rgw_bucket, back, refusing):
    m = back()
    (m.path / "one").write_bytes(b"1")
    processes.check([daemon.BINARY, "umount", m.path], timeout=60)
    assert keys(rgw_bucket) == ["one"]
    m = back()
    refusing()
    (m.path / "two").write_bytes(b"2")
    processes.check([daemon.BINARY, "umount", "--leave", m.path], timeout=60)
    refusing.server.calm()
    assert keys(rgw_bucket) == ["one"]
    m = back()
    assert (m.path / "two").read_bytes() == b"2"
    flush(m)
    assert keys(rgw_bucket) == ["one", "two"]


def test_where_it_cannot_be(folder):
    (folder / "source").mkdir()
    (folder / "at").mkdir()
    made = processes.run([daemon.BINARY, folder / "source", folder / "at", "-o", f"rw,writes=back,journal.path={folder / 'journal'}"])
    assert made.returncode != 0 and "no bucket" in made.err
    made = processes.run([daemon.BINARY, "s3://bucket", folder / "at", "-o", "rw,writes=back"])
    assert made.returncode != 0 and "journal.path" in made.err


def test_one_journal_is_for_one_mount_of_a_source(rgw_bucket, back, folder):
    m = back()
    (m.path / "file").write_bytes(b"x")
    options = rgw_bucket.options({"rw": None, "writes": "back", "journal.path": str(folder / "journal")})
    text = ",".join(key if value is None else f"{key}={value}" for key, value in options.items())
    (folder / "second").mkdir()
    made = processes.run([daemon.BINARY, rgw_bucket.source(), folder / "second", "-o", text],
                         env={**os.environ, **rgw_bucket.env})
    assert made.returncode != 0 and "in use by another writable mount" in made.err, made


@pytest.mark.release
def test_full_journal_makes_writers_wait(rgw_bucket, back, refusing):
    m = back(**{"journal.limit": "64M", "origin.deadline": "2s"})
    refusing()
    for number in range(4):
        (m.path / f"file{number}").write_bytes(data.content(str(number), 16 * MIB))
    assert error_of((m.path / "more").write_bytes, b"x") == errno.ENOSPC
    refusing.server.calm()
    processes.wait_until(lambda: queue(m)["entries"] == 0, timeout=60, what="it is taken again")
    (m.path / "more").write_bytes(b"x")
    flush(m)
    assert keys(rgw_bucket) == ["file0", "file1", "file2", "file3", "more"]


def test_links_and_directories_come_after_what_was_written(rgw_bucket, back):
    m = back()
    (m.path / "data").write_bytes(b"what the commit names")
    (m.path / "commit.tmp").write_bytes(b"commit")
    os.link(m.path / "commit.tmp", m.path / "commit")
    assert keys(rgw_bucket) == ["commit", "commit.tmp", "data"], "a link is at the bucket when it returns"
    (m.path / "from").mkdir()
    (m.path / "from/file").write_bytes(b"in it")
    os.rename(m.path / "from", m.path / "to")
    assert "to/file" in keys(rgw_bucket) and (m.path / "to/file").read_bytes() == b"in it"
    os.unlink(m.path / "to/file")
    os.rmdir(m.path / "to")
    assert [key for key in keys(rgw_bucket) if key.startswith("to")] == []


def test_made_anew_where_something_was_removed(rgw_bucket, back, refusing):
    rgw_bucket.put("name", b"first")
    m = back()
    assert os.listdir(m.path) == ["name"]
    refusing()
    os.unlink(m.path / "name")
    (m.path / "name").write_bytes(b"second")
    os.unlink(m.path / "name")
    (m.path / "name").write_bytes(b"third")
    assert os.listdir(m.path) == ["name"] and (m.path / "name").read_bytes() == b"third"
    refusing.server.calm()
    flush(m)
    assert body(rgw_bucket, "name") == b"third" and queue(m)["conflicts"] == 0


def test_journal_whose_device_is_full(rgw_bucket, back, folder):
    with disks.Xfs(folder / "device", size=400 * MIB) as disk:
        m = back(**{"journal.path": str(disk.path / "journal"), "origin.deadline": "3s"})
        written = 0
        rgw_bucket.server.control(fail_changes=1)
        failed = None
        for number in range(40):
            try:
                (m.path / f"file{number}").write_bytes(data.content(str(number), 16 * MIB))
                written += 1
            except OSError as error:
                failed = error.errno
                break
        assert failed == errno.ENOSPC and written >= 4
        rgw_bucket.server.calm()
        flush(m, timeout=120)
        for number in range(written):
            data.expect_same(body(rgw_bucket, f"file{number}"), data.content(str(number), 16 * MIB), str(number))
        m.umount()

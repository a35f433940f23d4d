"""Kills, power cuts and failing disks under who writes with writes=back: what was acknowledged comes to the bucket whole, once."""

import concurrent.futures
import contextlib
import errno
import os
import random
import threading
import time

import pytest

from harness import disks, processes
from test_back import MIB, back, flush, queue, synced  # noqa: F401  pylint: disable=unused-import
from test_write_crash import writing
from test_write_s3 import body, keys

ROUNDS = int(os.environ.get("TIERFS_TEST_KILLS", "50" if os.environ.get("TIERFS_TEST_FULL", "") == "1" else "3"))

# Says what it is about to do ("will"), and that it has been acknowledged ("did"): close NAME SIZE BYTE, rename OLD NEW, unlink NAME.
WRITER = r"""
import os, random, sys
os.chdir(sys.argv[1])
chance = random.Random(int(sys.argv[2]))
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())
def write(name, size, byte, synced):
    words = ("close", name, size, byte)
    say("will", *words)
    handle = os.open(name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
    left = size
    while left:
        left -= os.write(handle, bytes([byte]) * min(left, 1 << 20))
    if synced:
        os.fsync(handle)
    os.close(handle)
    say("did", *words)
try:
    number, there = 0, []
    while True:
        number += 1
        name, byte = f"file{chance.randrange(12)}", number % 251 + 1
        size = chance.choice((0, 1000, 1000, 300_000, 300_000, 9_000_000))
        if chance.random() < 0.4:
            write(name + ".tmp", size, byte, chance.random() < 0.7)
            say("will", "rename", name + ".tmp", name)
            os.rename(name + ".tmp", name)
            say("did", "rename", name + ".tmp", name)
        else:
            write(name, size, byte, chance.random() < 0.5)
        there.append(name)
        if chance.random() < 0.3:
            name = chance.choice(there)
            there = [one for one in there if one != name]
            say("will", "unlink", name)
            os.unlink(name)
            say("did", "unlink", name)
except OSError as error:
    say("ended", error.errno)
"""


def after(files, operation):
    kind, name, *rest = operation
    files = dict(files)
    if kind == "close":
        files[name] = (int(rest[0]), int(rest[1]))
    elif kind == "rename":
        files[rest[0]] = files.pop(name)
    else:
        files.pop(name)
    return files


def states(lines):
    """What there may be in the end: all that was acknowledged, with or without what was under way."""
    files, under_way = {}, None
    for said, *operation in lines:
        if said == "will":
            under_way = operation
        elif said == "did":
            files, under_way = after(files, operation), None
    return [files, after(files, under_way)] if under_way else [files]


@contextlib.contextmanager
def watching(bucket, said):
    """Another node that reads all the bucket has, all the time, and finds whole versions of what was written there alone."""
    ended, found = threading.Event(), []

    def watch():
        while not ended.is_set():
            for name in keys(bucket):
                with contextlib.suppress(bucket.server.client.exceptions.NoSuchKey):
                    content = body(bucket, name)
                    found.append((name, len(content), content[:1], content == content[:1] * len(content)))

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(watch)
        try:
            yield
        finally:
            ended.set()
            watcher.result()
    written = {(int(words[3]), int(words[4])) for words in said.lines() if words[1] == "close"}
    for name, size, first, is_whole in found:
        assert is_whole and (size == 0 or (size, first[0]) in written), f"{name}: {size} bytes that nobody wrote"


def expect_acknowledged(bucket, said):
    found = {}
    for key in keys(bucket):
        content = body(bucket, key)
        assert content == content[:1] * len(content), f"{key} has bytes of two versions"
        found[key] = (len(content), content[0] if content else None)
    possible = [{name: (size, byte if size else None) for name, (size, byte) in files.items()} for files in states(said.lines()[:-1])]
    assert found in possible, (found, possible)


@pytest.fixture
def stack():
    with contextlib.ExitStack() as opened:
        yield opened


@pytest.mark.release
@pytest.mark.parametrize("number", range(ROUNDS))
def test_acknowledged_files_survive_kills(rgw_bucket, folder, stack, back, number):
    chance = random.Random(number)
    rgw_bucket.server.control(ttfb_ms=20)
    # On XFS the kernel writes the files.
    disk = stack.enter_context(disks.Xfs(folder / "device", size=2000 * MIB)) if number % 3 != 1 else None
    journal = (disk.path if disk else folder) / "journal"
    options = {"journal.path": str(journal)}
    m = back(**options)
    supervisor = m.status()["supervisor_pid"]
    with writing(WRITER, m.path, number, folder) as said:
        processes.wait_until(lambda: len(said.lines()) > 10, what="something is written")
        time.sleep(1.5 * chance.random())
        m.kill_daemon(supervisor) if number % 2 else m.kill_hard()
    with watching(rgw_bucket, said):
        m = back(**options)
        if number % 3 == 2:  # while it is brought to the bucket
            time.sleep(chance.random())
            m.kill_hard()
            m = back(**options)
        flush(m, timeout=120)
        assert queue(m)["conflicts"] == 0
    expect_acknowledged(rgw_bucket, said)
    assert sorted(os.listdir(m.path)) == keys(rgw_bucket)
    m.umount()
    assert [name for name in os.listdir(next(journal.iterdir())) if "." in name] == []
    rgw_bucket.drop()


@pytest.mark.release
@pytest.mark.parametrize("number", range(max(1, ROUNDS // 3)))
def test_a_power_cut_of_the_journal(rgw_bucket, back, folder, number):
    with disks.Xfs(folder / "device", size=2000 * MIB) as disk:
        options = {"journal.path": str(disk.path / "journal")}
        m = back(**options)
        rgw_bucket.server.control(ttfb_ms=20)
        with writing(WRITER, m.path, number, folder) as said:
            processes.wait_until(lambda: len(said.lines()) > 10, what="something is written")
            time.sleep(1.5 * random.Random(number).random())
            disk.shut_down()
            m.kill_hard()
        disk.recover()
        m = back(**options)
        flush(m, timeout=120)
        assert queue(m)["conflicts"] == 0
        expect_acknowledged(rgw_bucket, said)
        m.umount()
        rgw_bucket.drop()


@pytest.mark.test_points
def test_a_record_that_cannot_be_removed(rgw_bucket, mount, folder):
    """What was made of the file after that waits, and none of both is another host's to the other after a kill."""
    options = rgw_bucket.options({"rw": None, "writes": "back", "journal.path": str(folder / "journal")})
    m = mount(rgw_bucket.source(), options, env={**rgw_bucket.env, "TIERFS_TEST_FAULTS": "s3.journal.unlink:1+:error=EIO"})
    synced(m.path / "file", b"first")
    processes.wait_until(lambda: "removing" in queue(m)["error"], what="it is at the bucket, and its record cannot be removed")
    synced(m.path / "file", b"second")
    assert (m.path / "file").read_bytes() == b"second"
    with pytest.raises(OSError) as error:
        synced(m.path / "gone", b"")
        os.unlink(m.path / "gone")
    assert error.value.errno == errno.EIO
    assert queue(m)["entries"] == 3
    assert body(rgw_bucket, "file") == b"first"
    m.kill_hard()
    m = mount(rgw_bucket.source(), options, env=rgw_bucket.env)
    flush(m)
    assert queue(m)["conflicts"] == 0
    assert body(rgw_bucket, "file") == b"second"
    assert keys(rgw_bucket) == ["file", "gone"]


@pytest.mark.test_points
@pytest.mark.parametrize("point", ["copy.sync", "journal.open", "journal.record", "journal.sync", "journal.rename"])
def test_journal_that_fails(rgw_bucket, mount, folder, point):
    """Whoever writes hears of it, and what was acknowledged before is brought to the bucket."""
    rgw_bucket.put("file", b"old")
    options = rgw_bucket.options({"rw": None, "writes": "back", "journal.path": str(folder / "journal")})
    m = mount(rgw_bucket.source(), options,
              env={**rgw_bucket.env, "TIERFS_TEST_FAULTS": f"s3.{point}:2+:error=EIO"})
    seen = []
    for name in ("first", "file", "third"):
        try:
            synced(m.path / name, name.encode())
        except OSError as error:
            seen.append((name, error.errno))
    assert seen and all(code == errno.EIO for _, code in seen), seen
    flush(m)
    expected = {name: name.encode() for name in ("first", "file", "third")}
    for name, content in expected.items():
        if name not in dict(seen):
            assert body(rgw_bucket, name) == content
    assert body(rgw_bucket, "file") in (b"old", b"file")

"""kill -9 of the daemon at random moments of a writer's life: what was acknowledged is at the origin, nobody hangs."""

import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from harness import data, processes

pytestmark = pytest.mark.release

ROUNDS = int(os.environ.get("TIERFS_TEST_KILLS", "300" if os.environ.get("TIERFS_TEST_FULL", "") == "1" else "4"))
BUCKET_ROUNDS = ROUNDS if "TIERFS_TEST_KILLS" in os.environ else ROUNDS // 2

# Says "NAME OFFSET LENGTH" for each write that returned, "NEW OLD" for each rename, and how it ended.
WRITER = r"""
import os, random, sys
os.chdir(sys.argv[1])
chance = random.Random(int(sys.argv[2]))
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())
try:
    number = 0
    while True:
        name = f"file{number}"
        handle = os.open(name + ".tmp", os.O_CREAT | os.O_WRONLY | os.O_EXCL)
        offset = 0
        for _ in range(chance.randrange(1, 6)):
            piece = bytes([number % 251 + 1]) * chance.randrange(1, 200_000)
            written = os.write(handle, piece)  # fewer, when the daemon dies after a part of them
            say("wrote", name + ".tmp", offset, written, number % 251 + 1)
            offset += written
        if chance.random() < 0.5:
            os.fsync(handle)
        os.close(handle)
        os.rename(name + ".tmp", name)
        say("renamed", name + ".tmp", name)
        number += 1
except OSError as error:
    say("ended", error.errno)
"""


class Said:
    """What a writer has said: in a file, so that it never waits for the reader."""

    def __init__(self, path):
        self.path = path

    def lines(self):
        """The whole ones."""
        return [line.split() for line in self.path.read_text().split("\n")[:-1]]


@contextmanager
def writing(script, place, number, folder):
    """A writer that runs until the mount dies under it. When the block is left it has ended, or the test fails."""
    said = Said(folder / "said")
    with open(said.path, "wb") as out, \
            subprocess.Popen([sys.executable, "-c", script, str(place), str(number)], stdout=out) as writer:
        try:
            yield said
            writer.wait(30 * processes.SLOWNESS)
        except subprocess.TimeoutExpired:
            raise AssertionError("the writer hangs") from None
        finally:
            writer.kill()
    assert said.lines()[-1][0] == "ended", said.lines()[-1]


def acknowledged(lines):
    """name: bytes, by what the writer was told."""
    files = {}
    for words in lines:
        if words[0] == "wrote":
            files[words[1]] = files.get(words[1], b"") + bytes([int(words[4])]) * int(words[3])
        elif words[0] == "renamed":
            files[words[2]] = files.pop(words[1])
    return files


@pytest.mark.parametrize("number", range(ROUNDS))
def test_acknowledged_writes_survive_the_daemon(origin, mount, folder, number):
    m = mount(origin, {"rw": None})
    supervisor = m.status()["supervisor_pid"]
    with writing(WRITER, m.path, number, folder) as said:
        processes.wait_until(said.lines, what="something is written")
        time.sleep(random.Random(number).random())
        m.kill_daemon(supervisor)
    files = acknowledged(said.lines()[:-1])
    assert files, "nothing was written before the kill"
    m.expect_gone()
    assert m.mounted(), "the mount point is bare"
    m.start()
    for name, expected in files.items():
        path = m.path / name
        if name.endswith(".tmp") and not path.exists():
            path = m.path / name[:-4]  # the rename that was under way was done
        found = path.read_bytes()
        data.expect_same(found[:len(expected)], expected, name)
        assert len(found) == len(expected) or name.endswith(".tmp"), name
    m.umount()
    shutil.rmtree(origin)  # hundreds of rounds share the disk


# Says "NAME SIZE BYTE" for each file whose close returned.
WRITER_OF_BUCKETS = r"""
import os, random, sys
os.chdir(sys.argv[1])
chance = random.Random(int(sys.argv[2]))
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())
try:
    number = 0
    while True:
        size = chance.choice((0, 1000, 300_000, 20_000_000))
        handle = os.open(f"file{number}", os.O_CREAT | os.O_WRONLY)
        say("begun", f"file{number}", size, number % 251 + 1)
        left = size
        while left:
            left -= os.write(handle, bytes([number % 251 + 1]) * min(left, 1 << 20))
        os.close(handle)
        say("closed", f"file{number}", size, number % 251 + 1)
        number += 1
except OSError as error:
    say("ended", error.errno)
"""


@pytest.mark.parametrize("number", range(BUCKET_ROUNDS))
def test_acknowledged_objects_survive_the_daemon(rgw_bucket, mount, folder, number):
    """What close returned for is at the bucket whole; what was being written is there whole or not at all."""
    m = mount(rgw_bucket.source(), rgw_bucket.options({"rw": None}), env=rgw_bucket.env)
    supervisor = m.status()["supervisor_pid"]
    with writing(WRITER_OF_BUCKETS, m.path, number, folder) as said:
        processes.wait_until(lambda: any(line[0] == "closed" for line in said.lines()), what="the first file is written")
        time.sleep(2 * random.Random(number).random())
        m.kill_daemon(supervisor)
    closed = {line[1]: (int(line[2]), int(line[3])) for line in said.lines() if line[0] == "closed"}
    begun = {line[1]: (int(line[2]), int(line[3])) for line in said.lines() if line[0] == "begun"}
    assert closed, "nothing was written before the kill"
    m.expect_gone()
    assert m.mounted(), "the mount point is bare"
    found = rgw_bucket.server.client.list_objects_v2(Bucket=rgw_bucket.name).get("Contents", [])
    sizes = {entry["Key"]: entry["Size"] for entry in found}
    assert set(closed) <= set(sizes) <= set(begun)
    assert {name: sizes[name] for name in sizes} == {name: begun[name][0] for name in sizes}
    m.start()
    for name in sizes:
        size, byte = begun[name]
        data.expect_same((m.path / name).read_bytes(), bytes([byte]) * size, name)
    m.umount()
    rgw_bucket.drop()

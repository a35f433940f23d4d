"""pack.staleness: what a mount with a pack shows of a source that has changed since, on a directory and on a bucket."""

import errno
import json
import os
import shutil
import time

import pytest

from harness import data, processes
from test_pack import options_of, pack, tierfs


class Folder:
    """A dataset in a folder, packed into another."""

    env = {}

    def __init__(self, folder):
        self.path, self.dest = folder / "origin", folder / "pack"
        self.url = self.path

    def options(self, more):
        return {"pack": self.dest, **more}

    def put(self, name, body):
        data.write(self.path / name, body)

    def remove(self, name):
        shutil.rmtree(self.path / name) if (self.path / name).is_dir() else (self.path / name).unlink()

    def pack(self):
        pack(self.path, self.dest)


class Prefix:
    """The same in a bucket."""

    def __init__(self, bucket):
        self.bucket, self.env = bucket, bucket.env
        self.url, self.dest = bucket.source("data"), bucket.source("packs/one")
        self.keys = set()

    def options(self, more):
        return self.bucket.options({"pack": self.dest, **more})

    def put(self, name, body):
        self.bucket.put(f"data/{name}", body)
        self.keys.add(name)

    def remove(self, name):
        for key in [key for key in self.keys if key == name or key.startswith(f"{name}/")]:
            self.bucket.server.delete(self.bucket.name, f"data/{key}")
            self.keys.discard(key)
        shutil.rmtree(self.bucket.server.data / self.bucket.name / "data" / name, ignore_errors=True)

    def pack(self):
        pack(self.url, self.dest, *options_of(self.bucket), env=self.env)


@pytest.fixture(params=["directory", "bucket"])
def source(request, folder):
    if request.param == "directory":
        (folder / "origin").mkdir()
        return Folder(folder)
    return Prefix(request.getfixturevalue("nginx_bucket"))


STAYS = {f"stays/f{n}": data.content(n, 5000 + 100 * n) for n in range(20)}
PACKED = {"changed": b"first", "removed": b"r" * 3000, "gone/a": b"a" * 100, "gone/b": b"b" * 100,
          "file": b"a file at first", "folder/x": b"x", "folder/y/z": b"z", **STAYS}
NOW = {"changed": b"second version", "new": b"n" * 4000, "more/new": b"m" * 10,
       "file/inside": b"a directory by now", "folder": b"a file by now", **STAYS}


def make(source):
    for name, body in PACKED.items():
        source.put(name, body)
    source.pack()


def change(source):
    for name in ("removed", "gone", "file", "folder"):
        source.remove(name)
    for name in ("changed", "new", "more/new", "file/inside", "folder"):
        source.put(name, NOW[name])


def shown(path):
    """All files below and their bytes, by listings and by names."""
    files = {os.fsdecode(name): os.path.join(os.fsencode(path), name) for name in data.names(path)}
    return {name: data.read_cold(place) for name, place in files.items() if not os.path.isdir(place)}


def attempt_shown(path):
    """The same, None while it changes."""
    try:
        return shown(path)
    except OSError:
        return None


def expect(m, files, others):
    assert shown(m.path) == files
    for name, body in files.items():
        assert os.stat(m.path / name).st_size == len(body), name
    for name in others - files.keys():
        if any(file.startswith(f"{name}/") for file in files):
            assert os.path.isdir(m.path / name)
            continue
        with pytest.raises(OSError) as caught:
            os.stat(m.path / name)
        assert caught.value.errno in (errno.ENOENT, errno.ENOTDIR), name


def expect_now(m):
    expect(m, NOW, PACKED.keys())


def expect_packed(m):
    expect(m, PACKED, NOW.keys())


def compared(m, beyond=0):
    return processes.wait_until(lambda: (m.status()["pack"]["comparison"] or {}).get("ended", 0) > beyond and m.status(),
                                what="the source is compared with its pack")["pack"]["comparison"]


def test_trust_is_what_was_packed(source, mount):
    make(source)
    m = mount(source.url, source.options({}), env=source.env)
    os.stat(m.path / "changed")
    change(source)
    expect_packed(m)
    status = m.status()
    assert status["origin"]["requests"]["list"] == status["origin"]["requests"]["head"] == 0
    assert status["pack"]["staleness"] == "trust" and status["pack"]["comparison"] is None
    m.umount()
    again = mount(source.url, source.options({"pack.staleness": "trust"}), env=source.env)
    expect_packed(again)


def test_list_of_a_source_that_changed_before_the_mount(source, mount):
    make(source)
    change(source)
    m = mount(source.url, source.options({"pack.staleness": "list", "metadata.ttl": "1h"}), env=source.env)
    found = compared(m)
    expect_now(m)
    # changed, file and folder; new, more, more/new, file/inside; removed, gone and below it, folder/x, folder/y, folder/y/z.
    assert (found["changed"], found["new"], found["removed"]) == (3, 4, 7), found
    assert found["error"] == "" and abs(found["ended_at"] - time.time()) < 100
    status = m.status()
    assert status["pack"]["reads"] >= len(STAYS), "what has not changed comes out of the pack"
    text = tierfs("status", m.path).out
    assert "list: compared with the source" in text and "3 changed, 4 new, 7 removed" in text, text


@pytest.mark.release
def test_list_of_a_source_that_changes_under_a_mount(source, mount):
    make(source)
    m = mount(source.url, source.options({"pack.staleness": "list", "metadata.ttl": "1s"}), env=source.env)
    compared(m)
    expect_packed(m)
    with open(m.path / "changed", "rb", buffering=0) as opened:
        change(source)
        processes.wait_until(lambda: attempt_shown(m.path) == NOW, what="the mount follows its source")
        assert opened.read() == PACKED["changed"], "what is open stays as it was"
    expect_now(m)
    for name in NOW.keys() - STAYS.keys():
        source.remove(name.split("/")[0])
    for name in PACKED.keys() - STAYS.keys():
        source.put(name, PACKED[name])
    processes.wait_until(lambda: attempt_shown(m.path) == PACKED, what="and goes back with it")


def test_list_tells_the_kernel(nginx_bucket, mount):
    source = Prefix(nginx_bucket)
    make(source)
    change(source)
    nginx_bucket.server.control(ttfb_ms=700)
    m = mount(source.url, source.options({"pack.staleness": "list", "metadata.ttl": "1h"}), env=source.env)
    before = set(data.names(m.path))
    assert not os.path.exists(m.path / "new")
    sizes = {name: os.stat(m.path / name).st_size for name in ("changed", "file", "removed", "folder/y/z")}
    in_time = m.status()["pack"]["comparison"]["ended"] == 0
    nginx_bucket.server.calm()
    compared(m)
    expect_now(m)
    assert in_time, "the comparison ended before the names were looked at"
    assert os.fsencode("removed") in before and sizes["changed"] == len(PACKED["changed"])


def test_check_sees_what_has_changed(source, mount):
    make(source)
    m = mount(source.url, source.options({"pack.staleness": "check", "metadata.ttl": "1s"}), env=source.env)
    expect_packed(m)
    assert m.status()["pack"]["reads"] >= len(PACKED)
    change(source)
    time.sleep(1.1)
    expect_now(m)
    status = m.status()
    assert status["pack"]["staleness"] == "check" and status["pack"]["comparison"] is None
    assert "check: names come from the source" in tierfs("status", m.path).out
    m.umount()
    again = mount(source.url, source.options({"pack.staleness": "check"}), env=source.env)
    expect_now(again)
    assert again.status()["pack"]["reads"] >= len(STAYS)


def test_list_keeps_what_it_knows_of_a_source_that_does_not_answer(nginx_bucket, mount, cache):
    source = Prefix(nginx_bucket)
    make(source)
    change(source)
    options = source.options({"pack.staleness": "list", "metadata.ttl": "1s", "origin.deadline": "4s", **cache})
    m = mount(source.url, options, env=source.env)
    compared(m)
    expect_now(m)
    nginx_bucket.server.control(fail_every=1)
    try:
        processes.wait_until(lambda: m.status()["pack"]["comparison"]["error"], what="a comparison that failed")
        names = {os.fsdecode(name) for name in data.names(m.path)}
        assert NOW.keys() <= names and "removed" not in names
        # So does a daemon that takes over.
        pid = m.status()["pid"]
        assert m.take_over()["pid"] != pid
        names = {os.fsdecode(name) for name in data.names(m.path)}
        assert NOW.keys() <= names and "removed" not in names
        processes.wait_until(lambda: m.status()["pack"]["comparison"]["error"], what="a comparison that failed")
        assert "the last comparison failed" in tierfs("status", m.path).out
        time.sleep(2.5)
        said = m.log.read_text().count("cannot be compared with its pack")
        assert said == 2, f"each daemon says so once: {said}"
    finally:
        nginx_bucket.server.calm()
    processes.wait_until(lambda: not m.status()["pack"]["comparison"]["error"], timeout=70, what="it answers again")


def test_check_gives_the_error_of_a_source_that_does_not_answer(nginx_bucket, mount):
    source = Prefix(nginx_bucket)
    make(source)
    options = source.options({"pack.staleness": "check", "metadata.ttl": "1s", "origin.deadline": "4s"})
    m = mount(source.url, options, env=source.env)
    assert shown(m.path) == PACKED
    nginx_bucket.server.control(fail_every=1)
    time.sleep(2.1)
    for name in ("changed", "new"):
        began = time.monotonic()
        with pytest.raises(OSError) as caught:
            os.stat(m.path / name)
        assert caught.value.errno in (errno.EIO, errno.ETIMEDOUT), caught.value
        assert time.monotonic() - began < 8 * processes.SLOWNESS
    nginx_bucket.server.calm()
    processes.wait_until(lambda: attempt_shown(m.path) == PACKED, what="it answers again")


def test_what_list_and_check_have_seen_is_not_what_trust_believes(source, mount, cache):
    make(source)
    change(source)
    for policy, looks in (("list", expect_now), ("check", expect_now), ("trust", expect_packed), ("check", expect_now),
                          ("list", expect_now), ("trust", expect_packed)):
        m = mount(source.url, source.options({**cache, "pack.staleness": policy, "metadata.ttl": "1h"}), env=source.env)
        if policy == "list":
            compared(m)
        looks(m)
        m.umount()


def test_a_restored_copy_is_read_from_the_source(origin, folder, mount):
    """Other file numbers and times, so other versions: nothing of the pack is of use, and nothing is wrong."""
    source = Folder(folder)
    make(source)
    origin.rename(folder / "old")
    shutil.copytree(folder / "old", origin)
    m = mount(origin, source.options({"pack.staleness": "list"}))
    assert compared(m)["changed"] == len(PACKED)
    expect_packed(m)
    assert m.status()["pack"]["reads"] == 0


def test_there_is_no_other_policy(origin, folder, mount):
    data.write(origin / "a", b"a")
    pack(origin, folder / "pack")
    said = mount.prepare(origin, {"pack": folder / "pack", "pack.staleness": "hope"}).refuse(status=2)
    assert "trust" in said and "check" in said
    assert json.loads(tierfs("status", folder, "--json").out or "{}") == {}

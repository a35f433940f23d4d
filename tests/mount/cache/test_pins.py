"""tierfs pin, unpin: what is pinned stays, whatever is read, unmounted or killed."""

import json

import pytest

from harness import data, processes
from test_epochs import written
from test_verbs import put, sent, tier_of, tierfs

SIZE = 60 * 1024
PINNED = 50 * SIZE + (5 << 20)
NVME = 32 << 20


def options(bucket, cache, more=None):
    return bucket.options({**cache, "nvme.limit": str(NVME), "ram.limit": "4M", "origin.hedge": "0", "class": "hot",
                           "metadata.ttl": "1h", **(more or {})})


@pytest.fixture
def files(nginx_bucket):
    pinned = {**put(nginx_bucket, "keep/small", 50), **put(nginx_bucket, "keep/large", 1, 5 << 20)}
    put(nginx_bucket, "stream", 6, 12 << 20)
    put(nginx_bucket, "crowd", 700)
    return pinned


@pytest.fixture
def start(mount, nginx_bucket, cache):
    def go(more=None):
        return mount(nginx_bucket.source(), options(nginx_bucket, cache, more), env=nginx_bucket.env)
    return go


def read_past(m):
    """More than the cache holds, large and small, twice."""
    for _ in range(2):
        for name in sorted((m.path / "stream").iterdir()) + sorted((m.path / "crowd").iterdir()):
            data.read_cold(name)
    written(m, 60)


def expect_kept(m, bucket, files):
    before = sent(bucket)
    for name, expected in files.items():
        data.expect_same(data.read_cold(m.path / name), expected, name)
    assert sent(bucket) - before < SIZE, "all of it came from the tiers"


def pinned_bytes(m):
    return m.tier("nvme")["pinned_bytes"]


def test_what_is_pinned_outlives_streams_remounts_and_kills(start, nginx_bucket, files):
    m = start()
    for name in ["keep/small/f0003.bin", "keep/large/f0000.bin"]:  # lie with other files' data, or on the way there
        data.read_cold(m.path / name)
    done = tierfs("pin", m.path / "keep", "--wait", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["files"] == 51, done
    written(m)
    read_past(m)
    expect_kept(m, nginx_bucket, files)
    pins = m.status()["pins"]
    assert pins["paths"] == 1 and pins["files"] == 51 and PINNED <= pins["bytes"] <= 1.1 * PINNED, pins
    assert PINNED <= pinned_bytes(m) <= PINNED + (3 << 20)
    m.umount()

    m = start()
    read_past(m)  # also while nobody has looked yet what of the cache is pinned
    expect_kept(m, nginx_bucket, files)
    processes.wait_until(lambda: pinned_bytes(m) >= PINNED, timeout=30, what="the pins are found")
    m.kill_hard()

    m = start()
    processes.wait_until(lambda: pinned_bytes(m) >= PINNED, timeout=30, what="the pins are found")
    read_past(m)
    expect_kept(m, nginx_bucket, files)
    refused = tierfs("evict", m.path / "keep")
    assert refused.returncode == 1 and "is pinned" in refused.stderr and "unpin that first" in refused.stderr, refused
    expect_kept(m, nginx_bucket, files)


def test_unpin_lets_go(start, nginx_bucket, files):
    m = start()
    assert tierfs("pin", m.path / "keep/large", m.path / "keep/small", "--wait").returncode == 0
    part = tierfs("unpin", m.path / "keep/small/f0001.bin")
    assert part.returncode == 1 and "as a part of /keep/small: unpin that" in part.stderr, part
    assert "is not pinned" in tierfs("unpin", m.path / "crowd").stderr
    done = tierfs("unpin", m.path / "keep", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["files"] == 1, done
    processes.wait_until(lambda: pinned_bytes(m) == 0, timeout=30, what="let go")
    assert m.status()["pins"]["paths"] == 0
    read_past(m)
    assert tier_of(m.path / "keep/large/f0000.bin") == "origin"
    m.umount()
    m = start()
    assert m.status()["pins"]["paths"] == 0
    data.expect_same(data.read_cold(m.path / "keep/large/f0000.bin"), files["keep/large/f0000.bin"], "large")


def test_too_large_a_pin_is_refused_whole(start, nginx_bucket, files):
    m = start({"pin.limit": "8M"})
    refused = tierfs("pin", m.path / "stream")
    assert refused.returncode == 1, refused
    assert "pin.limit" in refused.stderr and "8 MiB" in refused.stderr and "unpin something" in refused.stderr, refused
    assert m.status()["pins"]["paths"] == 0 and m.status()["pins"]["limit_bytes"] == 8 << 20
    assert tierfs("pin", m.path / "keep/large").returncode == 0
    assert m.status()["pins"]["bytes"] <= 8 << 20
    assert tierfs("pin", m.path / "gone").returncode == 1


def test_a_changed_object_stays_pinned(start, nginx_bucket, files):
    m = start({"metadata.ttl": "0s"})
    assert tierfs("pin", m.path / "keep", "--wait").returncode == 0
    changed = data.content("changed", SIZE - 1)  # nginx gives the same ETag to another of this size and second
    nginx_bucket.put_all({"keep/small/f0007.bin": changed})
    data.expect_same(data.read_cold(m.path / "keep/small/f0007.bin"), changed, "changed")
    written(m)
    read_past(m)
    for name in files:
        assert "origin" not in tier_of(m.path / name), name
    data.expect_same(data.read_cold(m.path / "keep/small/f0007.bin"), changed, "changed")

"""Sources that are away for a while: what is known and cached goes on on read-only mounts, status, doctor, top and the log say
so, and all of it ends when the source is back."""

import contextlib
import errno
import json
import os
import re
import subprocess
import time

import pytest

from harness import daemon, data, processes

pytestmark = pytest.mark.release

TTL, DEADLINE = 1, 3  # seconds
FILES = {f"d/f{number}": data.content(number, 40_000) for number in range(5)}


class S3:
    """A scripted S3 that resets connections, or never answers."""

    def __init__(self, faulty, fault):
        self.faulty, self.fault = faulty, fault
        self.source, self.env, self.options = "s3://bucket", faulty.env, {**faulty.options, "origin.hedge": "0"}
        faulty.objects = dict(FILES)

    def put(self, name, body):
        self.faulty.objects[name] = body

    def leave(self):
        self.faulty.fault = lambda method, key, number: self.fault

    def come_back(self):
        self.faulty.fault = lambda method, key, number: None


class Nfs:
    def __init__(self, server, how):
        self.server, self.how = server, how
        self.source, self.env, self.options = server.url("", mode="soft"), None, {}
        for name, body in FILES.items():
            data.write(server.data / name, body)

    def put(self, name, body):
        data.write(self.server.data / name, body)

    def leave(self):
        (self.server.pause if self.how == "paused" else self.server.kill)()

    def come_back(self):
        (self.server.resume if self.how == "paused" else self.server.start)()


@pytest.fixture
def source(request):
    kind, how = request.param.split("-")
    if kind == "s3":
        return S3(request.getfixturevalue("faulty"), how)
    return Nfs(request.getfixturevalue("own_nfs_server"), how)


def show(mount, source, cache, **options):
    return mount(source.source, {**source.options, "metadata.ttl": f"{TTL}s", "origin.deadline": f"{DEADLINE}s", **cache, **options},
                 env=source.env)


def read_all(m):
    assert sorted(os.listdir(m.path / "d")) == sorted(name[2:] for name in FILES)
    for name, body in FILES.items():
        assert data.read_cold(m.path / name) == body


def told(m):
    return m.status()["origin"]["away_why"]


@contextlib.contextmanager
def outage(m, source):
    """Until the mount knows of it; readers that wait meanwhile have the source's deadline."""
    source.leave()
    time.sleep(2 * TTL + 0.5)

    def known():
        with contextlib.suppress(OSError):
            os.stat(m.path / "d/f0")
        return told(m)
    try:
        processes.wait_until(known, timeout=60, what="the outage")
        yield
    finally:
        source.come_back()


@pytest.mark.parametrize("source", ["s3-reset", "s3-stall", "nfs-paused", "nfs-killed"], indirect=True)
def test_what_is_known_goes_on(mount, source, cache):
    m = show(mount, source, cache)
    read_all(m)
    processes.wait_until(lambda: m.tier("nvme")["used_bytes"] > 0, what="bytes on NVMe")
    blocks = os.statvfs(m.path).f_blocks
    with outage(m, source):
        for _ in range(4):
            began = time.monotonic()
            read_all(m)
            assert os.statvfs(m.path).f_blocks == blocks, "the last that was known"
            assert time.monotonic() - began < DEADLINE * processes.SLOWNESS, "nobody waits for the source"
            time.sleep(TTL)
        with pytest.raises(FileNotFoundError):  # by the listing
            os.stat(m.path / "d/none")
        shown = processes.check([daemon.BINARY, "status", m.path], env=m.env).out
        assert "DOES NOT ANSWER" in shown
        report = json.loads(processes.check([daemon.BINARY, "doctor", "--json", "--seconds", "0.3", m.path], env=m.env).out)
        assert report["findings"][0]["id"] == "origin-unreachable", report
        assert m.log.read_text().count("the origin does not answer") == 1
    source.put("d/new", b"new")
    processes.wait_until(lambda: "new" in os.listdir(m.path / "d"), timeout=60, what="names of after the outage")
    assert (m.path / "d/new").read_bytes() == b"new" and not told(m)
    assert m.log.read_text().count("the origin answers again") == 1


@pytest.mark.parametrize("source", ["s3-stall", "nfs-paused"], indirect=True)
def test_one_deadline_is_enough_to_know(mount, source, cache):
    """Who waits for the second question as well, and the third, does not get what is known at once."""
    m = show(mount, source, cache)
    read_all(m)
    source.leave()
    time.sleep(2 * TTL + 0.5)
    os.stat(m.path / "d")  # one question: of a path below it there are two
    assert told(m)
    source.come_back()


@pytest.mark.parametrize("source", ["s3-stall", "nfs-killed"], indirect=True)
def test_without_metadata_stale_it_ends(mount, source, cache):
    m = show(mount, source, cache, **{"metadata.stale": "false"})
    read_all(m)
    with outage(m, source):
        for _ in range(2):
            with pytest.raises(OSError) as error:
                os.listdir(m.path / "d")
            assert error.value.errno in (errno.ETIMEDOUT, errno.EIO, errno.EHOSTUNREACH), error
        assert re.search("(LOOKUP|GETATTR|READDIR) of .+ failed: ", m.log.read_text())


@pytest.mark.parametrize("source", ["s3-stall", "nfs-paused"], indirect=True)
def test_readers_that_wait_are_seen(mount, source):
    """None of them is in a histogram before it is answered."""
    m = show(mount, source, {}, **{"origin.deadline": "30s"})
    os.listdir(m.path / "d")
    source.leave()
    with subprocess.Popen(["cat", m.path / "d/f1"], stdout=subprocess.DEVNULL) as waiting:
        processes.wait_until(lambda: m.status()["requests"]["oldest_s"] > 1, timeout=30, what="a reader that waits")
        report = json.loads(processes.check([daemon.BINARY, "doctor", "--json", "--seconds", "0.3", m.path], env=m.env).out)
        assert report["under_way"] >= 1 and report["oldest_s"] > 1, report
        said = processes.check([daemon.BINARY, "doctor", "--seconds", "0.3", m.path], env=m.env).out
        assert "wait for an answer" in said and "Nobody read" not in said, said
        source.come_back()
        assert waiting.wait(60 * processes.SLOWNESS) == 0

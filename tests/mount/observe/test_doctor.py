"""tierfs doctor names the cause: each test stages one, reads, and asks."""

import json
import os
import random
import subprocess
import threading
import time

import pytest

from harness import daemon, data, faults, processes

pytestmark = pytest.mark.alone


def doctor(m, seconds=2, *words):
    done = processes.run([daemon.BINARY, "doctor", m.path, "--json", "--seconds", seconds, *words], env=m.env, timeout=60)
    assert done.returncode == 0, done
    return json.loads(done.out)


class Readers:
    """Threads that read again and again, until the end: `work(number)` is one read or several."""

    def __init__(self, count, work):
        self.over, self.problems, self.rounds = False, [], 0
        self.threads = [threading.Thread(target=self.run, args=(work, number)) for number in range(count)]

    def run(self, work, number):
        try:
            while not self.over:
                work(number)
                self.rounds += 1
        except OSError as error:
            self.problems.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        processes.wait_until(lambda: self.rounds > 2, what="readers read")
        return self

    def __exit__(self, *_):
        self.over = True
        for thread in self.threads:
            thread.join()
        assert not self.problems, self.problems


def expect_cause(report, cause):
    found = [finding["id"] for finding in report["findings"]]
    assert found and found[0] == cause, json.dumps(report, indent=1)
    assert report["findings"][0]["evidence"] and report["findings"][0]["advice"]


class Names:
    """Files of the bucket in a random order, each once, and then again; for many threads."""

    def __init__(self, path, names, seed=1):
        self.path, self.names, self.at, self.lock = path, list(names), 0, threading.Lock()
        random.Random(seed).shuffle(self.names)

    def read(self, _number):
        with self.lock:
            name = self.names[self.at % len(self.names)]
            self.at += 1
        data.read_cold(self.path / name)


OPTIONS = {"s3.region": "us-east-1", "origin.hedge": "0", "class": "none", "ram.limit": "0"}


@pytest.fixture
def bucket(mount):
    """bucket(delay, **options): a mount of 400 files whose objects take that long to come."""
    with faults.FaultyS3({f"f{number:04}": data.content(f"f{number}", 20000) for number in range(400)}) as server:
        def start(delay, objects=None, **options):
            if objects:
                server.objects = objects

            def slow(method, key, number):
                if key and method == "GET":
                    time.sleep(delay)
                return None
            server.fault = slow
            m = mount("s3://bucket", {**OPTIONS, "s3.endpoint": server.endpoint, **options},
                      env={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
            m.server = server
            os.listdir(m.path)
            return m
        yield start


def test_slow_origin(bucket):
    m = bucket(0.4)
    with Readers(8, Names(m.path, m.server.objects).read):
        expect_cause(doctor(m, 3), "origin-latency")


def test_too_few_readers(bucket):
    m = bucket(0.03)
    with Readers(1, Names(m.path, m.server.objects).read):
        expect_cause(doctor(m), "few-readers")


def test_throttled_origin(bucket):
    m = bucket(0)
    turn = iter(range(1 << 30))

    def refuse(method, key, number):
        return (503, "SlowDown") if key and method == "GET" and next(turn) % 3 == 0 else None
    m.server.fault = refuse
    with Readers(8, Names(m.path, m.server.objects).read):
        expect_cause(doctor(m), "origin-throttled")


def test_cache_too_small(bucket, cache):
    m = bucket(0.02, **cache | {"nvme.limit": "16M", "class": "epoch", "nvme.path": cache["nvme.path"]},
               objects={f"f{number:04}": data.content(f"f{number}", 200000) for number in range(400)})
    names = Names(m.path, m.server.objects)
    with Readers(4, names.read):
        processes.wait_until(lambda: names.at > len(names.names) * 1.5, timeout=60, what="more than an epoch was read")
        expect_cause(doctor(m), "cache-too-small")


@pytest.mark.test_points
def test_slow_cache_device(origin, mount, cache):
    files = data.make_files(origin, 40, 20000)
    options = {**cache, "ram.limit": "0", "class": "hot"}
    m = mount(origin, options)
    subprocess.run([daemon.BINARY, "warm", m.path, "--wait"], env=m.env, check=True, capture_output=True, timeout=120)
    m.umount()  # so that all of it is written
    m = mount(origin, options, env={"TIERFS_TEST_FAULTS": "nvme.extent.read:1+:delay=30"})
    with Readers(3, Names(m.path, files).read):
        expect_cause(doctor(m), "cache-device-slow")


def large(count=1, size=64 << 20):
    return {f"big{number}": data.content(f"big{number}", size) for number in range(count)}


def read_at(path, offset, size):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(handle, size, offset)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def test_random_reads_of_a_large_file(bucket):
    m = bucket(0.02, objects=large())
    places = random.Random(3)
    with Readers(6, lambda number: read_at(m.path / "big0", places.randrange(1000) * 65536, 4096)):
        expect_cause(doctor(m, 6), "random-reads")  # a slow machine reads less than the rule asks for in 2 s


def test_readahead_off(bucket):
    m = bucket(0.02, objects=large(4, 8 << 20), **{"prefetch.window": "0"})

    def stream(number):
        data.read_cold(m.path / f"big{number}")
    with Readers(4, stream):
        expect_cause(doctor(m), "readahead-off")


def test_memory_limit_too_low(bucket):
    m = bucket(0.5, objects=large(64, 1 << 20), **{"memory.limit": "96M"})
    with Readers(64, Names(m.path, m.server.objects).read):
        expect_cause(doctor(m, 3), "memory-limit")


@pytest.mark.release
def test_nobody_waits(origin, mount):
    data.make_files(origin, 5, 1000)
    m = mount(origin)
    report = doctor(m, 0.3)
    assert report["findings"] == [] and report["waiting_readers"] < 0.05, report
    said = processes.run([daemon.BINARY, "doctor", m.path, "--seconds", "0.3"], env=m.env)
    assert said.returncode == 0 and "Nobody read through this mount" in said.out, said


def test_what_it_refuses(folder, mount, origin):
    m = mount(origin)
    assert processes.run([daemon.BINARY, "doctor", folder], env=m.env).returncode == 1
    assert processes.run([daemon.BINARY, "doctor", m.path, "--seconds", "-1"], env=m.env).returncode == 2
    assert processes.run([daemon.BINARY, "doctor"], env=m.env).returncode == 2


def test_sees_the_hosts_read_ahead(origin, mount):
    m = mount(origin)
    place = f"/sys/class/bdi/{m.device}/read_ahead_kb"
    assert "read-ahead" not in [one["id"] for one in doctor(m, 0.2)["host"]]
    with open(place, "w", encoding="ascii") as file:
        file.write("16")
    assert "read-ahead" in [one["id"] for one in doctor(m, 0.2)["host"]]

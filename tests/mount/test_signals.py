"""Readers that are interrupted or killed while the origin does not answer, and what stays usable meanwhile."""

import os
import signal
import subprocess
import time

import pytest

from harness import data, processes

pytestmark = pytest.mark.release

DEADLINE = 10


@pytest.fixture
def stalled(mount, faulty):
    """A mount whose object "stuck" never arrives; .readers() start processes that read it."""
    faulty.objects = {"stuck": data.content("stuck", 3 << 20), "good": b"good"}
    m = mount("s3://bucket", {**faulty.options, "metadata.ttl": "1h", "origin.deadline": f"{DEADLINE}s"}, env=faulty.env)
    os.listdir(m.path)
    faulty.fault = lambda method, key, number: "stall" if key == "stuck" else None
    started = []

    def reader(command=None):
        process = subprocess.Popen(command or ["cat", str(m.path / "stuck")], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        started.append(process)
        processes.wait_until(lambda: any(method == "GET" and "stuck" in path for method, path, _ in faulty.seen),
                             what="the reader's request reaches the origin")
        return process

    m.reader = reader
    yield m
    faulty.fault = lambda method, key, number: None
    for process in started:
        process.kill()
        process.wait(60)


def ends(process, within):
    begun = time.monotonic()
    try:
        process.wait(within * processes.SLOWNESS)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"still there {time.monotonic() - begun:.1f} s after the signal\n"
                             f"{processes.describe([process.pid])}") from None


@pytest.mark.tsan
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_reader_can_be_ended(stalled, signum):
    process = stalled.reader()
    time.sleep(0.2)
    process.send_signal(signum)
    ends(process, DEADLINE + 5)
    assert (stalled.path / "good").read_bytes() == b"good"


def test_many_killed_readers(stalled):
    readers = [stalled.reader() for _ in range(12)]
    time.sleep(0.2)
    for process in readers:
        process.kill()
    for process in readers:
        ends(process, DEADLINE + 5)
    assert (stalled.path / "good").read_bytes() == b"good"


def test_status_while_stalled(stalled):
    stalled.reader()
    begun = time.monotonic()
    assert stalled.status()["read_only"] is True
    assert time.monotonic() - begun < DEADLINE / 2 * processes.SLOWNESS


def test_sigterm_while_stalled(stalled):
    process = stalled.reader()
    stalled.terminate()
    ends(process, DEADLINE + 10)
    processes.wait_until(lambda: not stalled.mounted(), timeout=DEADLINE + 20, what="unmounted")
    stalled.expect_gone()


def test_daemon_killed_under_a_reader(stalled):
    process = stalled.reader()
    stalled.kill_hard()
    ends(process, 15)

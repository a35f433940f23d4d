"""Readers that are interrupted or killed while the origin does not answer, and what stays usable meanwhile."""

import os
import signal
import subprocess
import time

import pytest

from harness import data, faults, processes

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


@pytest.fixture
def starting(mount, faulty):
    """starting(words): a start of a mount that waits for an origin that is silent, for longer than the test may take."""
    started = []
    with faults.SilentPort() as server:
        def start(words=()):
            m = mount.prepare("s3://bucket", {"s3.endpoint": server.endpoint, "origin.deadline": "10m"},
                              env=faulty.env)
            m.path.mkdir(exist_ok=True)
            before = len(server.connections)
            m.launcher = subprocess.Popen(m.command() + list(words), stdin=subprocess.DEVNULL, env=m.env,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            started.append(m.launcher)
            count = 2 if words else 3  # in the foreground the launcher is the supervisor
            processes.wait_until(lambda: len(m.processes()) >= count, what="the daemon starts")
            processes.wait_until(lambda: len(server.connections) > before, timeout=60, what="it asks the origin")
            time.sleep(0.3)
            return m
        yield start
        for process in started:
            process.kill()
            process.wait(60)
            process.stderr.close()


def expect_interrupted(m):
    said = m.launcher.communicate(timeout=20 * processes.SLOWNESS)[1]
    assert m.launcher.returncode == 1 and b"interrupted" in said
    assert not m.mounted()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", [[], ["-f"]])
def test_start_can_be_interrupted(starting, words, signum):
    m = starting(words)
    m.launcher.send_signal(signum)
    expect_interrupted(m)
    m.expect_gone()


def test_second_interrupt_does_not_wait_for_the_end(starting):
    m = starting()
    parent = {pid: int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1]) for pid in m.processes()}
    supervisor = next(pid for pid, of in parent.items() if of == m.launcher.pid)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        def ended():
            m.launcher.send_signal(signal.SIGINT)
            return m.launcher.poll() is not None
        processes.wait_until(ended, what="the launcher ends", interval=0.5)
        expect_interrupted(m)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    m.expect_gone()

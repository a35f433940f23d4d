"""Between two daemons: what the supervisor holds and says while none serves."""

import contextlib
import os
import time
from pathlib import Path

import pytest

from harness import daemon, data, processes
import test_passthrough as passthrough
from test_supervisor import files, large, small  # noqa: F401  pylint: disable=unused-import

pytestmark = pytest.mark.release


def slow(seconds):
    """Only a daemon that takes over asks the kernel to send again: it does not serve for so long."""
    return {"TIERFS_TEST_FAULTS": f"fuse.resend:1+:delay={seconds * 1000}"}


def ask(m, *words):
    return processes.run([daemon.BINARY, *words], env=m.env, suspects=m.processes)


def test_status_waits_for_the_next_daemon(mount, origin, files):
    m = mount(origin, {"restart.limit": "100"})
    supervisor = m.status()["supervisor_pid"]
    for _ in range(5):
        pid = m.kill_daemon(supervisor)
        status = m.status()
        assert status["pid"] not in (None, pid) and status["supervisor_pid"] == supervisor


@pytest.mark.test_points
def test_status_tells_of_a_long_pause(mount, origin, files):
    m = mount(origin, {"restart.limit": "7"}, env=slow(12))
    supervisor = m.status()["supervisor_pid"]
    m.kill_daemon(supervisor)
    began = time.monotonic()
    first = ask(m, "status", m.path)
    assert first.returncode == 1 and not first.out
    assert "another one is being started: try 1 of 7" in first.err, first
    assert time.monotonic() - began < 10 * processes.SLOWNESS
    second = ask(m, "warm", m.path)
    assert second.returncode == 1 and "being started" in second.err, second
    assert m.wait_for_daemon()["supervisor"]["restarts"] == 1
    data.expect_files(m.path, files)


@pytest.mark.test_points
def test_unmounting_in_a_long_pause_waits_for_the_end(mount, origin, files):
    m = mount(origin, env=slow(5))
    m.kill_daemon(m.status()["supervisor_pid"])
    m.umount()
    m.expect_gone()


@pytest.mark.test_points
@pytest.mark.parametrize("key", ["nvme.path", "index.path"])
def test_nobody_else_gets_the_cache(mount, origin, files, cache, folder, key):
    place = folder / "place"
    place.mkdir(mode=0o700)
    m = mount(origin, {key: str(place)}, env=slow(8))
    data.expect_files(m.path, files)
    m.kill_daemon(m.status()["supervisor_pid"])
    processes.wait_until(lambda: m.daemon_of(supervisor_of(m)), what="the next daemon starts")
    other = mount.prepare(origin, {key: str(place)})
    assert "in use by another tierfs mount" in other.refuse()
    m.wait_for_daemon()
    data.expect_files(m.path, files)
    # The same while it serves, and free after its end.
    assert "in use by another tierfs mount" in other.refuse()
    m.umount()
    other.start()
    data.expect_files(other.path, files)


@pytest.mark.test_points
@pytest.mark.parametrize("key", ["nvme.path", "index.path"])
def test_nobody_else_gets_the_cache_while_there_is_no_daemon_at_all(mount, origin, files, folder, key):
    place = folder / "place"
    place.mkdir(mode=0o700)
    # The first daemon starts, no other one does.
    m = mount(origin, {key: str(place), "restart.limit": "1000"},
              env={"TIERFS_TEST_FAULTS": "supervisor.fork:2+:error=EAGAIN"})
    supervisor = m.status()["supervisor_pid"]
    m.kill_daemon(supervisor)
    other = mount.prepare(origin, {key: str(place)})
    assert "in use by another tierfs mount" in other.refuse()
    assert not m.daemon_of(supervisor)
    m.umount()
    other.start()
    data.expect_files(other.path, files)


def supervisor_of(m):
    """Without asking anybody: the process of the mount whose parent is none of it."""
    parents = {}
    for pid in m.processes():
        with contextlib.suppress(OSError):  # it has just ended
            parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return next(pid for pid, parent in parents.items() if parent not in parents)


def test_nobody_gets_the_cache_between_any_two(mount, origin, files, cache):
    """However the other one's try falls."""
    m = mount(origin, {**cache, "restart.limit": "100"})
    supervisor = m.status()["supervisor_pid"]
    for _ in range(5):
        m.kill_daemon(supervisor)
        assert "in use by another tierfs mount" in mount.prepare(origin, cache).refuse()
    data.expect_files(m.path, files)


def test_held_passthrough_files_are_not_evicted_by_the_next(mount, origin, files, xfs):
    """Nor do they leave the limit: their bytes stay used until they are closed."""
    (xfs.path / "cache").mkdir(mode=0o700)
    m = mount(origin, {"nvme.path": str(xfs.path / "cache"), "nvme.limit": "16M", "ram.limit": "0", "profile": "large",
                       "metadata.ttl": "1h", "class": "hot"})
    held = large(files)[0]
    passthrough.fill(m, {held: files[held]})
    handle = os.open(m.path / held, os.O_RDONLY)
    processes.wait_until(lambda: m.status()["passthrough"]["open_files"] == 1, what="passthrough")
    assert m.take_over()["passthrough"]["open_files"] == 1
    for _ in range(4):  # more than fits beside it
        data.expect_files(m.path, {name: files[name] for name in large(files)[1:]})
    processes.wait_until(lambda: m.tier("nvme")["evicted_bytes"] > 0, what="more than fits, written behind the reads")
    inode = [path for path in Path(xfs.path / "cache").rglob("*.data") if path.stat().st_size == len(files[held])]
    assert inode, "the file that the kernel reads is still in the tier"
    passthrough.expect_open(handle, files[held])
    os.close(handle)


def test_bytes_of_held_files_that_are_gone_count_in_the_next(mount, origin, files, xfs):
    (xfs.path / "cache").mkdir(mode=0o700)
    m = mount(origin, {"nvme.path": str(xfs.path / "cache"), "nvme.limit": "64M", "ram.limit": "0", "profile": "large",
                       "metadata.ttl": "1h"})
    held = large(files)[0]
    passthrough.fill(m, {held: files[held]})
    handle = os.open(m.path / held, os.O_RDONLY)
    processes.wait_until(lambda: m.status()["passthrough"]["open_files"] == 1, what="passthrough")
    processes.check([daemon.BINARY, "evict", m.path / held])
    before = m.tier("nvme")["used_bytes"]
    assert before >= len(files[held]), "the kernel keeps it"
    m.take_over()
    assert m.tier("nvme")["used_bytes"] >= len(files[held])
    passthrough.expect_open(handle, files[held])
    os.close(handle)
    processes.wait_until(lambda: m.tier("nvme")["used_bytes"] < len(files[held]), what="its bytes are free")

"""A daemon that dies: another one takes the mount over, and readers notice nothing but a pause."""

import errno
import fcntl
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import daemon, data, processes
import test_passthrough as passthrough

pytestmark = pytest.mark.release

FULL = os.environ.get("TIERFS_TEST_FULL", "") == "1"
OFTEN = {"restart.limit": "1000"}


class Verifiers:
    """Processes that read and compare (harness/verifier.py), in a with statement that ends them: no error, no wrong
    byte, and all of them got on after the last kill."""

    def __init__(self, mount, origin):
        self.mount, self.origin, self.started = mount, origin, []

    def add(self, mode, names, count=1):
        for _ in range(count):
            process = subprocess.Popen(
                [sys.executable, daemon.REPOSITORY / "tests/mount/harness/verifier.py", mode, self.mount.path, self.origin,
                 *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.started.append(process)
            assert process.stdout.readline() == "ready\n"
        return self

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for process in self.started:
            process.stdin.close()
        try:
            reports = []
            for process in self.started:
                process.wait(60 * processes.SLOWNESS)
                reports.append(json.loads(process.stdout.readline()))
            self.reports = reports
        finally:
            for process in self.started:
                process.kill()
                process.stdout.close()
        if kind is None:
            problems = [problem for report in reports for problem in report["problems"]]
            assert not problems, f"{problems}\n{self.mount.log_tail()}"
            assert all(report["rounds"] for report in reports), reports


@pytest.fixture
def files(origin):
    made = data.make_files(origin, 60, 30_000)
    for number in range(4):
        name = f"large/{number}"
        made[name] = data.write(origin / name, data.content(name, (5 << 20) + 1000 * number + 1))
    return made


def small(files):
    return [name for name in files if not name.startswith("large")]


def large(files):
    return [name for name in files if name.startswith("large")]


def kill_often(m, seconds, every=2.0):
    """Kills whatever daemon there is, started up or not, and waits for the one that stays."""
    chance = random.Random(7)
    supervisor = m.status()["supervisor_pid"]
    end = time.monotonic() + seconds
    kills = 0
    patience = end + 30 * processes.SLOWNESS  # for the second kill, where starts take long
    while time.monotonic() < end or (kills < 2 and time.monotonic() < patience):
        time.sleep(every * chance.uniform(0.5, 1.5))
        kills += bool(m.kill_daemon(supervisor))
    assert kills >= 2
    return m.wait_for_daemon()


def test_readers_go_on(mount, origin, files):
    m = mount(origin, {**OFTEN, "profile": "large"})
    before = m.status()
    assert before["supervisor"]["enabled"] and before["supervisor"]["reason"] == ""
    with Verifiers(m, origin) as readers:
        readers.add("files", small(files), 3).add("stream", large(files), 2).add("walk", list(files))
        readers.add("hold", large(files)).add("map", large(files))
        kill_often(m, 120 if FULL else 10)
    after = m.status()
    assert after["supervisor"]["restarts"] >= 2 and after["pid"] != before["pid"]
    assert after["supervisor_pid"] == before["supervisor_pid"]
    assert after["reads"]["errors"] == 0
    data.expect_files(m.path, files)


@pytest.mark.tsan
def test_what_is_open_stays_open(mount, origin, files):
    """Node ids, handles and inode numbers mean the same to the next daemon."""
    m = mount(origin, {"profile": "large", "metadata.ttl": "0s"})
    name = large(files)[0]
    handle, folder = os.open(m.path / name, os.O_RDONLY), os.open(m.path / "large", os.O_RDONLY | os.O_DIRECTORY)
    before = {one: os.stat(m.path / one).st_ino for one in files}
    m.take_over()
    assert {one: os.stat(m.path / one).st_ino for one in files} == before
    assert sorted(os.listdir(folder)) == sorted(Path(one).name for one in large(files))
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    data.expect_same(os.pread(handle, len(files[name]) + 1, 0), files[name], name)
    os.close(folder)
    os.close(handle)


def test_an_old_version_stays_the_old_version(mount, origin, files, cache):
    """A node is one version of a file, also for the next daemon: what was replaced at the origin is stale or the old
    bytes, never the new ones under the old node."""
    m = mount(origin, {**cache, "metadata.ttl": "0s", "profile": "large"})
    name = small(files)[0]
    handle = os.open(m.path / name, os.O_RDONLY)
    new = data.content("new", 30_000)
    (origin / "new").write_bytes(new)
    os.rename(origin / "new", origin / name)
    assert (m.path / name).read_bytes() == new
    m.take_over()
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        assert os.pread(handle, 40_000, 0) == files[name]
    except OSError as error:
        assert error.errno == errno.ESTALE
    os.close(handle)
    assert data.read_cold(m.path / name) == new


def test_files_that_the_kernel_reads_go_on(mount, origin, files, xfs):
    """Held passthrough files, further opens of them, and opens after all were closed."""
    (xfs.path / "cache").mkdir(mode=0o700)
    m = mount(origin, {"nvme.path": str(xfs.path / "cache"), "nvme.limit": "128M", "ram.limit": "0", "profile": "large",
                       "metadata.ttl": "1h", **OFTEN})
    passthrough.fill(m, files)
    passthrough.closed(m)
    name, other = large(files)[:2]
    handle = os.open(m.path / name, os.O_RDONLY)
    assert m.take_over()["passthrough"]["open_files"] == 1
    passthrough.expect_open(handle, files[name])
    again = os.open(m.path / name, os.O_RDONLY)  # the kernel refuses another mode or another number
    passthrough.expect_open(again, files[name])
    m.take_over()
    os.close(handle)
    assert m.status()["passthrough"]["open_files"] == 1
    passthrough.expect_open(again, files[name])
    os.close(again)
    passthrough.closed(m)
    data.expect_files(m.path, {name: files[name], other: files[other]})
    with Verifiers(m, origin) as readers:
        readers.add("hold", large(files), 2).add("map", large(files), 2).add("stream", large(files), 2)
        readers.add("files", small(files), 2)
        kill_often(m, 120 if FULL else 10)
    passthrough.closed(m)


def test_small_profile(mount, origin, files):
    """The kernel asks for no open any more, and the next daemon knows."""
    m = mount(origin, {"profile": "small", **OFTEN})
    with Verifiers(m, origin) as readers:
        readers.add("files", small(files), 2).add("map", large(files)).add("hold", large(files))
        kill_often(m, 120 if FULL else 8)
    assert m.status()["profile"]["kind"] == "small"


def test_profile_that_switched_stays_switched(mount, origin):
    files = data.make_files(origin, 1100, 100)
    m = mount(origin, {"profile": "auto"})
    data.expect_files(m.path, files)
    assert m.status()["profile"]["kind"] == "small"
    after = m.take_over()
    assert after["profile"]["kind"] == "small" and "former daemon" in after["profile"]["reason"]
    data.expect_files(m.path, files)
    assert "OPEN" not in m.status()["requests"]["messages"]


def test_requests_under_way_are_answered(mount, origin, files, faulty):
    """The daemon dies while a reader waits for the source."""
    content = data.content("stuck", 3 << 20)
    faulty.objects = {"stuck": content}
    m = mount("s3://bucket", {**faulty.options, "metadata.ttl": "1h", "profile": "large"}, env=faulty.env)
    os.listdir(m.path)
    faulty.fault = lambda method, key, number: "stall" if key == "stuck" else None
    with subprocess.Popen(["cat", m.path / "stuck"], stdout=subprocess.PIPE) as reader:
        processes.wait_until(lambda: any(method == "GET" and "stuck" in path for method, path, _ in faulty.seen),
                             what="the request reaches the origin")
        m.kill_daemon()
        faulty.fault = lambda method, key, number: None
        assert reader.communicate(timeout=60 * processes.SLOWNESS)[0] == content
    assert reader.returncode == 0


def test_crash_loop_ends_the_mount(mount, origin, files):
    m = mount(origin, {"restart.limit": "3"})
    supervisor = m.status()["supervisor_pid"]
    with subprocess.Popen(["sleep", "1000"], cwd=m.path) as inside:
        for _ in range(3):
            m.take_over()
        m.kill_daemon(supervisor)
        processes.wait_until(lambda: not m.mounted(), what="the mount ends")
        inside.kill()
    m.expect_gone()
    assert "restart.limit" in m.log.read_text()
    m.start()
    data.expect_files(m.path, files)


def test_off(mount, origin, files):
    m = mount(origin, {"supervisor": "off"})
    status = m.status()["supervisor"]
    assert not status["enabled"] and "supervisor=off" in status["reason"]
    m.kill_daemon()
    processes.wait_until(lambda: not m.mounted(), what="the mount ends")
    m.expect_gone()


def test_the_supervisor_is_killed(mount, origin, files):
    """The daemon ends the mount in order."""
    m = mount(origin)
    os.kill(m.status()["supervisor_pid"], signal.SIGKILL)
    processes.wait_until(lambda: not m.mounted(), what="the mount ends")
    m.expect_gone()


@pytest.mark.parametrize("how", ["umount", "tierfs umount", "SIGTERM", "SIGTERM to the supervisor"])
def test_ends_in_order_after_a_takeover(mount, origin, files, how):
    m = mount(origin)
    data.expect_files(m.path, files)
    status = m.take_over()
    if how == "tierfs umount":
        m.umount()
    elif how == "umount":
        processes.check(["umount", m.path])
    else:
        os.kill(status["supervisor_pid" if "supervisor" in how else "pid"], signal.SIGTERM)
    processes.wait_until(lambda: not m.mounted(), what="the mount ends")
    m.expect_gone()


@pytest.mark.parametrize("how", ["umount", "SIGTERM"])
def test_ends_while_no_daemon_serves(mount, origin, files, how):
    m = mount(origin)
    supervisor = m.status()["supervisor_pid"]
    m.kill_daemon(supervisor)
    if how == "umount":
        processes.run(["umount", m.path])
    else:
        processes.kill([supervisor], signal.SIGTERM)
    processes.wait_until(lambda: not m.mounted(), what="the mount ends")
    m.expect_gone()


def held_in(folder):
    """Mounts and loop devices of this test; others may run beside it."""
    found = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    found += [path.read_text().strip() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    return sorted(path for path in found if path.startswith(f"{folder}/"))


def is_free(lock):
    try:
        with open(lock, "rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError):
        return False
    return True


@pytest.mark.parametrize("place", ["scratch", "cache"])
def test_nothing_is_left_behind(mount, origin, files, cache, place):
    m = mount.prepare(origin, cache if place == "cache" else {})
    supervisors, sockets = set(), set()
    for number in range(500 if FULL else 10):
        m.start()
        supervisors.add(m.status()["supervisor_pid"])
        sockets.add(daemon.SOCKETS / f"{m.device}.sock")
        assert (m.path / small(files)[0]).read_bytes() == files[small(files)[0]]
        if number % 5 == 4:
            m.take_over()
        if number % 5 == 3:
            assert processes.run([daemon.BINARY, "reload", m.path], env=m.env).returncode == 0
        m.umount()  # which looks for processes and the socket
        assert all(is_free(lock) for lock in Path(cache["nvme.path"]).rglob("lock"))
    assert not held_in(m.folder.parent)
    # Numbers of processes and devices are used again: what somebody holds is another mount's.
    scratch = [Path(f"/var/cache/tierfs/mount-{pid}") for pid in supervisors]
    left = [path for path in scratch if path.exists() and is_free(path / "lock")]
    left += [path for path in sockets if path.exists() and not daemon.answers(path)]
    assert not left


def descriptors(pid):
    return sorted(os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir())


def kinds(links):
    """Without the numbers of sockets."""
    return sorted(re.sub(r"\d+", "N", link) for link in links)


def test_a_supervisor_keeps_no_descriptors(mount, origin, files, cache):
    m = mount(origin, {**OFTEN, **cache})
    m.take_over()
    assert processes.run([daemon.BINARY, "reload", m.path], env=m.env).returncode == 0
    supervisor = m.status()["supervisor_pid"]
    before = kinds(descriptors(supervisor))
    for _ in range(60 if FULL else 3):
        m.take_over()
        assert processes.run([daemon.BINARY, "reload", m.path], env=m.env).returncode == 0
        assert kinds(descriptors(supervisor)) == before
    assert len([link for link in before if "memfd" in link]) == 2, "the record, and what the program was told"
    assert len([link for link in before if link.endswith("/lock")]) == 1


@pytest.mark.parametrize("where", ["namespace", "beside"])
def test_umount_names_what_keeps_the_daemon(mount, origin, folder, where):
    """A mount namespace has copies of all mounts that there are when it is made."""
    m = mount(origin)
    other = folder / "beside"
    other.mkdir()
    keeper = None
    if where == "namespace":
        # The copies of other tests' mounts go at once, or those could not be unmounted.
        script = ("for place in $(awk '$3 ~ /^fuse[.]/ { print $2 }' /proc/self/mounts); do "
                  "[ \"$place\" = \"$1\" ] || umount -l \"$place\"; done; echo made; exec sleep infinity")
        keeper = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", m.path.resolve()],
                                  stdout=subprocess.PIPE, text=True)
        assert keeper.stdout.readline() == "made\n"
    else:
        processes.check(["mount", "--bind", m.path, other])
    try:
        done = processes.run([daemon.BINARY, "umount", m.path], env=m.env)
        assert done.returncode == 1 and not m.mounted(), done
        assert f"{m.path} is unmounted, but its daemon goes on" in done.err, done
        assert (f"sleep (pid {keeper.pid})" if keeper else f"mounted on {other}") in done.err, done
    finally:
        if keeper:
            keeper.kill()
            keeper.communicate()
        else:
            processes.check(["umount", other])
    m.expect_gone()

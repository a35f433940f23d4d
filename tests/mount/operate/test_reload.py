"""tierfs reload: another program serves a mount that goes on, or the one that served says why not."""

import json
import os
import shutil
import subprocess
import threading

import pytest

from harness import daemon, data, processes
import test_passthrough as passthrough
from test_supervisor import Verifiers, files, large, small  # noqa: F401  pylint: disable=unused-import

pytestmark = pytest.mark.release


class Installed:
    """A program at a path of its own, which can be replaced as an upgrade does it."""

    def __init__(self, folder):
        self.path = folder / "bin" / "tierfs"
        self.path.parent.mkdir()
        self.versions = 0
        self.replace()

    def replace(self, content=None):
        """The same program as another file; or a text in its place."""
        self.versions += 1
        fresh = self.path.with_name(f"tierfs.{self.versions}")
        if content is None:
            shutil.copy(daemon.BINARY, fresh)
        else:
            fresh.write_text(content)
            fresh.chmod(0o755)
        os.rename(fresh, self.path)

    def is_run_by(self, pid):
        try:
            return os.path.samefile(f"/proc/{pid}/exe", self.path)
        except FileNotFoundError:
            return False


@pytest.fixture
def installed(folder):
    return Installed(folder)


@pytest.fixture
def configured(folder):
    path = folder / "tierfs.yaml"
    path.write_text("origin.connections: 10\n")
    return path


def start(mount, installed, origin, options=None, **more):
    m = mount.prepare(origin, {"profile": "large", **(options or {})}, **more)
    return m.start([str(installed.path)] + m.command()[1:])


def attempt(m, *words):
    return processes.run([daemon.BINARY, "reload", m.path, *words], env=m.env, suspects=m.processes)


def reload(m):
    """The new status."""
    before = m.status()
    finished = attempt(m, "--json")
    assert finished.returncode == 0, f"{finished}\n{m.log_tail()}"
    said, after = json.loads(finished.out), m.status()
    assert said["pid"] == after["pid"] != before["pid"]
    assert said["version"] == after["version"]
    assert after["supervisor_pid"] == before["supervisor_pid"]
    assert after["supervisor"]["reloads"] == before["supervisor"]["reloads"] + 1
    assert after["supervisor"]["restarts"] == before["supervisor"]["restarts"]
    return after


def refused(m, *texts):
    """The daemon that served serves on, and the verb says why."""
    before = m.status()
    finished = attempt(m)
    assert finished.returncode == 1 and not finished.out, finished
    for text in texts:
        assert text in finished.err, finished.err
    after = m.status()
    assert after["pid"] == before["pid"]
    assert after["supervisor"]["reloads"] == before["supervisor"]["reloads"]
    return finished.err


@pytest.mark.tsan
def test_readers_notice_a_pause(mount, origin, files, installed):
    m = start(mount, installed, origin)
    with Verifiers(m, origin) as readers:
        readers.add("files", small(files), 2).add("stream", large(files)).add("walk", list(files))
        readers.add("hold", large(files)).add("map", large(files))
        for _ in range(5):
            installed.replace()
            assert installed.is_run_by(reload(m)["pid"])
    assert m.status()["reads"]["errors"] == 0
    data.expect_files(m.path, files)


def test_passthrough_files_stay_open(mount, origin, files, installed, xfs):
    (xfs.path / "cache").mkdir(mode=0o700)
    m = start(mount, installed, origin, {"nvme.path": str(xfs.path / "cache"), "nvme.limit": "128M", "ram.limit": "0"})
    passthrough.fill(m, files)
    passthrough.closed(m)
    name = large(files)[0]
    handle = os.open(m.path / name, os.O_RDONLY)
    assert reload(m)["passthrough"]["open_files"] == 1
    passthrough.expect_open(handle, files[name])
    again = os.open(m.path / name, os.O_RDONLY)
    os.close(handle)
    passthrough.expect_open(again, files[name])
    os.close(again)
    passthrough.closed(m)


def test_what_was_read_stays_on_nvme(mount, origin, files, installed, cache):
    """The daemon that leaves writes out what it holds."""
    m = start(mount, installed, origin, {**cache, "ram.limit": "0"})
    data.expect_files(m.path, files)
    after = reload(m)
    data.forget_below(m.path)
    data.expect_files(m.path, files)
    assert m.status()["reads"]["by_tier"]["origin"] == 0, after


def test_configuration_is_read_anew(mount, origin, files, installed, configured):
    m = start(mount, installed, origin, {"config": str(configured), "memory.limit": "300M"})
    assert m.status()["tiers"][0]["limit_bytes"] != 32 << 20
    configured.write_text("ram.limit: 32M\n")
    assert reload(m)["tiers"][0]["limit_bytes"] == 32 << 20
    data.expect_files(m.path, files)
    # Of a daemon that dies the next one has what the reload had read, whatever lies there now.
    configured.write_text("no.such.key: 1\n")
    assert m.take_over()["tiers"][0]["limit_bytes"] == 32 << 20
    assert installed.is_run_by(m.status()["pid"])
    data.expect_files(m.path, files)


@pytest.mark.parametrize("text, said", [
    ("no.such.key: 1", "no.such.key"),
    ("metadata.ttl: 5s", "metadata.ttl: found 5s; allowed: 60s"),
    ("profile: small", "profile: found small; allowed: large"),
    ("allow_other: true", "allow_other"),
    ("nvme.path: /tmp", "nvme.path"),
    ("supervisor: off", "supervisor"),
    ("datasets: [{match: '/**', immutable: true}]", "immutable"),
])
def test_settings_that_last_are_refused(mount, origin, files, installed, configured, text, said):
    configured.write_text("profile: large\n")
    m = mount.prepare(origin, {"config": str(configured)})
    m.start([str(installed.path)] + m.command()[1:])
    configured.write_text(text if text.startswith("profile") else f"profile: large\n{text}")
    refused(m, said)
    data.expect_files(m.path, files)
    configured.write_text("profile: large\nlog.level: info")
    reload(m)


def test_a_configuration_that_is_gone(mount, origin, files, installed, configured):
    m = start(mount, installed, origin, {"config": str(configured)})
    configured.unlink()
    refused(m, str(configured), "No such file")
    data.expect_files(m.path, files)


@pytest.mark.parametrize("content, said", [
    ("", "Exec format error"),
    ("#!/bin/false\n", ""),
])
def test_a_program_that_cannot_run(mount, origin, files, installed, content, said):
    m = start(mount, installed, origin)
    installed.replace(content)
    refused(m, said)
    data.expect_files(m.path, files)
    installed.replace()
    assert installed.is_run_by(reload(m)["pid"])


def test_a_program_that_is_gone(mount, origin, files, installed):
    m = start(mount, installed, origin)
    installed.path.unlink()
    refused(m, str(installed.path), "No such file")
    data.expect_files(m.path, files)
    # The program of the mount is still there for who needs it.
    m.take_over()
    data.expect_files(m.path, files)


def test_a_source_that_does_not_answer(mount, faulty, installed):
    """What a program cannot start with it is not started with; one that dies is replaced all the same."""
    faulty.objects = {"a": b"a" * 1000}
    m = start(mount, installed, "s3://bucket", {**faulty.options, "origin.deadline": "2s"}, env=faulty.env)
    faulty.fault = lambda method, key, number: "reset"
    refused(m)
    faulty.fault = lambda method, key, number: None
    reload(m)
    assert (m.path / "a").read_bytes() == b"a" * 1000


def test_requests_under_way_are_answered_by_the_next(mount, faulty, installed):
    """The daemon that leaves waits a moment for the source; readers get what the next one gets, and no error."""
    content = data.content("stuck", 3 << 20)
    faulty.objects = {"stuck": content}
    m = start(mount, installed, "s3://bucket", faulty.options, env=faulty.env)
    os.listdir(m.path)
    faulty.fault = lambda method, key, number: "stall" if key == "stuck" else None
    # Direct: the kernel itself would try a failed readahead again.
    with subprocess.Popen(["dd", f"if={m.path}/stuck", "bs=1M", "iflag=direct", "status=none"],
                          stdout=subprocess.PIPE) as reader:
        processes.wait_until(lambda: any(method == "GET" and "stuck" in path for method, path, _ in faulty.seen),
                             what="the request reaches the origin")
        done = []
        asking = threading.Thread(target=lambda: done.append(attempt(m)))
        asking.start()
        processes.wait_until(lambda: "are left to the next daemon" in m.log.read_text(), what="the daemon leaves")
        faulty.fault = lambda method, key, number: None
        asking.join()
        assert done[0].returncode == 0, done[0]
        assert reader.communicate(timeout=60 * processes.SLOWNESS)[0] == content
    assert reader.returncode == 0


@pytest.mark.test_points
@pytest.mark.parametrize("point", ["program", "make", "write", "fork", "exec", "stat", "read"])
def test_each_step_may_fail(mount, origin, files, installed, point):
    m = start(mount, installed, origin, env={"TIERFS_TEST_FAULTS": f"takeover.{point}:1:error=EIO"})
    refused(m)
    data.expect_files(m.path, files)


@pytest.mark.test_points
def test_the_new_program_cannot_serve(mount, origin, files, installed):
    """It ends after the other one has ended, which then comes back."""
    m = start(mount, installed, origin, env={"TIERFS_TEST_FAULTS": "takeover.go:1+:error=EIO"})
    before = m.status()
    with Verifiers(m, origin) as readers:
        readers.add("files", small(files)).add("hold", large(files))
        installed.replace()
        finished = attempt(m)
        assert finished.returncode == 1 and "could not serve" in finished.err, finished
        after = m.status()
        assert after["pid"] != before["pid"] and after["supervisor"]["reloads"] == 0
        assert not installed.is_run_by(after["pid"]), "the program of before serves"
    data.expect_files(m.path, files)


def test_two_at_a_time(mount, origin, files, installed):
    m = start(mount, installed, origin)
    with subprocess.Popen([daemon.BINARY, "reload", m.path], env=m.env, stderr=subprocess.PIPE, text=True) as first:
        second = attempt(m)
        said = first.communicate()[1]
    assert 0 in (first.returncode, second.returncode)
    for code, text in ((first.returncode, said), (second.returncode, second.err)):
        assert code == 0 or "under way" in text or "being" in text, text
    data.expect_files(m.path, files)


def test_without_a_supervisor(mount, origin, files, installed):
    m = start(mount, installed, origin, {"supervisor": "off"})
    refused(m, "supervisor=off", "unmount and mount again")


def test_what_is_no_mount(folder):
    finished = processes.run([daemon.BINARY, "reload", folder])
    assert finished.returncode == 1 and "not a mount point" in finished.err
    assert processes.run([daemon.BINARY, "reload"]).returncode == 2


def test_ends_in_order_afterwards(mount, origin, files, installed):
    m = start(mount, installed, origin)
    reload(m)
    m.umount()
    m.start([str(installed.path)] + m.command()[1:])
    reload(m)
    m.terminate()
    processes.wait_until(lambda: not m.mounted(), what="the mount ends")
    m.expect_gone()

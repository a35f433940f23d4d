"""A mount in the foreground tells the service manager that started it how far it is (sd_notify(3))."""

import os
import signal
import socket
import subprocess

import pytest

from harness import daemon, data, processes

pytestmark = pytest.mark.release


@pytest.mark.parametrize("abstract", [False, True])
def test_ready_when_the_mount_answers_and_stopping_when_it_ends(origin, mount, folder, abstract):
    data.write(origin / "file", b"x")
    name = f"\0{folder.name}" if abstract else str(folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name)
        manager.settimeout(daemon.START_LIMIT * processes.SLOWNESS)
        m = mount.prepare(origin, env={"NOTIFY_SOCKET": name.replace("\0", "@")})
        m.path.mkdir()
        with subprocess.Popen([*m.command(), "-f"], env=m.env) as process:
            assert manager.recv(4096) == b"READY=1"
            m.device = daemon.mountinfo(m.path)["device"]
            assert (m.path / "file").read_bytes() == b"x"
            os.kill(process.pid, signal.SIGTERM)
            assert manager.recv(4096) == b"STOPPING=1"
            assert process.wait(daemon.STOP_LIMIT * processes.SLOWNESS) == 0
        m.expect_gone()


@pytest.mark.parametrize("name", ["/nowhere/at/all", "relative", "@", "/" + "x" * 200, ""])
def test_a_manager_that_is_not_there_changes_nothing(origin, mount, name):
    m = mount.prepare(origin, env={"NOTIFY_SOCKET": name})
    m.path.mkdir()
    with subprocess.Popen([*m.command(), "-f"], env=m.env) as process:
        processes.wait_until(m.mounted, what="mounted")
        m.device = daemon.mountinfo(m.path)["device"]
        m.umount()
        assert process.wait(daemon.STOP_LIMIT * processes.SLOWNESS) == 0

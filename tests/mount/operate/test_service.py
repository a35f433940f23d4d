"""A mount in the foreground tells the service manager that started it how far it is (sd_notify(3))."""

import os
import re
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


@pytest.mark.parametrize("with_settings", [True, False])
def test_the_unit_starts_with_settings_and_without(origin, mount, folder, with_settings):
    """/etc/tierfs/NAME.yaml may be missing."""
    unit = (daemon.REPOSITORY / "packaging/deb/tierfs@.service").read_text()
    line = re.search(r"^ExecStart=(.*)$", unit, re.M)[1]
    settings = folder / "name.yaml"
    line = line.replace("/usr/bin/tierfs", str(daemon.BINARY)).replace("/etc/tierfs/%i.yaml", str(settings)).replace("$$", "$")
    if with_settings:
        settings.write_text("origin.connections: 7\n")
    m = mount.prepare(origin)
    m.path.mkdir()
    words = [quoted or plain for quoted, plain in re.findall(r"'([^']*)'|(\S+)", line)]
    with subprocess.Popen(words, env={**m.env, "SOURCE": m.source, "MOUNTPOINT": str(m.path)}) as process:
        processes.wait_until(lambda: m.mounted() and processes.run([daemon.BINARY, "status", m.path], env=m.env).returncode == 0,
                             what="it serves")
        m.device = daemon.mountinfo(m.path)["device"]
        assert (m.status()["configuration"]["origin.connections"] == "7") == with_settings
        m.umount()
        assert process.wait(daemon.STOP_LIMIT * processes.SLOWNESS) == 0

"""metrics.listen: what Prometheus fetches from a mount."""

import os
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request

import pytest

from harness import daemon, data, processes, servers


def fetch(port, path="/metrics", method="GET"):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    with urllib.request.urlopen(request, timeout=20 * processes.SLOWNESS) as reply:
        return reply.read().decode()


def fetch_unix(path, text=b"GET /metrics HTTP/1.1\r\n\r\n"):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20 * processes.SLOWNESS)
        client.connect(str(path))
        client.sendall(text)
        got = b""
        while piece := client.recv(65536):
            got += piece
    return got.decode()


def value(text, series):
    found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.M)
    assert found, f"no {series} in\n{text}"
    return float(found.group(1))


def served(port):
    def attempt():
        try:
            return fetch(port)
        except OSError:
            return None
    return processes.wait_until(attempt, what="metrics are served")


@pytest.mark.release
def test_counts_what_was_read_and_goes_on_after_reload_and_death(origin, mount, cache):
    files = data.make_files(origin, 40, 5000)
    port = servers.free_ports()
    m = mount(origin, {**cache, "metrics.listen": f"127.0.0.1:{port}"})
    data.expect_files(m.path, files)
    text = fetch(port)
    assert value(text, 'tierfs_read_bytes_total{tier="origin"}') == sum(len(one) for one in files.values())
    assert value(text, 'tierfs_read_seconds_count{tier="origin"}') + value(text, 'tierfs_read_seconds_count{tier="ram"}') > 0
    assert value(text, "tierfs_metadata_seconds_count") > 0
    assert value(text, "tierfs_origin_fetch_seconds_sum{size=\"small\"}") > 0
    assert f'mountpoint="{m.path}"' in text
    status = m.status()
    assert status["latency"]["read_origin"]["count"] > 0 and status["latency"]["metadata"]["p50_us"] > 0, status["latency"]
    if status["supervisor"]["enabled"]:
        subprocess.run([daemon.BINARY, "reload", m.path], env=m.env, check=True, timeout=60 * processes.SLOWNESS)
        assert value(served(port), "tierfs_daemon_reloads_total") == 1
        m.take_over()
        assert value(served(port), "tierfs_daemon_restarts_total") == 1


def test_only_gets_of_metrics_are_answered(origin, mount):
    port = servers.free_ports()
    m = mount(origin, {"metrics.listen": f"127.0.0.1:{port}"})
    for path, method, status in (("/", "GET", 404), ("/metrics", "POST", 405)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetch(port, path, method)
        assert refused.value.code == status
    with socket.create_connection(("127.0.0.1", port)) as silent:  # holds it up for a moment, not for good
        assert "tierfs_mount_info" in fetch(port)
        silent.close()
    assert m.status()["reads"]["errors"] == 0


def test_a_socket_has_its_mode_and_goes_with_the_mount(origin, mount, folder):
    path = folder / "metrics.sock"
    m = mount(origin, {"metrics.listen": str(path)})
    assert os.stat(path).st_mode & 0o7777 == 0o660
    assert "tierfs_mount_info" in fetch_unix(path)
    assert " 431 " in fetch_unix(path, b"GET /metrics HTTP/1.1\r\n" + b"x: y\r\n" * 2000).splitlines()[0]
    if m.status()["supervisor"]["enabled"]:
        m.take_over()
        processes.wait_until(lambda: daemon.answers(path), what="the next daemon serves the socket")
        assert "tierfs_mount_info" in fetch_unix(path)
    m.umount()
    assert not path.exists()


def test_a_port_that_is_taken_costs_the_metrics_alone(origin, mount):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        m = mount(origin, {"metrics.listen": f"127.0.0.1:{port}"})
        assert f"metrics.listen 127.0.0.1 port {port}" in m.log.read_text()
        other.close()
    assert "tierfs_mount_info" in served(port), "as soon as the port is free"


def test_other_machines_are_not_listened_to(mount, origin):
    said = mount.prepare(origin, {"metrics.listen": "0.0.0.0:9464"}).refuse(status=2)
    assert "metrics.listen" in said and "this machine alone" in said


@pytest.mark.parametrize("fault", ["metrics.bind:1:error=EACCES", "metrics.accept:1:error=EMFILE",
                                   "metrics.receive:1:error=EIO", "metrics.send:/2:short", "metrics.send:1:error=EIO"])
@pytest.mark.test_points
def test_faults_cost_one_answer(origin, mount, fault):
    port = servers.free_ports()
    m = mount(origin, {"metrics.listen": f"127.0.0.1:{port}"}, env={"TIERFS_TEST_FAULTS": fault})
    assert "tierfs_mount_info" in served(port)
    assert m.status()["reads"]["errors"] == 0


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed (Debian's package prometheus)")
def test_promtool_accepts_them(origin, mount, cache):
    port = servers.free_ports()
    mount(origin, {**cache, "metrics.listen": f"127.0.0.1:{port}"})
    checked = subprocess.run(["promtool", "check", "metrics"], input=fetch(port), capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_status_names_no_buckets(origin, mount):
    status = mount(origin).status()
    assert not [name for name, one in status["latency"].items() if "buckets" in one]

"""What the processes of a mount by root may still do: capabilities, no_new_privs, the filter of system calls. That all of
tierfs works so is what every other test shows, since no mount by root is without it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import daemon, data, processes

pytestmark = [pytest.mark.release, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, NET_BIND_SERVICE, SYS_ADMIN = 1, 2, 3, 10, 21
CHOWN, FSETID, SETGID, SETUID, LINUX_IMMUTABLE, SYS_PTRACE, SYS_RESOURCE, MKNOD, LEASE, SETFCAP = 0, 4, 6, 7, 9, 19, 24, 27, 28, 31
ALWAYS = {SYS_ADMIN, SYS_PTRACE}
READS = {DAC_READ_SEARCH}
WRITES = READS | {DAC_OVERRIDE, FOWNER, CHOWN, FSETID, SETGID, SETUID, LINUX_IMMUTABLE, SYS_RESOURCE, MKNOD, LEASE, SETFCAP}
FILTERED = "2"  # of Seccomp in /proc/PID/status


def fields(pid, thread=None):
    text = Path(f"/proc/{pid}/task/{thread or pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def capabilities(found, name):
    bits = int(found[name], 16)
    return {number for number in range(64) if bits >> number & 1}


def expect_confined(m, kept):
    """`kept`: as far as whoever runs the tests has them."""
    kept = kept & capabilities(fields(os.getpid()), "CapPrm")
    status = m.status()
    threads = os.listdir(f"/proc/{status['pid']}/task")
    assert len(threads) > 3
    for thread in threads:
        found = fields(status["pid"], thread)
        for name in ("CapPrm", "CapEff"):
            assert capabilities(found, name) <= kept, (thread, name)
        assert capabilities(found, "CapPrm") == kept, thread
        assert found["NoNewPrivs"] == "1" and found["Seccomp"] == FILTERED, thread
    found = fields(status["supervisor_pid"])
    for name in ("CapPrm", "CapEff", "CapBnd"):
        assert capabilities(found, name) == kept | {DAC_READ_SEARCH}, name


@pytest.mark.parametrize("how", ["ro", "rw"])
def test_mount_of_a_bucket(rgw_bucket, cache, mount, how):
    rgw_bucket.put("a", b"1")
    m = mount(rgw_bucket.source(), rgw_bucket.options({**cache, how: None}), env=rgw_bucket.env)
    assert (m.path / "a").read_bytes() == b"1"
    kept = ALWAYS | (READS if how == "rw" else set())
    expect_confined(m, kept)
    if how == "ro":
        m.take_over()
        assert (m.path / "a").read_bytes() == b"1"
        expect_confined(m, kept)
        processes.check([daemon.BINARY, "reload", m.path], env=m.env, timeout=60)
        expect_confined(m, kept)


@pytest.mark.parametrize("how", ["ro", "rw"])
def test_mount_of_an_nfs_server(exported, mount, how):
    m = mount(exported.url(), {how: None})
    assert os.listdir(m.path) == []
    expect_confined(m, ALWAYS | {NET_BIND_SERVICE})


def test_mount_of_a_directory(origin, cache, mount):
    data.write(origin / "a", b"1")
    os.chmod(origin / "a", 0)
    os.chown(origin / "a", 65534, 65534)
    m = mount(origin, cache)
    assert (m.path / "a").read_bytes() == b"1"
    expect_confined(m, ALWAYS | READS)
    m.umount()
    m = mount(origin, {"rw": None})
    (m.path / "b").write_bytes(b"2")
    expect_confined(m, ALWAYS | WRITES)


def test_folders_of_others_on_the_way_to_the_cache(origin, nginx_bucket, folder, mount):
    """/raid/somebody/cache, say."""
    home = folder / "home"
    (home / "cache").mkdir(parents=True)
    os.chown(home, 65534, 65534)
    os.chmod(home, 0o700)
    nginx_bucket.put("a", b"1")
    m = mount(nginx_bucket.source(), nginx_bucket.options({"nvme.path": str(home / "cache"), "nvme.limit": "64M"}),
              env=nginx_bucket.env)
    assert (m.path / "a").read_bytes() == b"1"
    expect_confined(m, ALWAYS | {DAC_OVERRIDE})
    assert "keeps CAP_DAC_OVERRIDE" in m.log.read_text()


def test_home_below_the_mount(rgw_bucket, folder, mount):
    """Homes in a bucket: nobody must wait for the mount before it is served."""
    rgw_bucket.put("a", b"1")
    m = mount.prepare(rgw_bucket.source(), rgw_bucket.options({}), env={**rgw_bucket.env, "HOME": str(folder / "homes")})
    m.path = folder / "homes"
    m.start()
    assert (m.path / "a").read_bytes() == b"1"
    expect_confined(m, ALWAYS)
    m.take_over()
    assert data.read_cold(m.path / "a") == b"1"


@pytest.mark.parametrize("what", ["AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE"])
def test_files_below_the_mount_are_refused(rgw_bucket, folder, mount, what):
    """Each daemon opens them before it serves."""
    m = mount.prepare(rgw_bucket.source(), rgw_bucket.options({}), env={**rgw_bucket.env, what: str(folder / "mnt/file")})
    m.path = folder / "mnt"
    assert f"{what} ({m.path}/file) lies beneath the mount point".lower() in m.refuse()


def test_mount_point_in_a_folder_of_somebody_else(origin, folder, mount):
    """Also when the daemon has to take the mount away by itself."""
    home = folder / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    os.chmod(home, 0o700)
    data.write(origin / "a", b"1")
    m = mount.prepare(origin)
    m.path = home / "mnt"
    m.start()
    status = m.status()
    os.kill(status["supervisor_pid"], 9)
    processes.wait_until(lambda: not m.mounted(), timeout=20, what="the daemon has taken the mount away")
    processes.wait_until(lambda: not m.processes(), timeout=20, what="its processes end")


SCRIPT = """
import json, os, sys
text = open("/proc/self/status").read()
with open(sys.argv[1], "w") as out:
    out.write(text)
print(json.dumps({"Version": 1, "AccessKeyId": sys.argv[2], "SecretAccessKey": sys.argv[3]}))
"""


def test_program_of_credential_process_gets_no_more(rgw_bucket, folder, mount):
    rgw_bucket.put("a", b"1")
    (folder / "keys.py").write_text(SCRIPT)
    given = {name: value for name, value in rgw_bucket.env.items() if "ACCESS_KEY" in name}
    command = [sys.executable, str(folder / "keys.py"), str(folder / "said"), given["AWS_ACCESS_KEY_ID"], given["AWS_SECRET_ACCESS_KEY"]]
    (folder / "config").write_text("[default]\ncredential_process = " + " ".join(command) + "\n")
    env = {name: value for name, value in rgw_bucket.env.items() if name not in given}
    m = mount(rgw_bucket.source(), rgw_bucket.options({}), env={**env, "AWS_CONFIG_FILE": str(folder / "config")})
    assert (m.path / "a").read_bytes() == b"1"
    found = dict(line.split(":\t", 1) for line in (folder / "said").read_text().splitlines() if ":\t" in line)
    assert capabilities(found, "CapPrm") <= ALWAYS and found["NoNewPrivs"] == "1" and found["Seccomp"] == FILTERED


@pytest.mark.skipif(subprocess.run(["which", "fusermount3"], capture_output=True, check=False).returncode != 0,
                    reason="fusermount3 (Debian's fuse3) is not installed")
def test_a_users_mount_has_nothing_to_give_up(origin, mount, fuse_for_all):
    """And goes on to be taken away by fusermount3, which is set-user-ID."""
    data.write(origin / "a", b"1")
    m = mount.prepare(origin)
    m.path.mkdir(exist_ok=True)
    for path in (m.folder, m.path):
        os.chown(path, 65534, 65534)
    m.start(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] + m.command())
    found = fields(m.status()["pid"])
    assert capabilities(found, "CapPrm") == set()
    os.kill(m.status()["supervisor_pid"], 9)
    processes.wait_until(lambda: not m.mounted(), timeout=20, what="the daemon has taken the mount away")

"""The package in a root folder that has nothing but Debian's essential packages (debootstrap): what it depends on is all that
it needs. With TIERFS_TEST_FULL=1, for it fetches some hundred packages."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import must, run

FULL = os.environ.get("TIERFS_TEST_FULL", "") == "1"
LIMIT = 900


def mirror():
    """Where this machine has its packages from, and which release it is; nothing when apt does not say."""
    said = run("apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(COMPONENT)").stdout.split("\n")
    release = dict(line.partition("=")[::2] for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines())
    codename = release.get("VERSION_CODENAME", "").strip('"')
    sites = [line.split()[0] for line in said if line.split()[1:] == [codename, "main"]]
    return (codename, sites[0]) if sites else None


class CleanRoot:
    """Its own mount and PID name spaces for each command: what is left running or mounted ends with it."""

    def __init__(self, path):
        self.path = path

    SCRIPT = """
        set -e
        mount --make-rprivate /
        mount --bind "$0" "$0"
        mount -t proc proc "$0/proc"
        mount -t sysfs sysfs "$0/sys"
        mount -t tmpfs none "$0/run"
        for name in null zero random urandom fuse; do
            [ -e "$0/dev/$name" ] || touch "$0/dev/$name"
            mount --bind "/dev/$name" "$0/dev/$name"
        done
        exec chroot "$0" /usr/bin/env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -ec "$1"
    """

    def sh(self, script):
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", self.SCRIPT, self.path, script],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def files(self):
        """Without what apt and dpkg keep for themselves."""
        mine = ("var/lib/dpkg", "var/lib/apt", "var/cache", "var/log", "proc", "sys", "dev", "run", "tmp")
        found = run("find", self.path, "-xdev", "-printf", "%P\\n").stdout.splitlines()
        return {name for name in found if not name.startswith(mine)}


@pytest.fixture(name="clean")
def clean_root():
    if not FULL:
        pytest.skip("fetches a whole system: with TIERFS_TEST_FULL=1 only")
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap")
    found = mirror()
    if not found:
        pytest.skip("apt does not say where this machine has its packages from")
    with tempfile.TemporaryDirectory(prefix="clean-root-") as folder:
        made = subprocess.run(["debootstrap", "--variant=minbase", found[0], folder, found[1]], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        if made.returncode != 0:
            pytest.skip(f"debootstrap: {(made.stdout + made.stderr)[-300:]}")
        yield CleanRoot(Path(folder))


def test_apt_installs_mounts_by_fstab_and_purges(package, clean):
    shutil.copy(package, clean.path / "root" / package.name)
    clean.sh("apt-get update")
    before = clean.files()
    clean.sh(f"apt-get install -y --no-install-recommends /root/{package.name}; apt-get clean")
    clean.sh("""
        mkdir -p /srv/data /mnt/x; echo hello >/srv/data/file
        echo '/srv/data /mnt/x fuse.tierfs ro,memory.limit=128M,_netdev,nofail 0 0' >/etc/fstab
        mount /mnt/x
        test "$(cat /mnt/x/file)" = hello
        tierfs status /mnt/x | grep -q /srv/data
        tierfs umount /mnt/x
        rm -r /srv/data /mnt/x /etc/fstab
    """)
    clean.sh("apt-get purge -y --autoremove tierfs; apt-get clean")
    left = {name for name in clean.files() - before if "tierfs" in name}
    assert not left, left
    logs = must("find", clean.path, "-xdev", "-name", "*tierfs*", "-not", "-path", "*/root/*")
    assert not logs, logs

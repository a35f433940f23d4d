"""The package and the quickstart in root folders that have nothing but Debian's essential packages (debootstrap): what they
say they need is all that they need. With TIERFS_TEST_FULL=1, for it fetches some hundred packages and builds tierfs anew."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import REPOSITORY, must, run

FULL = os.environ.get("TIERFS_TEST_FULL", "") == "1"
MINUTE = 60


def release():
    lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in lines)}


def mirror():
    """Where this machine has its packages from, and which release it is; nothing when apt does not say."""
    said = run("apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(COMPONENT)").stdout.split("\n")
    codename = release().get("VERSION_CODENAME", "")
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
        mkdir "$0/run/lock"
        for name in null zero full random urandom fuse; do
            [ -e "$0/dev/$name" ] || touch "$0/dev/$name"
            mount --bind "/dev/$name" "$0/dev/$name"
        done
        mount -t tmpfs none "$0/dev/shm"
        exec chroot "$0" /usr/bin/env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -ec "$1"
    """

    def sh(self, script, limit=15 * MINUTE):
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", self.SCRIPT, self.path, script],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit, check=False)
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def files(self):
        """Without what apt and dpkg keep for themselves."""
        theirs = ("var/lib/dpkg/", "var/lib/apt/", "var/cache/apt/", "var/cache/debconf/", "var/log/apt/", "proc/", "sys/", "dev/",
                  "run/", "tmp/")
        found = run("find", self.path, "-xdev", "-printf", "%P\\n").stdout.splitlines()
        return {name for name in found if not name.startswith(theirs)}


@pytest.fixture(scope="module", name="bare")
def bare_system():
    if not FULL:
        pytest.skip("fetches a whole system: with TIERFS_TEST_FULL=1 only")
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap")
    found = mirror()
    if not found:
        pytest.skip("apt does not say where this machine has its packages from")
    components = "main,universe" if release().get("ID") == "ubuntu" else "main"
    with tempfile.TemporaryDirectory(prefix="clean-root-") as folder:
        path = Path(folder) / "bare"
        made = subprocess.run(["debootstrap", "--variant=minbase", f"--components={components}", found[0], path, found[1]],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=15 * MINUTE, check=False)
        if made.returncode != 0:
            pytest.skip(f"debootstrap: {(made.stdout + made.stderr)[-300:]}")
        CleanRoot(path).sh("apt-get update")
        yield path


@pytest.fixture(name="clean")
def clean_root(bare):
    with tempfile.TemporaryDirectory(prefix="clean-root-") as folder:
        path = Path(folder) / "root"
        must("cp", "-a", bare, path, limit=10 * MINUTE)
        yield CleanRoot(path)


def newer(package, folder):
    """The same package with a higher version."""
    must("dpkg-deb", "-R", package, folder / "newer")
    control = folder / "newer/DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: (.*)$", r"Version: \1+next", control.read_text()))
    made = folder / f"next-{package.name}"
    must("dpkg-deb", "--root-owner-group", "--build", folder / "newer", made, limit=10 * MINUTE)
    return made


FSTAB = "/srv/data /mnt/x fuse.tierfs ro,memory.limit=128M,nvme.path=/var/cache/tierfs/x,nvme.limit=512M,_netdev,nofail 0 0"


def test_apt_installs_mounts_by_fstab_upgrades_and_purges(package, clean, tmp_path):
    following = newer(package, tmp_path)
    for file in (package, following):
        shutil.copy(file, clean.path / "root" / file.name)
    before, users = clean.files(), (clean.path / "etc/passwd").read_text() + (clean.path / "etc/group").read_text()
    clean.sh(f"cd /root; apt-get install -y --no-install-recommends ./{package.name}")
    clean.sh(f"""
        mkdir -p /srv/data /mnt/x /var/cache/tierfs/x
        head -c 3000000 /dev/urandom >/srv/data/file
        echo '{FSTAB}' >/etc/fstab
        mount /mnt/x
        cmp /srv/data/file /mnt/x/file
        tierfs status /mnt/x | grep -q /srv/data
        test -d /run/tierfs
        # The package is replaced beneath the mount, which goes on and then runs the new program.
        apt-get install -y --no-install-recommends /root/{following.name}
        cmp /srv/data/file /mnt/x/file
        tierfs reload /mnt/x
        cmp /srv/data/file /mnt/x/file
        tierfs umount /mnt/x
        mount /mnt/x
        cmp /srv/data/file /mnt/x/file
        tierfs status /mnt/x --json >/root/status.json
        tierfs umount /mnt/x
    """)
    status = clean.path / "root/status.json"
    tiers = json.loads(status.read_text())["reads"]["by_tier"]
    assert tiers["nvme"] == 3000000 and tiers["origin"] == 0, f"the cache has not outlived the upgrade: {tiers}"
    assert list((clean.path / "var/log/tierfs").iterdir()), "the mount has logged"
    clean.sh("rm -r /srv/data /mnt/x /etc/fstab /root/*; apt-get purge -y --autoremove tierfs")
    left = {name for name in clean.files() - before if "tierfs" in name}
    assert not left, left
    left = must("find", clean.path, "-xdev", "-name", "*tierfs*")
    assert not left, left
    assert users == (clean.path / "etc/passwd").read_text() + (clean.path / "etc/group").read_text()


def test_the_system_takes_what_the_package_brings(package, clean):
    shutil.copy(package, clean.path / "root" / package.name)
    clean.sh(f"apt-get install -y --no-install-recommends /root/{package.name} systemd logrotate man-db bash-completion lintian")
    clean.sh(f"lintian --allow-root --fail-on error,warning /root/{package.name}", limit=10 * MINUTE)
    said = clean.sh("systemd-analyze verify tierfs@dataset.service /usr/share/doc/tierfs/examples/mnt-dataset.*mount 2>&1")
    assert "tierfs" not in said and "dataset" not in said, said
    clean.sh("mkdir -p /var/log/tierfs; echo line >/var/log/tierfs/mnt-x.log; logrotate --force /etc/logrotate.conf")
    assert (clean.path / "var/log/tierfs/mnt-x.log.1").read_text() == "line\n"
    for page in REPOSITORY.glob("man/*.[1-8]"):
        assert clean.sh(f"man {page.suffix[1:]} {page.stem} | head -n 3").strip(), page
    assert clean.sh("man mount.fuse.tierfs | head -n 3").strip()
    # As a shell does it when somebody presses Tab: the loader of bash-completion finds ours by the command's name. (It runs
    # commands that fail, which a shell with -e does not survive.)
    said = clean.sh("""
        set +e
        . /usr/share/bash-completion/bash_completion
        _completion_loader tierfs
        COMP_WORDS=(tierfs sta) COMP_CWORD=1 COMP_LINE='tierfs sta' COMP_POINT=10
        "$(complete -p tierfs | sed 's/.*-F \\([^ ]*\\) .*/\\1/')" tierfs sta tierfs
        echo "${COMPREPLY[@]}"
    """)
    assert said.split() == ["status"]
    for example in (*REPOSITORY.glob("config/examples/*"), REPOSITORY / "config/tierfs.yaml"):
        assert (clean.path / "usr/share/doc/tierfs/examples" / example.name).is_file(), example


def test_from_a_clone_to_a_mount_and_to_a_package(clean):
    """README's first command, then a package that a system without compilers installs."""
    must("git", "clone", "-q", "--no-hardlinks", REPOSITORY, clean.path / "root/tierfs")
    said = clean.sh("cd /root/tierfs; packaging/quickstart", limit=120 * MINUTE)
    assert re.search(r"^\[ *\d+ s\] done$", said, re.M), said[-3000:]
    assert re.search(r"tierfs \d", clean.sh("tierfs --version"))
    made = clean.sh("cd /root/tierfs; packaging/make-deb", limit=120 * MINUTE).strip()
    assert (clean.path / "root/tierfs" / made).is_file()


def test_what_the_tests_need_is_installed(clean):
    must("git", "clone", "-q", "--no-hardlinks", REPOSITORY, clean.path / "root/tierfs")
    clean.sh("cd /root/tierfs; packaging/dependencies", limit=60 * MINUTE)
    assert "everything is installed" in clean.sh("cd /root/tierfs; packaging/dependencies")
    programs = "cmake ninja clang++ clang-tidy pytest-3 nginx ceph-mon radosgw ganesha.nfsd rclone s3fs lintian mandoc promtool"
    clean.sh(f"for name in {programs}; do command -v $name >/dev/null || {{ echo no $name; exit 1; }}; done")
    assert not (clean.path / "usr/sbin/policy-rc.d").exists()

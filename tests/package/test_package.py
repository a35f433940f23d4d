"""The Debian package: builds, is lintian clean, installs, mounts, and leaves nothing."""

import os
import re
import shutil
import subprocess

import pytest

from conftest import REPOSITORY, must, run

# Each of them gives a service a mount name space, where its mounts would stay (systemd.exec(5)).
HIDES_MOUNTS = ("PrivateTmp", "PrivateDevices", "ProtectSystem", "ProtectHome", "ProtectKernelTunables",
                "ProtectKernelModules", "ProtectKernelLogs", "ProtectControlGroups", "ProtectProc", "ReadOnlyPaths",
                "ReadWritePaths", "InaccessiblePaths", "BindPaths", "BindReadOnlyPaths", "TemporaryFileSystem",
                "RootDirectory", "RootImage", "DynamicUser", "MountFlags", "PrivateUsers", "LogNamespace", "ProtectClock",
                "DeviceAllow", "PrivateIPC")


def test_lintian_says_nothing(package):
    if not shutil.which("lintian"):
        pytest.skip("lintian is not installed")
    done = run("lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", package, limit=600)
    assert done.returncode == 0 and "W: " not in done.stdout and "E: " not in done.stdout, done.stdout + done.stderr


def test_everything_is_where_it_belongs(package, unpacked):
    for name in ("usr/bin/tierfs", "usr/bin/tierfs-stage", "usr/bin/iobench", "lib/systemd/system/tierfs@.service",
                 "etc/logrotate.d/tierfs", "usr/share/bash-completion/completions/tierfs",
                 "usr/share/doc/tierfs/examples/tierfs.yaml", "usr/share/doc/tierfs/examples/fstab",
                 "usr/share/doc/tierfs/examples/slurm/prolog.sh"):
        assert (unpacked / name).is_file(), name
    for example in REPOSITORY.glob("config/examples/*"):
        assert (unpacked / "usr/share/doc/tierfs/examples" / example.name).read_bytes() == example.read_bytes()
    for example in (*REPOSITORY.glob("packaging/prometheus/*"), *REPOSITORY.glob("packaging/grafana/*")):
        installed = unpacked / "usr/share/doc/tierfs/examples" / example.parent.name / example.name
        assert installed.read_bytes() == example.read_bytes(), example
    for page in REPOSITORY.glob("man/*.[1-8]"):
        assert (unpacked / f"usr/share/man/man{page.suffix[1:]}/{page.name}.gz").is_file(), page
    assert os.readlink(unpacked / "usr/sbin/mount.fuse.tierfs") == "../bin/tierfs"
    listed = must("dpkg-deb", "-c", package)
    assert all(re.match(r"[-dl][rwx-]{9} root/root ", line) for line in listed.splitlines()), listed
    about = must("dpkg-deb", "-f", package)
    assert re.search(r"^Depends: .*libfuse3.*librocksdb", about, re.M), about


def test_maintainer_is_who_makes_it(package, unpacked):
    who = "An administrator <admin@cluster.example.org>"
    assert must("dpkg-deb", "-f", package, "Maintainer").strip() == who
    assert f" -- {who}  " in must("zcat", unpacked / "usr/share/doc/tierfs/changelog.gz")


def test_systemd_accepts_the_units(unpacked, folder):
    units = folder / "units"
    units.mkdir()
    examples = unpacked / "usr/share/doc/tierfs/examples"
    for path in (unpacked / "lib/systemd/system/tierfs@.service", *examples.glob("*mount")):
        text = path.read_text().replace("/usr/bin/tierfs", str(unpacked / "usr/bin/tierfs"))
        (units / path.name).write_text(text)
    done = run("systemd-analyze", "verify", "--man=no", *sorted(units.iterdir()))
    assert done.returncode == 0, done.stderr
    ours = [line for line in done.stderr.splitlines() if "tierfs" in line or "dataset" in line]
    assert not ours, ours
    service = (units / "tierfs@.service").read_text()
    given = set(re.findall(r"^(\w+)=", service, re.M))
    assert not given & set(HIDES_MOUNTS) and "PrivateMounts=no" in service
    assert {"CapabilityBoundingSet", "RestrictNamespaces", "MemoryDenyWriteExecute", "RestrictAddressFamilies"} <= given
    assert "NoNewPrivileges=yes" in service and "LimitCORE=0" in service


def test_systemd_calls_the_unit_of_a_bucket_safe(unpacked, folder):
    """The figures stand in tierfs-security(7), with the drop-in."""
    unit = (unpacked / "lib/systemd/system/tierfs@.service").read_text()
    lines = [line.removeprefix(".B ").strip('"') for line in (REPOSITORY / "man/tierfs-security.7").read_text().splitlines()]
    drop_in = [line for line in lines if line.startswith("CapabilityBoundingSet=")]
    assert len(drop_in) == 2
    exposed = []
    for name, text in (("any", unit), ("bucket", unit.replace("[Install]", "\n".join([*drop_in, "[Install]"])))):
        place = folder / name
        place.mkdir()
        (place / "tierfs@.service").write_text(text)
        done = run("systemd-analyze", "security", "--offline=true", "--no-pager", place / "tierfs@.service")
        if "unrecognized option" in done.stderr:
            pytest.skip("systemd is older than 250")
        found = re.search(r"Overall exposure level for \S+: ([\d.]+) ", done.stdout)
        assert found, done
        exposed.append(float(found[1]))
    assert exposed[0] < 6 and exposed[1] < 5, exposed


def test_fstab_examples_are_taken_by_mount(unpacked):
    lines = [line.split() for line in (unpacked / "usr/share/doc/tierfs/examples/fstab").read_text().splitlines()
             if line and not line.startswith("#")]
    assert len(lines) >= 3 and all(len(line) == 6 and line[2] == "fuse.tierfs" for line in lines), lines
    listed = must("findmnt", "--fstab", "--tab-file", unpacked / "usr/share/doc/tierfs/examples/fstab", "-n", "-r", "-o", "TARGET")
    assert listed.split() == [line[1] for line in lines]


def test_logrotate_takes_its_configuration(unpacked, folder):
    """It moves the file and leaves the next one to the mount, which makes one (tests/mount/observe/test_log.py): a copy that is
    emptied afterwards would lose the lines in between."""
    text = (unpacked / "etc/logrotate.d/tierfs").read_text()
    assert "nocreate" in text and "copytruncate" not in text
    if not shutil.which("logrotate"):
        pytest.skip("logrotate is not installed")
    logs = folder / "logs"
    logs.mkdir()
    (logs / "mnt-data.log").write_text("one\n")
    configuration = folder / "logrotate.conf"
    configuration.write_text(text.replace("/var/log/tierfs/", f"{logs}/"))
    must("logrotate", "--force", "--state", folder / "logrotate.state", configuration)
    assert (logs / "mnt-data.log.1").read_text() == "one\n" and not (logs / "mnt-data.log").exists()


@pytest.mark.parametrize("line, expected", [
    ("tierfs st", {"status"}),
    ("tierfs u", {"umount", "unpin"}),
    ("tierfs status --j", {"--json"}),
    ("tierfs /data /mnt -o memory.", {"memory.limit="}),
    ("tierfs /data /mnt -o ro,ram.l", {"ro,ram.limit="}),
    ("tierfs /data /mnt -o profile=l", {"profile=large"}),
    ("tierfs /data /mnt -o ro,allow_", {"ro,allow_other", "ro,allow_suid"}),
    ("tierfs-stage ver", {"verify"}),
    ("tierfs-stage verify --fu", {"--full"}),
    ("iobench comp", {"compare"}),
])
def test_bash_completes(unpacked, line, expected):
    words = line.split(" ")
    script = f"""
        . {unpacked}/usr/share/bash-completion/completions/{words[0]}
        COMP_WORDS=({' '.join(words)}) COMP_CWORD={len(words) - 1} COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDBREAKS=' '
        $(complete -p {words[0]} | sed 's/.*-F \\([^ ]*\\) .*/\\1/') {words[0]} '{words[-1]}' '{words[-2]}'
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    env = {**os.environ, "PATH": f"{unpacked}/usr/bin:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=60, check=False, env=env)
    assert set(done.stdout.split()) == expected, done.stdout + done.stderr


def test_installs_mounts_by_one_line_of_fstab_and_leaves_nothing(package, root):
    shutil.copy(package, root.path / "tmp/tierfs.deb")
    root.run("dpkg", "-P", "tierfs")  # of the machine itself, if it has one
    before = root.changed()
    root.must("dpkg", "-i", "/tmp/tierfs.deb")
    assert "tierfs 0" in root.must("tierfs", "--version")
    for name in ("tmp/data", "tmp/mnt"):
        (root.path / name).mkdir()
    (root.path / "tmp/data/file").write_text("hello")
    (root.path / "etc/fstab").write_text("/tmp/data /tmp/mnt fuse.tierfs ro,memory.limit=128M,_netdev,nofail 0 0\n")
    root.must("mount", "/tmp/mnt")
    try:
        assert (root.path / "tmp/mnt/file").read_text() == "hello"
        assert '"read_only": true' in root.must("tierfs", "status", "/tmp/mnt", "--json")
    finally:
        root.must("tierfs", "umount", "/tmp/mnt")
    (root.path / "etc/fstab").unlink()
    assert list((root.path / "var/log/tierfs").iterdir()), "the mount has logged"
    root.must("dpkg", "-r", "tierfs")
    left = {path for path in root.changed() - before if not path.startswith(("/var/lib/dpkg", "/var/log/dpkg", "/var/cache/man",
                                                                             "/root/", "/usr/local/"))}
    assert "/etc/logrotate.d/tierfs" in left, "a configuration file stays until the package is purged"
    assert all(path.startswith(("/etc/logrotate.d/tierfs", "/var/log/tierfs/", "/var/cache/tierfs/")) for path in left), left
    root.must("dpkg", "-P", "tierfs")
    left = {path for path in root.changed() if "tierfs" in path and not path.startswith("/var/lib/dpkg")}
    assert not left, left
    assert not (root.path / "var/log/tierfs").exists() and not (root.path / "var/cache/tierfs").exists()

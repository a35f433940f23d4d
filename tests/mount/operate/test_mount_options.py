"""Options of mount(8), through mount(8) and fstab: each is honoured or refused, and remounting."""

import errno
import os
import subprocess

import pytest

from harness import daemon, data, processes

pytestmark = pytest.mark.release
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.fixture
def fstab(origin, mount, mount_helper, folder):
    """fstab(options) mounts a line of fstab by `mount -a`; .refused(options) returns what is said instead."""
    def prepared(options, source=None):
        m = mount.prepare(source or origin)
        m.path.mkdir()
        data.write(folder / "fstab", f"{m.source} {m.path} fuse.tierfs {options},memory.limit=256M,log.file={m.log} 0 0\n".encode())
        return m, ["mount", "-a", "-T", folder / "fstab"]

    def start(options, source=None):
        m, command = prepared(options, source)
        m.said = m.attempt(command).err
        m.start(["true"])
        started.append(m)
        return m

    def refused(options):
        m, command = prepared(options)
        finished = m.attempt(command)
        assert finished.returncode != 0 and not m.mounted(), finished
        return finished.err

    started = []
    start.refused = refused
    start.file = folder / "fstab"
    yield start
    for m in reversed(started):
        if m.mounted():
            m.umount()  # before the helper goes


def options_of(m):
    info = daemon.mountinfo(m.path)
    return set(info["options"]), set(info["super_options"])


def error_of(call, *arguments):
    with pytest.raises(OSError) as caught:
        call(*arguments)
    return caught.value.errno


def mount_as_is(m, *options):
    """`mount` of a place that no fstab knows."""
    return m.attempt(["mount", "-t", "fuse.tierfs", m.source, m.path, "-o",
                      ",".join([*options, f"memory.limit=256M,log.file={m.log}"])])


@pytest.mark.quick
@pytest.mark.parametrize("word", ["writable", "writable=true", "defaults,writable", "rw,writable"])
def test_fstab_makes_a_writable_mount(fstab, origin, word):
    m = fstab(word)
    assert m.said == ""
    data.write(m.path / "new", b"x")
    assert (origin / "new").read_bytes() == b"x"
    assert m.status()["read_only"] is False


@pytest.mark.parametrize("words,said", [
    ("defaults", "read-only: mount(8) says rw even where nobody asks for it. `writable` makes it writable"),
    ("rw", "read-only: mount(8) says rw even where nobody asks for it. `writable` makes it writable"),
    ("writable,ro", "read-only, since ro is said beside writable"),
    ("writable=yes,ro", "read-only, since ro is said beside writable"),
    ("ro", ""),
])
def test_a_mount_that_is_read_only_says_so(fstab, words, said):
    m = fstab(words)
    assert m.said == (f"tierfs: {m.path}: {said}" + (", `ro` says that read-only is meant" if said.endswith("it writable") else "")
                      + "\n" if said else "")
    assert m.status()["read_only"] is True and error_of(os.mkdir, m.path / "new") == errno.EROFS


def test_mount_by_hand_says_what_rw_is(origin, mount, mount_helper):
    m = mount.prepare(origin)
    finished = mount_as_is(m, "rw")
    m.start(["true"])
    assert finished.returncode == 0 and "`writable` makes it writable" in finished.err
    m.umount()


@pytest.mark.quick
def test_noexec_runs_nothing(fstab, origin):
    data.write(origin / "program", b"#!/bin/sh\nexit 7\n")
    (origin / "program").chmod(0o755)
    m = fstab("ro,noexec")
    assert "noexec" in options_of(m)[0]
    assert error_of(subprocess.run, [m.path / "program"]) == errno.EACCES
    m.umount()
    m = fstab("ro,exec")
    assert subprocess.run([m.path / "program"]).returncode == 7


@pytest.mark.parametrize("word", ["nosuid", "nodev", "noexec", "noatime", "nodiratime", "nosymfollow"])
def test_flags_of_the_mount_are_the_kernels(fstab, word):
    assert word in options_of(fstab(f"ro,allow_suid,{word}"))[0]


def test_flags_of_the_file_system_are_the_kernels(fstab):
    assert options_of(fstab("ro,sync,dirsync"))[1] >= {"sync", "dirsync"}


@pytest.mark.parametrize("words,there,absent", [
    ("user", {"nosuid", "nodev", "noexec"}, set()),
    ("users,exec", {"nosuid", "nodev"}, {"noexec"}),
    ("user,allow_suid", {"nosuid", "nodev", "noexec"}, set()),
    ("owner,allow_suid", {"nosuid", "nodev"}, {"noexec"}),
    ("allow_suid,nosuid", {"nosuid"}, {"nodev"}),
    ("allow_suid", set(), {"nosuid", "nodev", "noexec"}),
])
def test_what_words_of_fstab_imply(fstab, words, there, absent):
    found = options_of(fstab(f"ro,{words}"))[0]
    assert found >= there and not found & absent


@pytest.mark.parametrize("word", ["strictatime", "lazytime", "mand", "iversion", "fsname=x"])
def test_what_cannot_be_honoured_is_refused(fstab, word):
    assert f"option -o {word.split('=')[0]}: {word.split('=')[0]}: it cannot be honoured: " in fstab.refused(f"ro,{word}")


def test_dirsync_of_a_writable_directory_is_refused(fstab):
    assert "dirsync: found on a writable mount of a directory" in fstab.refused("writable,dirsync")


@pytest.mark.quick
def test_remount_read_only_and_back(fstab):
    m = fstab("writable")
    data.write(m.path / "file", b"x")
    by_fstab = ["mount", "-T", fstab.file, m.path, "-o"]
    with open(m.path / "file", "ab"):
        busy = processes.run([*by_fstab, "remount,ro"])
        assert busy.returncode != 0 and "files on it are open for writing" in busy.err
    done = processes.check([*by_fstab, "remount,ro"])
    assert "as they were" not in done.err, "of what is in fstab, and is as it was, nothing need be said"
    assert error_of(os.mkdir, m.path / "new") == errno.EROFS and (m.path / "file").read_bytes() == b"x"
    processes.check([*by_fstab, "remount,rw"])
    data.write(m.path / "file", b"y")
    processes.check(["mount", "-o", "remount,ro,noexec", m.path])  # without fstab, mount(8) takes what is mounted
    assert options_of(m)[0] >= {"ro", "noexec", "nosuid", "nodev"}
    processes.check(["mount", "-o", "remount,rw,exec", m.path])
    assert not options_of(m)[0] & {"ro", "noexec"} and options_of(m)[0] >= {"nosuid", "nodev"}


def test_remount_says_which_settings_stay(fstab):
    m = fstab("ro")
    done = processes.check(["mount", "-o", "remount,ro,noexec,memory.limit=111M,log.level=debug", m.path])
    assert "as they were: memory.limit, log.level" in done.err and "noexec" in options_of(m)[0]


def test_remount_says_why_not(fstab, mount_helper):
    m = fstab("ro")
    refused = processes.run(["mount", "-o", "remount,rw", m.path])
    assert refused.returncode != 0 and "was mounted read-only and is so for its life" in refused.err
    refused = processes.run(["mount", "-o", "remount,strictatime", m.path])
    assert refused.returncode != 0 and "strictatime: it cannot be honoured" in refused.err
    refused = processes.run(["mount", "-o", "remount,dirsync", m.path])
    assert refused.returncode != 0 and "dirsync is for the life of a mount" in refused.err
    assert options_of(m)[0] >= {"ro", "relatime"}
    direct = processes.run([daemon.BINARY, m.source, m.path, "-o", "remount,ro"])
    assert direct.returncode == 2 and "through mount(8)" in direct.err


def test_suid_without_allow_suid_is_told(origin, mount):
    m = mount.prepare(origin, {"suid": None})
    finished = m.attempt()
    m.start(["true"])
    assert f"tierfs: {m.path}: nosuid: suid is honoured beside allow_suid alone\n" == finished.err
    assert "nosuid" in options_of(m)[0]


def test_name_space_of_mount_is_refused(folder):
    (folder / "mount.fuse.tierfs").symlink_to(daemon.BINARY)
    finished = processes.run([folder / "mount.fuse.tierfs", "/", folder, "-N", "/proc/1/ns/mnt", "-o", "ro"])
    assert finished.returncode == 1 and "nsenter --mount=/proc/1/ns/mnt" in finished.err


def test_users_are_told_of_allow_other(origin, mount):
    m = mount.prepare(origin, {"allow_other": None})
    m.folder.chmod(0o777)
    m.path.mkdir()
    os.chown(m.path, 65534, 65534)
    with processes.fuse_for_all():
        finished = m.attempt([*AS_NOBODY, *m.command()])
    assert finished.returncode == 1 and "option allow_other only allowed if 'user_allow_other' is set" in finished.err
    assert "leave allow_other out" in finished.err


def test_users_are_told_of_the_device(origin, mount):
    m = mount.prepare(origin)
    m.folder.chmod(0o777)
    m.path.mkdir()
    os.chown(m.path, 65534, 65534)
    script = "mknod fuse c 10 229; chmod 600 fuse; mount --bind fuse /dev/fuse; exec \"$@\""
    finished = m.attempt(["unshare", "--mount", "sh", "-c", f"cd {m.folder}; {script}", "sh", *AS_NOBODY, *m.command()])
    assert finished.returncode == 1 and "/dev/fuse cannot be opened: Permission denied: mount as root" in finished.err
    finished = m.attempt(["unshare", "--mount", "sh", "-c", "mount --bind /dev/null /dev/fuse; umount /dev/fuse; "
                          "mount -t tmpfs none /dev; exec \"$@\"", "sh", *m.command()])
    assert finished.returncode == 1 and "modprobe fuse" in finished.err

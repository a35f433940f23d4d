"""A mount whose processes are gone stays where it is: what is asked of it fails with ENOTCONN, nothing goes to the directory
below it, and the next start replaces it."""

import contextlib
import ctypes
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness import daemon, data, processes

pytestmark = pytest.mark.release

BY_DAEMON = {"writes.passthrough": "false"}  # else a descriptor goes on without the daemon
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
HOW = ["daemon", "supervisor", "daemon first", "supervisor first", "both at once"]


def mounts_on(path):
    """Types of the mounts on exactly that path, the topmost last."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[4] == str(path):
            found.append(right.split()[0])
    return found


def error_of(call, *arguments):
    with pytest.raises(OSError) as caught:
        call(*arguments)
    return caught.value.errno


def close(handle):
    """Of a file on a dead mount: the descriptor is gone in any case."""
    with contextlib.suppress(OSError):
        os.close(handle)


def pids_of(m):
    status = m.status()
    return status["supervisor_pid"], status["pid"]


def kill(m, how):
    """kill -9, and waits until nothing of the mount runs."""
    supervisor, serving = pids_of(m)
    if how == "both at once":
        processes.kill([supervisor, serving], signal.SIGSTOP)
    order = {"daemon": [serving], "supervisor": [supervisor], "daemon first": [serving, supervisor],
             "supervisor first": [supervisor, serving],
             # The supervisor last: its end would wake a stopped child (SIGHUP and SIGCONT to an orphaned process group).
             "both at once": [serving, supervisor]}[how]
    processes.kill(order)
    processes.wait_until(lambda: not m.processes(), timeout=60, what="the processes of the mount end")
    if len(order) == 2 and m.mounted():  # a call that meets the very end of the connection is ended by it
        processes.wait_until(lambda: error_of(os.listdir, m.path) != errno.ECONNABORTED, what="the connection has ended")
    m.killed = True


@pytest.fixture
def beneath(folder):
    """beneath(path): another way to the directory at that path, that what is mounted there later does not cover."""
    made = []

    def bind(path):
        place = folder / f"beneath{len(made)}"
        place.mkdir()
        processes.check(["mount", "--bind", path, place])
        made.append(place)
        processes.check(["mount", "--make-private", place])
        return place
    yield bind
    for place in made:
        processes.check(["umount", place])


@pytest.fixture(params=["directory", "s3", "nfs"])
def source(request, origin):
    """What is mounted writable: (SOURCE, options, environment)."""
    if request.param == "s3":
        bucket = request.getfixturevalue("rgw_bucket")
        return bucket.source(), bucket.options({"rw": None}), bucket.env
    if request.param == "nfs":
        return request.getfixturevalue("exported").url(), {"rw": None}, None
    return origin, {"rw": None, **BY_DAEMON}, None


def expect_dead(m):
    assert m.mounted(), f"the mount point is bare\n{m.log_tail()}"
    for call in (os.listdir, os.statvfs):
        assert error_of(call, m.path) == errno.ENOTCONN
    checkpoint = m.path / "checkpoint"
    for call in (os.stat, os.mkdir, os.unlink):
        assert error_of(call, checkpoint) == errno.ENOTCONN
    assert error_of(open, checkpoint, "wb") == errno.ENOTCONN
    written = processes.run(["sh", "-c", f"echo lost > {checkpoint}"])
    assert written.returncode != 0 and "not connected" in written.err, written


@pytest.mark.parametrize("how", HOW)
def test_writable_mount_stays_and_is_replaced(mount, source, beneath, how):
    where, options, env = source
    m = mount.prepare(where, options, env=env)
    m.path.mkdir()
    below = beneath(m.path)
    m.start()
    (m.path / "before").write_bytes(b"before")
    handle = os.open(m.path / "open", os.O_CREAT | os.O_WRONLY)
    os.write(handle, b"x")
    kill(m, how)
    expect_dead(m)
    assert error_of(os.write, handle, b"y") == errno.ENOTCONN
    finished = m.attempt()
    assert finished.returncode == 0, f"{finished}\n{m.log_tail()}"
    assert f"replaced a dead mount on {m.path}" in finished.err
    assert mounts_on(m.path) == ["fuse.tierfs"]
    m.device, m.killed = daemon.mountinfo(m.path)["device"], False
    assert (m.path / "before").read_bytes() == b"before"
    (m.path / "after").write_bytes(b"after")
    assert error_of(os.write, handle, b"z") == errno.ENOTCONN, "of the dead mount"
    assert error_of(os.fsync, handle) == errno.ENOTCONN
    close(handle)
    assert not os.listdir(below)
    m.umount()
    assert mounts_on(m.path) == [] and not os.listdir(below)


# Goes on by path, as a trainer that tries to save its checkpoint again and again.
PERSISTENT = r"""
import errno, os, sys, time
print("ready", flush=True)
begun = time.monotonic()
while time.monotonic() < begun + 600:
    try:
        os.close(os.open(sys.argv[1] + "/checkpoint", os.O_CREAT | os.O_WRONLY))
        break
    except OSError as error:
        assert error.errno == errno.ENOTCONN, error
"""


def test_nothing_lands_beneath_while_it_is_replaced(mount, origin, beneath):
    """Linux 6.5 mounts beneath the dead mount, and then takes that one away."""
    m = mount.prepare(origin, {"rw": None, **BY_DAEMON})
    m.path.mkdir()
    below = beneath(m.path)
    m.start()
    for _ in range(5):
        kill(m, "both at once")
        writers = [subprocess.Popen([sys.executable, "-c", PERSISTENT, str(m.path)], stdout=subprocess.PIPE, text=True)
                   for _ in range(2)]
        try:
            assert [writer.stdout.readline() for writer in writers] == ["ready\n"] * 2
            m.start()
            assert [writer.wait(60 * processes.SLOWNESS) for writer in writers] == [0, 0]
        finally:
            for writer in writers:
                writer.kill()
                writer.stdout.close()
        assert not os.listdir(below) and (origin / "checkpoint").exists()
        os.unlink(m.path / "checkpoint")
        info = daemon.mountinfo(m.path)
        assert mounts_on(m.path) == ["fuse.tierfs"] and info["source"] == str(origin)
        assert {"nosuid", "nodev", "rw"} <= set(info["options"]) and "default_permissions" in info["super_options"]
        m.killed = False


def test_options_of_what_replaces_a_dead_mount(mount, origin):
    """They are those of any mount."""
    m = mount(origin, {"allow_other": None})
    before = daemon.mountinfo(m.path)
    kill(m, "both at once")
    m.start()
    after = daemon.mountinfo(m.path)
    assert {**before, "device": after["device"]} == after


@pytest.mark.parametrize("how", HOW[2:])
def test_readonly_mount_is_replaced(mount, origin, how):
    """Where both are killed. Whoever was quick enough has unmounted it."""
    files = data.make_files(origin, 5, 3000)
    m = mount(origin)
    kill(m, how)
    if how == "both at once":
        assert m.mounted() and error_of(os.listdir, m.path) == errno.ENOTCONN
    m.start()
    assert mounts_on(m.path) == ["fuse.tierfs"]
    data.expect_files(m.path, files)


def test_cache_of_a_dead_mount_is_taken_up(mount, origin, cache):
    files = data.make_files(origin, 20, 3000)
    m = mount(origin, {"rw": None, **cache})
    data.expect_files(m.path, files)
    for how in ("daemon", "both at once"):
        kill(m, how)
        m.start()
        data.expect_files(m.path, files)


def test_what_is_told_of_a_dead_mount(mount, origin):
    data.write(origin / "file", b"x")
    m = mount(origin, {"rw": None})
    kill(m, "daemon")
    again = f"`tierfs {origin} {m.path} -o rw`"
    for words in (["status", m.path], ["status", m.path, "--json"], ["doctor", m.path, "--seconds", "1"],
                  ["top", m.path, "--once"], ["trace", m.path, "--seconds", "1"], ["warm", m.path],
                  ["warm", m.path / "folder"], ["class", m.path, "/**", "hot"], ["reload", m.path]):
        finished = processes.run([daemon.BINARY, *words], env=m.env)
        assert finished.returncode == 1 and not finished.out, finished
        assert f"{m.path} is a dead mount" in finished.err and "ENOTCONN" in finished.err, finished
        assert again in finished.err and f"`tierfs umount {m.path}`" in finished.err, finished
    link = m.folder / "link"
    link.symlink_to(m.path)
    assert "dead mount" in processes.run([daemon.BINARY, "status", link], env=m.env).err
    told = re.search(r"`(tierfs .* -o rw)`", finished.err).group(1).split()
    m.killed = False
    m.start([daemon.BINARY, *told[1:3], "-o", f"rw,memory.limit=256M,log.file={m.log}"])
    assert processes.run([daemon.BINARY, "status", m.path], env=m.env).returncode == 0


@pytest.mark.parametrize("flags", [[], ["--dead"], ["--lazy"]])
def test_umount_takes_a_dead_mount_away(mount, origin, flags):
    m = mount(origin, {"rw": None, **BY_DAEMON})
    handle = os.open(m.path / "file", os.O_CREAT | os.O_WRONLY)
    kill(m, "daemon")
    processes.check([daemon.BINARY, "umount", *flags, m.path], env=m.env)
    assert not m.mounted()
    assert error_of(os.write, handle, b"x") == errno.ENOTCONN
    close(handle)


def test_umount_dead_leaves_what_lives(mount, origin):
    m = mount(origin, {"rw": None})
    processes.check([daemon.BINARY, "umount", "--dead", m.path], env=m.env)
    assert m.status()["mountpoint"] == str(m.path)
    m.umount()
    processes.check([daemon.BINARY, "umount", "--dead", m.path], env=m.env)


@pytest.mark.parametrize("how", ["umount", "tierfs umount", "SIGTERM", "SIGTERM to the supervisor"])
def test_a_writable_mount_that_is_ended_is_gone(mount, origin, how):
    m = mount(origin, {"rw": None})
    supervisor, serving = pids_of(m)
    if how.startswith("SIGTERM"):
        os.kill(supervisor if "supervisor" in how else serving, signal.SIGTERM)
    else:
        processes.check([*how.replace("tierfs", str(daemon.BINARY)).split(), m.path])
    processes.wait_until(lambda: not m.mounted(), what="the mount ends")
    m.expect_gone()


def test_a_mount_that_lives_is_not_replaced(mount, origin, folder):
    m = mount(origin, {"rw": None})
    finished = processes.run([daemon.BINARY, origin, m.path, "-o", "rw"], env=m.env)
    assert finished.returncode == 1 and "already" in finished.err, finished
    assert mounts_on(m.path) == ["fuse.tierfs"] and m.status()["pid"]


@pytest.mark.parametrize("before", ["bare", "dead"])
def test_of_two_starts_one_mounts(mount, origin, before):
    m = mount.prepare(origin, {"rw": None})
    m.path.mkdir()
    for _ in range(3):
        if before == "dead":
            m.start()
            kill(m, "both at once")
        starts = [subprocess.Popen(m.command(), env=m.env, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        said = [start.communicate(timeout=60 * processes.SLOWNESS)[1] for start in starts]
        assert sorted(start.returncode for start in starts) == [0, 1, 1], said
        assert sum("already" in each for each in said) == 2, said
        assert mounts_on(m.path) == ["fuse.tierfs"]
        m.device, m.killed = daemon.mountinfo(m.path)["device"], False
        processes.wait_until(lambda: len(m.processes()) == 2, what="the others end")
        m.umount()


def test_connection_that_is_ended_from_outside(mount, origin, folder):
    """/sys/fs/fuse/connections/N/abort: nobody asked for the mount's end."""
    m = mount(origin, {"rw": None})
    control = folder / "control"
    control.mkdir()
    processes.check(["mount", "-t", "fusectl", "none", control])
    try:
        (control / m.device.partition(":")[2] / "abort").write_text("1")
    finally:
        processes.check(["umount", control])
    processes.wait_until(lambda: not m.processes(), timeout=60, what="its processes end")
    expect_dead(m)
    m.start()
    (m.path / "file").write_bytes(b"x")


def mount_fuse(path, kind, options=""):
    """A FUSE mount of this process, that answers nothing: its descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0{options}"
    if libc.mount(b"somewhere", os.fsencode(path), kind.encode(), 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    return device


def test_dead_mounts_upon_each_other(mount, origin):
    m = mount.prepare(origin, {"rw": None})
    m.path.mkdir()
    for _ in range(4):
        os.close(mount_fuse(m.path, "fuse.tierfs"))
    assert len(mounts_on(m.path)) == 4
    finished = m.attempt()
    assert finished.returncode == 0 and "replaced 4 dead mounts" in finished.err, finished
    assert mounts_on(m.path) == ["fuse.tierfs"]
    m.device = daemon.mountinfo(m.path)["device"]
    (m.path / "file").write_bytes(b"x")


def test_dead_mount_of_another_type_is_refused(mount, origin):
    m = mount.prepare(origin, {"rw": None})
    m.path.mkdir()
    os.close(mount_fuse(m.path, "fuse.other"))
    try:
        finished = m.attempt()
        assert finished.returncode == 1 and "dead mount of type fuse.other" in finished.err, finished
        assert f"umount {m.path}" in finished.err
        assert mounts_on(m.path) == ["fuse.other"]
        for words in (["umount", m.path], ["status", m.path]):
            assert "fuse.other" in processes.run([daemon.BINARY, *words], env=m.env).err
    finally:
        processes.check(["umount", m.path])


def test_mount_that_does_not_answer_is_not_dead(mount, origin):
    """Its daemon may come to: nobody can tell, so it is left alone."""
    m = mount.prepare(origin, {"rw": None})
    m.path.mkdir()
    m.place = m.path.resolve()  # this process must not ask the mount: nobody would ever answer
    device = mount_fuse(m.path, "fuse.tierfs")
    try:
        finished = m.attempt(timeout=60)
        assert finished.returncode == 1 and "already" in finished.err, finished
        processes.check([daemon.BINARY, "umount", "--dead", m.path], env=m.env)
        assert "dead" not in processes.run([daemon.BINARY, "status", m.path], env=m.env).err
        assert mounts_on(m.path) == ["fuse.tierfs"]
    finally:
        os.close(device)
        processes.check(["umount", m.path])


@pytest.mark.parametrize("how", ["-t", "fstab"])
def test_mount_replaces_a_dead_mount(origin, mount, mount_helper, folder, how):
    m = mount.prepare(origin)
    m.path.mkdir()
    (folder / "writable.yaml").write_text("ro: false\n")
    options = f"config={folder}/writable.yaml,memory.limit=256M,log.file={m.log}"
    data.write(folder / "fstab", f"{origin} {m.path} fuse.tierfs {options},_netdev 0 0\n".encode())
    command = {"-t": ["mount", "-t", "fuse.tierfs", origin, m.path, "-o", options],
               "fstab": ["mount", "-T", folder / "fstab", m.path]}[how]
    m.start(command)
    (m.path / "before").write_bytes(b"before")
    kill(m, "both at once")
    processes.check(["mount", "-T", folder / "fstab", "-a"])  # passes over what is in mountinfo: the helper is not called
    expect_dead(m)
    finished = m.attempt(command)
    assert finished.returncode == 0, finished
    assert (m.path / "before").read_bytes() == b"before" and mounts_on(m.path) == ["fuse.tierfs"]
    m.device, m.killed = daemon.mountinfo(m.path)["device"], False
    m.umount()  # before the helper goes


@pytest.mark.skipif(not shutil.which("fusermount3"), reason="fusermount3 (Debian's fuse3) is not installed")
def test_without_privileges(mount, origin, fuse_for_all):
    """fusermount3 takes the dead mount away; root learns of it, too, though it may not look into the mount."""
    os.chown(origin, 65534, 65534)
    m = mount.prepare(origin, {"rw": None})
    m.path.mkdir()
    for path in (m.folder, m.path):
        os.chown(path, 65534, 65534)
    command = [*NOBODY, *m.command()]
    m.start(command)
    pids = processes.check([*NOBODY, daemon.BINARY, "status", m.path, "--json"], env=m.env).out
    processes.kill([int(re.search(r'"pid": (\d+)', pids).group(1))])
    processes.wait_until(lambda: not m.processes(), what="its processes end")
    m.killed = True
    for user in (NOBODY, []):
        told = processes.run([*user, daemon.BINARY, "status", m.path], env=m.env)
        assert told.returncode == 1 and f"{m.path} is a dead mount" in told.err, told
    finished = m.attempt(command)
    assert finished.returncode == 0 and "replaced a dead mount" in finished.err, finished
    assert mounts_on(m.path) == ["fuse.tierfs"]
    processes.check([*NOBODY, "sh", "-c", f"echo x > {m.path}/file"])
    assert (origin / "file").read_bytes() == b"x\n"
    processes.check([*NOBODY, daemon.BINARY, "umount", m.path], env=m.env)


def commands_of_unit(kind):
    text = (daemon.REPOSITORY / "packaging/deb/tierfs@.service").read_text()
    return re.findall(rf"^{kind}=(.*)$", text, re.M)


def run_as_unit(kind, m, result):
    """What the service manager runs, with its variables."""
    for line in commands_of_unit(kind):
        line = line.replace("/usr/bin/tierfs", str(daemon.BINARY)).replace("%i", "name").replace("$$", "$")
        words = re.findall(r"'([^']*)'|(\S+)", line.replace("${MOUNTPOINT}", str(m.path)))
        processes.check([one or other for one, other in words],
                        env={**m.env, "MOUNTPOINT": str(m.path), "SOURCE": str(m.source), "SERVICE_RESULT": result})


@pytest.mark.parametrize("result", ["signal", "success"])
def test_unit(mount, origin, result):
    """After a failure the dead mount stays until the next start, whatever the unit runs in between; a unit that was
    stopped leaves none."""
    m = mount(origin, {"rw": None})
    kill(m, "both at once")
    assert commands_of_unit("ExecStopPost") and commands_of_unit("Restart") == ["on-failure"]
    if result == "signal":
        run_as_unit("ExecStop", m, result)
    run_as_unit("ExecStopPost", m, result)
    if result == "signal":
        expect_dead(m)
    else:
        assert not m.mounted()
    with subprocess.Popen([*m.command(), "-f"], env=m.env) as process:
        processes.wait_until(lambda: processes.run([daemon.BINARY, "status", m.path], env=m.env).returncode == 0,
                             what="it serves again")
        assert mounts_on(m.path) == ["fuse.tierfs"]
        m.device, m.killed = daemon.mountinfo(m.path)["device"], False
        run_as_unit("ExecStop", m, "success")
        assert process.wait(daemon.STOP_LIMIT * processes.SLOWNESS) == 0
    run_as_unit("ExecStopPost", m, "success")
    assert mounts_on(m.path) == []

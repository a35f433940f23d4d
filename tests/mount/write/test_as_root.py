"""A daemon that is root serves users that are not: on the mount they may what they may in the directory itself.

What a test does as somebody it does in the directory, too, by the same program, and both come out alike."""

import errno
import json
import mmap
import os
import re
import shutil
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from harness import data, disks, processes
from test_write import NOBODY

both = pytest.mark.parametrize("way", ["true", "false"])

# Ways to change a file that is there. Each leaves a program that can be run, but for the one that cuts it to nothing.
CHANGES = r"""
import ctypes, json, mmap, os, stat, subprocess, sys, time
LIBC = ctypes.CDLL(None, use_errno=True)

def opened(flags, change):
    def way(path):
        handle = os.open(path, flags)
        try:
            change(handle)
        finally:
            os.close(handle)
    return way

def write(handle):
    assert os.pwrite(handle, b"\x7f", 0) == 1

def write_directly(handle):
    with mmap.mmap(-1, 4096) as page:
        assert os.preadv(handle, [page], 0) == 4096 and os.pwritev(handle, [page], 0) == 4096

def allocate(handle):
    assert LIBC.fallocate(handle, 1, ctypes.c_long(0), ctypes.c_long(4096)) == 0

def copy(handle):
    assert os.copy_file_range(handle, handle, 100, 0, os.fstat(handle).st_size + 4096) == 100

def write_mapped(handle):
    with mmap.mmap(handle, 0) as mapped:
        mapped[0:1] = mapped[0:1]

CHANGES = {
    "write": opened(os.O_RDWR, write), "write only": opened(os.O_WRONLY, write),
    "append": opened(os.O_WRONLY | os.O_APPEND, lambda handle: os.write(handle, b"x")),
    "direct": opened(os.O_RDWR | os.O_DIRECT, write_directly), "allocate": opened(os.O_RDWR, allocate),
    "ftruncate": opened(os.O_RDWR, lambda handle: os.ftruncate(handle, os.fstat(handle).st_size + 1)),
    "truncate": lambda path: os.truncate(path, os.stat(path).st_size + 1), "copy": opened(os.O_RDWR, copy),
    "mapping": opened(os.O_RDWR, write_mapped), "cut": opened(os.O_WRONLY | os.O_TRUNC, lambda handle: None),
    "chown": lambda path: os.chown(path, -1, -1),
}

def mode_of(path):
    return oct(stat.S_IMODE(os.stat(path).st_mode))
"""

NAMES = ["write", "write only", "append", "direct", "allocate", "ftruncate", "truncate", "copy", "mapping", "cut", "chown"]


@pytest.fixture
def native(folder):
    """A directory beside the origin, of the same file system."""
    path = folder / "native"
    path.mkdir()
    os.chmod(path, 0o777)
    return path


@pytest.fixture
def show(origin, mount):
    def start(way="auto", source=origin, **options):
        os.chmod(source, 0o777)
        return mount(source, {"rw": None, "allow_other": None, "allow_suid": None, "metadata.ttl": "1h",
                              "writes.passthrough": way, **options})
    return start


def acts(script, cwd, *arguments, uid=NOBODY, gid=NOBODY, groups=()):
    """The JSON that a script in Python prints that runs as somebody in a folder."""
    done = subprocess.run(["/usr/bin/python3", "-c", CHANGES + script, *arguments], cwd=cwd, check=False, user=uid, group=gid,
                          extra_groups=groups, capture_output=True, text=True, timeout=60 * processes.SLOWNESS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def make_program(path, mode, uid=0, gid=0):
    shutil.copyfile("/usr/bin/id", path)
    os.chown(path, uid, gid)
    os.chmod(path, mode)
    assert stat.S_IMODE(os.stat(path).st_mode) == mode


CHANGE_AND_RUN = """
found = {}
for name, change in CHANGES.items():
    try:
        change(name)  # a change of the owner is not his to make
        user = subprocess.run(["./" + name, "-u"], capture_output=True, text=True).stdout.strip()
    except OSError as error:
        user = error.strerror
    found[name] = user, mode_of(name)
print(json.dumps(found))
"""


@both
@pytest.mark.release
def test_nobody_runs_what_he_has_written_as_its_owner(native, origin, show, way):
    m = show(way)
    for place in (native, m.path):
        for name in NAMES:
            make_program(place / name, 0o4777)
    expected = acts(CHANGE_AND_RUN, native)
    assert expected["write only"] == [str(NOBODY), "0o777"] == expected["direct"]
    assert acts(CHANGE_AND_RUN, m.path) == expected
    for name in NAMES:
        assert os.stat(origin / name).st_mode == os.stat(native / name).st_mode, name


def test_nobody_runs_what_he_has_written_at_the_directory_as_its_owner(origin, show):
    """The mount knows nothing of it."""
    m = show()
    make_program(m.path / "program", 0o4777)
    script = """
before = subprocess.run([sys.argv[2], "-u"], capture_output=True, text=True).stdout.strip()
CHANGES["write"](sys.argv[1])
print(json.dumps([before, subprocess.run([sys.argv[2], "-u"], capture_output=True, text=True).stdout.strip()]))
"""
    assert acts(script, "/", origin / "program", m.path / "program") == ["0", str(NOBODY)]


def test_bits_that_a_file_gets_while_it_is_open_for_writing(native, origin, show):
    """The kernel writes it by itself, and goes on."""
    m = show("true")
    found = []
    for place in (native, m.path):
        make_program(place / "program", 0o777)
        script = """
handle = os.open("program", os.O_WRONLY)
write(handle)
print("open", flush=True)
sys.stdin.readline()
write(handle)
os.close(handle)
print(subprocess.run(["./program", "-u"], capture_output=True, text=True).stdout.strip(), mode_of("program"))
"""
        with subprocess.Popen(["/usr/bin/python3", "-c", CHANGES + script], cwd=place, user=NOBODY, group=NOBODY,
                              extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
            try:
                assert writer.stdout.readline() == "open\n"
                os.chmod(place / "program", 0o4777)
                found.append(writer.communicate("\n", timeout=60)[0])
            finally:
                writer.kill()
    assert found[0] == found[1] == f"{NOBODY} 0o777\n"
    assert stat.S_IMODE(os.stat(origin / "program").st_mode) == 0o777


MODES = [0o4777, 0o6777, 0o2777, 0o2767, 0o6767, 0o6766]
CALLERS = {"root": {"uid": 0, "gid": 0}, "member": {"uid": 4000, "gid": 4321}, "further": {"uid": 4000, "gid": 4000, "groups": [4321]},
           "stranger": {"uid": 4000, "gid": 4000}}


@both
@pytest.mark.parametrize("caller", CALLERS)
def test_bits_after_a_change_are_as_natively(native, origin, show, way, caller):
    """xfstests generic/193, 355 and 683 to 685: without group execute the set-group-ID bit stays for members of the group."""
    m = show(way)
    script = """
found = {}
for mode in sys.argv[1:]:
    for name, change in CHANGES.items():
        change(mode + name)
        found[mode + name] = mode_of(mode + name)
print(json.dumps(found))
"""
    for place in (native, m.path):
        for mode in MODES:
            for name in NAMES:
                data.write(place / f"{mode}{name}", bytes(4096))
                os.chown(place / f"{mode}{name}", 4000, 4321)
                os.chmod(place / f"{mode}{name}", mode)
    expected = acts(script, native, *map(str, MODES), **CALLERS[caller])
    assert acts(script, m.path, *map(str, MODES), **CALLERS[caller]) == expected
    for path in native.iterdir():
        assert os.stat(origin / path.name).st_mode == path.stat().st_mode, path.name


def test_lists_and_modes_set_by_owners_outside_the_group(native, origin, show):
    """xfstests generic/375."""
    script = r"""
def acl(*entries):
    return b"\x02\0\0\0" + b"".join(tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + b"\xff" * 4
                                   for tag, bits in entries)
found = {}
for name in ("file", "folder"):
    os.chmod(name, 0o2755)
    found[name + " chmod"] = mode_of(name)
for name in ("file2", "folder2"):
    os.setxattr(name, "system.posix_acl_access", acl((1, 7), (4, 5), (32, 4)))
    found[name + " list"] = mode_of(name)
os.chown("file3", -1, os.getgid())
found["chgrp"] = mode_of("file3")
print(json.dumps(found))
"""
    m = show()
    for caller in CALLERS.values():
        found = []
        for place in (native, m.path):
            for name in ("file", "file2", "file3", "folder", "folder2"):
                path = place / name
                if path.is_dir():
                    path.rmdir()
                path.unlink(missing_ok=True)
                path.mkdir() if name.startswith("folder") else path.touch()
                os.chown(path, 4000, 4321)
                os.chmod(path, 0o2745)
            try:
                os.setxattr(place / "file", "system.posix_acl_access", b"")
            except OSError as error:
                if error.errno == errno.EOPNOTSUPP:
                    pytest.skip("the file system below has no access control lists")
            found.append(acts(script, place, **caller))
        assert found[0] == found[1], caller
        for name in found[0]:
            file = name.split()[0] if name != "chgrp" else "file3"
            assert os.stat(origin / file).st_mode == os.stat(native / file).st_mode, (caller, file)


@pytest.fixture
def reserved(folder):
    """ext4 with blocks that are root's alone."""
    with disks.Ext4(folder, options=["-m", "40"]) as disk:
        os.chmod(disk.path, 0o777)
        yield disk


FILL = """
def fill(name, take):
    taken = 0
    with open(name, "wb", buffering=0) as file:
        try:
            while True:
                taken += take(file.fileno(), taken)
        except OSError as error:
            return error.errno
ways = {"write": lambda handle, at: os.pwrite(handle, bytes(1 << 16), at),
        "allocate": lambda handle, at: os.posix_fallocate(handle, at, 1 << 16) or 1 << 16}
found = {}
at_first = os.statvfs(".").f_bavail
for name, take in ways.items():
    error = fill("file", take)
    room = os.statvfs(".")
    try:
        for number in range(1000):
            os.mkdir(f"folder{number}")
        made = "all"
    except OSError as code:
        made = code.errno
    found[name] = error, room.f_bavail * room.f_bsize < 1 << 17, room.f_bfree * room.f_bsize > 10 << 20, made
    for number in range(1000):
        if os.path.exists(f"folder{number}"):
            os.rmdir(f"folder{number}")
    os.unlink("file")
    until = time.monotonic() + 20  # the daemon closes it a moment later
    while os.statvfs(".").f_bavail < at_first - 64 and time.monotonic() < until:
        time.sleep(0.01)
print(json.dumps(found))
"""


@both
@pytest.mark.release
def test_blocks_reserved_for_root_are_not_everybodys(reserved, show, way):
    m = show(way, source=reserved.path)
    expected = acts(FILL, reserved.path)
    assert expected["write"][:3] == [errno.ENOSPC, True, True], "the disk is large enough to tell"
    assert acts(FILL, m.path) == expected
    # Root has them; but where the kernel writes by itself, as nobody in particular.
    found = acts(FILL, m.path, uid=0, gid=0)
    assert found["write"][2] == (way == "true") and not found["allocate"][2], found


def test_one_users_files_do_not_take_all_descriptors(origin, mount):
    """The control socket answers all the time."""
    os.chmod(origin, 0o777)
    for number in range(600):
        data.write(origin / str(number), b"x")
    m = mount.prepare(origin, {"rw": None, "allow_other": None, "writes.passthrough": "false"})
    m.start(["prlimit", "--nofile=200:800", *m.command()])
    limits = Path(f"/proc/{m.status()['pid']}/limits").read_text()
    assert re.search(r"Max open files +800 +800", limits), "raised to what may be had"
    many = """
held = []
try:
    for number in range(int(sys.argv[1]), 600):
        held.append(os.open(str(number), os.O_RDONLY))
    print("all", flush=True)
except OSError as error:
    print(len(held), error.errno, flush=True)
sys.stdin.readline()
"""
    users = []
    try:
        for uid in (4000, 4001):
            users.append(subprocess.Popen(["/usr/bin/python3", "-c", CHANGES + many, "0"], cwd=m.path, user=uid, group=uid,
                                          extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            opened, code = map(int, users[-1].stdout.readline().split())
            assert code == errno.ENFILE and opened > 50, (uid, opened, code)
            assert m.status()["pid"]
        (m.path / "of root").write_bytes(b"x")
        assert acts("print(json.dumps(open('1').read()))", m.path, uid=4002, gid=4002) == "x"
        log = m.log.read_text()
        assert log.count("user 4000 has") == 1 and log.count("user 4001 has") == 1, log
        # Root is not held back, but for what the daemon needs itself.
        handles = []
        try:
            with pytest.raises(OSError) as caught:
                for number in range(600):
                    handles.append(os.open(m.path / str(number), os.O_RDONLY))
            assert caught.value.errno in (errno.EMFILE, errno.ENFILE)
            assert m.status()["pid"]
        finally:
            for handle in handles:
                os.close(handle)
        users[0].communicate("\n", timeout=60)
        assert acts("print(json.dumps([open('1').read() for _ in range(9)]))", m.path, uid=4000, gid=4000) == ["x"] * 9
    finally:
        for user in users:
            user.kill()
            user.communicate()


@pytest.fixture
def asked(folder):
    """A file system that knows who asks for attributes: asked() is what was asked for since the last time."""
    place = folder / "asked"
    place.mkdir()
    lines = []
    with subprocess.Popen(["/usr/bin/python3", Path(__file__).parent.parent / "harness/asked.py", place], stdout=subprocess.PIPE,
                          text=True) as server:
        try:
            assert server.stdout.readline() == "serving\n"
            reader = threading.Thread(target=lambda: lines.extend(map(json.loads, server.stdout)))
            reader.start()
            yield place, lines
        finally:
            processes.run(["umount", "-l", place])
            try:
                server.wait(timeout=20)
            finally:
                server.kill()
            reader.join()


def test_attributes_of_the_system_are_asked_for_as_the_caller(asked, show):
    """Lists of NFSv4 and the like: the directory's file system decides who may, and it is to know who asks."""
    place, lines = asked
    m = show("false", source=place)
    script = """
def tried(call, *arguments):
    try:
        answer = call("file", *arguments)
        return answer.decode() if isinstance(answer, bytes) else answer
    except OSError as error:
        return error.errno
print(json.dumps([tried(os.getxattr, "system.stub"), tried(os.setxattr, "system.stub", b"mine"), tried(os.getxattr, "system.stub"),
                  tried(os.listxattr), tried(os.removexattr, "system.stub"), tried(os.getxattr, "user.plain"),
                  tried(os.getxattr, "system.none")]))
"""
    for uid in (4000, 4001, 0):
        expected = acts(script, place, uid=uid, gid=uid)
        if uid == 4001:
            assert expected[:2] == [errno.EPERM, errno.EPERM] and expected[3] == ["user.plain"]
        os.setxattr(place / "file", "system.stub", b"made")
        processes.wait_until(lambda: lines and lines[-1] == [0, 21, "system.stub"], what="that is told of")
        lines.clear()
        assert acts(script, m.path, uid=uid, gid=uid) == expected, uid
        processes.wait_until(lambda: [uid, 22, "system.none"] in lines, what="the last of them")
        assert {user for user, _, name in lines if name.startswith("system.") and "posix_acl" not in name} == {uid}, lines
        os.setxattr(place / "file", "system.stub", b"made")


@both
def test_times_after_a_change_through_a_mapping(native, origin, show, way):
    """FUSE tells the daemon nothing of a store to a page, and the kernel keeps no time of its own for it."""
    m = show(way)
    for place in (native, m.path):
        path = place / "file"
        path.write_bytes(bytes(8192))
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            before = os.stat(path)
            time.sleep(0.05)
            mapped[0:1] = b"x"
            if way == "false" and place == m.path:
                mapped.flush()
            processes.wait_until(lambda: os.stat(path).st_mtime_ns > before.st_mtime_ns and
                                 os.stat(path).st_ctime_ns > before.st_ctime_ns, timeout=1, what="the times have moved")
            if way == "false" and place == m.path:
                before = os.stat(path)
                time.sleep(0.05)
                mapped[0:1] = b"y"
        processes.wait_until(lambda: os.stat(path).st_mtime_ns > before.st_mtime_ns, timeout=1, what="moved when it ends")
    assert os.stat(m.path / "file").st_mtime_ns == os.stat(origin / "file").st_mtime_ns


@both
@pytest.mark.parametrize("option", ["noatime", "strictatime"])
def test_times_of_access_are_the_directorys_mounts(reserved, show, way, option):
    """The same options of the mount of tierfs change nothing."""
    reserved.remount(option)
    m = show(way, source=reserved.path, **({"relatime": None} if option == "noatime" else {"noatime": None}))
    for place in (reserved.path, m.path):
        path = place / f"file{place == m.path}"
        path.write_bytes(b"content")
        os.utime(path, (1_000_000_000, 1_000_000_000))
        assert path.read_bytes() == b"content"
        moved = os.stat(path).st_atime != 1_000_000_000
        assert moved == (option == "strictatime"), place
        assert os.stat(path).st_atime_ns == os.stat(reserved.path / path.name).st_atime_ns

"""Directories that hold what datasets seldom do: other file systems below them, pipes, sockets, devices, links in loops, files that
are larger than any cache. What mount, warm, pack and stage make of it."""

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from harness import daemon, data, disks, processes

LIMIT = 60 * processes.SLOWNESS


def run(*words, program="tierfs"):
    return processes.run([Path(daemon.BINARY).with_name(program), *map(str, words)], timeout=LIMIT,
                         env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"})


def make_odd(folder):
    """What no dataset holds, beside a few files; returns these."""
    files = data.make_files(folder, 5, 3000)
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(folder)  # sun_path is short
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
    if os.geteuid() == 0:
        os.mknod(folder / "null", 0o666 | 0o020000, os.makedev(1, 3))
    (folder / "self").symlink_to("self")
    (folder / "one").symlink_to("two")
    (folder / "two").symlink_to("one")
    (folder / "up").symlink_to("..")
    (folder / "sub").mkdir()
    (folder / "sub/again").symlink_to("../sub")
    (folder / "gone").symlink_to("nowhere")
    return files


LINKS = ["gone", "one", "self", "sub/again", "two", "up"]
OTHERS = ["fifo", "null", "socket"]


def test_mount_and_warm_of_an_odd_tree(origin, mount, cache):
    files = make_odd(origin)
    m = mount(origin, cache)
    data.expect_files(m.path, files)
    names = {path.relative_to(m.path).as_posix() for path in m.path.rglob("*")}
    assert names >= set(LINKS) | {"sub"} and not names & set(OTHERS)
    for name in LINKS:
        assert os.readlink(m.path / name) == os.readlink(origin / name)
    for name in OTHERS:
        assert not os.path.lexists(m.path / name)
    done = run("warm", m.path, "--wait")
    assert done.returncode == 0, done
    assert m.status()["reads"]["errors"] == 0


def test_pack_of_an_odd_tree(origin, folder, mount):
    files = make_odd(origin)
    done = run("pack", origin, folder / "pack", "--json")
    assert done.returncode == 0, done
    made = json.loads(done.out)
    assert made["packed_files"] == len(files) and made["symlinks"] == len(LINKS), made
    m = mount(origin, {"pack": str(folder / "pack")})
    data.expect_files(m.path, files)
    assert {path.relative_to(m.path).as_posix() for path in m.path.rglob("*") if path.is_symlink()} >= set(LINKS)


def test_stage_of_an_odd_tree(origin, xfs):
    files = make_odd(origin)
    dest = xfs.path / "dest"
    done = run("in", origin, dest, program="tierfs-stage")
    assert done.returncode == 0 and "3 names" in done.err and "socket, pipe or device" in done.err, done
    data.expect_files(dest, files)
    assert not any(os.path.lexists(dest / name) for name in OTHERS)
    assert os.readlink(dest / "self") == "self"
    again = run("in", origin, dest, program="tierfs-stage")
    assert again.returncode == 0, again


def test_a_file_that_is_larger_than_every_disk(origin, mount, folder, xfs, cache):
    """Sparse, of 2 TiB, with some bytes far behind."""
    files = data.make_files(origin, 5, 3000)
    with open(origin / "sparse", "wb") as out:
        out.truncate(2 << 40)
        out.seek(1 << 40)
        out.write(b"far")
    m = mount(origin, cache)
    assert os.stat(m.path / "sparse").st_size == 2 << 40
    with open(m.path / "sparse", "rb") as file:
        file.seek((1 << 40) - 2)
        assert file.read(8) == b"\0\0far\0\0\0"
        file.seek((2 << 40) - 3)
        assert file.read(100) == b"\0\0\0"
    done = run("warm", m.path, "--wait")
    assert done.returncode == 1 and "sparse" in done.out + done.err, done
    assert m.status()["origin"]["bytes_read"] < 64 << 20
    done = run("pack", origin, folder / "pack", "--json")
    assert done.returncode == 0 and json.loads(done.out)["packed_files"] == len(files), done
    done = run("in", origin, xfs.path, program="tierfs-stage")
    assert done.returncode == 1 and "too little room" in done.err, done
    assert not (xfs.path / "sparse").exists()


@pytest.fixture
def two_systems(origin):
    """Two file systems below one directory, whose files have the same inode numbers, sizes and times."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    made = []
    for name in ("a", "b"):
        (origin / name).mkdir()
        disk = disks.Tmpfs(origin / name)
        made.append(disk)
        (disk.path / "f").write_bytes(name.encode() * 200_000)
        (disk.path / "small").write_bytes(name.encode() * 100)
        for file in (disk.path / "f", disk.path / "small"):
            os.utime(file, ns=(10**18, 10**18))
    yield [disk.path for disk in made]
    for disk in made:
        disk.close()


def test_file_systems_below_that_look_the_same(origin, two_systems, mount, cache):
    one, other = two_systems
    assert os.stat(one / "f").st_ino == os.stat(other / "f").st_ino, "or this test shows nothing"
    m = mount(origin, cache)
    for _ in range(2):
        for path, letter in ((one, b"a"), (other, b"b")):
            shown = m.path / path.relative_to(origin)
            data.expect_same(data.read_cold(shown / "f"), letter * 200_000, path)
            assert (shown / "small").read_bytes() == letter * 100
    places = [m.path / path.relative_to(origin) / "f" for path in two_systems]
    first, second = map(os.stat, places)
    assert first.st_ino != second.st_ino and first.st_nlink == second.st_nlink == 1
    m.umount()
    m = mount(origin, cache)
    for path, letter in ((one, b"a"), (other, b"b")):
        data.expect_same(data.read_cold(m.path / path.relative_to(origin) / "f"), letter * 200_000, path)


def test_copies_of_file_systems_that_look_the_same(origin, two_systems, xfs, folder, mount):
    one, other = two_systems
    dest = xfs.path / "dest"
    done = run("in", origin, dest, program="tierfs-stage")
    assert done.returncode == 0, done
    for path, letter in ((one, b"a"), (other, b"b")):
        assert (dest / path.relative_to(origin) / "f").read_bytes() == letter * 200_000
    done = run("pack", origin, folder / "pack", "--json")
    assert done.returncode == 0, done
    m = mount(origin, {"pack": str(folder / "pack")})
    for path, letter in ((one, b"a"), (other, b"b")):
        assert (m.path / path.relative_to(origin) / "small").read_bytes() == letter * 100


@pytest.mark.skipif(not shutil.which("rsync"), reason="rsync is not installed (packaging/dependencies --test)")
def test_programs_end_on_links_in_loops(origin, mount):
    make_odd(origin)
    m = mount(origin)
    for words in (["tar", "-cf", "/dev/null", "-C", m.path, "."], ["du", "-sL", m.path / "sub"], ["find", "-L", m.path / "sub"],
                  ["rsync", "-an", f"{m.path}/", "/tmp/never"]):
        done = subprocess.run(list(map(str, words)), capture_output=True, timeout=LIMIT, check=False)
        assert done.returncode in (0, 1), done

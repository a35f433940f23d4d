"""A pack whose making was killed, and packs of which some file is damaged."""

import random
import signal
import subprocess
import time

import pytest

from conftest import FULL
from harness import daemon, data
from test_pack import files_of, make_dataset, pack, tierfs

KILLS = 50 if FULL else 5


def test_killed_at_random_points_and_run_again(origin, folder):
    """Whenever it is killed, the next run makes what a run in peace makes, byte for byte."""
    for number in range(50):
        data.write(origin / f"d{number % 3}" / f"f{number}", data.content(number, 900_000))
    whole = folder / "whole"
    began = time.monotonic()
    pack(origin, whole)
    took = time.monotonic() - began
    wanted = files_of(whole)
    chance = random.Random(50)
    kills = 0
    for number in range(KILLS):
        dest = folder / f"pack{number}"
        with subprocess.Popen([daemon.BINARY, "pack", str(origin), str(dest)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            time.sleep(chance.uniform(0.02, 1.0) * took)
            if process.poll() is None:
                kills += 1
            else:
                took *= 0.8  # the machine is quicker than it was
            process.send_signal(signal.SIGKILL)
        pack(origin, dest)
        assert files_of(dest) == wanted, f"kill {number}"
        for path in dest.rglob("*"):
            if path.is_file():
                path.unlink()
    assert kills > KILLS // 3


def damage(path, how):
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes(content if how == "flipped" else content[:len(content) // 2])


def file_of(dest, kind):
    return {"manifest": dest / "manifest.json", "index": next(dest.glob("index-*")),
            "extent": next((dest / "extents").iterdir())}[kind]


@pytest.mark.parametrize("how", ["flipped", "short", "removed"])
@pytest.mark.parametrize("kind", ["manifest", "index", "extent"])
def test_each_kind_of_file_damaged(origin, folder, mount, kind, how):
    files = make_dataset(origin, count=20)
    dest = folder / "pack"
    pack(origin, dest)
    path = file_of(dest, kind)
    name = path.name
    damage(path, how)
    checked = tierfs("verify", dest)
    assert checked.returncode == 1 and checked.err + checked.out, checked
    prepared = mount.prepare(origin, {"pack": dest})
    if (kind, how) == ("manifest", "removed"):
        assert "no pack" in prepared.refuse(), "without a manifest there is no pack, damaged or not"
        return
    m = prepared.start()
    data.expect_files(m.path, files)
    assert len(data.names(m.path)) == len(files) + 17
    error = m.status()["pack"]["last_error"]
    assert name in error and "source" in m.log.read_text(), error
    assert name in tierfs("status", m.path).out


def test_a_mount_that_began_without_its_damaged_pack_goes_on_so(origin, folder, mount, cache):
    files = make_dataset(origin, count=20)
    dest = folder / "pack"
    pack(origin, dest)
    manifest = dest / "manifest.json"
    good = manifest.read_bytes()
    manifest.write_bytes(b"?" * len(good))
    m = mount(origin, {"pack": dest, **cache})
    data.expect_files(m.path, files)
    manifest.write_bytes(good)
    assert "did not use it" in m.take_over()["pack"]["last_error"]
    data.expect_files(m.path, files)
    m.umount()
    again = mount(origin, {"pack": dest, **cache})
    assert again.status()["pack"]["last_error"] == "" and again.status()["pack"]["files"] == len(files)

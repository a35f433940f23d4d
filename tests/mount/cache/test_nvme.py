"""The NVMe tier: what was read once is there after a remount, a crash, a damaged or a full disk, and within its limit."""

import json
import os
import pathlib
import random
import time
from pathlib import Path

import pytest

from harness import daemon, data, processes

pytestmark = pytest.mark.release

COUNT = 300


def dataset(origin):
    """Small files for the extents and a few large ones that get backing files."""
    files = data.make_files(origin, COUNT, 20_000)
    for number in range(3):
        name = f"large/{number}"
        files[name] = data.write(origin / name, data.content(name, (5 << 20) + number))
    return files


def settled(m):
    """Waits until the tier has written what it took, and takes no more: for a second, or longer where the machine is slow."""
    last, patience = [-1, time.monotonic()], max(1.0, processes.SLOWNESS / 3)

    def quiet():
        tier = m.tier("nvme")
        if tier["written_bytes"] != last[0] or tier["unwritten_bytes"] != 0:
            last[:] = [tier["written_bytes"], time.monotonic()]
        return time.monotonic() - last[1] > patience
    processes.wait_until(quiet, timeout=30, what="the NVMe tier settles", interval=0.2)


def filled(origin, mount, cache):
    """A cache that holds the whole dataset, unmounted; returns the dataset."""
    files = dataset(origin)
    m = mount(origin, cache)
    data.expect_files(m.path, files)
    settled(m)
    assert m.tier("nvme")["written_bytes"] >= sum(map(len, files.values())) * 0.9
    m.umount()
    return files


@pytest.mark.quick
@pytest.mark.tsan
def test_remount_needs_no_origin(origin, mount, cache):
    files = filled(origin, mount, cache)
    m = mount(origin, {**cache, "ram.limit": "0"})
    data.expect_files(m.path, files)
    status = m.status()
    assert status["origin"]["requests"]["get"] == 0 and status["origin"]["bytes_read"] == 0
    assert status["reads"]["by_tier"]["origin"] == 0
    assert status["reads"]["errors"] == 0


def test_changed_owners_and_modes_hold_at_once(mount, faulty, cache):
    """Also where nothing expires: the index of the last mount must not grant what this one does not. Data is kept."""
    faulty.objects = {"d/file": data.content("secret", 200_000)}
    options = {**faulty.options, **cache, "metadata.ttl": "forever", "allow_other": None}

    def shown(m):
        file, directory = (m.path / "d/file").stat(), (m.path / "d").stat()
        return [file.st_mode & 0o777, directory.st_mode & 0o777, file.st_uid, directory.st_gid]
    m = mount("s3://bucket", {**options, "s3.file_mode": "0444", "s3.directory_mode": "0555"}, env=faulty.env)
    assert (m.path / "d/file").read_bytes() == faulty.objects["d/file"]
    assert shown(m) == [0o444, 0o555, os.getuid(), os.getgid()]
    settled(m)
    m.umount()
    m = mount("s3://bucket", {**options, "s3.file_mode": "0400", "s3.directory_mode": "0500", "s3.uid": "1234",
                              "s3.gid": "2345"}, env=faulty.env)
    assert shown(m) == [0o400, 0o500, 1234, 2345]
    assert (m.path / "d/file").read_bytes() == faulty.objects["d/file"]
    assert m.status()["origin"]["requests"]["get"] == 0
    m.umount()


def test_second_epoch_needs_no_origin(origin, mount, cache):
    files = dataset(origin)
    m = mount(origin, {**cache, "metadata.ttl": "1h"})
    data.expect_files(m.path, files)
    settled(m)
    before = m.requests()
    order = list(files)
    random.Random(2).shuffle(order)
    for name in order:
        data.expect_same(data.read_cold(m.path / name), files[name], name)
    assert m.requests() == before


@pytest.mark.tsan
def test_killed_in_mid_epoch(origin, mount, cache):
    files = dataset(origin)
    m = mount(origin, cache)
    for name in list(files)[:COUNT // 2]:
        data.expect_same(data.read_cold(m.path / name), files[name], name)
    m.kill_hard()
    for _ in range(2):  # also after a second start, on whatever the first one made of it
        m = mount(origin, cache)
        data.expect_files(m.path, files)
        assert m.status()["reads"]["errors"] == 0
        m.kill_hard()


def test_killed_while_reading(origin, mount, cache):
    files = dataset(origin)
    m = mount(origin, cache)
    script = f"cd '{m.path}' && find . -type f | xargs cat >/dev/null"
    reader = processes.subprocess.Popen(["bash", "-c", script], stdout=processes.subprocess.DEVNULL,
                                        stderr=processes.subprocess.DEVNULL)
    try:
        processes.wait_until(lambda: m.status()["reads"]["requests"] > 50 or reader.poll() is not None,
                             what="reads have begun", interval=0.01)
        m.kill_hard()
        assert reader.wait(30 * processes.SLOWNESS) is not None
    finally:
        reader.kill()
        reader.wait()
    m = mount(origin, cache)
    data.expect_files(m.path, files)


def damaged_files(cache, kind):
    root = Path(cache["nvme.path"])
    return [path for path in root.rglob("*") if path.is_file() and path.stat().st_size and kind(path)]


def in_folder(name):
    return lambda path: name in [parent.name for parent in path.parents]


def flip(path, step=4096):
    """One wrong byte in each `step`, at places that chance picks the same way each time."""
    chance = random.Random(path.name)
    with open(path, "r+b") as handle:
        for base in range(0, path.stat().st_size, step):
            place = min(base + chance.randrange(step), path.stat().st_size - 1)
            handle.seek(place)
            byte = handle.read(1)
            handle.seek(place)
            handle.write(bytes([byte[0] ^ 0x40]))


def test_flipped_bytes_in_extents(origin, mount, cache):
    files = filled(origin, mount, cache)
    extents = damaged_files(cache, in_folder("extents"))
    assert extents, "the cache has no extents"
    for path in extents:
        flip(path)
    data.forget_below(cache["nvme.path"])
    m = mount(origin, {**cache, "ram.limit": "0"})
    data.expect_files(m.path, files)
    assert m.status()["reads"]["errors"] == 0


def test_flipped_bytes_in_backing_files(origin, mount, cache):
    files = filled(origin, mount, cache)
    backing = damaged_files(cache, in_folder("files"))
    assert backing, "the cache has no backing files"
    for path in backing:
        flip(path, 65536)
    data.forget_below(cache["nvme.path"])
    m = mount(origin, {**cache, "ram.limit": "0"})
    data.expect_files(m.path, files)
    assert m.status()["reads"]["errors"] == 0


@pytest.mark.parametrize("how", ["truncated", "empty", "gone", "zeros"])
def test_damaged_data_files(origin, mount, cache, how):
    files = filled(origin, mount, cache)
    for path in damaged_files(cache, lambda path: in_folder("extents")(path) or in_folder("files")(path)):
        size = path.stat().st_size
        if how == "truncated":
            os.truncate(path, size // 2)
        elif how == "empty":
            os.truncate(path, 0)
        elif how == "gone":
            path.unlink()
        else:
            path.write_bytes(bytes(size))
    m = mount(origin, {**cache, "ram.limit": "0"})
    data.expect_files(m.path, files)
    assert m.status()["reads"]["errors"] == 0


@pytest.mark.parametrize("how", ["flipped", "truncated", "gone", "garbage CURRENT"])
def test_damaged_index(origin, mount, cache, folder, how):
    (folder / "index").mkdir()
    cache["index.path"] = str(folder / "index")
    files = filled(origin, mount, cache)
    index = [path for path in Path(cache["index.path"]).rglob("*") if path.is_file() and path.stat().st_size]
    assert index, "nothing in index.path"
    for path in index:
        if how == "flipped":
            flip(path, 512)
        elif how == "truncated":
            os.truncate(path, path.stat().st_size // 2)
        elif how == "gone":
            path.unlink()
        elif path.name == "CURRENT":
            path.write_bytes(b"MANIFEST-nonsense\n")
    m = mount(origin, cache)
    data.expect_files(m.path, files)
    assert m.status()["reads"]["errors"] == 0


def test_origin_changed_while_unmounted(origin, mount, cache):
    files = filled(origin, mount, cache)
    for name in list(files)[::7]:
        files[name] = data.write(origin / name, data.content("second " + name, len(files[name])))
    m = mount(origin, {**cache, "metadata.ttl": "1s"})
    for name, expected in files.items():
        if (m.path / name).stat() and data.read_cold(m.path / name) != expected:
            processes.wait_until(lambda: data.read_cold(m.path / name) == expected, timeout=15, what=f"new {name}")


def tier_use(folder):
    """Bytes that the tier takes on disk; the index beside it is not part of nvme.limit. The least of some walks, since one
    beside the writer may count both what is evicted and what replaces it."""
    folders = [where for name in ("extents", "files") for where in pathlib.Path(folder).glob(f"*/{name}")]
    return min(sum(data.disk_use(where) for where in folders) for _ in range(4))


@pytest.mark.parametrize("configured", ["auto", "hot"])
def test_limit_is_kept(origin, mount, cache, configured):
    limit = 48 << 20
    files = data.make_files(origin, 400, 200_000)
    for number in range(6):
        name = f"large/{number}"
        files[name] = data.write(origin / name, data.content(name, 10 << 20))
    m = mount(origin, {**cache, "nvme.limit": str(limit), "class": configured})
    used = []
    for name, expected in files.items():
        data.expect_same(data.read_cold(m.path / name), expected, name)
        if len(used) < 4000 and name.endswith(("0.bin", "large/1", "large/5")):
            used.append((tier_use(cache["nvme.path"]), m.tier("nvme")["used_bytes"]))
    settled(m)
    used.append((tier_use(cache["nvme.path"]), m.tier("nvme")["used_bytes"]))
    assert max(on_disk for on_disk, _ in used) <= limit * 1.02, used
    assert max(told for _, told in used) <= limit, used
    assert m.tier("nvme")["limit_bytes"] == limit
    assert (m.tier("nvme")["evicted_bytes"] > 0) == (configured == "hot")


def test_hot_files_outlive_their_extents(origin, mount, cache):
    files = data.make_files(origin, 36, 20_000)  # less than 3/4 of an extent
    cold = {f"cold/{number}": data.write(origin / f"cold/{number}", data.content(f"cold/{number}", 200_000))
            for number in range(400)}
    m = mount(origin, {**cache, "nvme.limit": "32M", "ram.limit": "0", "class": "hot", "prefetch.window": "0"})
    data.expect_files(m.path, files)
    settled(m)
    for _ in range(3):
        data.expect_files(m.path, files)
    for name, expected in cold.items():  # 80 MB
        data.expect_same(data.read_cold(m.path / name), expected, name)
    settled(m)
    tier = m.tier("nvme")
    assert tier["evicted_bytes"] > 0 and tier["reinserted_bytes"] > 0
    assert tier["written_bytes"] >= tier["admitted_bytes"] + tier["reinserted_bytes"]
    assert tier["used_bytes"] <= 32 << 20 and tier_use(cache["nvme.path"]) <= (32 << 20) * 1.02
    before = m.status()["reads"]["by_tier"]
    data.expect_files(m.path, files)
    now = m.status()["reads"]["by_tier"]
    read = sum(map(len, files.values()))
    assert now["nvme"] - before["nvme"] >= read * 0.9, (before, now)
    m.kill_hard()
    m = mount(origin, {**cache, "nvme.limit": "32M", "ram.limit": "0", "class": "hot"})
    data.expect_files(m.path, files)
    assert m.status()["reads"]["by_tier"]["nvme"] >= read * 0.9


def test_full_disk(origin, mount, xfs):
    files = dataset(origin)
    available = os.statvfs(xfs.path).f_bavail * os.statvfs(xfs.path).f_frsize
    processes.check(["fallocate", "-l", str(available - (4 << 20)), xfs.path / "ballast"])
    m = mount(origin, {"nvme.path": str(xfs.path), "nvme.limit": "1G"})
    assert "its file system has room for" in m.log.read_text(), "it is told at the mount"
    report = json.loads(processes.check([daemon.BINARY, "doctor", "--json", "--seconds", "0.1", m.path], env=m.env).out)
    assert "cache-room" in [one["id"] for one in report["host"]], report
    for _ in range(2):
        data.expect_files(m.path, files)
    assert m.status()["reads"]["errors"] == 0
    assert m.tier("nvme")["state"] in ("normal", "full", "unstable", "down")


def free_bytes(folder):
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize


def test_others_get_the_space_they_need(origin, mount, xfs):
    """nvme.keep_free: the tier gives way to who fills its device, also with what it would keep, and comes back."""
    keep = 64 << 20
    files = data.make_files(origin, 300, 240_000)
    room = free_bytes(xfs.path)
    processes.check(["fallocate", "-l", str(room - keep - (96 << 20)), xfs.path / "others"])
    m = mount(origin, {"nvme.path": str(xfs.path / "cache"), "nvme.limit": "1G", "nvme.keep_free": str(keep),
                       "ram.limit": "0", "class": "epoch"})
    limit = m.tier("nvme")["limit_bytes"]
    assert 80 << 20 <= limit <= 96 << 20, "what is left beside them"
    data.expect_files(m.path, files)  # 72 MB
    settled(m)
    used = m.tier("nvme")["used_bytes"]
    assert used >= 64 << 20
    processes.check(["fallocate", "-l", str(48 << 20), xfs.path / "more"])
    processes.wait_until(lambda: free_bytes(xfs.path) >= keep, timeout=30, what="the tier has given way")
    assert m.tier("nvme")["limit_bytes"] <= limit - (32 << 20)
    assert "nvme.keep_free is 64" in m.log.read_text()
    data.expect_files(m.path, files)
    settled(m)
    assert free_bytes(xfs.path) >= keep - (2 << 20)
    (xfs.path / "more").unlink()
    processes.wait_until(lambda: m.tier("nvme")["limit_bytes"] >= limit - (2 << 20), timeout=30, what="it is back")
    processes.wait_until(lambda: data.expect_files(m.path, files) or m.tier("nvme")["used_bytes"] >= used - (16 << 20),
                         timeout=60, what="it has filled again")
    assert m.status()["reads"]["errors"] == 0


def test_disk_fills_up_while_mounted(origin, mount, tmpfs):
    files = dataset(origin)
    m = mount(origin, {"nvme.path": str(tmpfs.path), "nvme.limit": "1G"})
    names = list(files)
    data.expect_files(m.path, {name: files[name] for name in names[:50]})
    with open(tmpfs.path / "ballast", "wb") as ballast:
        try:
            while True:
                ballast.write(bytes(1 << 20))
                ballast.flush()
        except OSError:
            pass
    data.expect_files(m.path, files)
    assert m.status()["reads"]["errors"] == 0


def test_disk_disappears(origin, mount, xfs, folder):
    """The tier's disk; an index that disappears too still costs the names that are not in memory."""
    files = dataset(origin)
    (folder / "index").mkdir()
    m = mount(origin, {"nvme.path": str(xfs.path), "nvme.limit": "200M", "ram.limit": "0",
                       "index.path": str(folder / "index")})
    names = list(files)
    data.expect_files(m.path, {name: files[name] for name in names[:COUNT // 2]})
    settled(m)
    xfs.shut_down()
    data.expect_files(m.path, files)
    assert m.status()["reads"]["errors"] == 0
    assert m.tier("nvme")["state"] != "normal"


def test_cache_cannot_be_written(origin, mount, tmpfs):
    data.write(origin / "file", b"x")
    tmpfs.remount("ro")
    m = mount.prepare(origin, {"nvme.path": str(tmpfs.path)})
    said = m.refuse()
    assert str(tmpfs.path).lower() in said and ("read-only" in said or "writ" in said or "creat" in said)


def test_cache_path_is_a_file(origin, mount, folder):
    data.write(folder / "file", b"x")
    said = mount.prepare(origin, {"nvme.path": str(folder / "file")}).refuse()
    assert "file" in said and "director" in said


def test_cache_in_use(origin, mount, cache):
    data.write(origin / "file", b"x")
    first = mount(origin, cache)
    said = mount.prepare(origin, cache).refuse()
    assert cache["nvme.path"].lower() in said and ("use" in said or "lock" in said)
    assert (first.path / "file").read_bytes() == b"x"
    first.umount()
    again = mount(origin, cache)
    assert (again.path / "file").read_bytes() == b"x"


def test_two_sources_share_no_data(folder, mount, cache):
    """The same names, sizes and times in two origins that use one cache folder after the other."""
    for name, byte in (("one", b"1"), ("two", b"2")):
        data.write(folder / name / "file", byte * 5000)
        os.utime(folder / name / "file", (1_600_000_000, 1_600_000_000))
    for name, byte in (("one", b"1"), ("two", b"2"), ("one", b"1")):
        m = mount(folder / name, cache)
        data.expect_same(data.read_cold(m.path / "file"), byte * 5000, name)
        m.umount()


def test_cache_folder_is_private(origin, mount, folder):
    data.write(origin / "file", b"x" * 5000)
    (folder / "cache").mkdir(mode=0o755)
    m = mount(origin, {"nvme.path": str(folder / "cache"), "nvme.limit": "64M"})
    (m.path / "file").read_bytes()
    made = list((folder / "cache").iterdir())
    assert made and all(os.lstat(path).st_mode & 0o077 == 0 for path in made), made


def test_xfs_cache(origin, mount, xfs):
    files = filled(origin, mount, {"nvme.path": str(xfs.path), "nvme.limit": "200M"})
    m = mount(origin, {"nvme.path": str(xfs.path), "nvme.limit": "200M", "ram.limit": "0"})
    data.expect_files(m.path, files)
    assert m.status()["origin"]["bytes_read"] == 0

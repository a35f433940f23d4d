"""Large files that are complete on the NVMe tier are read by the kernel itself."""

import mmap
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import data, daemon, processes
from test_profiles import Messages

pytestmark = pytest.mark.release

SIZE = (6 << 20) + 12345


@pytest.fixture
def files(origin):
    """Three large files and a small one."""
    made = {f"large{n}": data.write(origin / f"large{n}", data.content(f"large{n}", SIZE + n)) for n in range(3)}
    made["small"] = data.write(origin / "small", data.content("small", 5000))
    return made


@pytest.fixture
def on_xfs(xfs):
    (xfs.path / "cache").mkdir(mode=0o700)
    return {"nvme.path": str(xfs.path / "cache"), "nvme.limit": "128M", "ram.limit": "0", "metadata.ttl": "1h"}


def passthrough(mount):
    return mount.status()["passthrough"]


def is_passed(mount, name):
    """Opens and closes the file; whether that open was passed through."""
    before = passthrough(mount)["opens"]
    os.close(os.open(mount.path / name, os.O_RDONLY))
    return passthrough(mount)["opens"] > before


def fill(mount, files):
    """Reads all files and waits until each large one is passed through."""
    data.expect_files(mount.path, files)
    for name in files:
        if name.startswith("large"):
            processes.wait_until(lambda name=name: is_passed(mount, name), what=f"passthrough of {name}")


def expect_open(handle, expected):
    """The file that is open there: by pread, odd ranges, mmap and past the page cache."""
    data.expect_same(os.pread(handle, len(expected) + 1, 0), expected, "pread")
    assert os.pread(handle, 100, len(expected) - 7) == expected[-7:]
    assert os.pread(handle, 5000, 3_333_333) == expected[3_333_333:3_338_333]
    with mmap.mmap(handle, 0, access=mmap.ACCESS_READ) as memory:
        data.expect_same(memory[:], expected, "mmap")


def closed(mount):
    """RELEASE comes after close() has returned."""
    processes.wait_until(lambda: passthrough(mount)["open_files"] == 0, what="the end of all passthrough files")


@pytest.mark.tsan
def test_the_kernel_reads_complete_files(mount, origin, files, on_xfs):
    m = mount(origin, on_xfs)
    fill(m, files)
    assert passthrough(m)["enabled"] and passthrough(m)["reason"] == ""
    closed(m)
    for name in ("large0", "large1", "large2"):
        with Messages(m) as quiet:
            handle = os.open(m.path / name, os.O_RDONLY)
            expect_open(handle, files[name])
            assert passthrough(m)["open_files"] == 1
            os.close(handle)
            closed(m)
        assert quiet.counts["READ"] == 0 and quiet.counts["OPEN"] == 1
    direct = data.read_blocks_direct(m.path / "large0", range(SIZE // 65536), 65536, 4)
    for block, (_, found) in direct.items():
        assert found == files["large0"][block * 65536:(block + 1) * 65536]
    assert not is_passed(m, "small"), "packed objects have no file of their own"
    assert m.status()["reads"]["errors"] == 0


def test_after_a_restart_files_are_verified_first(mount, origin, files, on_xfs):
    m = mount(origin, on_xfs)
    fill(m, files)
    m.umount()
    m = mount(origin, on_xfs)
    with Messages(m) as first:
        handle = os.open(m.path / "large0", os.O_RDONLY)
        expect_open(handle, files["large0"])
    assert first.counts["READ"] > 0
    os.close(handle)
    processes.wait_until(lambda: is_passed(m, "large0"), what="passthrough of what has been verified")
    assert m.requests() - m.status()["origin"]["requests"]["head"] <= 2
    assert (m.path / "large0").read_bytes() == files["large0"]


def test_damage_while_unmounted_is_never_passed_through(mount, origin, files, on_xfs):
    m = mount(origin, on_xfs)
    fill(m, files)
    m.umount()
    for path in Path(on_xfs["nvme.path"]).rglob("*.data"):
        with open(path, "r+b") as handle:
            handle.seek(5_000_000)
            byte = handle.read(1)
            handle.seek(5_000_000)
            handle.write(bytes([byte[0] ^ 1]))
    data.forget_below(on_xfs["nvme.path"])
    m = mount(origin, on_xfs)
    for _ in range(3):
        data.expect_files(m.path, files)
    fill(m, files)  # they are repaired, and passed through again
    data.expect_files(m.path, files)


def test_modes_are_not_mixed(mount, origin, files, on_xfs):
    m = mount(origin, on_xfs)
    held = os.open(m.path / "large0", os.O_RDONLY)  # cached: nothing is there yet
    fill(m, {name: body for name, body in files.items() if name != "large0"})
    data.expect_same(os.pread(held, 2 * SIZE, 0), files["large0"], "cached")

    def is_on_nvme():
        """A device that was slow for a moment is passed by: what was not written is read once more."""
        if os.getxattr(m.path / "large0", "user.tierfs.tier") == b"nvme":
            return True
        os.posix_fadvise(held, 0, 0, os.POSIX_FADV_DONTNEED)
        return not os.pread(held, 2 * SIZE, 0)
    processes.wait_until(is_on_nvme, what="on nvme")
    for _ in range(5):
        with open(m.path / "large0", "rb") as other:
            data.expect_same(other.read(), files["large0"], "beside a cached open")
    assert not is_passed(m, "large0")
    os.close(held)
    processes.wait_until(lambda: is_passed(m, "large0"), what="passthrough after the last cached open")
    held = os.open(m.path / "large0", os.O_RDONLY)
    before = passthrough(m)["opens"]
    for number in range(5):
        with open(m.path / "large0", "rb") as other:
            data.expect_same(other.read(), files["large0"], "beside a passthrough open")
        assert passthrough(m)["opens"] == before + number + 1
    assert passthrough(m)["open_files"] == 1
    expect_open(held, files["large0"])
    os.close(held)
    closed(m)


def test_open_files_are_not_evicted(mount, origin, files, on_xfs):
    more = {f"other{n}": data.write(origin / f"other{n}", data.content(f"other{n}", SIZE)) for n in range(9)}
    m = mount(origin, {**on_xfs, "nvme.limit": "40M", "class": "hot"})
    fill(m, {"large0": files["large0"]})
    handle = os.open(m.path / "large0", os.O_RDONLY)
    assert passthrough(m)["open_files"] == 1
    for _ in range(2):
        data.expect_files(m.path, more)
    processes.wait_until(lambda: m.tier("nvme")["evicted_bytes"] > 0, what="more than fits, written behind the reads")
    assert m.tier("nvme")["used_bytes"] <= 40 << 20
    assert m.tier("nvme")["state"] == "normal"
    names = [path.stat().st_size for path in Path(on_xfs["nvme.path"]).rglob("*.data")]
    assert SIZE in names, "the file that is open is still in the cache"
    with Messages(m) as quiet:
        expect_open(handle, files["large0"])
    assert not quiet.counts["READ"]
    os.close(handle)


def test_replaced_while_open(mount, origin, files, on_xfs):
    m = mount(origin, {**on_xfs, "metadata.ttl": "1s"})
    fill(m, files)
    handle = os.open(m.path / "large0", os.O_RDONLY)
    assert passthrough(m)["open_files"] == 1
    new = data.write(origin / ".part", data.content("new", SIZE + 999))
    os.rename(origin / ".part", origin / "large0")
    processes.wait_until(lambda: (m.path / "large0").stat().st_size == len(new), timeout=15, what="the new version")
    assert (m.path / "large0").read_bytes() == new
    expect_open(handle, files["large0"])
    os.close(handle)


def test_auto_waits_for_the_end_of_passthrough(mount, origin, files, on_xfs):
    small = data.make_files(origin, 1100, 50)
    m = mount(origin, on_xfs)
    fill(m, files)
    handle = os.open(m.path / "large0", os.O_RDONLY)
    assert passthrough(m)["open_files"] == 1
    data.names(m.path)
    data.expect_files(m.path, dict(list(small.items())[:20]))
    profile = m.status()["profile"]
    assert profile["kind"] == "large" and "waits for the end of 1" in profile["reason"]
    expect_open(handle, files["large0"])
    os.close(handle)
    closed(m)
    data.expect_files(m.path, small)
    assert m.status()["profile"]["kind"] == "small"
    assert not passthrough(m)["enabled"] and "small" in passthrough(m)["reason"]
    data.expect_files(m.path, files)


def test_verify_always(mount, origin, files, on_xfs):
    m = mount(origin, {**on_xfs, "verify": "always"})
    for _ in range(3):
        data.expect_files(m.path, files)
    assert passthrough(m) == {"enabled": False, "reason": "verify=always", "opens": 0, "open_files": 0}
    assert m.status()["reads"]["by_tier"]["nvme"] > 0


@pytest.mark.test_points
@pytest.mark.parametrize("error", ["EPERM", "ELOOP", "EOPNOTSUPP"])
def test_falls_back(mount, origin, files, on_xfs, error):
    m = mount(origin, on_xfs, env={"TIERFS_TEST_FAULTS": f"passthrough.add:1+:error={error}"})
    data.expect_files(m.path, files)
    processes.wait_until(lambda: not is_passed(m, "large0") and not passthrough(m)["enabled"], what="the fall-back")
    assert passthrough(m)["reason"] and passthrough(m)["opens"] == 0
    data.expect_files(m.path, files)
    assert m.status()["reads"]["errors"] == 0


@pytest.mark.test_points
def test_lack_of_memory_for_one_open_is_no_end(mount, origin, files, on_xfs):
    m = mount(origin, on_xfs, env={"TIERFS_TEST_FAULTS": "passthrough.add:1:error=ENOMEM"})
    fill(m, files)
    assert passthrough(m)["enabled"]


@pytest.mark.skipif(not shutil.which("fusermount3"), reason="fusermount3 (Debian's fuse3) is not installed")
def test_without_privileges(mount, origin, files, on_xfs, fuse_for_all):
    """fusermount3 mounts for anybody, and the kernel then refuses to register files."""
    os.chmod(on_xfs["nvme.path"], 0o777)
    m = mount.prepare(origin, on_xfs)
    m.path.mkdir(exist_ok=True)
    for path in (m.folder, m.path):
        os.chown(path, 65534, 65534)
    m.start(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] + m.command())
    script = f"cat {m.path}/large0 {m.path}/large0 >/dev/null; cmp {m.path}/large1 {origin}/large1"
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    for _ in range(20):
        processes.check(as_nobody + ["sh", "-c", script], suspects=m.processes)
        status = processes.check(as_nobody + [daemon.BINARY, "status", str(m.path), "--json"], env=m.env).out
        if '"opens":' in status and "registering" in status:
            break
    else:
        raise AssertionError(f"no word about the refusal: {status}")
    processes.check(as_nobody + ["fusermount3", "-u", str(m.path)])
    processes.wait_until(lambda: not m.processes(), timeout=15, what="its processes end")


def test_cache_on_overlayfs(mount, origin, files, on_xfs, xfs):
    for name in ("lower", "upper", "work", "merged"):
        (xfs.path / name).mkdir()
    merged = xfs.path / "merged"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                    f"lowerdir={xfs.path}/lower,upperdir={xfs.path}/upper,workdir={xfs.path}/work", merged], check=True)
    try:
        m = mount(origin, {**on_xfs, "nvme.path": str(merged)})
        fill(m, files)
        handle = os.open(m.path / "large0", os.O_RDONLY)
        assert passthrough(m)["open_files"] == 1
        expect_open(handle, files["large0"])
        os.close(handle)
        m.umount()
    finally:
        subprocess.run(["umount", "-l", merged], check=True)


def test_cache_on_tmpfs(mount, origin, files, tmpfs):
    m = mount(origin, {"nvme.path": str(tmpfs.path), "nvme.limit": "32M", "ram.limit": "0", "metadata.ttl": "1h"})
    fill(m, files)
    data.expect_files(m.path, files)


def test_held_files_survive_the_unmount(mount, origin, files, on_xfs):
    m = mount(origin, on_xfs)
    fill(m, files)
    handle = os.open(m.path / "large0", os.O_RDONLY)
    assert passthrough(m)["open_files"] == 1
    processes.check([daemon.BINARY, "umount", "--lazy", m.path], env=m.env, suspects=m.processes)
    try:
        data.expect_same(os.pread(handle, 2 * SIZE, 0), files["large0"], "after the unmount")
    except OSError:
        pass  # an error in time is right too
    finally:
        os.close(handle)
    m.expect_gone()


def test_nothing_stays_in_memory_without_a_ram_tier(mount, origin, files, on_xfs):
    m = mount(origin, on_xfs)
    handle = os.open(m.path / "large0", os.O_RDONLY | os.O_DIRECT)
    tail = SIZE % (1 << 16)
    assert os.pread(handle, 1 << 16, SIZE - tail) == files["large0"][-tail:]
    # The rest comes ahead of its reader, the end is here already.
    for at in range(0, SIZE, 1 << 17):
        assert os.pread(handle, 1 << 17, at) == files["large0"][at:at + (1 << 17)]
    processes.wait_until(lambda: os.getxattr(m.path / "large0", "user.tierfs.tier") == b"nvme", what="nvme alone")
    os.close(handle)

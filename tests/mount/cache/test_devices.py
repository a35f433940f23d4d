"""An NVMe tier on several devices, each a file system of its own: full, failing, gone and back, in another order. Right
bytes always, and status says what is wrong."""

import errno
import os

import pytest

from harness import daemon, data, disks, processes
from test_nvme import dataset, settled



@pytest.fixture
def two(folder):
    """Two disks, of which each has the folder cache."""
    with disks.Xfs(folder / "one") as one, disks.Xfs(folder / "two") as two:
        for disk in (one, two):
            (disk.path / "cache").mkdir(mode=0o700)
        yield one, two


def on(*disks_of_tier, **more):
    paths = ":".join(str(disk.path / "cache") for disk in disks_of_tier)
    return {"nvme.path": paths, "nvme.limit": "300M", "ram.limit": "0", **more}


def devices(m):
    return m.tier("nvme")["devices"]


def fetched(m):
    return m.status()["origin"]["bytes_read"]


def expect_no_fetch(m, files):
    """All is read from the tier. On a busy machine some reads go around a device that hesitates: then once more."""
    for _ in range(5):
        before, bypassed = fetched(m), m.tier("nvme")["bypassed"]
        data.expect_files(m.path, files)
        if fetched(m) == before:
            return
        assert m.tier("nvme")["bypassed"] > bypassed, f"{fetched(m) - before} bytes were fetched again"
        settled(m)
    pytest.fail("the devices hesitate all the time")


def fill(m, files):
    data.expect_files(m.path, files)
    settled(m)
    used = [device["used_bytes"] for device in devices(m)]
    assert min(used) > sum(used) / 5, f"not spread: {used}"


def test_spread_and_found_in_another_order(origin, mount, two):
    files = dataset(origin)
    m = mount(origin, on(*two))
    fill(m, files)
    assert [device["path"] for device in devices(m)] == [str(disk.path / "cache") for disk in two]
    assert sum(device["limit_bytes"] for device in devices(m)) == 300 << 20
    m.umount()
    m = mount(origin, on(two[1], two[0]))
    expect_no_fetch(m, files)
    assert m.status()["reads"]["errors"] == 0
    m.umount()


@pytest.mark.parametrize("missing", [0, 1])
def test_missing_at_start(origin, mount, two, missing):
    """Also the one with the index. Then both again, and both in order."""
    files = dataset(origin)
    m = mount(origin, on(*two))
    fill(m, files)
    m.umount()
    gone = two[missing].path / "cache"
    gone.chmod(0)
    aside = two[missing].path / "aside"
    gone.rename(aside)
    gone.write_bytes(b"")  # no folder can be made here
    m = mount(origin, on(*two))
    data.expect_files(m.path, files)
    assert 0 < fetched(m) < sum(map(len, files.values()))
    states = [device["state"] for device in devices(m)]
    assert states[missing] == "down" and states[1 - missing] == "normal", states
    assert devices(m)[missing]["reason"] and m.tier("nvme")["state"] == "unstable"
    settled(m)
    m.umount()
    gone.unlink()
    aside.rename(gone)
    gone.chmod(0o700)
    for _ in range(2):
        m = mount(origin, on(*two))
        expect_no_fetch(m, files)
        assert m.status()["reads"]["errors"] == 0 and m.tier("nvme")["state"] == "normal"
        m.umount()


def test_one_is_full(origin, mount, two):
    files = dataset(origin)
    with open(two[0].path / "ballast", "wb") as ballast:
        try:
            while True:
                ballast.write(bytes(1 << 20))
        except OSError:
            pass
    m = mount(origin, on(*two))
    for _ in range(2):
        data.expect_files(m.path, files)
        settled(m)
    assert devices(m)[1]["state"] == "normal" and devices(m)[1]["used_bytes"] > 0
    assert m.status()["reads"]["errors"] == 0


def state(m, number):
    return devices(m)[number]["state"]


def test_one_disappears_and_comes_back(origin, mount, two):
    """The one without the index: the other goes on, and takes what comes. The file system that was shut down can be
    unmounted, since nothing of it is open any more; mounted again it serves what it held."""
    files = dataset(origin)
    m = mount(origin, on(*two))
    fill(m, files)
    two[1].shut_down()
    for _ in range(3):
        data.expect_files(m.path, files)
    processes.wait_until(lambda: state(m, 1) == "down", timeout=30, what="the device is down")
    assert state(m, 0) == "normal" and m.tier("nvme")["state"] == "unstable" and devices(m)[1]["reason"]
    data.expect_files(m.path, files)
    settled(m)
    expect_no_fetch(m, files)  # what was lost is on the other device now
    two[1].recover()
    processes.wait_until(lambda: m.tier("nvme")["state"] == "normal", timeout=60, what="the device is back")
    data.expect_files(m.path, files)
    assert m.status()["reads"]["errors"] == 0
    said = m.log.read_text()
    assert said.count(" is down: ") == 1 and said.count("was probed, and is open again") == 1
    m.umount()


@pytest.mark.parametrize("daemons", [1, 2])
def test_the_only_one_disappears_and_comes_back(origin, mount, two, daemons):
    """With two: also the lock that the supervisor holds for the next daemon is given up."""
    files = dataset(origin)
    index = two[1].path / "index"
    index.mkdir()
    m = mount(origin, on(two[0], **{"index.path": str(index)}))
    data.expect_files(m.path, files)
    settled(m)
    if daemons == 2:
        m.take_over()
    two[0].shut_down()
    data.expect_files(m.path, files)
    processes.wait_until(lambda: m.tier("nvme")["state"] == "down", timeout=30, what="the tier is down")
    assert m.tier("nvme")["devices"][0]["reason"]
    data.expect_files(m.path, files)
    two[0].recover()
    processes.wait_until(lambda: m.tier("nvme")["state"] == "normal", timeout=60, what="the tier is back")
    # It keeps what was synced or written by direct I/O; what it lost is fetched again, and kept.
    for _ in range(2):
        data.expect_files(m.path, files)
        settled(m)
    before = fetched(m)
    data.expect_files(m.path, files)
    assert fetched(m) - before < sum(map(len, files.values())) / 10
    assert m.status()["reads"]["errors"] == 0
    m.umount()


def test_a_new_device_is_known_after_a_power_cut(origin, mount, two):
    """Its id is on it for good before anything is kept there by that name."""
    index = two[1].path / "index"
    index.mkdir()
    m = mount(origin, on(two[0], **{"index.path": str(index)}))
    two[0].shut_down()
    m.kill_hard()
    two[0].recover()
    assert [path.name for path in (two[0].path / "cache").rglob("device")] == ["device"]


def test_missing_at_start_comes_later(origin, mount, two):
    files = dataset(origin)
    gone = two[1].path / "cache"
    gone.rmdir()
    gone.write_bytes(b"")
    m = mount(origin, on(*two))
    assert devices(m)[0]["limit_bytes"] == 300 << 20 and state(m, 1) == "down"
    data.expect_files(m.path, files)
    gone.unlink()
    processes.wait_until(lambda: m.tier("nvme")["state"] == "normal", timeout=60, what="the device is taken up")
    limits = [device["limit_bytes"] for device in devices(m)]
    assert sum(limits) == 300 << 20 and min(limits) > 100 << 20, limits
    more = {name: data.write(origin / name, data.content(name, 60_000)) for name in map("more/{}".format, range(60))}
    data.expect_files(m.path, more)
    settled(m)
    assert devices(m)[1]["used_bytes"] > 0
    data.expect_files(m.path, files)
    m.umount()


@pytest.mark.test_points
def test_reads_that_fail(origin, mount, two):
    """Each read of a device fails, and each probe: it goes down and stays so, and all bytes come from the origin."""
    files = dataset(origin)
    m = mount(origin, on(*two))
    fill(m, files)
    m.umount()
    m = mount(origin, on(*two), env={"TIERFS_TEST_FAULTS": "nvme.extent.read:1+:error=EIO;nvme.data.read:1+:error=EIO;"
                                                           "nvme.probe:1+:error=EIO"})
    data.expect_files(m.path, files)
    processes.wait_until(lambda: m.tier("nvme")["state"] == "down", timeout=60, what="the tier is down")
    assert all("Input/output error" in device["reason"] for device in devices(m))
    data.expect_files(m.path, files)
    assert m.status()["reads"]["errors"] == 0
    m.umount()


@pytest.mark.test_points
def test_reads_that_fail_now_and_then(origin, mount, two):
    files = dataset(origin)
    m = mount(origin, on(*two), env={"TIERFS_TEST_FAULTS": "nvme.extent.read:20%3:error=EIO;nvme.data.read:20%4:error=EIO"})
    for _ in range(4):
        data.expect_files(m.path, files)
    assert m.status()["reads"]["errors"] == 0
    m.umount()


@pytest.mark.test_points
def test_a_slow_device_is_left_alone(origin, mount, two):
    """Reads become a hundred times slower: readers turn to the origin, and status says why."""
    files = dataset(origin)
    m = mount(origin, on(two[0], **{"class": "hot"}))
    data.expect_files(m.path, files)
    settled(m)
    m.umount()
    m = mount(origin, on(two[0]), env={"TIERFS_TEST_FAULTS": "nvme.extent.read:700+:delay=120"})

    def slow():
        for name in list(files)[:60]:
            data.expect_same(data.read_cold(m.path / name), files[name], name)
        return "usually" in devices(m)[0]["reason"] or "is unstable: reads take" in m.log.read_text()
    processes.wait_until(slow, timeout=80, what="the device is found slow")
    data.expect_files(m.path, files)
    m.umount()


def fill_up(folder, leave=0):
    """Others take all that is left there, but for so many bytes."""
    with open(folder / "filler", "wb", buffering=0) as file:
        for piece in (1 << 20, 4096):
            with pytest.raises(OSError) as caught:
                while True:
                    file.write(bytes(piece))
            assert caught.value.errno == errno.ENOSPC
        file.truncate(os.stat(folder / "filler").st_size - leave)


@pytest.mark.parametrize("kind", [disks.Ext4, disks.Xfs])
@pytest.mark.parametrize("limit", ["200M", None], ids=["limit", "no limit"])
def test_mount_whose_device_others_have_filled(folder, origin, mount, kind, limit):
    """What is cached there is read; the index, which is not opened on a full disk, is made anew elsewhere."""
    files = data.make_files(origin, 40, 100_000)
    with kind(folder, size=400 << 20) as disk:
        options = {"nvme.path": str(disk.path / "cache"), "memory.limit": "128M", "ram.limit": "0", **({"nvme.limit": limit} if limit else {})}
        m = mount(origin, options)
        data.expect_files(m.path, files)
        settled(m)
        assert m.tier("nvme")["state"] == "normal"
        m.umount()
        fill_up(disk.path)
        m = mount.prepare(origin, options)
        finished = m.attempt()
        assert finished.returncode == 0, f"{finished}\n{m.log_tail()}"
        m.device = daemon.mountinfo(m.place)["device"]
        assert "is full" in finished.err and "make room" in finished.err
        assert m.tier("nvme")["state"] == "full" and "no room" in m.tier("nvme")["devices"][0]["reason"]
        processes.wait_until(lambda: reads_without_fetching(m, files), what="the tier has taken in what is there")
        m.kill_daemon()
        expect_no_fetch(m, files)
        m.umount()
        (disk.path / "filler").unlink()
        m = mount(origin, options)
        expect_no_fetch(m, files)
        assert m.tier("nvme")["state"] == "normal"


def reads_without_fetching(m, files):
    before = fetched(m)
    data.expect_files(m.path, files)
    return fetched(m) == before


def test_what_a_full_device_cannot_keep_is_no_pin(folder, origin, mount):
    files = data.make_files(origin, 40, 1_000_000)
    with disks.Ext4(folder, size=400 << 20) as disk:
        m = mount(origin, {"nvme.path": str(disk.path / "cache"), "nvme.limit": "200M", "memory.limit": "96M", "ram.limit": "1M"})
        fill_up(disk.path, leave=2 << 20)  # the file of pins has room
        done = processes.run([daemon.BINARY, "pin", m.path, "--wait"], timeout=120)
        assert done.returncode == 1 and ("no tier has room" in done.err or "full of what is kept" in done.err), done
        assert m.status()["pins"]["refused"] and m.tier("nvme")["state"] == "full"
        (disk.path / "filler").unlink()
        processes.wait_until(lambda: m.tier("nvme")["state"] == "normal", what="there is room")
        assert processes.run([daemon.BINARY, "pin", m.path, "--wait"], timeout=120).returncode == 0
        expect_no_fetch(m, files)


@pytest.mark.parametrize("why", ["full", "read-only"])
def test_folder_that_cannot_be_made(folder, origin, mount, why):
    with disks.Ext4(folder, size=64 << 20) as disk:
        if why == "full":
            fill_up(disk.path)
        else:
            disk.remount("ro")
        said = mount.prepare(origin, {"nvme.path": str(disk.path / "cache")}).refuse()
        assert "cannot be made: " + ("no space left" if why == "full" else "read-only file system") in said, said

"""`tierfs-stage check` on real file systems of this machine, whatever devices and drivers it has."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from places import PROGRAM, Formatted, Overlay, daemon, disks, processes, require

XFS_SIZE = 320 << 20  # mkfs.xfs wants 300 MiB or more
SMALL_SIZE = 128 << 20


@pytest.fixture(name="place")
def place_folder():
    if os.geteuid() != 0:
        pytest.skip("needs root: it mounts")
    if not os.access(PROGRAM, os.X_OK):
        pytest.fail(f"no tierfs-stage at {PROGRAM}: build it, or name a tierfs beside it in TIERFS_TEST_BINARY")
    path = Path(tempfile.mkdtemp(prefix="stage-check-", dir=os.environ.get("TIERFS_TEST_ROOT") or None))
    yield path
    left = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
            if line.split()[4].startswith(f"{path}/")]
    for mountpoint in reversed(left):
        processes.run(["umount", "-l", mountpoint])
    shutil.rmtree(path, ignore_errors=True)
    assert not left


def run(folder, *words):
    finished = processes.run([PROGRAM, *words], env=daemon.environment(folder, "tierfs-stage-check"))
    reports = list(folder.glob("sanitizer*"))
    assert not reports, reports[0].read_text(encoding="utf-8")
    return finished


class Judged:
    """What `check --json` said: the worst level of each id, and all text of it."""

    def __init__(self, finished):
        assert finished.returncode in (0, 1), finished
        self.status, self.report = finished.returncode, json.loads(finished.out)
        self.levels, self.texts = {}, {}
        for finding in self.report["findings"]:
            name, order = finding["id"], ["skip", "pass", "warn", "fail"]
            self.levels[name] = max(self.levels.get(name, "skip"), finding["level"], key=order.index)
            self.texts[name] = self.texts.get(name, "") + " ".join(finding[key] for key in ("what", "why", "advice"))
        assert self.report["direct"] == (self.status == 0)
        assert all(finding["why"] for finding in self.report["findings"] if finding["level"] in ("warn", "fail", "skip"))

    def blocks(self, name):
        return all(name in verdict["because"] for verdict in self.report["verdicts"].values())


def check(folder, path, *words):
    return Judged(run(folder, "check", path, "--json", *words))


def test_xfs_on_a_loop_device(place):
    require("xfs", "mkfs.xfs")
    with Formatted(place, "xfs", XFS_SIZE, "nouuid") as disk:
        judged = check(place, disk.path, "--full")
        assert judged.levels["file-system"] == "pass" and "XFS" in judged.texts["file-system"]
        assert judged.levels["block-size"] == judged.levels["realtime"] == judged.levels["free-space"] == "pass"
        assert judged.levels["noatime"] == "warn" and judged.levels["writable"] == "pass"
        assert judged.levels["direct-io"] == judged.levels["extents"] == "pass", judged.texts
        if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 1):
            assert judged.levels["alignment"] == "pass", judged.texts["alignment"]
        assert judged.blocks("device") and str(place / "xfs.img") in judged.texts["device"]
        assert judged.report["devices"][0]["name"] == Path(disk.loop).name
        assert judged.report["file_system"]["mountpoint"] == str(disk.path)
        assert judged.status == 1
        assert not list(disk.path.iterdir()), "check leaves nothing behind"
        disk.remount("noatime,ro")
        judged = check(place, disk.path, "--full")
        assert judged.levels["noatime"] == "pass" and judged.levels["writable"] == "warn"
        assert judged.levels["direct-io"] == "skip"


def test_files_with_and_without_holes(place):
    require("xfs", "mkfs.xfs")
    with Formatted(place, "xfs", XFS_SIZE, "nouuid") as disk:
        whole, sparse = disk.path / "whole", disk.path / "sparse"
        whole.write_bytes(b"x" * 100_000)
        with open(sparse, "wb") as handle:
            handle.truncate(1 << 20)
        os.sync()
        assert check(place, whole).levels["sparse"] == "pass"
        judged = check(place, sparse)
        assert judged.levels["sparse"] == "warn" and judged.report["path"] == str(sparse)


def test_ext4_in_each_mode(place):
    require("ext4", "mkfs.ext4")
    for number, (mode, level) in enumerate((("data=ordered", "pass"), ("data=writeback", "fail"),
                                            ("data=journal", "fail"))):
        folder = place / str(number)
        folder.mkdir()
        with Formatted(folder, "ext4", SMALL_SIZE, mode, ["-b", "4096"]) as disk:
            judged = check(place, disk.path, "--full")
            assert judged.levels["file-system"] == "pass" and "ext4" in judged.texts["file-system"]
            shown = mode in judged.report["file_system"]["super_options"]
            assert shown or mode == "data=ordered"
            assert judged.levels["journal"] == (level if shown else "warn")
            assert judged.blocks("journal") == (level == "fail")
            if mode == "data=journal":  # direct I/O is quietly buffered then, and the trial sees it
                assert judged.levels["direct-io"] in ("fail", "skip"), judged.texts["direct-io"]
            else:
                assert judged.levels["direct-io"] == "pass", judged.texts["direct-io"]


def test_tmpfs(place):
    with disks.Tmpfs(place) as disk:
        judged = check(place, disk.path)
        assert judged.blocks("file-system") and "no device" in judged.texts["file-system"]
        assert judged.levels["device"] == "skip" and judged.status == 1


def test_overlayfs(place):
    require("overlay", "mount")
    with Overlay(place) as disk:
        judged = check(place, disk.path)
        assert judged.blocks("file-system") and "overlayfs" in judged.texts["file-system"]
        assert "bind-mount" in judged.texts["file-system"]


def test_btrfs(place):
    require("btrfs", "mkfs.btrfs")
    with Formatted(place, "btrfs", 256 << 20) as disk:
        judged = check(place, disk.path)
        assert judged.blocks("file-system") and "btrfs" in judged.texts["file-system"]


def test_a_mount_of_tierfs_says_why_fuse_never_qualifies(place):
    (place / "origin").mkdir()
    (place / "origin/file").write_bytes(b"x" * 5000)
    mount = daemon.Mount(place / "origin", folder=place / "mount").start()
    try:
        for path in (mount.path, mount.path / "file"):
            judged = check(place, path)
            assert judged.blocks("file-system"), judged.report
            assert judged.report["file_system"]["type"] == "fuse.tierfs"
            assert "FUSE file system can never qualify" in judged.texts["file-system"]
    finally:
        mount.umount()


def test_text_says_what_json_says(place):
    with disks.Tmpfs(place) as disk:
        told, judged = run(place, "check", disk.path), check(place, disk.path)
        assert told.returncode == 1
        for finding in judged.report["findings"]:
            assert f"{finding['level'].upper()}  {finding['id']}: {finding['what']}" in told.out
        assert "nvidia-fs: not direct, because of file-system" in told.out
        assert "PCI P2PDMA: not direct, because of file-system" in told.out


def test_wrong_usage_and_absent_paths(place):
    for words in (["check"], ["check", place, "--nonsense"], ["check", place / "absent"], []):
        finished = run(place, *words)
        assert finished.returncode == 2 and finished.out + finished.err, finished
    assert "absent" in run(place, "check", place / "absent").err


def test_cufile_json_is_valid_and_asks_for_p2pdma_at_both_places(place):
    for words, p2pdma in ((["--p2pdma", "on"], True), (["--p2pdma", "off"], False)):
        told = json.loads(run(place, "cufile-json", *words).out)
        assert told["properties"]["use_pci_p2pdma"] is told["block"]["nvme"]["use_pci_p2pdma"] is p2pdma
        assert "block" not in told["fs"] and told["properties"]["max_direct_io_size_kb"] == 16384
        assert told["properties"]["allow_compat_mode"] is True
    told = json.loads(run(place, "cufile-json", "--strict", "--stats", "3").out)
    assert told["properties"]["allow_compat_mode"] is False
    assert told["profile"]["cufile_stats"] == 3 and told["logging"]["level"] == "INFO"


def test_cufile_json_never_overwrites_unless_forced(place):
    output = place / "cufile.json"
    assert run(place, "cufile-json", "--output", output).returncode == 0
    first = output.read_text(encoding="ascii")
    assert json.loads(first) and output.stat().st_mode & 0o600 == 0o600
    output.write_text("mine", encoding="ascii")
    refused = run(place, "cufile-json", "--output", output)
    assert refused.returncode == 1 and "--force" in refused.err
    assert output.read_text(encoding="ascii") == "mine"
    assert run(place, "cufile-json", "--output", output, "--force").returncode == 0
    assert output.read_text(encoding="ascii") == first
    assert [path.name for path in place.iterdir()] == ["cufile.json"], "nothing else is left"


def test_cufile_json_says_what_is_wrong(place):
    for words, status in ((["--output", place / "absent/x"], 1), (["--p2pdma", "perhaps"], 2), (["--stats", "4"], 2)):
        finished = run(place, "cufile-json", *words)
        assert finished.returncode == status and finished.err, finished
    with open("/dev/full", "w", encoding="ascii") as full:
        told = subprocess.run([PROGRAM, "cufile-json"], stdout=full, stderr=subprocess.PIPE, check=False, timeout=60,
                              env=daemon.environment(place, "tierfs-stage-check"))
        assert told.returncode == 1 and b"standard output" in told.stderr

"""status, verify, pin, unpin, evict, gc."""

import os

import pytest
import shape
from conftest import content
from harness import data


@pytest.fixture
def staged(stage, source, xfs):
    """{path: bytes}, staged in .dest."""
    files = {f"d{number}/f": data.write(source / f"d{number}/f", content(number, 5000 + number)) for number in range(8)}
    files["large"] = data.write(source / "large", content("large", (20 << 20) + 1))
    stage("in", source, xfs.path / "set")
    return files


def test_status(stage, staged, xfs, source):
    found = stage("status", xfs.path / "set", "--json").event("status")
    assert found["files"] == len(staged) and found["bytes"] == sum(map(len, staged.values()))
    assert found["source"] == f"dir:{source}" and found["file_system"] == "xfs" and not found["pinned"]
    assert "not staged" not in stage("status", xfs.path / "set").out
    assert "nothing is staged here" in stage("status", xfs.path, expect=1).err


def test_verify_finds_what_changed(stage, staged, xfs, source):
    dest = xfs.path / "set"
    assert stage("verify", dest, "--json").event("verified")["good"]
    assert stage("verify", dest, "--full", "--json").event("verified")["files"] == len(staged)
    assert all(shape.resident_pages(dest / path) == 0 for path in staged)
    times = (dest / "large").stat()
    with open(dest / "large", "r+b") as handle:
        handle.seek(17 << 20)
        handle.write(b"damage")
    os.utime(dest / "large", ns=(times.st_atime_ns, times.st_mtime_ns))
    os.unlink(dest / "d3/f")
    quick = stage("verify", dest, "--quick", "--json", expect=1)
    assert [event["path"] for event in quick.all("failed")] == ["d3/f"]
    full = stage("verify", dest, "--full", "--json", expect=1)
    assert {event["path"]: event["message"] for event in full.all("failed")} == {
        "d3/f": "it is gone", "large": f"its bytes from {16 << 20} on are not what was staged"}
    stage("verify", dest, "--full", "--remove-bad", expect=1)
    stage("in", source, dest)
    shape.expect_staged(dest, staged)


def test_verify_finds_unwritten_extents(stage, staged, xfs):
    dest = xfs.path / "set"
    times = (dest / "large").stat()
    with open(dest / "large", "r+b") as handle:
        os.posix_fallocate(handle.fileno(), 0, 4096)
    os.system(f"fallocate --punch-hole --offset 8192 --length 8192 '{dest}/large'")
    os.utime(dest / "large", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert "hole" in stage("verify", dest, expect=1).err


def test_evict_removes_ours_alone(stage, staged, xfs):
    dest = xfs.path / "set"
    data.write(dest / "d1/theirs", b"x")
    found = stage("evict", dest, "--json").event("evicted")
    assert found["files"] == len(staged)
    assert shape.files_of(dest) == {"d1/theirs": 1}
    assert not (dest / ".tierfs-stage").exists() and not (dest / "d2").exists()
    assert "nothing is staged here" in stage("evict", dest, expect=1).err


def test_pinned_datasets_stay(stage, staged, xfs):
    dest = xfs.path / "set"
    stage("pin", dest, "--reason", "in use")
    assert stage("status", dest, "--json").event("status")["pinned"]
    assert "pinned" in stage("evict", dest, expect=1).err
    stage("gc", xfs.path, "--free", "100%", expect=2)
    stage("gc", xfs.path, "--free", "99%", expect=1)
    assert shape.files_of(dest)
    stage("unpin", dest)
    stage("evict", dest, "--dry-run")
    assert shape.files_of(dest)
    stage("evict", dest)
    assert not shape.files_of(dest)


def test_gc_takes_what_was_used_longest_ago(stage, source, xfs):
    data.write(source / "a", content("a", 30 << 20))
    for number, name in enumerate(("new", "old", "pinned", "middle")):
        stage("in", source, xfs.path / name)
        used = {"pinned": 1, "old": 1000, "middle": 2000, "new": 3000}[name]
        os.utime(xfs.path / name / ".tierfs-stage/last-used", (used, used))
        del number
    stage("pin", xfs.path / "pinned")
    free = os.statvfs(xfs.path)
    wanted = free.f_bavail * free.f_frsize + (40 << 20)
    would = stage("gc", xfs.path, "--free", wanted, "--dry-run", "--json")
    assert [os.path.basename(event["path"]) for event in would.all("evicted")] == ["old", "middle"]
    stage("gc", xfs.path, "--free", wanted)
    assert [name for name in ("new", "old", "pinned", "middle") if shape.files_of(xfs.path / name)] == ["new", "pinned"]
    assert "all that is staged is pinned or in use" in stage("gc", xfs.path, "--free", "99%", expect=1).err
    stage("unpin", xfs.path / "pinned")
    data.write(xfs.path / "of others", content("others", 30 << 20))
    assert "nothing that was staged is left" in stage("gc", xfs.path, "--free", "99%", expect=1).err

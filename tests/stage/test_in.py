"""`tierfs-stage in`: content, shape, what is copied again and what is not."""

import json
import os
import random
import zlib

import pytest
import shape
from conftest import FULL, TIERFS, content
from harness import daemon, data

SIZES = [0, 1, 511, 512, 4095, 4096, 4097, 65536, 1 << 20, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, (16 << 20) + 12345]


def make_source(folder, sizes):
    files = {f"d{number % 5}/sub/f{number:02}-{size}.bin": content(f"f{number}", size) for number, size in enumerate(sizes)}
    for path, body in files.items():
        data.write(folder / path, body)
    return files


def test_hard_links_stay_links(stage, source, xfs):
    """du, rsync -H and conda's packages count on it."""
    dest = xfs.path / "dest"
    data.write(source / "a", b"1" * 5_000_000)
    data.write(source / "other", b"2" * 1000)
    (source / "d").mkdir()
    for name in ("d/b", "z"):
        os.link(source / "a", source / name)

    def expect(names, content):
        stats = [os.stat(dest / name) for name in names]
        assert len({status.st_ino for status in stats}) == 1 and stats[0].st_nlink == len(names), stats
        assert all((dest / name).read_bytes() == content for name in names)

    plan = stage("in", source, dest, "--dry-run", "--json").event("plan")
    assert plan["copy_files"] == 2 and plan["link_names"] == 2 and plan["copy_bytes"] == 5_001_000
    stage("in", source, dest)
    expect(["a", "d/b", "z"], b"1" * 5_000_000)
    stage("verify", dest, "--full")
    again = stage("in", source, dest, "--json").event("plan")
    assert again["copy_files"] == 0 and again["link_names"] == 0 and again["keep_files"] == 4
    # Another name; then other bytes under all of them; then one is a file of its own.
    os.link(source / "a", source / "0")
    plan = stage("in", source, dest, "--json").event("plan")
    assert plan["copy_files"] == 1 and plan["link_names"] == 3, "the time of its change is new"
    expect(["0", "a", "d/b", "z"], b"1" * 5_000_000)
    with (source / "z").open("r+b") as file:
        file.write(b"3")
    stage("in", source, dest)
    expect(["0", "a", "d/b", "z"], b"3" + b"1" * 4_999_999)
    (source / "z").unlink()
    data.write(source / "z", b"4")
    stage("in", source, dest)
    expect(["0", "a", "d/b"], b"3" + b"1" * 4_999_999)
    assert (dest / "z").read_bytes() == b"4" and os.stat(dest / "z").st_nlink == 1
    assert not list((dest / ".tierfs-stage/parts").rglob("*.part"))
    stage("evict", dest)
    assert not dest.exists() or not list(dest.rglob("*"))


def test_a_directory_is_staged_in_shape(stage, source, xfs):
    files = make_source(source, SIZES)
    done = stage("in", source, xfs.path, "--json").event("done")
    assert done["complete"] and done["files_staged"] == len(files)
    assert done["bytes_from_source"] == sum(SIZES)
    shape.expect_staged(xfs.path, files)
    for path in files:
        before, after = (source / path).stat(), (xfs.path / path).stat()
        assert (before.st_mtime_ns, before.st_mode) == (after.st_mtime_ns, after.st_mode)
    assert not list((xfs.path / ".tierfs-stage/parts").rglob("*.part"))
    assert not list((xfs.path / ".tierfs-stage").glob("journal*"))


def test_a_bucket_is_staged_in_shape(stage, bucket, xfs):
    files = {path: content(path, size) for path, size in
             (("a/b/c.bin", 70000), ("a/x.bin", 5 << 20), ("big.bin", (20 << 20) + 77), ("empty", 0), ("ä ö%20", 10))}
    bucket.put_all(files)
    stage("in", bucket.url, xfs.path, *bucket.options)
    shape.expect_staged(xfs.path, files)
    header, records = shape.manifest(xfs.path)
    assert header["format"] == "tierfs-stage-manifest" and header["source"].endswith(f"/{bucket.name}")
    assert records["big.bin"]["source_version"]


def test_ext4_too(stage, source, ext4):
    files = make_source(source, SIZES)
    stage("in", source, ext4.path / "data")
    shape.expect_staged(ext4.path / "data", files)


@pytest.mark.parametrize("words", [["--no-io-uring"], ["--workers", "1"]], ids=["pwrite", "one worker"])
def test_other_ways_to_write_give_the_same(stage, source, xfs, words):
    files = make_source(source, SIZES)
    stage("in", source, xfs.path, *words)
    shape.expect_staged(xfs.path, files)


def test_the_manifest_says_what_is_staged(stage, source, xfs):
    body = content("x", (16 << 20) + 5000)
    data.write(source / "x", body)
    stage("in", source, xfs.path)
    _, records = shape.manifest(xfs.path)
    record = records["x"]
    assert record["size"] == len(body) and record["state"] == "staged"
    assert record["mtime_ns"] == (source / "x").stat().st_mtime_ns
    assert record["device"] == f"{os.major(os.stat(xfs.path).st_dev)}:{os.minor(os.stat(xfs.path).st_dev)}"
    assert record["extents"] == len(shape.fiemap(xfs.path / "x"))
    assert len(record["crc32c"]) == 2 and len(record["xxh3"]) == 16
    assert record["crc32c"][1] == f"{crc32c(body[16 << 20:]):08x}"


def crc32c(body):
    """Bit by bit, RFC 3720."""
    crc = 0xFFFFFFFF
    for byte in body:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_a_sparse_source_becomes_dense(stage, source, xfs):
    with open(source / "sparse", "wb") as handle:
        handle.truncate(9 << 20)
        handle.seek(5 << 20)
        handle.write(b"x" * 1000)
    stage("in", source, xfs.path)
    shape.expect_staged(xfs.path, {"sparse": (source / "sparse").read_bytes()})


def test_symbolic_links_are_kept(stage, source, xfs):
    data.write(source / "d/target", b"12345")
    os.symlink("target", source / "d/link")
    os.symlink("/nowhere", source / "dangling")
    for _ in range(2):
        done = stage("in", source, xfs.path, "--json").event("done")
    assert done["files_staged"] == 0
    assert os.readlink(xfs.path / "d/link") == "target"
    assert os.readlink(xfs.path / "dangling") == "/nowhere"


def test_its_own_books_at_the_source_are_left_out(stage, source, xfs):
    """A folder that `out` saves checkpoints from, or `in` staged to, may be a source."""
    files = {"a": data.write(source / "a", b"1"), "d/.tierfs-stage-out/f": data.write(source / "d/.tierfs-stage-out/f", b"2")}
    data.write(source / ".tierfs-stage-out/journal", b"not a dataset's")
    data.write(source / ".tierfs-stage/manifest.jsonl", b"nor this")
    found = stage("in", source, xfs.path)
    assert "'.tierfs-stage-out' of the source" in found.err and "'.tierfs-stage' of the source" in found.err
    shape.expect_staged(xfs.path, files)


def test_empty_folders_are_left_out(stage, source, xfs):
    data.write(source / "a", b"1")
    (source / "empty/too").mkdir(parents=True)
    stage("in", source, xfs.path)
    assert sorted(os.listdir(xfs.path)) == [".tierfs-stage", "a"]


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_the_source_is_not_left_in_the_page_cache(stage, make_xfs, request, kind):
    xfs, disk = make_xfs(), make_xfs() if kind == "xfs" else request.getfixturevalue("ext4")
    files = {path: data.write(disk.path / "source" / path, content(path, size))
             for path, size in (("small", 100 << 10), ("odd", 12345), ("large", (20 << 20) + 77))}
    os.sync()
    for path in files:
        with open(disk.path / "source" / path, "rb") as handle:
            os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert shape.resident_pages(disk.path / "source" / path) == 0
    stage("in", disk.path / "source", xfs.path)
    shape.expect_staged(xfs.path, files)
    for path, body in files.items():
        # Where the kernel cannot read past its cache by itself, the last page may stay: it is not whole.
        assert shape.resident_pages(disk.path / "source" / path) <= (len(body) % 4096 != 0), path


def test_from_a_mount_of_tierfs(stage, source, xfs, folder):
    if not os.access(TIERFS, os.X_OK):
        pytest.skip(f"no tierfs at {TIERFS}")
    files = make_source(source, [0, 5000, 70000, (20 << 20) + 77])
    with daemon.Mount(source, folder=folder / "mount") as mounted:
        for _ in range(2):
            done = stage("in", mounted.path, xfs.path / "d", "--json").event("done")
        assert (done["files_staged"], done["files_kept"]) == (0, len(files))
        shape.expect_staged(xfs.path / "d", files)
        assert "lies within the source" in stage("in", mounted.path, mounted.path / "d", expect=1).err
        refused = stage("in", source, mounted.path, expect=1).err
        assert "fuse" in refused or "ead-only" in refused


def test_names_that_are_no_text(stage, source, xfs):
    name = b"bad-\xff\xfe"
    with open(os.fsencode(source) + b"/" + name, "wb") as handle:
        handle.write(b"bytes")
    stage("in", source, xfs.path)
    assert stage("in", source, xfs.path, "--json").event("done")["files_kept"] == 1
    with open(os.fsencode(xfs.path) + b"/" + name, "rb") as handle:
        assert handle.read() == b"bytes"


def test_only_what_changed_is_copied_again(stage, source, xfs):
    files = make_source(source, [5000] * 20)
    stage("in", source, xfs.path)
    first, second = sorted(files)[:2]
    files[first] = data.write(source / first, content("new", 7000))
    files["new"] = data.write(source / "new", b"n" * 10)
    os.unlink(source / second)
    gone = files.pop(second)
    done = stage("in", source, xfs.path, "--json").event("done")
    assert (done["files_staged"], done["files_kept"], done["bytes_from_source"]) == (2, 18, 7010)
    shape.expect_staged(xfs.path, {**files, second: gone})
    done = stage("in", source, xfs.path, "--json", "--delete").event("done")
    assert (done["files_staged"], done["files_removed"]) == (0, 1)
    shape.expect_staged(xfs.path, files)
    _, records = shape.manifest(xfs.path)
    assert records[second]["state"] == "removed"


def test_a_file_may_become_a_folder(stage, source, xfs):
    data.write(source / "a", b"1")
    stage("in", source, xfs.path)
    os.unlink(source / "a")
    data.write(source / "a/b", b"2")
    stage("in", source, xfs.path, "--delete")
    shape.expect_staged(xfs.path, {"a/b": b"2"})


def test_a_staged_file_that_somebody_took_away_comes_back(stage, source, xfs):
    files = make_source(source, [100, 200])
    stage("in", source, xfs.path)
    os.unlink(xfs.path / sorted(files)[0])
    stage("in", source, xfs.path)
    shape.expect_staged(xfs.path, files)


def test_plan_touches_nothing(stage, source, xfs):
    files = make_source(source, [5000] * 3)
    dest = xfs.path / "not/there"
    plan = stage("plan", source, dest, "--json").event("plan")
    assert plan["copy_files"] == 3 and plan["copy_bytes"] == 15000 and plan["keep_files"] == 0
    assert stage("in", source, dest, "--dry-run", "--json").event("plan")["copy_files"] == 3
    assert not (xfs.path / "not").exists()
    stage("in", source, dest)
    shape.expect_staged(dest, files)
    assert stage("plan", source, dest, "--json").event("plan")["keep_files"] == 3


def test_files_are_placed_by_space_and_the_farm_is_one_tree(stage, source, make_xfs):
    small, large = make_xfs(440 << 20), make_xfs(480 << 20)
    files = {f"d{number}/f": data.write(source / f"d{number}/f", content(number, 8 << 20)) for number in range(12)}
    farm = source.parent / "farm"
    for _ in range(2):
        stage("in", source, small.path, large.path, "--farm", farm)
    on_small, on_large = shape.files_of(small.path), shape.files_of(large.path)
    assert set(on_small) | set(on_large) == set(files) and not set(on_small) & set(on_large)
    assert len(on_large) > len(on_small) > 0
    for path, body in files.items():
        assert (farm / path).is_symlink() and (farm / path).read_bytes() == body
    gone = sorted(on_small)[0]
    os.unlink(source / gone)
    stage("in", source, small.path, large.path, "--farm", farm, "--delete")
    assert not os.path.lexists(farm / gone)
    (farm / sorted(on_large)[0]).read_bytes()


def test_shards_share_the_files(stage, source, xfs):
    files = make_source(source, [3000] * 40)
    counts = []
    running = [stage.start("in", source, xfs.path, "--json", "--shard", f"{number}/4", stdout=-1, stderr=-1)
               for number in range(4)]
    for process in running:
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, out + err
        counts.append(json.loads(out.splitlines()[-1])["files_staged"])
    assert sum(counts) == 40 and all(counts)
    shape.expect_staged(xfs.path, files)
    assert stage("in", source, xfs.path, "--json").event("done")["files_kept"] == 40


def test_progress_and_events_are_lines(stage, source, xfs):
    make_source(source, [1000, 2000])
    found = stage("in", source, xfs.path, "--json")
    assert [event["event"] for event in found.events][0] == "plan"
    assert len(found.events) == len(found.out.splitlines())
    assert sorted(event["size"] for event in found.all("staged")) == [1000, 2000]
    out = stage("in", source, xfs.path)
    assert "keep 2 files" in out.out


def test_the_whole_of_it(stage, source, bucket, make_xfs):
    """The counts of a real dataset, a twentieth of them unless --full: from a directory and from a bucket."""
    part = 1 if FULL else 20
    rules = [(10000 // part, 100 << 10), (100 // part, 64 << 20), (1, (4 << 30) // part)]
    chance = random.Random(1)
    checks = {}
    for count, size in rules:
        for number in range(count):
            path = f"s{size}/d{number % 50}/f{number}"
            body = chance.randbytes(4096) * (size // 4096)
            body = body + bytes(size - len(body))
            data.write(source / path, body)
            checks[path] = (size, zlib.crc32(body))
    total = sum(size for size, _ in checks.values())
    os.rmdir(bucket.folder)
    os.symlink(source, bucket.folder)
    bucket.server.control(rescan=1)
    try:
        for words in ([source], [bucket.url, *bucket.options]):
            disk = make_xfs(total * 5 // 4 + (400 << 20))
            done = stage("in", words[0], disk.path, *words[1:], "--json", limit=600 if FULL else 120).event("done")
            assert done["files_staged"] == len(checks)
            assert shape.files_of(disk.path) == {path: size for path, (size, _) in checks.items()}
            for path, (size, crc) in checks.items():
                assert shape.problems_of(disk.path / path, size) == [], path
                assert zlib.crc32(shape.read_direct(disk.path / path)) == crc, path
            disk.close()
    finally:
        os.unlink(bucket.folder)

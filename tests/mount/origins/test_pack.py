"""tierfs pack, and tierfs verify of a pack: from and to directories and buckets, killed, damaged."""

import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from harness import daemon, data, processes


def tierfs(*words, env=None):
    return processes.run([daemon.BINARY, *map(str, words)], env={**os.environ, **(env or {})}, timeout=60)


def options_of(bucket):
    return ["-o", ",".join(f"{key}={value}" for key, value in bucket.options().items())]


def pack(source, dest, *words, env=None):
    result = tierfs("pack", source, dest, "--json", *words, env=env)
    assert result.returncode == 0, result.err
    return json.loads(result.out)


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def make_dataset(folder, count=60):
    files = data.make_files(folder, count, 150_000)
    files["large"] = data.write(folder / "large", data.content("large", 3 << 20))
    files["empty"] = data.write(folder / "empty", b"")
    (folder / "link").symlink_to("large")
    return files


def test_directory_to_folder(origin, folder):
    make_dataset(origin)
    before = {path: path.stat().st_mtime_ns for path in origin.rglob("*")}
    dest = folder / "deep" / "pack"
    made = pack(origin, dest)
    assert (made["files"], made["packed_files"], made["symlinks"]) == (62, 60, 1)
    assert made["bytes_read"] == made["packed_bytes"]
    assert {path: path.stat().st_mtime_ns for path in origin.rglob("*")} == before, "the source is only read"
    checked = tierfs("verify", dest)
    assert checked.returncode == 0 and "60 packed files" in checked.out, checked
    again = pack(origin, dest)
    assert again["was_there"] and again["bytes_read"] == 0 and again["bytes_written"] == 0
    pack(origin, folder / "other")
    assert files_of(dest) == files_of(folder / "other"), "the same input gives the same bytes"


@pytest.mark.parametrize("codec", ["lz4", "zstd", "zstd:9"])
def test_codecs(origin, folder, mount, codec):
    """Text takes less, noise what it took; a mount reads both, whole and in parts, also the pack of another codec after an
    update, and without --codec a run goes on with the codec that is there."""
    words = random.Random(4)
    lines = [" ".join(words.choices(["tier", "extent", "pack", "origin", "index"], k=12)) + "\n" for _ in range(64)]
    files = {f"text{n:02}": data.write(origin / f"text{n:02}", "".join(words.choices(lines, k=1 + 50 * n)).encode())
             for n in range(20)}
    files["noise"] = data.write(origin / "noise", data.content("noise", 700_000))
    made = pack(origin, folder / "pack", "--codec", codec)
    assert made["codec"] == {"zstd": "zstd:3"}.get(codec, codec)
    assert 700_000 < made["extent_bytes"] < 700_000 + (made["packed_bytes"] - 700_000) / 2
    assert tierfs("verify", folder / "pack").returncode == 0
    m = mount(origin, {"pack": str(folder / "pack")})
    with open(m.path / "text19", "rb") as file:
        file.seek(40_000)
        assert file.read(5000) == files["text19"][40_000:45_000]
    data.expect_files(m.path, files)
    again = pack(origin, folder / "pack")
    assert again["was_there"] and again["bytes_read"] == 0
    refused = tierfs("pack", origin, folder / "pack", "--codec", "none")
    assert refused.returncode == 1 and f"its codec is {made['codec']}" in refused.err, refused
    updated = pack(origin, folder / "pack", "--codec", "none", "--update")
    assert updated["codec"] == "none" and updated["bytes_read"] == updated["packed_bytes"]
    data.expect_files(m.path, files)
    counted = m.status()["pack"]
    assert counted["reads"] >= len(files) and counted["failed"] == counted["damaged"] == 0
    later = mount(origin, {"pack": str(folder / "pack")})
    data.expect_files(later.path, files)
    assert later.status()["pack"]["failed"] == later.status()["pack"]["damaged"] == 0


def test_codecs_that_are_none(origin, folder):
    data.make_files(origin, 1, 100)
    for codec in ("gzip", "zstd:0", "zstd:20", "lz4:2", ""):
        refused = tierfs("pack", origin, folder / "pack", "--codec", codec)
        assert refused.returncode == 2 and "zstd:LEVEL" in refused.err, refused
    assert not (folder / "pack").exists()


def test_damage_is_named(origin, folder):
    make_dataset(origin)
    dest = folder / "pack"
    pack(origin, dest)
    extent = next((dest / "extents").iterdir())
    content = bytearray(extent.read_bytes())
    content[100_000] ^= 1
    extent.write_bytes(content)
    checked = tierfs("verify", dest, "--json")
    report = json.loads(checked.out)
    assert checked.returncode == 1 and report["bad_files"] == 1
    assert (origin / report["bad"][0]["file"]).is_file()
    assert tierfs("verify", dest, "--repair").returncode == 2
    (dest / "manifest.json").unlink()
    assert tierfs("verify", dest).returncode == 1


def test_the_order_of_a_trace(origin, folder, mount):
    """What `tierfs trace --order` has written of a mount is the order of a pack, and a mount reads it like any other."""
    files = make_dataset(origin)
    m = mount(origin)
    names = [name for name in files if name not in ("large", "empty")]
    random.Random(5).shuffle(names)
    (folder / "order").write_text("".join(f"{m.path}/{name}\n" for name in names[:40]) + f"{m.path}/none\n")
    result = tierfs("pack", origin, folder / "pack", "--order", folder / "order")
    assert result.returncode == 0 and "1 lines of the order name no file" in result.err, result
    extent, = (folder / "pack" / "extents").iterdir()
    content = extent.read_bytes()
    places = [content.index(files[name]) for name in names[:40] if len(files[name]) > 16]
    assert places == sorted(places)
    assert tierfs("verify", folder / "pack").returncode == 0
    packed = mount(origin, {"pack": str(folder / "pack")})
    data.expect_files(packed.path, files)
    assert packed.status()["pack"]["failed"] == packed.status()["pack"]["damaged"] == 0
    missing = tierfs("pack", origin, folder / "other", "--order", folder / "no-list")
    assert missing.returncode == 1 and "no-list" in missing.err


def test_an_update_leaves_readers_alone(bucket, mount):
    objects = {f"data/d{n % 5}/f{n:03}": data.content(n, 9000 * (n % 40) + 1) for n in range(80)}
    bucket.put_all(objects)
    source, dest, options = bucket.source("data"), bucket.source("pack"), options_of(bucket)
    pack(source, dest, *options, env=bucket.env)
    m = mount(source, bucket.options({"pack": dest}), env=bucket.env)
    before = {key.removeprefix("data/"): body for key, body in objects.items()}
    assert (m.path / "d0/f000").read_bytes() == before["d0/f000"]
    bucket.put("data/d1/f001", b"changed")
    refused = tierfs("pack", source, dest, *options, env=bucket.env)
    assert refused.returncode == 1 and "holds a pack already" in refused.err
    updated = pack(source, dest, "--update", *options, env=bucket.env)
    assert not updated["was_there"] and updated["removed_files"] == 0
    data.expect_files(m.path, before)
    counted = m.status()["pack"]
    assert counted["reads"] >= 79 and counted["failed"] == counted["damaged"] == 0
    m.umount()
    now = mount(source, bucket.options({"pack": dest}), env=bucket.env)
    data.expect_files(now.path, {**before, "d1/f001": b"changed"})
    assert now.status()["pack"]["failed"] == 0
    now.umount()
    pruned = pack(source, dest, "--update", "--prune", *options, env=bucket.env)
    assert pruned["was_there"] and pruned["removed_files"] == 2, "an index and an extent"
    checked = tierfs("verify", dest, *options, env=bucket.env)
    assert checked.returncode == 0, checked.err


def test_shards_of_a_bucket_make_one_pack(bucket, folder):
    objects = {f"data/d{n % 5}/f{n:03}": data.content(n, 700_000 + n) for n in range(150)}
    bucket.put_all(objects)
    source, dest, options = bucket.source("data"), bucket.source("pack"), options_of(bucket)
    running = [subprocess.Popen([daemon.BINARY, "pack", source, dest, "--json", "--shard", f"{n}/3", *options],
                                env={**os.environ, **bucket.env}, stdout=subprocess.PIPE) for n in range(3)]
    made = [json.loads(process.communicate(timeout=120)[0]) for process in running]
    assert any(one["complete"] for one in made)
    assert sum(one["bytes_read"] for one in made) == sum(map(len, objects.values()))
    whole = pack(source, folder / "whole", *options, env=bucket.env)
    assert next(one["index"] for one in made if one["complete"]) == whole["index"]
    checked = tierfs("verify", dest, *options, env=bucket.env)
    assert checked.returncode == 0, checked.err
    assert tierfs("pack", source, dest, "--shard", "3/3", *options, env=bucket.env).returncode == 2


def test_what_is_refused(origin, folder):
    data.write(origin / "a", b"a")
    inside = tierfs("pack", origin, origin / "pack")
    assert inside.returncode == 1 and "within" in inside.err
    above = tierfs("pack", origin, folder)
    assert above.returncode == 1 and "within" in above.err
    assert tierfs("pack", folder / "none", folder / "dest").returncode == 1
    assert tierfs("pack", origin).returncode == 2
    assert tierfs("pack", origin, folder / "dest", "-o", "nonsense=1").returncode == 2
    (folder / "dry").mkdir()
    dry = tierfs("pack", origin, folder / "dry", "--dry-run")
    assert dry.returncode == 0 and "to be packed: 1 files" in dry.out, dry
    assert not list((folder / "dry").iterdir())
    pack(origin, folder / "dest")
    data.write(origin / "b", b"b")
    other = tierfs("pack", origin, folder / "dest")
    assert other.returncode == 1 and "holds a pack already" in other.err


def test_bucket_to_bucket(bucket, folder):
    objects = {f"data/d{n % 5}/f{n:03}": data.content(n, 9000 * (n % 40)) for n in range(80)}
    objects["data/large"] = data.content("large", (2 << 20) + 17)
    bucket.put_all(objects)
    options = options_of(bucket)
    made = pack(bucket.source("data"), bucket.source("packs/one"), *options, env=bucket.env)
    assert (made["files"], made["packed_files"]) == (81, 78)
    checked = tierfs("verify", bucket.source("packs/one"), "--json", *options, env=bucket.env)
    assert checked.returncode == 0, checked.err
    assert json.loads(checked.out)["packed_files"] == 78
    again = pack(bucket.source("data"), bucket.source("packs/one"), *options, env=bucket.env)
    assert again["was_there"] and again["bytes_read"] == 0
    # A folder gets the same bytes as a bucket.
    there = pack(bucket.source("data"), folder / "pack", *options, env=bucket.env)
    assert there["index"] == made["index"]
    bucket.put("data/d0/f000", b"changed")
    other = tierfs("pack", bucket.source("data"), bucket.source("packs/one"), *options, env=bucket.env)
    assert other.returncode == 1 and "holds a pack already" in other.err


@pytest.mark.release
def test_killed_at_any_moment(origin, folder):
    for number in range(150):
        data.write(origin / f"d{number % 3}" / f"f{number}", data.content(number, 900_000))
    whole, dest = folder / "whole", folder / "pack"
    began = time.monotonic()
    pack(origin, whole)
    took = time.monotonic() - began
    chance = random.Random(7)
    kills = 0
    for _ in range(6):
        process = subprocess.Popen([daemon.BINARY, "pack", str(origin), str(dest)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.05, 0.9) * took)
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (dest / "manifest.json").exists():
            if kills:
                break
            shutil.rmtree(dest)  # it was quicker than the first one, on a machine that was busy then
            took /= 3
            continue
        assert tierfs("verify", dest).returncode == 1, "half a pack is none"
    assert kills > 0
    published = len(list((dest / "extents").glob("*.extent"))) if (dest / "extents").exists() else 0
    resumed = pack(origin, dest)
    assert resumed["found_extents"] == published, "what was published is not read again"
    assert files_of(dest) == files_of(whole)
    assert resumed["bytes_read"] < resumed["packed_bytes"] or published == 0


def test_interrupted_in_order(origin, folder):
    for number in range(100):
        data.write(origin / f"f{number}", data.content(number, 900_000))
    process = subprocess.Popen([daemon.BINARY, "pack", str(origin), str(folder / "pack")], stderr=subprocess.PIPE)
    processes.wait_until((folder / "pack").exists, what="it has begun")
    process.send_signal(signal.SIGINT)
    assert process.wait() in (0, 1)
    message = process.stderr.read().decode()
    assert process.returncode == 0 or "stopped" in message, message
    pack(origin, folder / "pack")
    assert os.path.exists(folder / "pack" / "manifest.json")


@pytest.mark.release
def test_a_mount_knows_all_names_without_a_listing(bucket, mount, cache):
    objects = {f"data/d{n % 5}/f{n:03}": data.content(n, 9000 * (n % 40)) for n in range(80)}
    objects["data/large"] = data.content("large", (2 << 20) + 17)
    bucket.put_all(objects)
    pack(bucket.source("data"), bucket.source("packs/one"), *options_of(bucket), env=bucket.env)
    m = mount(bucket.source("data"), bucket.options({**cache, "pack": bucket.source("packs/one")}), env=bucket.env)
    files = {key.removeprefix("data/"): body for key, body in objects.items()}
    assert {name for name in data.names(m.path) if b"f" in name or name == b"large"} == {os.fsencode(n) for n in files}
    before = m.status()["origin"]["requests"]
    data.expect_files(m.path, files)
    status = m.status()
    assert status["origin"]["requests"]["list"] == status["origin"]["requests"]["head"] == 0
    assert before["get"] <= 3, "manifest and index"
    assert status["pack"]["reads"] >= 78 and status["pack"]["damaged"] == status["pack"]["failed"] == 0
    assert os.stat(m.path / "large").st_size == (2 << 20) + 17
    # What the pack brought serves a mount without it, as it is in the tiers by what it is.
    m.umount()
    plain = mount(bucket.source("data"), bucket.options(cache), env=bucket.env)
    data.expect_files(plain.path, files)
    assert plain.status()["reads"]["by_tier"]["nvme"] > 0.9 * sum(map(len, files.values()))


def test_names_and_attributes_are_those_of_the_source(origin, folder, mount):
    files = make_dataset(origin)
    (origin / "d01").chmod(0o751)
    os.chown(origin / "d01" / "f00001.bin", 1234, 4321)
    os.utime(origin / "d02", ns=(1, 1_234_567_890_123_456_789))
    (origin / "nothing").mkdir()
    pack(origin, folder / "pack")
    plain = mount(origin)
    packed = mount(origin, {"pack": str(folder / "pack")})
    for path in [".", *(os.fsdecode(name) for name in data.names(plain.path))]:
        one, other = os.lstat(plain.path / path), os.lstat(packed.path / path)
        for name in ("st_mode", "st_size", "st_uid", "st_gid", "st_nlink", "st_mtime_ns", "st_ctime_ns"):
            assert getattr(one, name) == getattr(other, name), (path, name)
    assert data.names(plain.path) == data.names(packed.path)
    assert os.readlink(packed.path / "link") == "large"
    data.expect_files(packed.path, files)
    for name in ("none", "d01/none", "d01/f00001.bin/none"):
        assert not os.path.exists(packed.path / name)
    with pytest.raises(OSError, match="Read-only"):
        (packed.path / "new").touch()


@pytest.mark.release
@pytest.mark.parametrize("damage", ["flipped", "removed", "short"])
def test_damaged_extents_cost_nothing_but_time(origin, folder, mount, damage):
    files = make_dataset(origin)
    pack(origin, folder / "pack")
    for extent in (folder / "pack" / "extents").iterdir():
        content = bytearray(extent.read_bytes())
        if damage == "flipped":
            content[100_000] ^= 1
        if damage == "removed":
            extent.unlink()
        else:
            extent.write_bytes(content[:len(content) // 2] if damage == "short" else content)
    m = mount(origin, {"pack": str(folder / "pack")})
    data.expect_files(m.path, files)
    counted = m.status()["pack"]
    assert counted["damaged" if damage == "flipped" else "failed"] > 0
    assert "extents/" in counted["last_error"] and "source" in counted["last_error"]
    assert counted["reads"] > 0 or damage == "removed"


def test_packs_that_are_none_are_refused(origin, folder, mount):
    data.write(origin / "a", b"a")
    (folder / "empty").mkdir()
    for pack_path, why in ((folder / "empty", "no pack"), (folder / "none", "no such file")):
        assert why in mount.prepare(origin, {"pack": str(pack_path)}).refuse()
    pack(origin, folder / "pack")
    other = folder / "other"
    data.write(other / "a", b"a")
    assert "pack of dir:" in mount.prepare(other, {"pack": str(folder / "pack")}).refuse()
    assert "pack" in mount.prepare(origin, {"pack": str(folder / "pack"), "rw": None}).refuse()


def test_the_index_is_fetched_once(origin, folder, mount, cache):
    make_dataset(origin)
    pack(origin, folder / "pack")
    m = mount(origin, {**cache, "pack": str(folder / "pack")})
    first = m.status()["origin"]["requests"]["get"]
    m.umount()
    kept = [path for path in (folder / "cache").rglob("pack-*") if "manifest" not in path.name]
    assert len(kept) == 1
    again = mount(origin, {**cache, "pack": str(folder / "pack")})
    assert again.status()["origin"]["requests"]["get"] < first
    again.umount()
    content = bytearray(kept[0].read_bytes())
    content[-70] ^= 1
    kept[0].write_bytes(content)
    third = mount(origin, {**cache, "pack": str(folder / "pack")})
    assert len(data.names(third.path)) > 60
    assert third.status()["origin"]["requests"]["get"] == first, "a damaged one is fetched again"


@pytest.mark.release
def test_a_fill_fetches_stretches_of_extents(nginx_bucket, mount, cache):
    """What it brought is in the NVMe tier: a daemon that takes over after a kill asks the server for nothing."""
    objects = {f"data/f{number:04}": data.content(number, 20_000) for number in range(600)}
    nginx_bucket.put_all(objects)
    pack(nginx_bucket.source("data"), nginx_bucket.source("pack"), *options_of(nginx_bucket), env=nginx_bucket.env)
    nginx_bucket.server.control(ttfb_ms=20)
    options = nginx_bucket.options({**cache, "pack": nginx_bucket.source("pack"), "class": "epoch"})
    m = mount(nginx_bucket.source("data"), options, env=nginx_bucket.env)
    size = sum(map(len, objects.values()))
    processes.wait_until(lambda: m.status()["pack"]["bytes"] >= size, 60)
    counted = m.status()["pack"]
    assert counted["requests"] < 0.05 * counted["reads"], counted
    files = {key.removeprefix("data/"): body for key, body in objects.items()}
    data.expect_files(m.path, files)
    requests = m.status()["origin"]["requests"]
    assert requests["list"] == requests["head"] == 0 and requests["get"] < 60
    processes.wait_until(lambda: m.tier("nvme")["admitted_bytes"] >= size, 60)
    m.kill_daemon()
    data.forget_below(m.path)
    data.expect_files(m.path, files)
    assert m.status()["origin"]["requests"]["get"] == 0


def test_goes_on_when_the_daemon_dies_and_the_pack_is_gone(origin, folder, mount, cache):
    files = make_dataset(origin)
    pack(origin, folder / "pack")
    m = mount(origin, {**cache, "pack": str(folder / "pack")})
    assert len(data.names(m.path)) > 60
    for path in list((folder / "pack").rglob("*")):
        if path.is_file():
            path.unlink()
    m.kill_daemon()
    data.expect_files(m.path, files)
    assert m.status()["pack"]["failed"] > 0


def test_pack_saves_requests_by_its_nvme_tier(nginx_bucket, folder, mount):
    """The figures stand in tierfs(8), PACKS."""
    files = {f"d{number % 20:02}/f{number:05}": data.content(number, 2000) for number in range(5000)}
    nginx_bucket.put_all(files)
    pack(nginx_bucket.source(), folder / "pack", *options_of(nginx_bucket), env=nginx_bucket.env)
    requests = {}
    for with_nvme in (False, True):
        options = {"pack": str(folder / "pack")}
        if with_nvme:
            (folder / "cache").mkdir(mode=0o700)
            options.update({"nvme.path": str(folder / "cache"), "nvme.limit": "256M"})
        m = mount(nginx_bucket.source(), nginx_bucket.options(options), env=nginx_bucket.env)
        order = sorted(files)
        random.Random(1).shuffle(order)
        for name in order:
            data.expect_same((m.path / name).read_bytes(), files[name], name)
        requests[with_nvme] = m.status()["pack"]["requests"]
        m.umount()
    print(f"requests without and with an NVMe tier: {requests}")
    assert requests[True] < requests[False] / 2, requests

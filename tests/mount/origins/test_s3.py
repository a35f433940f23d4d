"""S3 as origin, on nginx (quick, countable) and on Ceph RGW (real)."""

import errno
import hashlib
import os
import subprocess
import time

import pytest

from harness import data, processes, servers

pytestmark = pytest.mark.release


def show(bucket, mount, prefix="", **options):
    return mount(bucket.source(prefix), bucket.options({"metadata.ttl": "1s", **options}), env=bucket.env)


@pytest.mark.quick
@pytest.mark.tsan
def test_objects_are_files(bucket, mount):
    objects = {f"dir{n % 5}/sub/file{n:03}": data.content(n, 1000 * (n % 40)) for n in range(80)}
    objects["top"] = b"at the top"
    objects["large"] = data.content("large", (20 << 20) + 17)
    bucket.put_all(objects)
    m = show(bucket, mount)
    data.expect_files(m.path, objects)
    wanted = {os.fsencode(key) for key in objects}
    wanted |= {os.fsencode(f"dir{n}") for n in range(5)} | {os.fsencode(f"dir{n}/sub") for n in range(5)}
    assert set(data.names(m.path)) == wanted
    assert os.stat(m.path / "large").st_size == (20 << 20) + 17
    assert os.path.isdir(m.path / "dir1") and not os.path.exists(m.path / "dir1/none")


def test_prefix_is_the_root(bucket, mount):
    bucket.put_all({"data/train/a": b"A", "data/train/b/c": b"C", "data/trainer/x": b"no", "data/other": b"no"})
    m = show(bucket, mount, "data/train")
    assert data.names(m.path) == [b"a", b"b", b"b/c"]
    data.expect_files(m.path, {"a": b"A", "b/c": b"C"})


@pytest.mark.quick
def test_random_reads(bucket, mount):
    body = data.content("random", 6 << 20)
    bucket.put("big", body)
    m = show(bucket, mount, **{"prefetch.window": "1M"})
    handle = os.open(m.path / "big", os.O_RDONLY)
    try:
        for n in range(40):
            offset = n * 7919 * 131 % len(body)
            data.expect_same(os.pread(handle, 10_000, offset), body[offset:offset + 10_000], offset)
        assert os.pread(handle, 10, len(body)) == b""
    finally:
        os.close(handle)


def test_odd_keys(rgw_bucket, mount):
    good = ["sp ace", "plus+plus", "per%41cent", "uni-é-日本", "q'uote\"s", "a&b=c?d#e", "semi;colon:at@,", "br[ack]et{s}",
            "back\\slash", "tilde~star*!()", "tab\tx", "dot./..x", "newline\nx", "ctrl\x01x", "<xml>&amp;", "p/" + "L" * 255]
    hidden = ["a//b", "x/./y", "x/../y", "/lead", "long/" + "M" * 256]
    rgw_bucket.put_all({key: b"body of " + key.encode() for key in good + hidden})
    m = show(rgw_bucket, mount)
    for key in good:
        assert data.read_cold(os.path.join(os.fsencode(m.path), key.encode())) == b"body of " + key.encode()
    listed = set(data.names(m.path))
    assert {key.encode() for key in good} <= listed
    assert not any(b"body" in name or name.startswith(b"/") for name in listed)
    assert os.listdir(m.path / "long") == [] or not os.path.exists(m.path / "long")
    told = m.status()["hidden_keys"]
    assert sum(entry["count"] for entry in told) >= 1 and all(entry["reason"] for entry in told), told


def test_object_beside_a_prefix_of_its_name(rgw_bucket, mount):
    """Keys "both" and "both/x": one name can be only one of the two; what is below stays reachable."""
    rgw_bucket.put_all({"both": b"file", "both/x": b"child", "both-2": b"other"})
    m = show(rgw_bucket, mount)
    assert sorted(os.listdir(m.path)) == ["both", "both-2"]
    assert (m.path / "both/x").read_bytes() == b"child"
    assert sum(entry["count"] for entry in m.status()["hidden_keys"]) >= 1


def test_directory_markers(rgw_bucket, mount):
    rgw_bucket.put_all({"marked/": b"", "marked/file": b"x", "lonely/": b""})
    m = show(rgw_bucket, mount)
    assert data.names(m.path) == [b"lonely", b"marked", b"marked/file"]
    assert os.listdir(m.path / "lonely") == [] and os.listdir(m.path / "marked") == ["file"]


def test_more_than_one_page(nginx_bucket, mount):
    objects = {f"many/{n:05}": b"%d" % n for n in range(2345)}
    nginx_bucket.put_all(objects)
    m = show(nginx_bucket, mount, **{"metadata.ttl": "1h"})
    assert sorted(os.listdir(m.path / "many")) == [f"{n:05}" for n in range(2345)]
    counted = nginx_bucket.server.control()
    assert 3 <= counted["list"] <= 12, counted
    before = counted["requests"]
    for n in range(0, 2345, 50):  # attributes came with the listing
        assert os.stat(m.path / f"many/{n:05}").st_size == len(str(n))
    assert nginx_bucket.server.control()["requests"] - before <= 2
    data.expect_files(m.path, {key: objects[key] for key in list(objects)[::200]})


def test_pages_on_rgw(rgw_bucket, mount):
    objects = {f"many/{n:04}": b"" for n in range(1050)}
    rgw_bucket.put_all(objects)
    m = show(rgw_bucket, mount)
    assert sorted(os.listdir(m.path / "many")) == [f"{n:04}" for n in range(1050)]


def names_of_many_pages():
    """As they are counted on: numbers with and without zeros before them, hashes, directories, odd ones."""
    names = [f"file{number:05}.jpg" for number in range(1500)] + [f"cat.{number}.jpg" for number in range(900)]
    names += [hashlib.md5(b"%d" % number).hexdigest() for number in range(1200)]
    names += [f"d{number:04}/below" for number in range(1100)] + [f"été {number}" for number in range(30)] + ["~last"]
    return names


@pytest.mark.parametrize("kind", ["nginx", "rgw"])
def test_pages_that_are_asked_for_beside_each_other(kind, request, mount):
    bucket, names = request.getfixturevalue(f"{kind}_bucket"), names_of_many_pages()
    bucket.put_all({name: b"" for name in names})
    m = show(bucket, mount, **{"metadata.ttl": "1h"})
    assert sorted(os.listdir(m.path)) == sorted(name.partition("/")[0] for name in names)
    pages = -(-len(names) // 1000)
    assert pages <= m.status()["origin"]["requests"]["list"] <= 10 * pages  # five families, each of about a page: most guesses are wrong
    walked = subprocess.run(["find", m.path, "-type", "f"], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    assert sorted(os.path.relpath(path, m.path) for path in walked) == sorted(names)


@pytest.mark.quick
def test_requests_are_counted(nginx_bucket, mount):
    objects = {f"f{n}": data.content(n, 10_000) for n in range(20)}
    nginx_bucket.put_all(objects)
    nginx_bucket.server.calm()
    m = show(nginx_bucket, mount, **{"metadata.ttl": "1h"})
    data.expect_files(m.path, objects, cold=False)
    seen, told = nginx_bucket.server.control(), m.status()["origin"]
    assert {kind: told["requests"][kind] for kind in ("get", "list", "head")} == \
           {kind: seen[kind] for kind in ("get", "list", "head")}
    assert seen["get"] == 20 and told["bytes_read"] == sum(map(len, objects.values()))


@pytest.mark.quick
@pytest.mark.tsan
def test_remount_needs_no_get(nginx_bucket, mount, cache):
    objects = {f"d/{n}": data.content(n, 30_000) for n in range(100)}
    objects["large"] = data.content("large", 9 << 20)
    nginx_bucket.put_all(objects)
    m = show(nginx_bucket, mount, **cache)
    data.expect_files(m.path, objects)
    m.umount()
    nginx_bucket.server.calm()
    m = show(nginx_bucket, mount, **cache, **{"ram.limit": "0"})
    data.expect_files(m.path, objects)
    assert nginx_bucket.server.control()["get"] == 0


def test_replaced_object(bucket, mount):
    old, new = b"\1" * (12 << 20), b"\2" * ((12 << 20) + 1)
    bucket.put("object", old)
    m = show(bucket, mount, **{"prefetch.window": "1M"})
    with open(m.path / "object", "rb", buffering=0) as handle:
        assert handle.read(4096) == old[:4096]
        bucket.put("object", new)
        for offset in range(4096, len(old), 1 << 20):
            try:
                piece = os.pread(handle.fileno(), 65536, offset)
            except OSError as error:
                assert error.errno == errno.ESTALE
                break
            assert set(piece) <= {1}

    def renewed():
        try:
            return (m.path / "object").read_bytes() == new
        except OSError as error:
            assert error.errno == errno.ESTALE
            return False
    processes.wait_until(renewed, timeout=15, what="the new object")


def test_deleted_object(bucket, mount):
    bucket.put_all({"d/stays": b"1", "d/goes": b"2"})
    m = show(bucket, mount)
    assert sorted(os.listdir(m.path / "d")) == ["goes", "stays"]
    bucket.server.delete(bucket.name, "d/goes")
    processes.wait_until(lambda: not os.path.exists(m.path / "d/goes"), timeout=15, what="deletion is seen")
    processes.wait_until(lambda: os.listdir(m.path / "d") == ["stays"], timeout=15, what="deletion in the listing")


def test_missing_bucket(bucket, mount):
    m = mount.prepare("s3://no-such-bucket-here", bucket.options(), env=bucket.env)
    assert "no-such-bucket-here" in m.refuse()


def test_an_object_is_no_source(rgw_bucket, mount):
    rgw_bucket.put("folder/file", b"x")
    for source in ("folder/file", "folder/file/"):
        said = mount.prepare(rgw_bucket.source(source), rgw_bucket.options(), env=rgw_bucket.env).refuse()
        assert "folder/file is an object" in said, said
    assert "no such object or prefix" in mount.prepare(rgw_bucket.source("none"), rgw_bucket.options(), env=rgw_bucket.env).refuse()


def test_missing_prefix_is_empty_or_refused(nginx_bucket, mount):
    nginx_bucket.put("here/file", b"x")
    m = mount.prepare(nginx_bucket.source("not/here"), nginx_bucket.options(), env=nginx_bucket.env)
    finished = m.attempt()
    if finished.returncode == 0:
        assert os.listdir(m.path) == []
    else:
        assert finished.returncode == 1 and "not/here" in finished.out + finished.err


def test_wrong_secret(rgw_bucket, mount):
    rgw_bucket.put("file", b"x")
    env = {**rgw_bucket.env, "AWS_SECRET_ACCESS_KEY": "this-is-quite-wrong"}
    said = mount.prepare(rgw_bucket.source(), rgw_bucket.options(), env=env).refuse()
    assert rgw_bucket.name in said or "credential" in said or "signature" in said or "denied" in said
    assert "this-is-quite-wrong" not in said


def test_unknown_access_key(rgw_bucket, mount):
    env = {**rgw_bucket.env, "AWS_ACCESS_KEY_ID": "NOBODY"}
    said = mount.prepare(rgw_bucket.source(), rgw_bucket.options(), env=env).refuse()
    assert any(word in said for word in ("credential", "access", "denied", "key"))


def test_anonymous(rgw_bucket, nginx_bucket, mount):
    nginx_bucket.put("file", b"public")
    m = mount(nginx_bucket.source(), nginx_bucket.options({"s3.anonymous": "true"}))
    assert (m.path / "file").read_bytes() == b"public"
    refused = mount.prepare(rgw_bucket.source(), rgw_bucket.options({"s3.anonymous": "true"}))
    assert any(word in refused.refuse() for word in ("anonym", "access", "denied", "credential"))


def test_secrets_are_not_logged(rgw_bucket, mount):
    rgw_bucket.put("file", b"x")
    m = show(rgw_bucket, mount)
    (m.path / "file").read_bytes()
    assert servers.SECRET_KEY not in m.log.read_text(errors="replace")
    for pid in m.processes():
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as line:
            assert servers.SECRET_KEY not in line.read()


@pytest.mark.tsan
def test_storm_of_503(nginx_bucket, mount):
    objects = {f"d/{n:03}": data.content(n, 20_000) for n in range(90)}
    nginx_bucket.put_all(objects)
    m = show(nginx_bucket, mount, **{"metadata.ttl": "1h"})
    nginx_bucket.server.control(fail_every=3)
    data.expect_files(m.path, objects, cold=False)
    status = m.status()
    assert status["reads"]["errors"] == 0
    assert status["origin"]["retries"] > 0 and nginx_bucket.server.control()["failed"] > 10
    nginx_bucket.server.control(fail_every=0)


def test_503_at_start(nginx_bucket, mount):
    nginx_bucket.put("file", b"x")
    nginx_bucket.server.control(fail_next=3)
    m = show(nginx_bucket, mount)
    assert (m.path / "file").read_bytes() == b"x"


@pytest.mark.alone
def test_slow_first_byte_overlaps(nginx_bucket, mount):
    """32 files at 100 ms each, read by 8 readers at once: requests must not queue behind one another."""
    objects = {f"{n}": data.content(n, 5000) for n in range(32)}
    nginx_bucket.put_all(objects)
    m = show(nginx_bucket, mount, **{"metadata.ttl": "1h"})
    os.listdir(m.path)
    nginx_bucket.server.control(ttfb_ms=100)
    begun = time.monotonic()
    processes.check(["bash", "-c", f"ls -d '{m.path}'/* | xargs -P 8 -n 4 cat >/dev/null"], suspects=m.processes)
    # One after the other would be 3.2 s; the bound leaves a busy machine much room.
    assert time.monotonic() - begun < 2.4 * max(processes.SLOWNESS, 1)

"""tierfs warm, evict, class, verify: what people ask of a mount's tiers."""

import json
import os
import signal
import subprocess
import time

import pytest

from harness import daemon, data, processes

pytestmark = pytest.mark.release

SIZE = 60 * 1024


def tierfs(*words, **more):
    return subprocess.run([daemon.BINARY, *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=60 * processes.SLOWNESS, **more)


def tier_of(path):
    return os.getxattr(path, "user.tierfs.tier").decode()


def sent(bucket):
    return bucket.server.control()["bytes"]


def put(bucket, prefix, count, size=SIZE):
    files = {f"{prefix}/f{number:04}.bin": data.content(f"{prefix}{number}", size) for number in range(count)}
    bucket.put_all(files)
    return files


@pytest.fixture
def m(mount, nginx_bucket, cache):
    nginx_bucket.files = {**put(nginx_bucket, "a", 40), **put(nginx_bucket, "b/c", 5), **put(nginx_bucket, "big", 1, 9 << 20)}
    return mount(nginx_bucket.source(), nginx_bucket.options({**cache, "origin.hedge": "0"}), env=nginx_bucket.env)


def test_warm_brings_a_tree_and_the_rest_of_it_later(m, nginx_bucket):
    files = nginx_bucket.files
    first = tierfs("warm", m.path / "a", "--wait", "--json")
    assert first.returncode == 0, first
    done = json.loads(first.stdout)
    assert done["files"] == 40 and done["brought_bytes"] == 40 * SIZE and done["failed"] == 0, done
    for name in files:
        assert ("origin" in tier_of(m.path / name)) == (not name.startswith("a/")), name
    again = json.loads(tierfs("warm", m.path, "--wait", "--json").stdout)
    assert again["files"] == 46 and again["unchanged_files"] == 40 and again["brought_bytes"] == 5 * SIZE + (9 << 20), again
    before = sent(nginx_bucket)
    for name, expected in files.items():
        data.expect_same(data.read_cold(m.path / name), expected, name)
    assert sent(nginx_bucket) - before < SIZE, "all of it came from the tiers"
    people = tierfs("warm", m.path / "a/f0000.bin", "--wait")
    assert people.returncode == 0 and "1 were so already" in people.stdout, people


def test_warm_takes_a_list_and_names_what_failed(m, folder):
    listed = folder / "list"
    listed.write_text(f"{m.path}/a/f0001.bin\n\n{m.path}/b\n{m.path}/gone\n")
    done = tierfs("warm", "-f", listed, "--wait", "--json")
    assert done.returncode == 1, done
    assert json.loads(done.stdout)["files"] == 6 and json.loads(done.stdout)["failed"] == 1
    assert f"{m.path}/gone: " in done.stderr
    again = tierfs("warm", "-f", "-", "--wait", "--json", input=f"{m.path}/b\n")
    assert json.loads(again.stdout)["unchanged_files"] == 5


def test_warm_without_wait_goes_on_by_itself(m):
    assert tierfs("warm", m.path / "big").returncode == 0
    processes.wait_until(lambda: "origin" not in tier_of(m.path / "big/f0000.bin"), timeout=30, what="warmed")


@pytest.mark.quick
def test_evict_gives_up_what_the_tiers_hold(m, nginx_bucket):
    assert tierfs("warm", m.path, "--wait").returncode == 0
    done = tierfs("evict", m.path / "a", m.path / "big/f0000.bin", "--json")
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["brought_bytes"] == 40 * SIZE + (9 << 20)
    processes.wait_until(lambda: tier_of(m.path / "big/f0000.bin") == "origin", timeout=30, what="evicted")
    assert tier_of(m.path / "a/f0003.bin") == "origin"
    assert "origin" not in tier_of(m.path / "b/c/f0001.bin")
    for name, expected in nginx_bucket.files.items():
        data.expect_same(data.read_cold(m.path / name), expected, name)


def test_names_of_any_bytes(origin, mount, cache):
    name = b"caf\xe9 \xff\n" + "é".encode()
    (origin / os.fsdecode(name)).write_bytes(b"x" * 5000)
    m = mount(origin, cache)
    path = os.fsencode(m.path) + b"/" + name
    done = subprocess.run([os.fsencode(daemon.BINARY), b"warm", path, b"--wait", b"--json"], capture_output=True,
                          check=False, timeout=60 * processes.SLOWNESS)
    assert done.returncode == 0 and json.loads(done.stdout)["brought_bytes"] == 5000, done


def test_what_is_wrong_is_said(m, folder):
    outside = tierfs("warm", folder)
    assert outside.returncode == 1 and "lies in no mount of tierfs" in outside.stderr, outside
    assert tierfs("warm").returncode == 2
    assert tierfs("warm", "-f", folder / "none").returncode == 1
    wrong = tierfs("class", m.path, "/x/**", "hot")
    assert wrong.returncode == 1 and "there are: /**" in wrong.stderr, wrong
    assert "there is no class" in tierfs("class", m.path, "/**", "lru").stderr


def test_class_is_set_while_mounted(m):
    assert tierfs("class", m.path, "/**", "hot").returncode == 0
    found = m.status()["datasets"][0]
    assert found["configured"] == "hot" and found["class"] == "hot" and found["reason"] == "set while mounted"
    assert tierfs("class", m.path, "/**", "auto").returncode == 0
    assert m.status()["datasets"][0]["class"] == "undecided"


def test_other_users_cannot_command_the_daemon(m):
    done = tierfs("evict", m.path / "a", user=65534, group=65534, extra_groups=[])
    assert done.returncode == 1 and done.stdout == "", done
    assert tierfs("class", m.path, "/**", "hot", user=65534, group=65534, extra_groups=[]).returncode == 1
    assert m.status()["datasets"][0]["configured"] == "auto"


def test_verify_finds_and_drops_damage(m, mount, nginx_bucket, cache):
    assert tierfs("warm", m.path, "--wait").returncode == 0
    busy = tierfs("verify", cache["nvme.path"])
    assert busy.returncode == 1 and "unmount it first" in busy.stderr, busy
    m.umount()
    good = tierfs("verify", cache["nvme.path"], "--json")
    report = json.loads(good.stdout)[0]
    assert good.returncode == 0 and report["bad_files"] == 0, good
    assert report["bytes"] == 45 * SIZE + (9 << 20) and report["backing_files"] == 1
    victim = next(iter((daemon.Path(cache["nvme.path"])).glob("*/files/*/*.data")))
    with open(victim, "r+b") as file:
        file.seek(5 << 20)
        file.write(b"damage")
    bad = tierfs("verify", cache["nvme.path"])
    assert bad.returncode == 1 and str(victim) in bad.stderr, bad
    evil = daemon.Path(cache["nvme.path"]).rename(daemon.Path(cache["nvme.path"]).with_name("evil\x1b[2J\nname"))
    bad = tierfs("verify", evil)
    assert bad.returncode == 1 and r"evil\x1b[2J\nname" in bad.stderr and r"evil\x1b[2J\nname" in bad.stdout, bad
    assert "\x1b" not in bad.stderr + bad.stdout, bad
    evil.rename(cache["nvme.path"])
    assert tierfs("verify", cache["nvme.path"], "--repair").returncode == 0
    assert not victim.exists()
    assert tierfs("verify", cache["nvme.path"]).returncode == 0
    again = mount(nginx_bucket.source(), nginx_bucket.options({**cache, "origin.hedge": "0"}), env=nginx_bucket.env)
    before = sent(nginx_bucket)
    for name, expected in nginx_bucket.files.items():
        data.expect_same(data.read_cold(again.path / name), expected, name)
    assert sent(nginx_bucket) - before < (9 << 20) + 4 * SIZE
    assert again.status()["reads"]["checksum_errors"] == 0


def test_warm_leaves_out_what_no_tier_can_hold(mount, origin):
    with (origin / "sparse").open("wb") as file:
        file.truncate(1 << 41)
    (origin / "small").write_bytes(b"x" * 1000)
    m = mount(origin, {"memory.limit": "96M"})
    done = tierfs("warm", m.path / "sparse", "--wait")
    assert done.returncode == 1 and "the tiers hold" in done.stderr, done
    assert m.status()["origin"]["bytes_read"] == 0
    assert tierfs("warm", m.path / "small", "--wait").returncode == 0


def test_warm_of_what_is_not_there_begins_nothing(m):
    done = tierfs("warm", m.path / "a", m.path / "none")
    assert done.returncode == 1 and "none" in done.stderr and "nothing was begun" in done.stderr, done
    assert "origin" in tier_of(m.path / "a/f0000.bin")


@pytest.fixture
def slow(mount, faulty):
    """Files that take half a minute, one after the other."""
    faulty.objects = {f"d/f{number:03}": data.content(number, 1000) for number in range(100)}

    def fault(method, key, _number):
        if method == "GET" and key.startswith("d/f"):
            time.sleep(0.3)
    faulty.fault = fault
    return mount("s3://bucket", {**faulty.options, "origin.connections": "1", "origin.hedge": "0"}, env=faulty.env)


def fetched(m):
    return m.status()["origin"]["requests"]["get"]


def test_ctrl_c_ends_the_job_of_who_waits(slow):
    with subprocess.Popen([daemon.BINARY, "warm", slow.path / "d", "--wait"], stderr=subprocess.PIPE, text=True) as warm:
        processes.wait_until(lambda: fetched(slow) > 1, what="files that are brought")
        warm.send_signal(signal.SIGINT)
        assert "stopped before the end" in warm.communicate(timeout=60 * processes.SLOWNESS)[1]
        assert warm.returncode == 1
    assert fetched(slow) < 90
    before = fetched(slow)
    time.sleep(1)
    assert fetched(slow) == before


def test_cancel_ends_jobs_that_nobody_waits_for(slow):
    assert tierfs("warm", slow.path / "d").returncode == 0
    processes.wait_until(lambda: fetched(slow) > 1, what="files that are brought")
    done = tierfs("warm", "--cancel", slow.path)
    assert done.returncode == 0 and done.stdout == "stopped 1 jobs\n", done
    time.sleep(1)
    before = fetched(slow)
    time.sleep(1)
    assert fetched(slow) == before < 90
    assert tierfs("warm", "--cancel", slow.path).stdout == "stopped 0 jobs\n"


def test_evict_names_a_reason_once(m):
    assert tierfs("pin", m.path / "a", "--wait").returncode == 0
    done = tierfs("evict", m.path / "a")
    assert done.returncode == 1 and done.stderr.count("is pinned") == 1 and "more)" in done.stderr, done

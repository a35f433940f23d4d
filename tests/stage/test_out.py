"""tierfs-stage out against a real S3 (Ceph's gateway) and real directories: what arrives, and what a kill at any moment,
a server that is away, a destination that refuses and files that change leave behind."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

for part in ("faults", "mount"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / part))

# pylint: disable=wrong-import-position
from harness import disks, processes, servers  # noqa: E402
from proxy import Proxy  # noqa: E402
from proxy.certificates import Certificates  # noqa: E402

TIERFS = Path(os.environ.get("TIERFS_TEST_BINARY", Path(__file__).resolve().parents[2] / "build/dev/tierfs"))
STAGE = TIERFS.with_name("tierfs-stage")
LIMIT = 100
MIB = 1 << 20
PART = 16 * MIB
JOBS = 4
MANIFEST = ".tierfs-stage/manifest.jsonl"




@pytest.fixture(scope="session")
def out_root():
    path = Path(tempfile.mkdtemp(prefix="out-", dir=os.environ.get("TIERFS_TEST_ROOT") or None))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def place(out_root):
    """A folder for the test."""
    return Path(tempfile.mkdtemp(dir=out_root))


@pytest.fixture(scope="session")
def rgw(out_root):
    lacking = servers.missing_for_rgw()
    if lacking:
        pytest.skip(f"not installed: {lacking} (packaging/dependencies --test)")
    server = servers.Rgw(out_root / "rgw")
    yield server
    server.stop()


class Bucket:
    def __init__(self, server, name):
        self.server, self.name, self.client = server, name, server.client
        server.calm()
        server.make_bucket(name)
        self.url = f"s3://{name}/checkpoints"
        self.settings = ["-o", f"s3.endpoint={server.endpoint},s3.region=us-east-1"]

    def keys(self):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def body(self, path):
        return self.client.get_object(Bucket=self.name, Key=f"checkpoints/{path}")["Body"].read()

    def head(self, path):
        return self.client.head_object(Bucket=self.name, Key=f"checkpoints/{path}")

    def uploads(self):
        return self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])

    def puts(self):
        return self.server.control()["put"]


@pytest.fixture
def bucket(rgw):
    rgw.out_buckets = getattr(rgw, "out_buckets", 0) + 1
    made = Bucket(rgw, f"out{rgw.out_buckets}")
    yield made
    rgw.calm()


class Program:
    """Starts tierfs-stage out with a clean environment; all that it started ends with the test."""

    def __init__(self, place):
        self.place, self.started = place, []
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("AWS_", "TIERFS_")) and not name.lower().endswith("_proxy")}
        self.env.update(HOME=str(place), AWS_EC2_METADATA_DISABLED="true", AWS_ACCESS_KEY_ID=servers.ACCESS_KEY,
                        AWS_SECRET_ACCESS_KEY=servers.SECRET_KEY,
                        ASAN_OPTIONS="abort_on_error=1:disable_coredump=1",
                        UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:abort_on_error=1")

    def start(self, *words, faults="", env=None):
        environment = {**self.env, **(env or {})}
        if faults:
            environment["TIERFS_TEST_FAULTS"] = faults
        process = subprocess.Popen([STAGE, "out", *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="replace", env=environment)
        self.started.append(process)
        return process

    def finish(self, process, expect=0, limit=LIMIT):
        out, err = process.communicate(timeout=limit * processes.SLOWNESS)
        assert expect is None or process.returncode == expect, f"{process.args} -> {process.returncode}\n{out}\n{err}"
        process.out, process.err = out, err
        return process

    def __call__(self, *words, expect=0, faults="", env=None, limit=LIMIT):
        return self.finish(self.start(*words, faults=faults, env=env), expect, limit)

    def summary(self, *words, **more):
        """Of a run with --json."""
        lines = [json.loads(line) for line in self(*words, "--json", **more).out.splitlines()]
        assert lines[-1]["event"] == "end", lines
        return lines[-1]["summary"]


@pytest.fixture
def out(place):
    program = Program(place)
    yield program
    for process in program.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def make(folder, seed=1, large=3 * PART + 12345, small=12):
    """Files of a checkpoint: path -> bytes."""
    dice = random.Random(seed)
    files = {f"step/{number}.bin": dice.randbytes(dice.randrange(1, 100000)) for number in range(small)}
    files["step/odd \u00e4 %41+&?#.pt"] = b"odd"
    files["empty"] = b""
    files["model.pt"] = dice.randbytes(large)
    files["optim.pt"] = dice.randbytes(PART)
    for path, body in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(body)
    return files


def digest(body):
    return hashlib.sha256(body).hexdigest()


def expect_bucket(bucket, files):
    assert sorted(bucket.keys()) == sorted([f"checkpoints/{path}" for path in files] + [f"checkpoints/{MANIFEST}"])
    for path, body in files.items():
        assert digest(bucket.body(path)) == digest(body), path
    assert not bucket.uploads()
    expect_manifest(bucket.body(MANIFEST), files)


def expect_folder(folder, files):
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == set(files) | {MANIFEST}
    for path, body in files.items():
        assert digest((folder / path).read_bytes()) == digest(body), path
    expect_manifest((folder / MANIFEST).read_bytes(), files)


def expect_manifest(text, files):
    header, *records = [json.loads(line) for line in text.decode().splitlines()]
    assert header["format"] == "tierfs-stage-manifest"
    assert {record["path"]: record["size"] for record in records} == {path: len(body) for path, body in files.items()}
    for record in records:
        assert len(record["crc32c"]) == -(-record["size"] // PART)


def wait_stopped(process):
    """Until the program has stopped itself at a fault point."""
    def stopped():
        assert process.poll() is None, process.communicate()
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    processes.wait_until(stopped, timeout=60, what="the program stops at the fault point")


def source(place):
    folder = place / "from"
    folder.mkdir()
    return folder


def test_everything_arrives_verified_and_the_second_run_sends_nothing(place, bucket, out):
    files = make(source(place))
    os.chmod(place / "from/model.pt", 0o640)
    summary = out.summary(place / "from", bucket.url, *bucket.settings, "--verify", "full")
    assert summary["sent"] == len(files) and summary["failed"] == 0 and summary["manifest_written"]
    expect_bucket(bucket, files)
    newest = max(bucket.client.list_objects_v2(Bucket=bucket.name)["Contents"], key=lambda entry: entry["LastModified"])
    assert newest["Key"] == f"checkpoints/{MANIFEST}"
    metadata = bucket.head("model.pt")["Metadata"]
    assert metadata["mode"] == str(0o100640)
    assert abs(float(metadata["mtime"]) - (place / "from/model.pt").stat().st_mtime) < 0.001
    before = bucket.puts()
    summary = out.summary(place / "from", bucket.url, *bucket.settings)
    assert summary["skipped"] == len(files) and summary["sent"] == 0
    assert bucket.puts() == before
    # Another machine, or a lost journal: the checksums decide.
    shutil.rmtree(place / "from/.tierfs-stage-out")
    assert out.summary(place / "from", bucket.url, *bucket.settings)["skipped"] == len(files)
    assert bucket.puts() == before


def test_only_what_changed_is_sent_and_what_vanished_is_removed_when_asked(place, bucket, out):
    files = make(source(place), large=PART + 1)
    bucket.client.put_object(Bucket=bucket.name, Key="checkpoints/foreign", Body=b"not ours")
    out(place / "from", bucket.url, *bucket.settings)
    files["step/1.bin"] = b"changed"
    (place / "from/step/1.bin").write_bytes(b"changed")
    del files["empty"]
    (place / "from/empty").unlink()
    told = out(place / "from", bucket.url, *bucket.settings, "--delete", "--dry-run").out
    assert "would remove empty" in told and "would send step/1.bin" in told
    assert "checkpoints/empty" in bucket.keys()
    summary = out.summary(place / "from", bucket.url, *bucket.settings, "--delete")
    assert summary["sent"] == 1 and summary["removed"] == 1
    assert bucket.body("foreign") == b"not ours"
    bucket.client.delete_object(Bucket=bucket.name, Key="checkpoints/foreign")
    expect_bucket(bucket, files)


KILLS = [("http.send", number) for number in (1, 2, 3, 6, 9, 11, 13, 14, 15, 16, 17)] + \
        [("stage.out.read", number) for number in (1, 4, 7, 10)]


@pytest.mark.test_points
@pytest.mark.parametrize("point,number", KILLS)
def test_after_a_kill_the_same_command_ends_with_the_same_result(place, bucket, out, point, number):
    files = make(source(place), small=4)
    out(place / "from", bucket.url, *bucket.settings, "-j", JOBS, expect=-signal.SIGKILL,
        faults=f"{point}:{number}:kill")
    expect_no_half_objects(bucket, files)
    sent_before = bucket.puts()
    summary = out.summary(place / "from", bucket.url, *bucket.settings, "-j", JOBS)
    assert summary["manifest_written"]
    expect_bucket(bucket, files)
    # One for each small file, one for each part, the manifest; and what was in flight once more.
    needed = len(files) - 1 + 4 + 1
    assert bucket.puts() <= needed + JOBS, f"{sent_before} before the kill"


def expect_no_half_objects(bucket, files):
    for key in bucket.keys():
        path = key.removeprefix("checkpoints/")
        assert path in files and digest(bucket.body(path)) == digest(files[path]), path


@pytest.mark.test_points
def test_kills_one_after_the_other_come_to_an_end(place, bucket, out):
    files = make(source(place), small=4)
    for _ in range(12):
        process = out(place / "from", bucket.url, *bucket.settings, "-j", 2, expect=None, faults="http.send:14:kill")
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, process.err
    # The last steps need fewer requests than a run lives for, or not: the result counts.
    out(place / "from", bucket.url, *bucket.settings)
    expect_bucket(bucket, files)


@pytest.mark.test_points
@pytest.mark.parametrize("point,number", [("dir.write", 1), ("dir.write", 9), ("dir.sync", 5), ("dir.rename", 3),
                                          ("dir.rename", 8), ("dir.create", 6)])
def test_after_a_kill_a_directory_is_as_it_should_be(place, out, point, number):
    files = make(source(place), small=4)
    target = place / "to"
    out(place / "from", target, "-j", JOBS, expect=-signal.SIGKILL, faults=f"{point}:{number}:kill")
    for path, body in files.items():
        if (target / path).exists():
            assert digest((target / path).read_bytes()) == digest(body), path
    assert not (target / MANIFEST).exists()
    out(place / "from", target, "-j", JOBS)
    expect_folder(target, files)
    assert out.summary(place / "from", target)["skipped"] == len(files)


def test_a_directory_gets_the_attributes_too(place, out):
    files = make(source(place), small=2)
    os.chmod(place / "from/model.pt", 0o600)
    os.utime(place / "from/model.pt", ns=(1, 1_600_000_000_123_456_789))
    out(place / "from", place / "to", "--verify", "full")
    expect_folder(place / "to", files)
    status = (place / "to/model.pt").stat()
    assert status.st_mode & 0o7777 == 0o600 and status.st_mtime_ns == 1_600_000_000_123_456_789
    assert out.summary(place / "from", place / "to")["skipped"] == len(files)


@pytest.mark.test_points
def test_a_file_that_changes_while_it_is_sent_is_reported_and_not_seen(place, bucket, out):
    folder = source(place)
    (folder / "model.pt").write_bytes(random.Random(1).randbytes(3 * PART))
    process = out.start(folder, bucket.url, *bucket.settings, "-j", 1, faults="stage.out.read:2:stop")
    wait_stopped(process)
    with open(folder / "model.pt", "r+b") as handle:
        handle.write(b"changed")
    os.kill(process.pid, signal.SIGCONT)
    out.finish(process, expect=1)
    assert "'model.pt' changed while it was read" in process.err
    assert bucket.keys() == [] and not bucket.uploads()
    out(folder, bucket.url, *bucket.settings)
    expect_bucket(bucket, {"model.pt": (folder / "model.pt").read_bytes()})


@pytest.mark.test_points
def test_a_file_that_is_replaced_while_it_is_sent_is_reported(place, bucket, out):
    folder = source(place)
    (folder / "model.pt").write_bytes(random.Random(1).randbytes(2 * PART))
    process = out.start(folder, bucket.url, *bucket.settings, "-j", 1, faults="stage.out.read:2:stop")
    wait_stopped(process)
    (place / "new").write_bytes(b"new")
    os.rename(place / "new", folder / "model.pt")
    os.kill(process.pid, signal.SIGCONT)
    out.finish(process, expect=1)
    assert "changed" in process.err and bucket.keys() == []
    out(folder, bucket.url, *bucket.settings)
    expect_bucket(bucket, {"model.pt": b"new"})


@pytest.mark.test_points
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order_and_the_next_run_goes_on(place, bucket, out, number):
    files = make(source(place), small=4, large=4 * PART)
    process = out.start(place / "from", bucket.url, *bucket.settings, "-j", 1, faults="stage.out.read:4:stop")
    wait_stopped(process)
    os.kill(process.pid, number)
    os.kill(process.pid, signal.SIGCONT)
    out.finish(process, expect=1)
    assert "interrupted" in process.err
    assert f"checkpoints/{MANIFEST}" not in bucket.keys()
    out(place / "from", bucket.url, *bucket.settings)
    expect_bucket(bucket, files)


@pytest.mark.test_points
def test_two_at_once_do_not_collide(place, bucket, out):
    make(source(place), small=2)
    first = out.start(place / "from", bucket.url, *bucket.settings, faults="stage.out.read:1:stop")
    wait_stopped(first)
    second = out(place / "from", bucket.url, *bucket.settings, expect=1)
    assert "another tierfs-stage out" in second.err
    os.kill(first.pid, signal.SIGCONT)
    out.finish(first)


def test_a_server_that_is_away_is_told_in_time(place, out):
    make(source(place), small=1)
    port = servers.free_ports()
    begin = time.monotonic()
    process = out(place / "from", "s3://bkt/x", "-o",
                  f"s3.endpoint=http://127.0.0.1:{port},s3.region=us-east-1,origin.deadline=3s", expect=1)
    assert time.monotonic() - begin < 60 * processes.SLOWNESS
    assert f"127.0.0.1:{port}" in process.err


def test_a_bucket_that_does_not_exist_is_told(place, rgw, out):
    make(source(place), small=1)
    process = out(place / "from", "s3://no-such-bucket/x", "-o", f"s3.endpoint={rgw.endpoint},s3.region=us-east-1",
                  expect=1)
    assert "no-such-bucket" in process.err


def test_a_destination_that_refuses_is_told_and_nothing_more_is_tried(place, bucket, out):
    make(source(place), small=30)
    process = out(place / "from", bucket.url, *bucket.settings, expect=1, env={"AWS_SECRET_ACCESS_KEY": "wrong"})
    assert "403" in process.err
    assert bucket.keys() == [] and bucket.puts() <= 16


def test_a_read_only_directory_is_told(place, out):
    make(source(place), small=1)
    with disks.Tmpfs(place) as disk:
        disk.remount("ro")
        process = out(place / "from", disk.path, expect=1)
    assert "Read-only file system" in process.err


def test_a_full_disk_is_told_and_leaves_no_half_file(place, out):
    files = make(source(place), small=1, large=2 * PART)
    (place / "small").mkdir()
    disk = disks.Tmpfs(place / "small", size="8M")
    try:
        process = out(place / "from", disk.path, "-j", 2, expect=1)
        assert "No space left on device" in process.err
        for path in files:
            if (disk.path / path).exists():
                assert (disk.path / path).read_bytes() == files[path]
        assert not (disk.path / MANIFEST).exists()
    finally:
        disk.close()


def test_what_stands_in_the_way_is_told(place, bucket, out):
    folder = source(place)
    (folder / "f").write_bytes(b"x")
    process = out(folder, place / "none" / "to", expect=1)
    assert "No such file or directory" in process.err
    process = out(folder, folder / "to", expect=1)
    assert "lie in each other" in process.err
    process = out(place / "absent", bucket.url, *bucket.settings, expect=1)
    assert str(place / "absent") in process.err
    state = place / "state"
    out(folder, bucket.url, *bucket.settings, "--state", state)
    journal, = state.glob("*.jsonl")
    journal.write_text("notes of somebody\n")
    process = out(folder, bucket.url, *bucket.settings, "--state", state, expect=1)
    assert f"{journal}:1" in process.err
    bucket.client.put_object(Bucket=bucket.name, Key=f"checkpoints/{MANIFEST}", Body=b"notes\n")
    process = out(folder, bucket.url, *bucket.settings, "--state", place / "other", expect=1)
    assert "not a manifest" in process.err


@pytest.mark.parametrize("words", [[], ["from"], ["from", "to", "--part-size", "5M"], ["from", "to", "-o", "no.such=1"],
                                   ["from", "to", "--verify", "perhaps"], ["from", "to", "-j", "0"],
                                   ["from", "gs://bucket"]])
def test_wrong_usage_is_status_2(place, out, words):
    source(place)
    words = [str(place / word) if word in ("from", "to") else word for word in words]
    assert out(*words, expect=2).err


def through(proxy, more=""):
    return ["-o", f"s3.endpoint={proxy.endpoint},s3.region=us-east-1{more}"]


def test_over_tls_the_payload_is_not_signed_but_checked(place, bucket, out):
    files = make(source(place), small=3)
    with Proxy(("127.0.0.1", bucket.server.port), tls=Certificates(place / "tls")) as proxy:
        out(place / "from", bucket.url, *through(proxy, f",s3.ca_bundle={proxy.tls.authority}"))
    expect_bucket(bucket, files)


@pytest.mark.parametrize("seed", [1, 2])
def test_bad_weather_is_survived(place, bucket, out, seed):
    files = make(source(place), small=20)
    rules = [{"match": {"probability": 0.1, "seed": seed}, "faults": [{"do": "reply", "status": 503, "code": "SlowDown"}]},
             {"match": {"probability": 0.1, "seed": seed + 10}, "faults": [{"do": "reset"}]},
             {"match": {"probability": 0.05, "seed": seed + 20, "method": "PUT"},
              "faults": [{"do": "reply", "status": 500, "code": "InternalError"}]}]
    with Proxy(("127.0.0.1", bucket.server.port), rules) as proxy:
        out(place / "from", bucket.url, *through(proxy, ",origin.deadline=90s"))
    expect_bucket(bucket, files)

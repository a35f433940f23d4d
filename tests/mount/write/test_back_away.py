"""writes=back while the bucket does not answer, or takes nothing for want of credentials: who writes checkpoints goes on, and the
bucket has all of it afterwards."""

import errno
import os
import sys
import time

import pytest

from harness import daemon, data, processes
from test_back import MIB, flush, queue, synced
from test_write_s3 import body, error_of, head, keys, passing_credentials

sys.path.insert(0, str(daemon.REPOSITORY / "tests/faults"))
from proxy import Proxy  # noqa: E402  pylint: disable=wrong-import-position

FULL = os.environ.get("TIERFS_TEST_FULL", "") == "1"
DEADLINE = 6  # seconds
AWAY = 600 if FULL else 3  # at least


class Line:
    """The way to the bucket, which can be cut: connections are refused, or nothing is answered."""

    def __init__(self, proxy, how):
        self.proxy, self.how, self.rule = proxy, how, None

    def cut(self):
        if self.how == "refused":
            self.proxy.refuse()
            self.proxy.drop_connections()
        else:
            self.rule = self.proxy.add_rule({"faults": [{"do": "silent"}]})

    def mend(self):
        if self.how == "refused":
            self.proxy.refuse(False)
        else:
            self.proxy.remove_rule(self.rule)
            self.proxy.drop_connections()


@pytest.fixture(params=["refused", "silent"])
def line(request, rgw_bucket):
    upstream = int(rgw_bucket.server.endpoint.rpartition(":")[2])
    with Proxy(("127.0.0.1", upstream)) as proxy:
        yield Line(proxy, request.param)


@pytest.fixture
def back(rgw_bucket, line, mount, folder):  # pylint: disable=redefined-outer-name
    def start(**options):
        named = {"rw": None, "metadata.ttl": "1s", "writes": "back", "journal.path": str(folder / "journal"),
                 "origin.deadline": f"{DEADLINE}s", **options}
        return mount(rgw_bucket.source(), {**rgw_bucket.options(named), "s3.endpoint": line.proxy.endpoint}, env=rgw_bucket.env)
    return start


def leave(m, line, forgets=False):  # pylint: disable=redefined-outer-name
    """Until the mount has found it out. `forgets`: until it would believe nothing of before."""
    line.cut()
    (m.path / "begun").write_bytes(b"begun")
    processes.wait_until(lambda: m.status()["origin"]["away_why"], what="the mount finds that the bucket is away")
    time.sleep(6 if forgets else 2.2)  # it is away after 2 s, and absent names are believed for 5 s


@pytest.mark.release
def test_checkpoints_go_on(rgw_bucket, back, line):  # pylint: disable=redefined-outer-name
    m = back()
    (m.path / "run").mkdir()
    synced(m.path / "run/latest", b"step 0")
    (m.path / "run/config").write_bytes(b"config")
    os.listdir(m.path)
    os.listdir(m.path / "run")
    flush(m)
    leave(m, line, forgets=True)
    until, shards = time.monotonic() + AWAY, {}
    step = 0
    while time.monotonic() < until or step < 3:
        began = time.monotonic()
        step += 1
        folder = m.path / f"run/step-{step}"
        folder.mkdir(mode=0o750)
        for rank in range(2):
            name, content = f"step-{step}/shard-{rank}", data.content(f"{step} {rank}", MIB + rank)
            synced(m.path / f"run/{name}.tmp", content)
            os.rename(m.path / f"run/{name}.tmp", m.path / "run" / name)
            shards[name] = content
        synced(m.path / "run/latest", f"step {step}".encode())
        assert sorted(os.listdir(folder)) == ["shard-0", "shard-1"]
        assert {f"step-{step}", "latest", "config"} <= set(os.listdir(m.path / "run"))
        assert os.stat(m.path / "run/config").st_size == 6 and os.stat(folder).st_mode & 0o7777 == 0o750
        if step == 2:
            (m.path / "run/step-1/shard-0").unlink()
            del shards["step-1/shard-0"]
            time.sleep(2)
            os.rename(m.path / "run/step-1/shard-1", m.path / "run/step-1/late")
            shards["step-1/late"] = shards.pop("step-1/shard-1")
            began += 2
        assert time.monotonic() - began < DEADLINE * max(1, processes.SLOWNESS / 2), "nobody waits for the bucket"
    with pytest.raises(OSError):
        os.symlink("latest", m.path / "run/link")  # costs no knowledge of others
    (m.path / "run/empty").mkdir()
    os.chmod(m.path / "run/empty", 0o711)
    assert os.stat(m.path / "run/empty").st_mode & 0o7777 == 0o711
    (m.path / "run/config").unlink()
    (m.path / "run/config").mkdir()
    synced(m.path / "run/config/file", b"in the place of a file")
    assert os.listdir(m.path / "run/config") == ["file"] and "config" in os.listdir(m.path / "run")
    assert error_of(os.open, m.path / "begun2", os.O_WRONLY) == errno.ENOENT
    assert error_of(os.mkdir, m.path / "run/empty") == errno.EEXIST
    for name, content in shards.items():
        data.expect_same((m.path / "run" / name).read_bytes(), content, name)
    assert not [key for key in keys(rgw_bucket) if "step" in key]
    line.mend()
    flush(m)
    assert queue(m)["conflicts"] == 0 and queue(m)["entries"] == 0
    assert [key for key in keys(rgw_bucket) if not key.endswith("/")] == \
        sorted(["begun", "run/config/file", "run/latest", *(f"run/{name}" for name in shards)])
    for name, content in shards.items():
        data.expect_same(body(rgw_bucket, f"run/{name}"), content, name)
    assert body(rgw_bucket, "run/latest") == f"step {step}".encode()
    assert int(head(rgw_bucket, "run/step-1/")["Metadata"]["mode"]) & 0o7777 == 0o750
    assert sorted(os.listdir(m.path / "run/step-1")) == ["late"]
    assert os.listdir(m.path / "run/config") == ["file"]
    assert int(head(rgw_bucket, "run/empty/")["Metadata"]["mode"]) & 0o7777 == 0o711
    os.rmdir(m.path / "run/empty")
    assert "run/empty/" not in keys(rgw_bucket)


@pytest.mark.parametrize("line", ["refused"], indirect=True)
def test_what_is_not_known_cannot_be_told(rgw_bucket, back, line):  # pylint: disable=redefined-outer-name
    rgw_bucket.put("folder/file", b"content")
    m = back()
    synced(m.path / "known", b"content")
    flush(m)
    assert sorted(os.listdir(m.path)) == ["folder", "known"] and os.listdir(m.path / "folder") == ["file"]
    leave(m, line)
    assert error_of(os.stat, m.path / "folder/file") == errno.ETIMEDOUT, "it was listed, and nobody knows its size"
    assert error_of(os.stat, m.path / "folder/none") == errno.ENOENT
    assert error_of(os.listdir, m.path / "other") == errno.ENOENT
    assert error_of((m.path / "folder/file").read_bytes) == errno.ETIMEDOUT
    assert error_of(os.open, m.path / "known", os.O_WRONLY | os.O_APPEND) == errno.ETIMEDOUT, "its bytes would be lost at close"
    line.mend()
    processes.wait_until(lambda: not m.status()["origin"]["away_why"], what="the mount finds that it is back")
    assert (m.path / "folder/file").read_bytes() == b"content"


@pytest.mark.parametrize("line", ["refused"], indirect=True)
def test_others_make_the_same_names(rgw_bucket, back, line):  # pylint: disable=redefined-outer-name
    """Their objects stay, and what was written here is beside them; a directory may be of both."""
    m = back()
    (m.path / "run").mkdir()
    synced(m.path / "run/replaced", b"old")
    flush(m)
    os.listdir(m.path / "run")
    os.listdir(m.path)
    leave(m, line)
    rgw_bucket.put("run/new", b"theirs")
    rgw_bucket.put("run/replaced", b"theirs")
    rgw_bucket.put("run/made/", b"")
    rgw_bucket.put("run/both/inside", b"theirs")
    synced(m.path / "run/new", b"ours")
    synced(m.path / "run/replaced", b"ours too")
    synced(m.path / "run/both", b"a file of ours")
    (m.path / "run/made").mkdir()
    synced(m.path / "run/made/file", b"inside")
    line.mend()
    flush(m)
    assert queue(m)["conflicts"] == 3
    assert body(rgw_bucket, "run/new") == body(rgw_bucket, "run/replaced") == b"theirs"
    beside = {key.split(".conflict-")[0]: body(rgw_bucket, key) for key in keys(rgw_bucket) if ".conflict-" in key}
    assert beside == {"run/new": b"ours", "run/replaced": b"ours too", "run/both": b"a file of ours"}
    assert "run/both" not in keys(rgw_bucket)
    processes.wait_until(lambda: (m.path / "run/both").is_dir(), what="it is their directory")
    assert body(rgw_bucket, "run/made/file") == b"inside"
    assert (m.path / "run/new").read_bytes() == b"theirs"


@pytest.mark.parametrize("line", ["refused"], indirect=True)
def test_a_daemon_that_dies_meanwhile(rgw_bucket, back, line):  # pylint: disable=redefined-outer-name
    m = back()
    os.listdir(m.path)
    leave(m, line)
    (m.path / "empty").mkdir(mode=0o700)
    (m.path / "full/below").mkdir(parents=True)
    synced(m.path / "full/below/file", b"content")
    m.kill_hard()
    line.mend()
    rgw_bucket.server.control(fail_changes=1)
    m = back()
    assert sorted(os.listdir(m.path)) == ["begun", "empty", "full"]
    assert os.stat(m.path / "empty").st_mode & 0o7777 == 0o700 and os.listdir(m.path / "full/below") == ["file"]
    rgw_bucket.server.calm()
    flush(m)
    assert keys(rgw_bucket) == ["begun", "empty/", "full/", "full/below/", "full/below/file"]
    assert queue(m)["conflicts"] == 0


def test_credentials_that_expire_while_uploads_wait(rgw_bucket, mount, folder):
    """Nobody waits, status says why nothing gets there, and all of it does when there are new ones."""
    lifetime = 6 + 2 * int(processes.SLOWNESS)
    env, there = passing_credentials(folder, lifetime)
    m = mount(rgw_bucket.source(), rgw_bucket.options({"rw": None, "writes": "back", "journal.path": str(folder / "journal"), "memory.limit": "128M"}),
              env=env)
    rgw_bucket.server.control(fail_changes=1)
    shards = {f"shard-{rank}": data.content(str(rank), (512 if FULL else 12) * MIB + rank) for rank in range(8)}
    handles = {name: os.open(m.path / name, os.O_CREAT | os.O_WRONLY) for name in shards}
    there.unlink()
    time.sleep(lifetime + 1)
    rgw_bucket.server.calm()
    for name, handle in handles.items():
        os.write(handle, shards[name])
        os.fsync(handle)
        os.close(handle)
    processes.wait_until(lambda: "redential" in queue(m)["error"], timeout=60, what="status says why")
    assert keys(rgw_bucket) == []
    there.write_text("")
    flush(m, timeout=300)
    assert queue(m)["conflicts"] == 0 and queue(m)["error"] == ""
    assert sorted(shards) == keys(rgw_bucket)
    for name, content in shards.items():
        data.expect_same(body(rgw_bucket, name), content, name)

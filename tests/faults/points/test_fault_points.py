"""Every I/O of tierfs fails once: right bytes or an honest errno, an end in order, and all is right afterwards."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import conftest
from harness import daemon, data
from session import KINDS, Dataset, Session, all_points, program_output

FULL = os.environ.get("TIERFS_TEST_FULL", "") == "1"
SAMPLE = 14  # points of a default run, others with each commit

# Points that no session reaches, and why.
UNREACHED = {
    **{f"dir.{call}": "only tierfs-stage writes; tests/stage/test_out.py has kills there"
       for call in ("create", "mkdir", "rename", "sync", "unlink", "write")},
    "fuse.abort": "only when a daemon hangs; tests/mount/origins/test_faults.py has one that does",
    "index.space": "only where a cache's device is nearly full; tests/mount/cache/test_devices.py has some",
    "index.mark": "only when RocksDB finds a damaged block; hit by EXTRA",
    "fuse.reply.error": "only when a reply has failed; hit by EXTRA",
    **{f"passthrough.{call}": "only when a large file is complete when it is opened; tests/mount/cache/test_passthrough.py"
       for call in ("open", "add")},
    **{f"passthrough.{call}": "only on writable mounts; tests/mount/write/test_write_passthrough.py has each of them"
       for call in ("reopen", "lease", "touch")},
    **{f"metrics.{call}": "only with metrics.listen; tests/mount/observe/test_metrics.py"
       for call in ("bind", "accept", "receive", "send")},
    "fuse.resend": "only after a daemon died; tests/mount/operate/test_supervisor.py",
    **{f"takeover.{call}": "only in a reload; tests/mount/operate/test_reload.py has each of them"
       for call in ("program", "make", "write", "fork", "exec", "stat", "read", "go")},
    **{f"posix.{call}": "only on writable mounts; tests/mount/write/test_write_faults.py has each of them"
       for call in ("stat", "readlink", "create", "mkdir", "mknod", "symlink", "link", "remove", "rename", "open", "opendir",
                    "readdir", "chmod", "chown", "utimens", "truncate", "getxattr", "listxattr", "setxattr", "removexattr",
                    "statfs", "read", "write", "ftruncate", "fallocate", "lseek", "copy", "fsync", "fsyncdir", "close",
                    "locks", "lock", "getlk", "flock", "tmpfile")},
    **{f"s3.copy.{call}": "only on writable mounts; tests/mount/write/test_write_s3.py has each of them"
       for call in ("open", "write", "read", "truncate")},
    **{f"s3.{call}": "only with writes=back; tests/mount/write/test_back_crash.py has each of them"
       for call in ("copy.sync", "journal.open", "journal.record", "journal.sync", "journal.rename", "journal.unlink")},
    **{f"s3.copy.{call}": "only with writes=back; tests/mount/write/test_back_passthrough.py has each of them" for call in ("clone", "written", "stat", "lease")},
    **{point: "only where writable mounts are taken over; tests/mount/write/test_takeover.py"
       for point in ("live.record.make", "live.record.size", "keeper.line", "keeper.start")},
    "live.forget": "only on writable mounts; tests/mount/write/test_locks.py",
    "nvme.probe": "only of a device that failed; tests/mount/cache/test_devices.py has some",
    "fuse.notify": "only when an entry that the kernel knows has changed at the origin in time",
}
# What must fail first for a point to be reached.
EXTRA = {"index.mark": "index.get:2:error=EBADMSG;", "fuse.reply.error": "fuse.reply:5+:error=ENOMEM;"}
# Points whose failure need not be told: it is made up for, or nothing is lost.
QUIET = {
    "passthrough.statfs": "the cache is taken to lie on no stacked file system",
    "cache.note": "a file for who looks around in the cache",
    "cache.parent": "the folder is there: the next call says so",
    "channel.send:3": "the last words of processes that end",
    "channel.receive:3": "likewise",
    "control.accept": "the next turn accepts",
    "control.peer:1": "the command asks once more",
    "control.receive:1": "likewise",
    "control.receive:3": "the command had its answer",
    "control.send:1": "the command asks once more",
    "credentials.open": "the other file has what is needed",
    "credentials.read": "likewise",
    "dir.acl": "the group's permissions are then none: less, never more",
    "dir.readlink": "asked again",
    "fuse.readahead": "only slower",
    "fuse.notify": "metadata.ttl covers it",
    "index.pass": "each record is asked for alone then, and that tells",
    "http.body": "it cuts the connection, which is seen only when more was to come",
    "http.header": "likewise",
    "log.open": "standard error is the same file",
    "nvme.data.stat:3": "the size that was reckoned with is kept",
    "nvme.extent.read:3": "of an extent's end, which is then not cut",
    "nvme.extent.truncate": "the unused end is kept and counted",
    "nvme.scan.unlink": "tried again at the next start",
    "nvme.sidecar.stat:3": "the size that was reckoned with is kept",
    "nvme.space": "the reserve of the file system is not kept; the limit is",
    "scratch.folder": "the next call says what is wrong",
    "scratch.remove": "likewise",
}


def environment_folder():
    return tempfile.mkdtemp(prefix="points-", dir=os.environ.get("TIERFS_TEST_ROOT") or None)


def points_of_program():
    if not os.access(daemon.BINARY, os.X_OK):
        return []
    folder = environment_folder()
    try:
        return all_points(folder)
    finally:
        shutil.rmtree(folder)


POINTS = points_of_program()


def chosen():
    """All points, or a sample that the commit decides."""
    if FULL or os.environ.get("TIERFS_TEST_ALL_POINTS"):
        return POINTS
    commit = os.environ.get("TIERFS_TEST_SEED") or subprocess.run(
        ["git", "-C", str(daemon.REPOSITORY), "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout
    return sorted(sorted(POINTS, key=lambda name: hashlib.sha256((commit + name).encode()).digest())[:SAMPLE])


@pytest.fixture(scope="module")
def dataset(root):
    folder = root / "dataset"
    folder.mkdir()
    made = Dataset(folder)
    (folder / made.link).symlink_to("d00/f00000.bin")
    return made


@pytest.fixture(scope="module")
def s3(dataset, request):
    """The server and a bucket with the same files."""
    if not shutil.which("nginx"):
        return None, None
    server = request.getfixturevalue("nginx_server")
    server.make_bucket("points")
    server.put_all("points", dataset.files)
    return server, "points"


@pytest.fixture
def session(request, folder, dataset, s3, watchdog):
    def make(kind, name):
        if kind == "s3" and s3[0] is None:
            pytest.skip("nginx is not installed (packaging/dependencies --test)")
        made = Session(kind, dataset, folder / name, *s3)
        made.registry = request.node.mounts_of_test
        return made
    yield make
    problems = []
    for made in request.node.mounts_of_test:
        try:
            made.close()
        except AssertionError as error:
            problems.append(str(error))
    assert not problems, "\n".join(problems)


REACHED = {}  # point: [(session kind, times in one process)]


@pytest.fixture(scope="module")
def reached(root, dataset, s3):
    """Which session reaches which point, and how often: a run of each without a fault that counts."""
    if not REACHED:
        for kind in KINDS:
            if kind == "s3" and s3[0] is None:
                continue
            folder = Path(tempfile.mkdtemp(prefix=f"reach-{kind}-", dir=root))
            made = Session(kind, dataset, folder / "session", *s3)
            try:
                made.run("*:1+:delay=0")
            finally:
                for one in made.mounts:
                    one.close()
            for point, count in made.counts().items():
                REACHED.setdefault(point, []).append((kind, count))
    return REACHED


def test_every_point_is_reached(reached):
    assert POINTS, f"{daemon.BINARY} was built without TIERFS_TEST_POINTS"
    missed = sorted(set(POINTS) - set(reached) - set(UNREACHED))
    assert not missed, f"no session reaches {', '.join(missed)}"
    assert not set(UNREACHED) - set(POINTS), "UNREACHED names points that are gone"


@pytest.mark.parametrize("rules", ["no.such.point:1:kill", "index.get", "index.get:1", "index.get:0:kill",
                                   "index.get:1:error=ENONSENSE", "index.get:1:explode"])
def test_wrong_rules_are_refused(folder, rules):
    status, said = program_output(folder, rules)
    assert status == 2 and "TIERFS_TEST_FAULTS" in said and rules in said


def test_the_daemon_inherits_the_rules(origin, mount):
    data.write(origin / "file", b"x" * 5000)
    m = mount(origin, {}, env={"TIERFS_TEST_FAULTS": "dir.read:1+:error=EACCES"})
    with pytest.raises(OSError):
        (m.path / "file").read_bytes()


@pytest.mark.parametrize("point", chosen())
def test_point(point, session, reached, folder):
    if point in UNREACHED and point not in EXTRA:
        pytest.skip(UNREACHED[point])
    kinds = reached.get(point, [("directory", 1)])
    variants = ["1", "3", "1+"] if kinds[0][1] >= 3 else ["1", "1+"]
    problems = []
    for when in variants:
        # What a session keeps in its cache, and so which points it passes, depends on the machine's load too.
        for kind, _ in kinds:
            made = session(kind, f"{kind}-{when.replace('+', 'on')}")
            made.run(f"{EXTRA.get(point, '')}{point}:{when}:error=EIO")
            fired = [line for line in made.fired() if line.split()[1] == point]
            if fired or when == "3":
                break
        telling = sorted({line.split("] ", 1)[-1][:90] for line in made.complaints()})
        words = made.notes[:2] + telling[:1]
        conftest.ROWS.append([point, kind, when, len(fired), len(made.failures),
                              "; ".join(words)[:120] or (made.failures or [("", "-")])[0][1]])
        if not fired and when != "3":  # how often is not the same in each run either
            problems.append(f"{point} was not hit with {when}")
        told = made.failures or made.notes or telling
        if fired and not told and point not in QUIET and f"{point}:{when}" not in QUIET:
            problems.append(f"{point}:{when} failed and nothing tells of it")
        expect_recovered(made)
        shutil.rmtree(made.cache, ignore_errors=True)
    assert not problems, "\n".join(problems)


def expect_recovered(made):
    """On what the faults left, without them, everything is right."""
    made.failures, made.notes = [], []
    again = made.mount("")
    made.use(again, "")
    assert not made.failures, f"still failing without faults: {made.failures}\n{again.log_tail()}"
    made.end(again, "")

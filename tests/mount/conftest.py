"""Fixtures of the mount tests. Everything is below one folder, is stopped whatever happens, and no test can hang."""

import faulthandler
import fcntl
import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from harness import daemon, disks, faults, nfs, processes, servers  # noqa: E402  pylint: disable=wrong-import-position

# Seconds; multiplied by the build's slowness, and where large counts run.
TEST_LIMIT = float(os.environ.get("TIERFS_TEST_LIMIT", "100"))
AFTER_THE_LIMIT = min(45, TEST_LIMIT)  # seconds until a test that the death of its daemons did not end is interrupted
SANITIZED = os.environ.get("TIERFS_TEST_BUILD", "") in ("asan", "tsan")
FULL = os.environ.get("TIERFS_TEST_FULL", "") == "1"


def pytest_sessionstart(session):
    if not session.config.option.collectonly and not os.access(daemon.BINARY, os.X_OK):
        pytest.exit(f"no tierfs program at {daemon.BINARY}: build it, or name one in TIERFS_TEST_BINARY", 3)
    if os.geteuid() != 0:
        pytest.exit("the mount tests need root (loop devices, other users, drop_caches)", 3)


def pytest_configure():
    """Whoever ends a run by SIGTERM (timeout(1) does) ends it as Ctrl-C does: what it has started is put away."""
    def interrupt(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, interrupt)


def pytest_runtest_setup(item):
    if item.get_closest_marker("test_points") and not daemon.fault_points():
        pytest.skip("the program has no fault points (built without TIERFS_TEST_POINTS)")


@pytest.fixture(scope="session")
def root():
    """A folder for the session, readable for other users."""
    base = os.environ.get("TIERFS_TEST_ROOT") or None
    path = Path(tempfile.mkdtemp(prefix="mount-", dir=base))
    path.chmod(0o755)
    yield path
    left = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
            if line.split()[4].startswith(f"{path}/")]
    for place in reversed(left):
        processes.run(["umount", "-l", place])
    shutil.rmtree(path, ignore_errors=True)
    assert not left, f"still mounted after all tests: {left}"


@pytest.fixture
def folder(root, request):
    """A folder for the test."""
    path = Path(tempfile.mkdtemp(prefix="".join(c for c in request.node.name if c.isalnum() or c in "_-")[:40] + "-",
                                 dir=root))
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def watchdog(request):
    """A test that hangs in a system call cannot time itself out. When the limit passes, this shows what the threads of
    tierfs and of the test wait for, and kills the daemons of the test: the kernel then ends what waits for them. A test
    that waits for something else is interrupted later, again and again, since it may wait in what it cleans up too."""
    mounts = request.node.mounts_of_test = []
    done = threading.Event()

    def interrupt(*_):
        pytest.fail(f"interrupted, for there was no end {AFTER_THE_LIMIT:g} s after its daemons were killed")

    def bark():
        pids = [pid for mount in mounts for pid in mount.processes()]
        print(f"\nno end after {limit:g} s: {request.node.nodeid}\n{processes.describe(pids)}", file=sys.__stderr__)
        faulthandler.dump_traceback(file=sys.__stderr__)
        request.node.hung = True
        processes.kill(pids)
        while not done.wait(AFTER_THE_LIMIT):
            os.kill(os.getpid(), signal.SIGALRM)

    signal.signal(signal.SIGALRM, interrupt)
    limit = TEST_LIMIT * processes.SLOWNESS * (20 if FULL else 1)
    timer = threading.Timer(limit, bark)
    timer.daemon = True
    timer.start()
    yield
    done.set()
    timer.cancel()
    signal.signal(signal.SIGALRM, lambda *_: None)  # not SIG_IGN, which what the next test starts would inherit
    assert not getattr(request.node, "hung", False), f"the test was still running after {limit:g} s (see stderr)"


@pytest.fixture
def mount(request, folder, watchdog):
    """mount(source, options, env=...) mounts and returns the Mount; mount.prepare(...) only makes it. All are unmounted
    after the test, which fails if anything is left of them or a sanitizer reported something."""
    mounts = request.node.mounts_of_test

    def prepare(source, options=None, **more):
        if not daemon.fault_points():  # else nothing would fail, and the test would be about nothing
            assert "TIERFS_TEST_FAULTS" not in (more.get("env") or {}), "the test needs the marker test_points"
        made = daemon.Mount(source, options, folder=folder / f"mount{len(mounts)}", **more)
        mounts.append(made)
        return made

    def start(source, options=None, **more):
        return prepare(source, options, **more).start()

    start.prepare = prepare
    yield start
    problems = []
    for made in reversed(mounts):
        try:
            made.close()
        except AssertionError as error:
            problems.append(str(error))
    assert not problems, "\n".join(problems)


@pytest.fixture
def origin(folder):
    """An empty folder to mount."""
    path = folder / "origin"
    path.mkdir()
    return path


@pytest.fixture
def cache(folder):
    """Options of an NVMe tier in a fresh folder; the folder is in ["nvme.path"]."""
    path = folder / "cache"
    path.mkdir(mode=0o700)
    return {"nvme.path": str(path), "nvme.limit": "1G"}


@pytest.fixture
def xfs(folder):
    with disks.Xfs(folder) as disk:
        yield disk


@pytest.fixture
def tmpfs(folder):
    with disks.Tmpfs(folder) as disk:
        yield disk


@pytest.fixture
def fuse_for_all():
    """For who mounts without privileges."""
    with processes.fuse_for_all():
        yield


@pytest.fixture(scope="session")
def nginx_server(root):
    if not shutil.which("nginx"):
        pytest.skip("nginx is not installed (packaging/dependencies --test)")
    server = servers.NginxS3(root / "nginx")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def rgw_server(root):
    lacking = servers.missing_for_rgw()
    if lacking:
        pytest.skip(f"not installed: {lacking} (packaging/dependencies --test)")
    server = servers.Rgw(root / "rgw")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def nfs_server(root):
    lacking = nfs.missing()
    if lacking:
        pytest.skip(f"not installed: {lacking} (packaging/dependencies --test)")
    server = nfs.Ganesha(root / "nfs")
    yield server
    server.stop()


@pytest.fixture
def own_nfs_server(folder):
    """A server that the test may kill."""
    lacking = nfs.missing()
    if lacking:
        pytest.skip(f"not installed: {lacking} (packaging/dependencies --test)")
    server = nfs.Ganesha(folder / "nfs")
    yield server
    server.stop()


class Exported:
    """A fresh folder of an NFS server: .path on this machine, url() for tierfs."""

    def __init__(self, server, name):
        self.server, self.name = server, name
        self.path = server.data / name
        self.path.mkdir()

    def url(self, path="", **options):
        return self.server.url(self.name + (f"/{path}" if path else ""), **options)


@pytest.fixture
def exported(nfs_server):
    nfs_server.folders = getattr(nfs_server, "folders", 0) + 1
    return Exported(nfs_server, f"folder{nfs_server.folders}")


@pytest.fixture
def relay(exported):
    """Between a client and the server of `exported`."""
    made = nfs.Relay(exported.server.port)
    yield made
    made.close()


class Bucket:
    """A fresh bucket of a server, with the options and the environment that mount it."""

    def __init__(self, server, name):
        self.server, self.name = server, name
        server.calm()
        server.make_bucket(name)

    def source(self, prefix=""):
        return f"s3://{self.name}" + (f"/{prefix}" if prefix else "")

    def options(self, more=None):
        return {"s3.endpoint": self.server.endpoint, "s3.region": "us-east-1", **(more or {})}

    env = {"AWS_ACCESS_KEY_ID": servers.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": servers.SECRET_KEY}

    def put(self, key, body):
        self.server.put(self.name, key, body)

    def put_all(self, objects):
        self.server.put_all(self.name, objects)

    def drop(self):
        """For tests that would fill the server's disk; of RGW alone."""
        self.server.drop_bucket(self.name)


def fresh_bucket(server):
    server.buckets = getattr(server, "buckets", 0) + 1
    return Bucket(server, f"bucket{server.buckets}")


@pytest.fixture(params=["nginx", "rgw"])
def bucket(request):
    """A test that takes it runs twice: on nginx and on Ceph RGW."""
    made = fresh_bucket(request.getfixturevalue(f"{request.param}_server"))
    yield made
    made.server.calm()


@pytest.fixture
def nginx_bucket(nginx_server):
    made = fresh_bucket(nginx_server)
    yield made
    made.server.calm()


@pytest.fixture
def rgw_bucket(rgw_server):
    made = fresh_bucket(rgw_server)
    yield made
    made.server.calm()


@pytest.fixture
def faulty():
    """A scripted S3; options in .options, environment in .env."""
    with faults.FaultyS3() as server:
        server.options = {"s3.endpoint": server.endpoint, "s3.region": "us-east-1"}
        server.env = Bucket.env
        yield server


@pytest.fixture
def mount_helper():
    """/sbin/mount.fuse.tierfs that is the program under test. One that is installed is covered, not changed. One
    process of tests at a time."""
    helper = Path("/sbin/mount.fuse.tierfs")
    with open(__file__, "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if helper.exists():
            target = helper.resolve()
            processes.check(["mount", "--bind", daemon.BINARY, target])
            yield
            processes.check(["umount", "-l", target])  # also while a daemon still runs from there
        else:
            helper.symlink_to(daemon.BINARY)
            yield
            helper.unlink()

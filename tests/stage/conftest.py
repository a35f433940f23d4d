"""Fixtures of the tests of tierfs-stage. Real file systems on loop devices; everything is below one folder, is detached
whatever happens, and no command can hang."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mount"))

from harness import data, disks, processes, servers  # noqa: E402  pylint: disable=wrong-import-position

REPOSITORY = Path(__file__).resolve().parents[2]
TIERFS = Path(os.environ.get("TIERFS_TEST_BINARY", REPOSITORY / "build/dev/tierfs"))
STAGE = TIERFS.with_name("tierfs-stage")
SLOWNESS = processes.SLOWNESS
FULL = os.environ.get("TIERFS_TEST_FULL", "") == "1"
LIMIT = 120  # seconds a command may take; multiplied by the build's slowness


def pytest_sessionstart(session):
    if not session.config.option.collectonly and not os.access(STAGE, os.X_OK):
        pytest.exit(f"no tierfs-stage program at {STAGE}: build it, or name tierfs beside it in TIERFS_TEST_BINARY", 3)


def pytest_runtest_setup(item):
    if item.get_closest_marker("test_points") and b"stage.out.read" not in STAGE.read_bytes():
        pytest.skip("the program has no fault points (built without TIERFS_TEST_POINTS)")


@pytest.fixture(scope="session")
def root():
    path = Path(tempfile.mkdtemp(prefix="stage-", dir=os.environ.get("TIERFS_TEST_ROOT") or None))
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
    """A folder for the test, gone after it: images of disks are large."""
    name = "".join(c for c in request.node.name if c.isalnum() or c in "_-")[:40]
    path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=root))
    path.chmod(0o755)
    yield path
    if not any(line.split()[4].startswith(f"{path}/") for line in
               Path("/proc/self/mountinfo").read_text().splitlines()):
        shutil.rmtree(path, ignore_errors=True)


def need_root():
    if os.geteuid() != 0:
        pytest.skip("needs root for a loop device")


class Ext4(disks.Disk):
    """ext4 in an image file on a loop device."""

    def __init__(self, folder, size=320 << 20):
        super().__init__(folder)
        image = folder / "disk.img"
        with open(image, "wb") as handle:
            handle.truncate(size)
        processes.check(["mkfs.ext4", "-q", "-F", image])
        processes.check(["mount", "-t", "ext4", "-o", "loop", image, self.path])


@pytest.fixture
def make_xfs(folder):
    """make_xfs(size) mounts a fresh XFS and returns its Disk."""
    need_root()
    made = []

    def make(size=1 << 30):
        place = folder / f"xfs{len(made)}"
        place.mkdir()
        made.append(disks.Xfs(place, size))
        return made[-1]

    yield make
    for disk in reversed(made):
        disk.close()


@pytest.fixture
def xfs(make_xfs):
    return make_xfs()


@pytest.fixture
def ext4(folder):
    need_root()
    with Ext4(folder) as disk:
        yield disk


@pytest.fixture
def tmpfs(folder):
    need_root()
    with disks.Tmpfs(folder) as disk:
        yield disk


@pytest.fixture
def source(folder):
    path = folder / "source"
    path.mkdir()
    return path


class Finished:
    """status; out, err: text; events: what --json printed."""

    def __init__(self, process):
        self.status, self.out, self.err = process.returncode, process.stdout, process.stderr
        self.events = [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]

    def event(self, name):
        found = [event for event in self.events if event["event"] == name]
        assert found, f"no event {name}\n{self.out}\n{self.err}"
        return found[-1]

    def all(self, name):
        return [event for event in self.events if event["event"] == name]


class Stage:
    """stage("in", SOURCE, DEST, ...) runs the program to its end; `expect` is the exit status that it must have, None for
    any. stage.start(...) only starts it."""

    def __init__(self, environment=None):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("AWS_", "TIERFS_")) and not name.lower().endswith("_proxy")}
        self.environment = {**kept, "AWS_EC2_METADATA_DISABLED": "true", **(environment or {})}
        self.started = []

    def __call__(self, *words, expect=0, env=None, limit=LIMIT):
        process = subprocess.run([STAGE, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 errors="replace", timeout=limit * SLOWNESS, check=False,
                                 env={**self.environment, **(env or {})})
        assert expect is None or process.returncode == expect, \
            f"tierfs-stage {words} ended with {process.returncode}, not {expect}\n{process.stdout}\n{process.stderr}"
        for words_of_sanitizers in ("Sanitizer:", "runtime error:"):
            assert words_of_sanitizers not in process.stderr, process.stderr
        return Finished(process)

    def start(self, *words, env=None, **options):
        process = subprocess.Popen([STAGE, *map(str, words)], stdin=subprocess.DEVNULL, text=True, errors="replace",
                                   env={**self.environment, **(env or {})},
                                   **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options})
        self.started.append(process)
        return process

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def stage():
    made = Stage({"AWS_ACCESS_KEY_ID": servers.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": servers.SECRET_KEY})
    yield made
    made.close()


@pytest.fixture(scope="session")
def nginx_server(root):
    if not shutil.which("nginx"):
        pytest.skip("nginx is not installed (packaging/dependencies --test)")
    server = servers.NginxS3(root / "nginx")
    yield server
    server.stop()


class Bucket:
    """A fresh bucket; `options` are words for the command line."""

    def __init__(self, server, name):
        self.server, self.name = server, name
        server.calm()
        server.make_bucket(name)
        self.options = ["-o", f"s3.endpoint={server.endpoint}", "-o", "s3.region=us-east-1"]

    @property
    def url(self):
        return f"s3://{self.name}"

    @property
    def folder(self):
        return self.server.data / self.name

    def put_all(self, objects):
        self.server.put_all(self.name, objects)

    def put(self, key, body):
        self.server.put(self.name, key, body)


@pytest.fixture
def bucket(nginx_server):
    nginx_server.buckets = getattr(nginx_server, "buckets", 0) + 1
    made = Bucket(nginx_server, f"stage{nginx_server.buckets}")
    yield made
    nginx_server.calm()
    nginx_server.drop_bucket(made.name)


def content(name, size):
    """data.content for large sizes: pieces that differ."""
    if size <= 1 << 20:
        return data.content(name, size)
    piece = data.content(name, 1 << 20)
    return b"".join(number.to_bytes(8, "big") + piece[8:] for number in range(size // len(piece) + 1))[:size]

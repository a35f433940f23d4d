"""Fixtures of the package's tests: the package of a release build, unpacked, and a root folder to install it in."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TIERFS_TEST_BINARY", REPOSITORY / "build/release/tierfs")).resolve().parent
MAINTAINER = {"DEBFULLNAME": "An administrator", "DEBEMAIL": "admin@cluster.example.org"}
# Of the machine, in the root folder too.
SHARED = ("/dev", "/proc", "/sys")


def run(*words, limit=120, **options):
    """`limit`: seconds."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=limit, check=False, **options)


def must(*words, **options):
    done = run(*words, **options)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session", name="folder")
def session_folder():
    with tempfile.TemporaryDirectory(prefix="package-") as path:
        yield Path(path)


@pytest.fixture(scope="session", name="package")
def built_package(folder):
    if not shutil.which("dpkg-shlibdeps"):
        pytest.skip("dpkg-shlibdeps is not installed (package dpkg-dev)")
    # It compresses some 20 MB, and builds first what the build folder lacks.
    done = run(REPOSITORY / "packaging/make-deb", BUILD, folder, limit=1800, env={**os.environ, **MAINTAINER})
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="session", name="unpacked")
def unpacked_package(package, folder):
    must("dpkg-deb", "-x", package, folder / "unpacked")
    return folder / "unpacked"


class Root:
    """This machine's files with changes of their own beside them (overlayfs), and /run and /tmp empty: what is done in it
    with chroot(8) changes nothing outside."""

    def __init__(self, folder):
        self.folder, self.path, self.changes = folder, folder / "root", folder / "disk/changes"

    def enter(self):
        for name in ("disk", "root"):
            (self.folder / name).mkdir(parents=True)
        must("mount", "-t", "tmpfs", "none", self.folder / "disk")
        self.changes.mkdir()
        (self.folder / "disk/work").mkdir()
        done = run("mount", "-t", "overlay", "none", self.path, "-o",
                   f"lowerdir=/,upperdir={self.changes},workdir={self.folder}/disk/work")
        if done.returncode != 0:
            self.leave()
            pytest.skip(f"no overlay of / here: {done.stderr.strip()}")
        for place in SHARED:
            must("mount", "--rbind", place, f"{self.path}{place}")
            must("mount", "--make-rslave", f"{self.path}{place}")
        for place in ("/run", "/tmp"):
            must("mount", "-t", "tmpfs", "none", f"{self.path}{place}")
        return self

    def leave(self):
        places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for place in reversed([place for place in places if place.startswith(f"{self.folder}/")]):
            run("umount", "-l", place)

    def run(self, *words, **options):
        return run("chroot", self.path, *words, **options)

    def must(self, *words, **options):
        return must("chroot", self.path, *words, **options)

    def changed(self):
        """Files that are not as they are outside, removed ones not among them."""
        return {f"/{path.relative_to(self.changes)}" for path in self.changes.rglob("*")
                if not path.is_dir() and not path.is_char_device()}


@pytest.fixture(name="root")
def root_folder(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("installing needs root")
    root = Root(tmp_path_factory.mktemp("install"))
    root.enter()
    yield root
    root.leave()

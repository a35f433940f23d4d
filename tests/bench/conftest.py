"""Fixtures of the tests of the built iobench program. Each test has a folder; no command can hang."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
IOBENCH = os.environ.get("TIERFS_TEST_IOBENCH", str(REPOSITORY / "build/dev/iobench"))
SLOWNESS = float(os.environ.get("TIERFS_TEST_SLOWNESS", "1"))
LIMIT = 100  # seconds a command may take; multiplied by the build's slowness


def pytest_sessionstart(session):
    if not session.config.option.collectonly and not os.access(IOBENCH, os.X_OK):
        pytest.exit(f"no iobench program at {IOBENCH}: build it, or name one in TIERFS_TEST_IOBENCH", 3)


@pytest.fixture
def folder(request):
    """A folder for the test."""
    name = "".join(c for c in request.node.name if c.isalnum() or c in "_-")[:40]
    path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=os.environ.get("TIERFS_TEST_ROOT") or None))
    yield path
    shutil.rmtree(path, ignore_errors=True)


class Finished:
    """status: the exit status; out, err: text."""

    def __init__(self, process):
        self.status, self.out, self.err = process.returncode, process.stdout, process.stderr


@pytest.fixture
def iobench():
    """iobench("run", "--suite", ...) runs the program to its end and returns a Finished; `expect` is the exit status that
    it must have, None for any; `env` is added to the environment."""

    def run(*words, expect=0, env=None, limit=LIMIT):
        process = subprocess.run([IOBENCH, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 errors="replace", timeout=limit * SLOWNESS, check=False,
                                 env={**os.environ, **(env or {})})
        if expect is not None:
            assert process.returncode == expect, \
                f"iobench {words} ended with {process.returncode}, not {expect}\n{process.stdout}\n{process.stderr}"
        return Finished(process)

    return run

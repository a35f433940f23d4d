"""A plugin of pytest, loaded by kinds.py: several pytest processes share the files of one suite. Each runs the tests of
a file, then takes the next file that nobody has taken; its servers stay up meanwhile.

TIERFS_TEST_QUEUE    a folder that the processes share, with the file `lengths`: of each test file the seconds that it
                     takes, about. The longest ones are begun first. A file NAME here: it is taken."""

import json
import os
from pathlib import Path

import pytest

QUEUE = Path(os.environ["TIERFS_TEST_QUEUE"]) if os.environ.get("TIERFS_TEST_QUEUE") else None
A_TEST = 2.0  # seconds, of a file whose length is not known


def name_of(path, root):
    return str(path.relative_to(root)).replace("/", "+")


def take(names):
    """The next file, or None."""
    for name in names:
        try:
            os.close(os.open(QUEUE / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            continue
        return name
    return None


def in_turn(items, root):
    """The tests one after another, as long as there are files; a file is taken when the last test of the one before
    is about to run: pytest wants to know what comes next, and keeps then what both need."""
    files = {}
    for item in items:
        files.setdefault(name_of(item.path, root), []).append(item)
    lengths = json.loads((QUEUE / "lengths").read_text())
    names = sorted(files, key=lambda name: (-lengths.get(name.replace("+", "/"), A_TEST * len(files[name])), name))
    while (name := take(names)) is not None:
        yield from files[name]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    if QUEUE is None or session.config.option.collectonly or session.testsfailed:
        return None  # as always
    tests = in_turn(session.items, session.config.rootpath)
    item = next(tests, None)
    while item is not None:
        following = next(tests, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    return True

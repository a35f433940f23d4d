"""Fixtures and the table of the walk over the fault points."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fixtures import *  # noqa: E402,F401,F403  pylint: disable=wrong-import-position,wildcard-import,unused-wildcard-import
from fixtures import print_table  # noqa: E402  pylint: disable=wrong-import-position

ROWS = [["point", "session", "hit", "fired", "failed calls", "what tells of it"]]


def pytest_terminal_summary(terminalreporter):
    print_table(terminalreporter, "fault points", ROWS)

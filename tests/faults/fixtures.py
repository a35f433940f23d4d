"""The fixtures of the mount tests for the tests in the folders beside this one: `from fixtures import *` in conftest.py."""

import importlib.util
import sys
from pathlib import Path

MOUNT_TESTS = Path(__file__).resolve().parents[1] / "mount"
sys.path.insert(0, str(MOUNT_TESTS))
_spec = importlib.util.spec_from_file_location("mount_fixtures", MOUNT_TESTS / "conftest.py")
_mount_fixtures = importlib.util.module_from_spec(_spec)
sys.modules["mount_fixtures"] = _mount_fixtures
_spec.loader.exec_module(_mount_fixtures)
globals().update({name: value for name, value in vars(_mount_fixtures).items() if not name.startswith("_")})


def print_table(reporter, title, rows):
    """rows: lists of texts, the first one the heads."""
    if len(rows) < 2:
        return
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    reporter.write_line("")
    reporter.write_line(f"=== {title}")
    for row in rows:
        reporter.write_line("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip())
    reporter.write_line("=== end")

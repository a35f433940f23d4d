"""What users run holds nothing of the fault points that the tests' builds have."""

import re
from pathlib import Path

import pytest

from harness import daemon

pytestmark = pytest.mark.release_only


def fault_points():
    """Names in the sources."""
    found = set()
    for path in daemon.REPOSITORY.rglob("*.cpp"):
        if path.relative_to(daemon.REPOSITORY).parts[0] not in ("build", "tests"):
            found.update(re.findall(r'(?:TIERFS_FAULT\w*|Point)\(\s*"([a-z][a-z._]+)"', path.read_text()))
    return found


def test_no_fault_point_is_left():
    names = fault_points()
    assert len(names) > 50 and "nvme.extent.write" in names and "fuse.reply" in names
    program = Path(daemon.BINARY).read_bytes()
    left = [name for name in sorted(names) if name.encode() in program]
    left += [text for text in ("TIERFS_TEST_FAULT", "6tierfs5fault") if text.encode() in program]
    assert not left, f"the release program holds {left}"

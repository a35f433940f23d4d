"""A plugin of pytest, loaded by kinds.py: of the tests that a suite has, the ones that this run has time for.

TIERFS_TEST_SAMPLE   N:SALT: one in N of the tests, others with another salt; all that are marked release_only
TIERFS_TEST_END      seconds since the epoch: tests that have not begun by then are skipped"""

import hashlib
import os
import time

import pytest

END = float(os.environ.get("TIERFS_TEST_END") or "inf")


def pytest_collection_modifyitems(config, items):
    one_in, _, salt = os.environ.get("TIERFS_TEST_SAMPLE", "1:").partition(":")
    def is_chosen(item):
        drawn = int.from_bytes(hashlib.sha256((salt + item.nodeid).encode()).digest()[:8], "big")
        return drawn % int(one_in) == 0 or item.get_closest_marker("release_only") is not None
    left_out = [item for item in items if not is_chosen(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if is_chosen(item)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):  # pylint: disable=unused-argument
    if time.time() > END:
        pytest.skip("no time left in this run (tests/run --within)")

"""Fixtures of the tests of damaged and stale caches."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fixtures import *  # noqa: E402,F401,F403  pylint: disable=wrong-import-position,wildcard-import,unused-wildcard-import

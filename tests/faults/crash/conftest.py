"""Fixtures and tables of the crash harness."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "points"))  # its list of points

from fixtures import *  # noqa: E402,F401,F403  pylint: disable=wrong-import-position,wildcard-import,unused-wildcard-import
from fixtures import print_table  # noqa: E402  pylint: disable=wrong-import-position

KILLS = []  # one record a kill, see harness.Kill
POWER = [["power cut", "read before", "calls failed", "recovered by", "served from NVMe", "wrong bytes"]]


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else 0.0


def pytest_terminal_summary(terminalreporter):
    rows = [["mode", "kills", "under load", "bytes in cache", "from NVMe after", "restart median", "worst", "wrong bytes"]]
    for mode in sorted({kill.mode for kill in KILLS}) + ["all"]:
        some = [kill for kill in KILLS if mode in (kill.mode, "all") and kill.happened]
        restarts = [kill.restart for kill in some]
        rows.append([mode, len(some), sum(kill.under_load for kill in some),
                     f"{median([kill.cached for kill in some]) / 1e6:.1f} MB",
                     f"{median([kill.from_nvme for kill in some]) / 1e6:.1f} MB", f"{median(restarts):.2f} s",
                     f"{max(restarts, default=0):.2f} s", sum(kill.wrong for kill in some)])
    if KILLS:
        print_table(terminalreporter, "kills", rows)
    print_table(terminalreporter, "power cuts", POWER)

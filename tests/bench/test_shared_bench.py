"""What all benches share (bench/lib/bench.py)."""

import sys
from types import SimpleNamespace

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "bench"))

from lib import bench  # noqa: E402  pylint: disable=wrong-import-position
from lib.process import Deadline, Failure  # noqa: E402  pylint: disable=wrong-import-position


class Counting(bench.Bench):
    """A bench whose server has sent so many bytes each time it is asked, from the last on no more."""

    def __init__(self, figures):
        super().__init__(SimpleNamespace(folder=None))
        self.figures = list(figures)

    def control(self, **_):
        return {"bytes": self.figures.pop(0) if len(self.figures) > 1 else self.figures[0]}


def test_bytes_are_counted_once_no_more_come(monkeypatch):
    monkeypatch.setattr(bench, "SETTLED_S", 0.3)
    assert Counting([10, 10, 20, 30]).sent(Deadline(60)) == 30


def test_a_server_that_never_ends_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(bench, "SETTLED_S", 0.3)
    with pytest.raises(Failure):
        Counting(range(100_000)).sent(Deadline(1))

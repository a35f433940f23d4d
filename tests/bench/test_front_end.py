"""bench/front-end as a whole, tiny, and what the benches share. How fast anything is, is no matter here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import IOBENCH, REPOSITORY, SLOWNESS
from work import assert_nothing_is_left, first_port

sys.path.insert(0, str(REPOSITORY / "bench"))
from front_end.bench import FrontEnd, messages_since  # noqa: E402
from lib import command, report  # noqa: E402
from lib.process import Failure  # noqa: E402


def start(name, *words):
    done = subprocess.run([str(word) for word in (REPOSITORY / "bench" / name, *words)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, errors="replace", timeout=150 * SLOWNESS, check=False)
    return done.returncode, done.stdout, done.stderr


def test_all_steps_measure_and_put_everything_away(folder):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    result, ports = folder / "result.json", first_port()
    status, out, err = start("front-end", "--quick", "--scale", "0.01", "--rounds", "1", "--names", "1000", "--seconds",
                             "0.2", "--tierfs", Path(IOBENCH).parent / "tierfs", "--json", result, "--keep", folder / "work",
                             "--ports", ports)
    Path(f"/run/tierfs-bench-{ports}.lock").unlink(missing_ok=True)
    assert status in (0, 1), f"{out}\n{err}"  # a bar is missed on a machine that does other things too
    document = json.loads(result.read_text())
    assert document["failed"] == {}, out
    rows = {(row["step"], row["name"]): row for row in document["rows"]}
    for step, count in (("large", 8), ("incomplete", 2), ("small", 14), ("small-ram", 4), ("slow", 6), ("names", 4)):
        assert sum(key[0] == step for key in rows) == count, step
    compared = [row for row in rows.values() if row["other_name"] == "XFS"]
    assert compared and all(row["value"] > 0 and row["other"] > 0 for row in compared)
    assert all(row["value"] == 0 for (_, name), row in rows.items() if name.startswith("bytes from the origin"))
    assert rows["large", "READ messages meanwhile"]["value"] == 0
    assert rows["small", "16 KiB, 4 processes, hot: messages a file"]["met"] is True
    assert_nothing_is_left(folder)


@pytest.mark.parametrize("bench", ["front-end", "read-path", "cold-path", "tiers", "write-path", "pack"])
@pytest.mark.parametrize("words", [["--only", "nothing"], ["--scale", "1000"], ["--rounds", "0"], ["--ports", "80"],
                                   ["more"]])
def test_wrong_usage(bench, words):
    status, _, err = start(bench, *words)
    assert status == 2 and "error:" in err


def test_quick_changes_only_what_was_not_said():
    parser = command.parser("", "", {"a": None})
    command.add_quick(parser, "less", (1.0, 0.25), 4, (5, 3))
    full, quick, said = (command.finish(parser.parse_args(words)) for words in
                         ([], ["--quick"], ["--quick", "--rounds", "7", "-o", "log.level=debug"]))
    assert (full.scale, full.rounds) == (1, 5) and (quick.scale, quick.rounds) == (0.25, 3)
    assert (said.scale, said.rounds, said.mount_options) == (0.25, 7, {"log.level": "debug"})
    assert full.only == ["a"] and full.iobench == full.tierfs.parent / "iobench"


def rows_then_failure(_bench, _deadline):
    yield report.figure("breaks", "seen before", 1, "")
    raise Failure("the thing broke")


def test_a_step_that_fails_keeps_its_rows_and_stops_no_other(folder, capsys, monkeypatch):
    monkeypatch.setattr(command.host, "only_one", lambda port: open(folder / "lock", "w", encoding="ascii"))
    parser = command.parser("", "", {"breaks": None, "works": None})
    command.add_limits(parser, 60, 60)
    options = command.finish(parser.parse_args(["--keep", str(folder / "work"), "--json", str(folder / "json")]))

    class Nothing(FrontEnd):
        def prepare(self, say):
            say("prepared")

    steps = {"breaks": rows_then_failure, "works": lambda bench, deadline: [report.at_most("works", "one", 1, "", 2)]}
    assert command.run("test", options, lambda options: None, Nothing, steps) == 1
    document = json.loads((folder / "json").read_text())
    assert document["failed"] == {"breaks": "the thing broke"}
    assert [(row["step"], row["met"]) for row in document["rows"]] == [("breaks", None), ("works", True)]
    assert "step breaks failed: the thing broke" in capsys.readouterr().out


def test_the_sides_take_turns_and_both_come_first():
    order = []
    bench = FrontEnd(SimpleNamespace(rounds=3, folder=None))

    def measure(folder):
        order.append(folder)
        return len(order)

    assert bench.in_turns(measure, "xfs", "mount") == ([2, 3, 6], [1, 4, 5])
    assert order == ["xfs", "mount", "mount", "xfs", "xfs", "mount"]


def test_a_ratio_has_the_interval_of_its_rounds():
    row = report.at_least("s", "n", [10, 10, 20, 30, 30], "x", [10] * 5, "XFS", 2)
    assert (row.ratio, row.met, row.ratio_interval) == (2, True, [1, 3])
    assert "1.00-3.00" in report.table([row])
    assert report.at_least("s", "n", [10, 10, 20, 30], "x", [10] * 4, "XFS", 2).ratio_interval is None, "of too few"


def test_nodes_that_are_forgotten_are_no_messages_of_reading():
    counted = {"READ": 5, "LOOKUP": 2, "FORGET": 9, "BATCH_FORGET": 3}
    mount = SimpleNamespace(status=lambda: {"requests": {"messages": counted}})
    assert messages_since(mount, {"READ": 1, "LOOKUP": 2}) == {"READ": 4}

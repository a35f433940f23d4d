"""iobench run as a program: turns, the result file, and what a signal leaves."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import IOBENCH, LIMIT, SLOWNESS


@pytest.fixture
def data(folder, iobench):
    """Two directories of 40 files each."""
    for name in ("a", "b"):
        iobench("gen", folder / name, "--kind", "random", "--files", 40, "--size", 2000)
    return folder


def figure(result, target, metric):
    return next(f for f in result["figures"] if (f["target"], f["metric"]) == (target, metric))


def test_two_directories_in_turns(iobench, data):
    # In a chroot the root directory need not be a mount point, and then nobody knows what it lies on.
    has_root = any(line.split()[4] == "/" for line in Path("/proc/self/mountinfo").read_text().splitlines())
    path = data / "r.json"
    done = iobench("run", "--suite", "smallfiles", "--path", f"one={data / 'a'}", "--against", f"two={data / 'b'}",
                   "--runs", 3, "--processes", 2, "--json", path, "--peak", "two=100")
    result = json.loads(path.read_text())
    assert (result["format"], result["version"], result["complete"]) == ("iobench", 1, True)
    assert [target["name"] for target in result["targets"]] == ["one", "two"]
    assert result["command"][1:3] == ["run", "--suite"]
    assert result["started"] <= result["ended"]
    assert result["parameters"]["warm_up"] == 1
    for target in result["targets"]:
        assert len(figure(result, target["name"], "files_per_s")["values"]) == 3
        if has_root:
            assert target["mount_options"] and target["fs_type"]
    assert figure(result, "one", "files")["values"] == [40, 40, 40]
    rate = figure(result, "two", "mb_per_s")
    assert rate["share_of_peak"] == pytest.approx(rate["median"] / 100)
    assert "to one [95 %]" in done.out
    assert "\r" not in done.err  # no progress where there is no terminal
    iobench("compare", path)


def test_caches_that_are_dropped_need_no_warm_up(iobench, data):
    path = data / "r.json"
    if os.geteuid() != 0:
        pytest.skip("dropping caches needs root")
    iobench("run", "--suite", "smallfiles", "--path", data / "a", "--runs", 1, "--drop-caches", "page", "--json", path)
    result = json.loads(path.read_text())
    assert result["parameters"]["warm_up"] == 0
    assert result["dataset_rule"].startswith("page cache dropped before each run")


def test_memory_and_time_of_a_daemon(iobench, data):
    path = data / "r.json"
    iobench("run", "--suite", "smallfiles", "--path", data / "a", "--runs", 1, "--json", path,
            "--daemon-pid", os.getpid())
    daemon = json.loads(path.read_text())["targets"][0]["daemon"]
    assert daemon["pid"] == os.getpid()
    assert daemon["peak_rss_bytes"] > 1 << 20


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("group", [True, False], ids=["group", "process"])
def test_a_signal_leaves_the_results_so_far(data, number, group):
    """A Ctrl-C goes to the whole process group, kill to one process."""
    path = data / "r.json"
    with subprocess.Popen([IOBENCH, "run", "--suite", "epoch", "--path", data / "a", "--warm-up", "0", "--runs", "1000",
                           "--batch", "4", "--compute", "20", "--json", path], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, text=True,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
        try:
            deadline = time.monotonic() + LIMIT * SLOWNESS
            while not workers_seen(process.pid, 3):  # the runs begin; each takes 200 ms at least
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.01)
            (os.killpg if group else os.kill)(process.pid, number)
            out, err = process.communicate(timeout=LIMIT * SLOWNESS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 128 + number, err
    result = json.loads(path.read_text())
    assert result["complete"] is False
    assert 1 <= len(figure(result, result["targets"][0]["name"], "epoch_s")["values"]) < 1000
    assert "interrupted" in " ".join(result["warnings"])
    assert "epoch_s" in out
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def workers_seen(pid, number, seen={}):  # pylint: disable=dangerous-default-value
    """Whether `number` runs, children of the process, have been seen by now."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            seen.setdefault(pid, set()).update(file.read().split())
    except FileNotFoundError:
        pass
    return len(seen.get(pid, ())) >= number


def test_what_cannot_be_read_leaves_the_results_so_far(iobench, data):
    path = data / "r.json"
    (data / "manifest").write_text("")
    done = iobench("run", "--suite", "smallfiles", "--path", data / "a", "--json", data / "none/r.json", expect=1)
    assert "none/r.json" in done.err
    manifest = data / "m"
    iobench("gen", data / "a", "--kind", "random", "--files", 40, "--size", 2000, "--manifest", manifest)
    spoilt = next((data / "a").rglob("*.bin"))
    spoilt.write_bytes(bytes(2000))
    done = iobench("run", "--suite", "smallfiles", "--path", data / "a", "--verify", manifest, "--json", path, expect=1)
    result = json.loads(path.read_text())
    assert spoilt.name in done.err
    assert result["complete"] is False
    assert result["figures"] == []


@pytest.mark.parametrize("words", [["--against", "b=/none"], ["--daemon-pid", "0"], ["--daemon-pid", "x=1"],
                                   ["--peak", "fast"], ["--peak", "/none"], ["--against", "x=/proc", "--against", "x=/sys"]])
def test_targets_that_make_no_sense(iobench, data, words):
    assert iobench("run", "--suite", "smallfiles", "--path", data / "a", *words, expect=1).err.startswith("iobench: ")

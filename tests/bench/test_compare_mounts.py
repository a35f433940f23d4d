"""bench/compare-mounts as a whole: small, with the look-alike server, tierfs and native XFS."""

import fcntl
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import IOBENCH, REPOSITORY, SLOWNESS
from work import assert_nothing_is_left, first_port

BUILD = Path(IOBENCH).parent
LIMIT = 150 * SLOWNESS


@pytest.fixture
def start(folder):
    """start(*words) starts compare-mounts with ports that nobody has and a work folder of the test's; it is gone at the end."""
    started = []
    ports = first_port()

    def run(*words):
        command = [REPOSITORY / "bench/compare-mounts", "--build", BUILD, "--server", "nginx", "--scale", "tiny", "--ports",
                   ports, "--keep", folder / "work", "--out", folder / "out", *words]
        started.append(subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, errors="replace"))
        return started[-1]

    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    run.lock = Path(f"/run/tierfs-bench-{ports}.lock")
    yield run
    for process in started:
        if process.poll() is None:
            process.terminate()
            try:
                process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
    run.lock.unlink(missing_ok=True)


def figures(folder, part, latency):
    document = json.loads((folder / f"out/compare-mounts-{latency}ms-{part}.json").read_text())
    return document, {(one["target"], one["case"], one["metric"]): one for one in document["figures"]}


def test_a_small_comparison_counts_requests_and_cleans_up(start, folder):
    process = start("--quick", "--runs", "1", "--peers", "tierfs,native", "--latency", "5ms", "--only", "files,random")
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, f"{out}\n{err}"
    assert "against native" in out and "16k-1p-cold" in out and "failed" not in out
    document, names = figures(folder, "names", 5)
    assert document["complete"] and document["format"] == "iobench" and document["version"] == 1
    assert [target["name"] for target in document["targets"]] == ["tierfs", "native"]
    assert document["targets"][0]["fs_type"].startswith("fuse") and document["targets"][1]["fs_type"] == "xfs"
    assert document["parameters"]["first_byte_ms"] >= 5
    assert names["tierfs", "find-cold", "requests"]["values"][0] > 0
    assert names["tierfs", "find-warm", "requests"]["values"] == [0]
    assert ("native", "find-cold", "requests") not in names
    document, small = figures(folder, "smallfiles", 5)
    count = document["parameters"]["files_of_each_sample"]["small-1"]
    assert count == 100
    assert small["tierfs", "16k-1p-cold", "requests"]["values"][0] >= 1
    assert small["tierfs", "16k-1p-cold", "mb_from_server"]["values"][0] >= count * 16384 / 1e6
    for case in ("16k-1p-warm", "16k-1p-warm-disk", "16k-4p-warm", "110k-4p-warm"):
        assert small["tierfs", case, "mb_from_server"]["values"] == [0], case
    assert any(one["case"] == "16k-1p-cold" and one["against"] == "native" for one in document["ratios"])
    _, epoch = figures(folder, "epoch", 5)
    assert ("tierfs", "epoch-cold", "au_percent") in epoch
    _, large = figures(folder, "large-file", 5)
    assert large["tierfs", "random-cold", "mb_from_server"]["values"][0] > 0
    _, costs = figures(folder, "costs", 5)
    assert costs["tierfs", "files-mount", "cpu_s"]["values"][0] > 0
    page = (folder / "out/compare-mounts.html").read_text()
    assert "tierfs" in page and "native" in page
    assert_nothing_is_left(folder)


def test_ctrl_c_leaves_what_was_measured_and_nothing_else(start, folder):
    process = start("--runs", "50", "--peers", "native,tierfs", "--latency", "0", "--only", "random")
    end = time.monotonic() + LIMIT
    for line in process.stdout:
        assert time.monotonic() < end
        if "round 1, [1/" in line:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, f"{out}\n{err}"
    document, measured = figures(folder, "large-file", 0)
    assert document["complete"] is False
    assert ("native", "random-cold", "reads_per_s") in measured
    assert_nothing_is_left(folder)


def test_only_one_runs_at_a_time(start, folder):
    with open(start.lock, "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = start("--peers", "native")
        out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 1 and "another bench" in err, out
    assert not (folder / "out").exists()

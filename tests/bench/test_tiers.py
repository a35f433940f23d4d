"""bench/tiers as a whole, tiny, and the S3-FIFO that it compares with."""

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import IOBENCH, REPOSITORY, SLOWNESS
from work import assert_nothing_is_left, first_port

sys.path.insert(0, str(REPOSITORY / "bench"))
from tier_steps.memory import size_of  # noqa: E402
from tier_steps.s3fifo import S3Fifo, hit_ratio  # noqa: E402
from tier_steps.zipf import zipf_reads  # noqa: E402


def test_all_steps_measure_and_put_everything_away(folder):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    result, ports = folder / "result.json", first_port()
    command = [REPOSITORY / "bench/tiers", "--quick", "--scale", "0.02", "--epochs", "3", "--names", "200", "--memory-limits",
               "128M", "--only", "epochs,readers,nodes,zipf,memory,restart,threads,codecs", "--tierfs",
               Path(IOBENCH).parent / "tierfs", "--json", result, "--keep", folder / "work", "--ports", ports]
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", timeout=200 * SLOWNESS, check=False)
    Path(f"/run/tierfs-bench-{ports}.lock").unlink(missing_ok=True)
    assert done.returncode in (0, 1), f"{done.stdout}\n{done.stderr}"  # bars are for the real size
    document = json.loads(result.read_text())
    assert document["failed"] == {}, done.stdout
    rows = [(row["step"], row["name"], row["value"]) for row in document["rows"]]
    counts = collections.Counter(row[0] for row in rows)
    assert counts == {"epochs": 14, "readers": 7, "nodes": 2, "zipf": 6, "memory": 4, "restart": 3, "threads": 1,
                      "codecs": 24}
    assert all(value > 0.9 for _, name, value in rows if "sent in epoch 1" in name or "sent in all" in name), rows
    assert all(0 < value < 1 for _, name, value in rows if name.startswith("hit ratio of")), rows
    space = {name.split(":")[0]: value for _, name, value in rows if "space on NVMe" in name}
    assert space["text, zstd"] < space["text, lz4"] < 0.88 * space["text, none"], rows
    assert 0.95 < space["jpeg, zstd"] / space["jpeg, none"] < 1.05, rows
    assert ("memory", "limit of 128M: reads that failed", 0) in rows
    assert ("restart", "of 1000 reads, those from the origin", 0) in rows
    assert_nothing_is_left(folder)


@pytest.mark.parametrize("words", [["--only", "nothing"], ["--epochs", "2"], ["--names", "0"]])
def test_wrong_usage(words):
    done = subprocess.run([REPOSITORY / "bench/tiers", *words], capture_output=True, text=True, timeout=60 * SLOWNESS,
                          check=False)
    assert done.returncode == 2 and "error:" in done.stderr


def test_s3fifo_keeps_what_is_read_often_from_what_is_read_once():
    cache, once = S3Fifo(100), iter(range(1000, 10 ** 6))
    often = list(range(50))
    for _ in range(4):
        for key in often:
            cache.read(key)
    hits = 0
    for _ in range(50):
        hits += sum(cache.read(key) for key in often)
        for _ in range(20):
            assert not cache.read(next(once))
    assert hits == 50 * 50


def test_s3fifo_knows_again_what_it_gave_up_a_moment_ago():
    cache = S3Fifo(10)
    cache.read("a")
    for key in range(10):
        cache.read(key)
    assert "a" in cache.ghosts
    assert cache.read("a") is False and "a" in cache.main


def test_s3fifo_never_holds_more_than_its_capacity():
    cache = S3Fifo(37)
    for key in zipf_reads(500, 5000):
        cache.read(key)
        assert len(cache.small) + len(cache.main) <= 37 and len(cache.ghosts) <= 34


def test_the_hit_ratio_of_a_cache_with_room_for_all_is_one():
    assert hit_ratio(100, [*range(50), *range(50)], 50) == 1
    assert hit_ratio(100, list(range(100)), 50) == 0


def test_reads_by_zipf_s_law():
    counts = collections.Counter(zipf_reads(1000, 100_000)).most_common()
    assert 1.5 < counts[0][1] / counts[1][1] < 2.4 and counts[0][1] / counts[99][1] == pytest.approx(100 ** 0.9, rel=0.3)
    assert zipf_reads(100, 50) == zipf_reads(100, 50)


def test_sizes():
    assert [size_of(text) for text in ("4096", "256M", "4G")] == [4096, 256 << 20, 4 << 30]

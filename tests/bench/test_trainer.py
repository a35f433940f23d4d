"""iobench gen with presets and shards, and the suites that read them."""

import json
import os
import subprocess

import pytest


def result_of(iobench, folder, *words):
    path = folder / "result.json"
    iobench("run", "--runs", 1, "--warm-up", 0, "--json", path, *words)
    return json.loads(path.read_text())


def values(result, case):
    return {figure["metric"]: figure["values"][0] for figure in result["figures"] if figure["case"] == case}


def test_a_preset_makes_its_dataset_and_states_the_rule(iobench, folder):
    done = iobench("gen", folder / "data", "--preset", "resnet50", "--scale", "0.0002", "--size", "2000",
                   "--manifest", folder / "manifest")
    assert "preset resnet50" in done.out and "256 samples" in done.out
    result = result_of(iobench, folder, "--suite", "epoch", "--path", folder / "data", "--preset", "resnet50", "--scale",
                       "0.0002", "--batch", 16, "--compute", 1, "--workers", 2, "--ranks", 2, "--epochs", 2,
                       "--verify", folder / "manifest")
    assert result["preset"] == "resnet50"
    assert "x the memory" in result["dataset_rule"]
    figures = values(result, "shuffled")
    assert figures["steps"] == 8 and figures["samples"] == 256
    assert 0 < figures["au_percent"] <= figures["au_net_percent"] <= 100
    assert figures["epoch2_s"] > 0
    assert any("not to be compared with MLPerf Storage's 90 %" in warning for warning in result["warnings"])
    if not os.access("/proc/sys/vm/drop_caches", os.W_OK):
        assert any("page cache" in warning for warning in result["warnings"])


def test_a_preset_keeps_the_caches_that_it_is_told_to_keep(iobench, folder):
    iobench("gen", folder / "data", "--kind", "random", "--files", 4, "--size", "2000")
    result = result_of(iobench, folder, "--suite", "epoch", "--path", folder / "data", "--preset", "unet3d", "--batch", 2,
                       "--compute", 1, "--workers", 1, "--drop-caches", "none")
    assert result["parameters"]["drop_caches"] == "none"
    assert "dropped before" not in result["dataset_rule"]
    assert any("page cache" in warning or "tmpfs" in warning for warning in result["warnings"])


def test_an_accelerator_whose_time_is_not_known(iobench, folder):
    iobench("gen", folder / "data", "--files", 2, "--size", "2000")
    done = iobench("run", "--suite", "epoch", "--path", folder / "data", "--preset", "cosmoflow", "--accelerator", "b200",
                   expect=1)
    assert "known: a100, h100" in done.err


def test_without_computing_the_barrier_is_stated(iobench, folder):
    iobench("gen", folder / "data", "--kind", "random", "--files", 40, "--size", "2000")
    result = result_of(iobench, folder, "--suite", "epoch", "--path", folder / "data", "--batch", 4, "--compute", 0,
                       "--ranks", 2, "--workers", 1)
    assert any("the barrier after each step took" in warning for warning in result["warnings"])
    assert values(result, "shuffled")["barrier_us"] > 0


def test_shards_are_read_as_the_same_samples(iobench, folder):
    iobench("gen", folder / "data", "--kind", "npz", "--files", 30, "--size", "3000", "--size-stdev", "500",
            "--tar-shards", 4, "--manifest", folder / "manifest")
    members = [line for number in range(4) for line in subprocess.run(
        ["tar", "tf", folder / f"data/shards/{number:05}.tar"], check=True, capture_output=True, text=True).stdout.split()]
    assert members == sorted(members) and len(members) == 30
    result = result_of(iobench, folder, "--suite", "smallfiles", "--path", folder / "data", "--processes", 2,
                       "--verify", folder / "manifest")
    moved = []
    for case in ("shuffled", "ordered", "tar-sequential", "tar-indexed"):
        figures = values(result, case)
        assert figures["files"] == 30
        moved.append(figures["mb_per_s"] * figures["seconds"])
    assert moved == pytest.approx(moved[:1] * 4)
    iobench("verify", folder / "data", folder / "manifest")


def test_a_grid_of_depths(iobench, folder):
    iobench("gen", folder / "data", "--kind", "random", "--files", 16, "--size", "2000")
    result = result_of(iobench, folder, "--suite", "depth", "--path", folder / "data", "--batch", 4, "--compute", 0,
                       "--prefetches", "1,2", "--worker-counts", "1,3")
    assert {figure["case"] for figure in result["figures"]} == {
        "prefetch1-workers1", "prefetch2-workers1", "prefetch1-workers3", "prefetch2-workers3"}

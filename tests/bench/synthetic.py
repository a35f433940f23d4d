"""Result files as `iobench run --json` writes them, with made-up figures: of what size and shape real ones are."""

import json
import random
import statistics

HIGHER = ("au_percent", "samples_per_s", "files_per_s", "mb_per_s", "names_per_s", "ops_per_s", "write_mb_per_s",
          "read_mb_per_s")
UNITS = {"au_percent": "%", "samples_per_s": "samples/s", "files_per_s": "files/s", "mb_per_s": "MB/s",
         "names_per_s": "names/s", "ops_per_s": "ops/s", "write_mb_per_s": "MB/s", "read_mb_per_s": "MB/s",
         "stall_s": "s", "p50_us": "us", "p99_us": "us", "requests": "requests", "files": "files"}

TARGETS = {"tierfs": 1.0, "xfs on the same device (native)": 1.12, "rclone mount --vfs-cache-mode full": 0.41,
           "s3fs -o use_cache,ensure_diskfree": 0.07}


def target(name, fs_type="fuse.tierfs", **more):
    found = {"name": name, "path": f"/mnt/{name}", "fs_type": fs_type, "fs_source": "https://bucket.example/training",
             "mount_point": f"/mnt/{name}", "device": {"name": "loop0", "model": None, "peak_mb_per_s": 2100.0},
             "mount_options": "ro,nosuid,nodev,relatime,user_id=0,group_id=0,default_permissions,allow_other",
             "daemon": {"pid": 4711, "command": "tierfs", "peak_rss_bytes": 268435456, "cpu_s": 12.5,
                        "cpu_s_per_gib": 0.61}}
    return {**found, **more}


def figure(target_name, case, metric, values, better=None):
    """The summary is computed by who reads the file."""
    return {"target": target_name, "case": case, "metric": metric, "unit": UNITS.get(metric, metric),
            "better": better or ("higher" if metric in HIGHER else "neither" if metric == "files" else "lower"),
            "values": values}


def result(suite, targets, figures, **more):
    found = {"format": "iobench", "version": 1, "tierfs": "0.1.0", "started": "2026-11-21T18:00:00Z",
             "command": ["iobench", "run", "--suite", suite, "--path", "/mnt/tierfs", "--runs", "5"],
             "ended": "2026-11-21T18:21:00Z", "complete": True, "suite": suite, "preset": None,
             "parameters": {"processes": 4, "runs": 5, "seed": 1, "drop_caches": "page"},
             "dataset_rule": "dropped page cache before each run (dataset 3.2 GB, memory 16.8 GB)",
             "host": {"kernel": "Linux 6.1.0-25-amd64", "machine": "x86_64", "cpu": "AMD EPYC 7B13", "cpus": 2,
                      "memory_bytes": 16818282496, "load_average_1m": 0.04},
             "targets": targets, "figures": figures, "disturbances": [], "warnings": []}
    return {**found, **more}


def write(path, content):
    path.write_text(json.dumps(content))
    return path


def noisy(seed, middle, runs=5, spread=0.04):
    source = random.Random(seed)
    return [middle * source.lognormvariate(0, spread) for _ in range(runs)]


def table(suite, cells, factors=None, **more):
    """cells: {(case, metric): value of the first target}; the others' differ by their factor."""
    factors = factors or TARGETS
    figures = []
    for (case, metric), value in cells.items():
        for name, factor in factors.items():
            middle = value * factor if metric in HIGHER else value / factor
            if metric == "au_percent":
                middle = min(middle, 99.4)
            figures.append(figure(name, case, metric, noisy(f"{case} {metric} {name}", middle)))
    return result(suite, [target(name) for name in factors], figures, **more)


def seqrand():
    cells = {}
    for order, top in (("read", 1900), ("randread", 900)):
        for way, share in (("buffered-pread", 1), ("direct-pread", 0.7), ("direct-iouring-qd32", 1.1), ("mmap", 0.9)):
            for shift, block in enumerate(("4k", "16k", "64k", "256k", "1m", "4m", "16m")):
                rate = top * share * (4 ** shift) / (4 ** shift + 20)
                cells[f"{order}-{block}-{way}", "mb_per_s"] = rate
                cells[f"{order}-{block}-{way}", "p99_us"] = 4096 * 4 ** shift / rate * 2
    return table("seqrand", cells)


def smallfiles():
    cells = {}
    for case, rate in (("in-order", 21000), ("shuffled", 19500), ("tar-in-order", 48000), ("tar-by-index", 31000)):
        cells |= {(case, "files_per_s"): rate, (case, "mb_per_s"): rate * 0.016, (case, "p50_us"): 4e6 / rate,
                  (case, "p99_us"): 9e6 / rate, (case, "files"): 20000}
    return table("smallfiles", cells)


def depth():
    return table("depth", {(f"prefetch{p}-workers{w}", metric): value for p in (1, 2, 4, 8, 16) for w in (1, 2, 4)
                           for metric, value in (("samples_per_s", 900 * w * p / (p + 1)), ("stall_s", 30 / w / p))})


def epoch():
    return table("epoch", {("shuffled", metric): value for metric, value in (
        ("au_percent", 93.0), ("samples_per_s", 3100), ("stall_s", 1.7), ("mb_per_s", 355))}, preset="retinanet")


def metadata():
    cells = {}
    for case, rate in (("list", 310000), ("stat", 240000), ("find", 180000)):
        cells |= {(case, "names_per_s"): rate}
    for case, rate in (("open", 51000), ("negative", 88000), ("lookup", 120000)):
        cells |= {(case, "ops_per_s"): rate, (case, "p99_us"): 3e6 / rate}
    for case in ("list", "stat", "find", "open"):
        cells[case, "requests"] = 23
    return table("metadata", cells)


def checkpoint():
    return table("checkpoint", {("ranks-4", metric): value for metric, value in (
        ("write_mb_per_s", 410), ("read_mb_per_s", 1300))})


def everything(folder):
    """One file of each suite, with the doubts and long names that real ones have."""
    made = [seqrand(), smallfiles(), depth(), epoch(), metadata(), checkpoint()]
    made[1]["disturbances"] = [{"target": "tierfs", "case": "shuffled", "run": 2,
                                "what": "other processes used 38 % of the CPUs"}]
    made[1]["warnings"] = ["load average 0.9 before the first run"]
    made[1]["figures"][0]["values"][3] *= 0.4
    for one in made[1]["figures"]:
        if one["metric"] == "mb_per_s":
            one["share_of_peak"] = statistics.median(one["values"]) / 2100
    return [write(folder / f"{one['suite']}.json", one) for one in made]

"""The reads that are timed. Each happens in processes of its own, so that a mount that hangs holds up those alone."""

import itertools
import json
import os
import time

from lib.process import run

_seeds = itertools.count(1)


def read_shuffled(bench, folder, deadline, manifest, check=True, drop="none"):
    """One shuffled epoch over the files in `folder` by 4 processes (iobench run --suite smallfiles); files a second.
    With a manifest each file's content is checked. None when it failed and `check` is false."""
    result = bench.folder / f"epoch-{folder.name}.json"
    result.unlink(missing_ok=True)
    command = [bench.options.iobench, "run", "--suite", "smallfiles", "--path", folder, "--processes", 4, "--runs", 1,
               "--warm-up", 0, "--seed", next(_seeds), "--drop-caches", drop, "--json", result]
    if manifest:
        command += ["--verify", manifest]
    if run(command, deadline, check=check)[0] != 0:
        return None
    figures = json.loads(result.read_text())["figures"]
    return next(figure["median"] for figure in figures if figure["metric"] == "files_per_s")


def read_sequentially(path, deadline):
    """The whole file in reads of 1 MiB by dd; MB/s."""
    size = os.stat(path).st_size
    start = time.monotonic()
    run(["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none"], deadline)
    return size / 1e6 / (time.monotonic() - start)


def get_in_parallel(url, size, folder, deadline, parts=8):
    """`parts` ranged GETs at a time by one curl each, into files in `folder`; MB/s until the last one has ended."""
    folder.mkdir(parents=True, exist_ok=True)
    step = -(-size // parts)
    script = "\n".join(
        f"curl -sS -f -r {i * step}-{min(size, (i + 1) * step) - 1} -o '{folder}/{i}' '{url}' & p{i}=$!"
        for i in range(parts)) + "\nrc=0; " + " ".join(f"wait $p{i} || rc=1;" for i in range(parts)) + " exit $rc"
    start = time.monotonic()
    run(["bash", "-c", script], deadline)
    seconds = time.monotonic() - start
    got = sum(entry.stat().st_size for entry in folder.iterdir())
    if got != size:
        raise ValueError(f"curl fetched {got} of {size} bytes of {url}")
    for entry in folder.iterdir():
        entry.unlink()
    return size / 1e6 / seconds

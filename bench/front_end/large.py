"""The large file: complete, so that the kernel reads it by itself, and incomplete, so that the daemon does."""

import json
import pathlib

from lib import host, report
from lib.process import Failure, run

from .bench import messages, messages_since, nothing_fetched, on_nvme, origin_bytes, warm

MIB = 1 << 20
DIRECT = ["--modes", "direct"]
# name, metric, its unit, share of XFS, words of seqrand
HOT = [("in order by 1 MiB, hot", "mb_per_s", "MB/s", 0.9, ["--orders", "read", "--block-sizes", "1M"]),
       ("random 4 KiB, hot", "reads_per_s", "reads/s", 0.9, ["--orders", "randread", "--block-sizes", "4K"]),
       ("random 4 KiB, hot, 4 jobs", "reads_per_s", "reads/s", 0.8,
        ["--orders", "randread", "--block-sizes", "4K", "--threads", "4"]),
       ("mmap, random 4 KiB, hot", "reads_per_s", "reads/s", 0.9,
        ["--orders", "randread", "--block-sizes", "4K", "--modes", "mmap"])]
COLD = [("random 4 KiB O_DIRECT, depth 1", "reads_per_s", "reads/s", 0.9,
         ["--orders", "randread", "--block-sizes", "4K", *DIRECT]),
        ("random 4 KiB O_DIRECT, depth 32", "reads_per_s", "reads/s", 0.9,
         ["--orders", "randread", "--block-sizes", "4K", *DIRECT, "--engines", "io_uring", "--depths", "32"])]


def settings(**more):
    return {"profile": "large", "memory.limit": 512 * MIB, "ram.limit": 0, **more}


def read_once(path, deadline, count=None):
    run(["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none", *([f"count={count}"] if count else [])], deadline)


def step_complete(bench, deadline):
    """In the page cache first; then with O_DIRECT, which passes it by."""
    native, file = bench.dataset.folder, bench.dataset.large
    with bench.ours(deadline, settings()) as mount:
        warm(bench, mount, [file], deadline)

        def measure(words):
            return lambda folder: bench.iobench(deadline, "--suite", "seqrand", "--path", folder, "--file", file, "--seconds",
                                                bench.options.seconds, "--time-based", *words)

        for folder in (native, mount.mountpoint):
            read_once(folder / file, deadline)
        opens, before, fetched = mount.status()["passthrough"]["opens"], messages(mount), origin_bytes(mount)
        for cases in (HOT, COLD):
            for name, metric, unit, share, words in cases:
                one = measure(words)
                yield bench.beside("large", name, unit, share, lambda folder, one=one, metric=metric: one(folder)[metric],
                                   native, mount.mountpoint)
            host.drop_caches(1)
        status, sent = mount.status(), messages_since(mount, before)
        if status["passthrough"]["opens"] == opens:
            raise Failure(f"the kernel did not read {file} by itself: {status['passthrough']['reason'] or 'no open counted'}")
        yield report.at_most("large", "READ messages meanwhile", sum(n for kind, n in sent.items() if kind.lower() == "read"),
                             "", 0)
        yield nothing_fetched("large", mount, fetched)


def random_reads(bench, deadline):
    """iobench reads whole files; this one has only its first half."""

    def measure(folder):
        path, seconds = pathlib.Path(folder) / bench.dataset.large, bench.options.seconds
        out = run(["fio", "--name=r", f"--filename={path}", "--readonly", "--rw=randread", "--bs=4k", "--direct=1",
                   "--ioengine=io_uring", "--iodepth=32", f"--size={bench.dataset.large_bytes // 2}", f"--runtime={seconds}",
                   "--time_based", f"--randseed={next(bench.seeds)}", "--output-format=json"], deadline)[1]
        return json.loads(out)["jobs"][0]["read"]["iops"]

    return measure


def step_incomplete(bench, deadline):
    native, half = bench.dataset.folder, bench.dataset.large_bytes // 2
    with bench.ours(deadline, settings(**{"prefetch.window": 0})) as mount:
        read_once(mount.mountpoint / bench.dataset.large, deadline, half // MIB)
        on_nvme(mount, half, deadline)
        host.drop_caches(1)
        fetched = origin_bytes(mount)
        yield bench.beside("incomplete", "random 4 KiB O_DIRECT, depth 32", "reads/s", 0.45, random_reads(bench, deadline),
                           native, mount.mountpoint)
        if mount.status()["passthrough"]["opens"]:
            raise Failure("the kernel reads the incomplete file by itself")
        yield nothing_fetched("incomplete", mount, fetched)

"""Reads that the RAM tier answers, by one thread and by two: bench/micro, without a mount."""

import json
import subprocess
from pathlib import Path

from lib import report
from lib.process import Failure

ROUNDS = 5
SECONDS, SECONDS_QUICK = 1, 0.03  # at least, for one figure


def hits_a_second(bench, program, threads, deadline):
    seconds = SECONDS_QUICK if bench.options.quick else SECONDS
    command = [program, f"--benchmark_filter=ram_hit/real_time/threads:{threads}$", "--benchmark_format=json",
               f"--benchmark_min_time={seconds}"]
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=deadline.left(), check=False)
    try:
        return json.loads(done.stdout)["benchmarks"][0]["items_per_second"]
    except (ValueError, LookupError):
        raise Failure(f"{program} printed no figure: {done.stderr.strip()[-300:]}") from None


def step_threads(bench, deadline):
    program = Path(bench.options.tierfs).parent / "micro"
    if not program.exists():
        raise Failure(f"{program} is not there: install libbenchmark-dev, and `ninja micro` in that folder")
    one, two = [], []
    for _ in range(ROUNDS):
        one.append(hits_a_second(bench, program, 1, deadline))
        two.append(hits_a_second(bench, program, 2, deadline))
    yield report.at_least("threads", "2 threads: reads of 4 KiB from RAM", two, "/s", one, "1 thread", 1.7)

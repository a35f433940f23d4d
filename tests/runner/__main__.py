#!/usr/bin/python3
"""Runs tierfs's tests; started by tests/run. The plan of suites is in plan.py, how each kind runs in kinds.py."""

import argparse
import itertools
import os
import signal
import sys
import tempfile
import threading
import time

import clock
import command
from ahead import Ahead
from kinds import Build
from leftovers import clean
from plan import plan
from results import Results, say


class Interrupted(Exception):
    pass


def interrupt(_signum, _frame):
    raise Interrupted


def arguments():
    parser = argparse.ArgumentParser(prog="tests/run", description="Builds and tests tierfs.")
    parser.add_argument("--full", action="store_true", help="large counts, clang-tidy over the whole tree")
    parser.add_argument("--quick", action="store_true",
                        help="format, unit tests and a few mount tests of a build without sanitizers: two minutes beside the build")
    parser.add_argument("--filter", default="", metavar="PATTERN",
                        help="suites whose name contains PATTERN; if there is none, the tests whose name does")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, metavar="N", help="compile jobs")
    parser.add_argument("--within", type=float, metavar="MINUTES",
                        help="skip, and say so, what has not begun by then; an end of some minutes more is to be expected")
    parser.add_argument("--list", action="store_true", help="names and budgets of the suites")
    options = parser.parse_args()
    if options.quick and (options.full or options.filter):
        parser.error("--quick is all of what it runs, and no more: without --full and --filter")
    return options


def run_lanes(suites, run):
    """Beside each other the suites of different lanes, one after the other those of one."""
    lanes = {}
    for suite in suites:
        lanes.setdefault(suite.lane, []).append(suite)
    problems = []

    def run_lane(lane):
        try:
            for suite in lane:
                run(suite)
        except BaseException as problem:  # pylint: disable=broad-exception-caught
            problems.append(problem)

    threads = [threading.Thread(target=run_lane, args=(lane,)) for lane in lanes.values()]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        command.stop_all()
        for thread in threads:
            thread.join()
        raise
    if problems:
        raise problems[0]


def main():
    options = arguments()
    suites = plan(options)
    if options.list:
        for suite in suites:
            print(f"{suite.name:16} {suite.budget:5} s  {suite.what}")
        return 0
    clock.end_after(options.within)
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)

    # One folder holds everything the tests write: what is left in it, of mounts or processes too, can be found.
    root = tempfile.mkdtemp(prefix="tierfs-tests-")
    os.chmod(root, 0o755)
    os.environ["TIERFS_TEST_ROOT"] = root
    results = Results()
    started = time.monotonic()
    failed_builds = set()
    try:
        with Ahead(suite for suite in suites if isinstance(suite, Build)) as ahead:
            for has_lanes, some in itertools.groupby(suites, lambda suite: suite.lane is not None):
                if has_lanes:
                    run_lanes(list(some), lambda suite: suite.run(results, failed_builds, root))
                    continue
                for suite in some:
                    is_build = isinstance(suite, Build)
                    if is_build:
                        ahead.pause()
                    suite.run(results, failed_builds, root)
                    if is_build:
                        ahead.go_on(suite)
    except Interrupted:
        results.add("runner", "interrupted", "failed", "stopped by a signal")
    finally:
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
        clean(root, results)
    say(f"all suites: {time.monotonic() - started:.0f} s")
    results.report()
    return 1 if results.count("failed") else 0


if __name__ == "__main__":
    sys.exit(main())

"""The run: build, prepare, measure in rounds, report."""

import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from lib import host
from lib.process import Deadline, Failure, run

from . import options as command_line
from . import results, summary
from .figures import Figures
from .session import Session
from .steps import group_seconds
from .world import World

BUILD_LIMIT = 1800
REPORT_SECONDS = 20  # of the budget, for page and cleaning up
BUSY = 0.5  # load average


def say(text):
    print(f"compare-mounts: {text}", flush=True)


def build(options):
    """The release build of what is measured, brought up to date; with --build only looked at. True when it compiled."""
    compiled = False
    if options.build is None:
        deadline = Deadline(BUILD_LIMIT)
        say("building tierfs and iobench (the first time takes minutes)")
        run(["cmake", "--preset", "release"], deadline, folder=command_line.ROOT)
        words = ["ninja", "-C", command_line.ROOT / "build/release", "tierfs", "iobench"]
        compiled = "no work to do" not in run(words, deadline)[1]
    for program in (options.tierfs, options.iobench):
        if not os.access(program, os.X_OK):
            raise Failure(f"{program}: not there; build it or name its folder by --build")
    return compiled


class Run:
    """The sessions of all rounds, one after the other, and what comes of them."""

    def __init__(self, options, world, began, load):
        self.options, self.world, self.began = options, world, began
        started = results.now()
        version = run([options.iobench, "--version"], Deadline(20))[1].split()[-1]
        self.figures = {line.latency_ms: Figures() for line in world.lines}
        self.results = {line.latency_ms: results.Results(world, line, self.figures[line.latency_ms], started, version)
                        for line in world.lines}
        self.failed = []
        if load > BUSY:
            self._warn(f"the load average was {load:.2f} before the start: something else was running")

    def left(self):
        return 60 * self.options.budget - (time.monotonic() - self.began) - REPORT_SECONDS

    def sessions(self, number):
        """(line, peer, group) of one round. Another peer is first in each: none always follows the same."""
        peers = self.options.peers
        turned = peers[number % len(peers):] + peers[:number % len(peers)]
        return [(line, peer, group) for line in self.world.lines for peer in turned for group in self.options.only
                if group != "fio" or number == 0]

    def seconds(self, sessions):
        return [group_seconds(group, peer, line.latency_ms, self.world.size)
                for line, peer, group in sessions]

    def print_plan(self):
        rounds = [self.sessions(number) for number in range(self.options.runs)]
        say(f"{self.options.runs} rounds: " + summary.plan_text(sum(rounds, []), self.seconds(sum(rounds, [])), self.left()))
        for line in self.world.lines:
            of_line = [one for one in rounds[0] if one[0] is line]
            parts = [f"{peer} {sum(self.seconds([one for one in of_line if one[1] == peer])):.0f} s"
                     for peer in self.options.peers]
            say(f"  each round with {line.name()} (first byte after {line.first_byte_ms:.1f} ms): {', '.join(parts)}")

    def measure(self):
        """True when no round was left out."""
        slower = 1.0  # than estimated, of the rounds so far
        for number in range(self.options.runs):
            sessions = self.sessions(number)
            seconds = self.seconds(sessions)
            if number and slower * sum(seconds) > self.left():
                self._warn(f"{self.options.runs - number} of {self.options.runs} rounds were left out: no time for them in "
                           f"--budget {self.options.budget:g}")
                return False
            began = time.monotonic()
            for i, (session, estimate) in enumerate(zip(sessions, seconds, strict=True)):
                if not self._one(session, number, f"[{i + 1}/{len(sessions)}]", estimate):
                    return False
            slower = max(0.2, (time.monotonic() - began) / sum(seconds))
        return True

    def _one(self, which, number, place, estimate):
        """False when there is no time for it."""
        line, peer, group = which
        what = f"round {number + 1}, {place} {line.latency_ms:g} ms, {peer}, {group}"
        left = self.left()
        if left <= 0:
            self._warn(f"{what} and all after it were left out: no time for them in --budget {self.options.budget:g}")
            return False
        began, session = time.monotonic(), Session(self.world, self.figures[line.latency_ms], line, peer, group, number)
        try:
            session.run(left)
            say(f"{what}: {time.monotonic() - began:.0f} s (estimated {estimate:.0f})")
        except (Failure, OSError, ValueError, KeyError) as error:
            text = str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
            text += " (the time of --budget is over)" if self.left() <= 0 else ""
            session.warnings.append(f"{what}: failed: {text}")
            self.failed.append(session.warnings[-1])
            say(f"FAILED: {self.failed[-1]}")
        finally:
            self.results[line.latency_ms].take(session)
            self.results[line.latency_ms].write(False)
        return True

    def _warn(self, text):
        say(f"WARNING: {text}")
        for result in self.results.values():
            result.warnings.append(text)

    def finish(self, complete):
        """Files, page and tables of what there is."""
        paths = [path for result in self.results.values() for path in result.write(complete)]
        page = results.write_page(self.options, paths, Deadline(120)) if paths else None
        known = self.options.server == "rgw" and self.options.rate == 80_000_000
        for line in self.world.lines:
            figures = self.figures[line.latency_ms]
            print(f"\n{line.name()}: medians of {figures.rounds()} rounds; against a mount: how many times better tierfs "
                  "is (below 1: worse), with the 95 % interval\n")
            print(summary.figure_table(figures, self.options.peers))
            rows = summary.reference_rows(figures, self.options.peers, line.latency_ms, self.options.scale == 1) if known \
                else []
            if rows:
                print("\nBeside what is known of the peers (on 2 cores with 24 GiB; a factor of 1.5 is no difference):\n")
                print(summary.reference_table(rows))
        print()
        for text in self.failed:
            print(f"failed: {text}")
        say(f"written: {len(paths)} files {self.options.out}/compare-mounts-*.json" + (f" and {page}" if page else ""))
        return page is not None


def measure(options, began):
    compiled = build(options)
    load = os.getloadavg()
    say(f"load average {load[0]:.2f} {load[1]:.2f} {load[2]:.2f} on {os.cpu_count()} processors")
    with World(options) as world:
        world.prepare(say)
        work = Run(options, world, began, 0 if compiled else load[0])
        work.print_plan()
        try:
            complete = work.measure()
        except (KeyboardInterrupt, SystemExit):
            say("interrupted: writing what was measured")
            work.finish(False)
            raise
        paged = work.finish(complete)
    return 0 if complete and paged and not work.failed else 1


def main(words=None):
    options, began = command_line.parse(words), time.monotonic()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(143))  # unwinds, and so puts everything away
    options.folder = (options.keep or pathlib.Path(tempfile.mkdtemp(prefix="compare-mounts-", dir="/var/tmp"))).resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        command_line.check(options)
        lock = host.only_one(options.ports)
        try:
            return measure(options, began)
        finally:
            lock.close()
    except Failure as error:
        print(f"compare-mounts: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        # a folder in which something is mounted still is not walked into
        if not options.keep and not any(host.mounted_type(entry) for entry in options.folder.iterdir()):
            shutil.rmtree(options.folder, ignore_errors=True)

#!/usr/bin/python3
"""Runs the fault matrix: every fault with every kind of access, then reads in bad weather. Prints the table and ends with
`N verified reads, 0 wrong bytes`; the status is 0 when every cell was as expected.

    sudo TIERFS_TEST_BINARY=build/dev/tierfs tests/faults/matrix.py
    sudo tests/faults/matrix.py --only 'stall|TLS' --reads 0

Needs root, nginx and openssl. With TIERFS_TEST_FULL=1 a million reads instead of 50,000."""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

for folder in (Path(__file__).resolve().parent, Path(__file__).resolve().parents[1] / "mount"):
    sys.path.insert(0, str(folder))

from harness import daemon, processes, servers  # noqa: E402  pylint: disable=wrong-import-position
from matrix import cells, contents, faults, weather, worlds  # noqa: E402  pylint: disable=wrong-import-position

LANES = 8  # mounts at a time; they wait more than they work
# Cells of one mount, by whether their faults last. Repeated requests are rationed (64, then five a second): cells that
# need them must not starve each other.
CELLS = {True: 14, False: 8}
SKIPPED = 77  # exit status


class Table:
    """Collects what came of the cells; any thread."""

    def __init__(self):
        self.lock, self.lines, self.stopping = threading.Lock(), [], threading.Event()
        self.verified = self.wrong = self.failed = 0

    def add(self, name, access, outcome, seconds, retried, problem, verified, wrong):
        with self.lock:
            self.lines.append({"fault": name, "access": access, "outcome": outcome, "seconds": round(seconds, 2),
                               "retries": retried, "problem": problem})
            self.verified += verified
            self.wrong += wrong
            self.failed += bool(problem)

    def cell(self, world, row, access):
        try:
            result, after, retried = cells.run(world, row, access)
        except (AssertionError, OSError) as error:
            self.add(row.name, access, "failed", 0, 0, f"{type(error).__name__}: {error}", 0, 0)
            return
        problem = cells.judge(row, access, result, after)
        self.add(row.name, access, result.outcome(), result.seconds, retried, problem,
                 result.verified + after.verified, len(result.wrong) + len(after.wrong))

    def show(self, order):
        place = {name: at for at, name in enumerate(order)}
        self.lines.sort(key=lambda line: place.get(line["fault"], len(place)))
        print(f"{'fault':34} {'access':8} {'outcome':24} {'seconds':>7} {'retries':>7}")
        for line in self.lines:
            print(f"{line['fault']:34} {line['access']:8} {line['outcome'][:24]:24} {line['seconds']:7.1f} "
                  f"{line['retries']:7}" + (f"  FAILED: {line['problem']}" if line["problem"] else ""))


def lanes_of(rows):
    """[(kind of world, deadline, [(row, access)])]: each a mount of its own, the ones that wait longest first."""
    groups = {}
    for row in rows:
        for access in row.accesses:
            alone = (row.name, access) if row.alone else None
            deadline = cells.SHORT if row.short else cells.LONG
            groups.setdefault((row.world, deadline, row.lasting, alone), []).append((row, access))
    lanes = []
    for (kind, deadline, lasting, _), some in groups.items():
        count = -(-len(some) // CELLS[lasting])
        lanes += [(kind, deadline, some[at::count]) for at in range(count)]
    return sorted(lanes, key=lambda lane: (lane[1], lane[0] == "plain"))


def run_lane(number, lane, root, upstream, table):
    kind, deadline, some = lane
    done = 0
    for attempt in range(3):  # with a short deadline a mount may fail on a machine under load
        folder = root / f"lane{number}-{kind}-{attempt}"
        try:
            long = deadline * (1 if deadline == cells.SHORT else processes.SLOWNESS)
            with worlds.make(kind, folder, upstream, long) as world:
                for row, access in some:
                    if not table.stopping.is_set():
                        table.cell(world, row, access)
                        done += 1
            return
        except (AssertionError, OSError, RuntimeError) as error:
            if not done and attempt < 2 and deadline == cells.SHORT and "did not mount" in str(error):
                continue
            table.add(f"mount of {folder.name}", "", "failed", 0, 0, f"{type(error).__name__}: {error}", 0, 0)
            return


def run_lanes(lanes, root, upstream, table):
    """Also when interrupted, what is mounted is unmounted."""
    with concurrent.futures.ThreadPoolExecutor(LANES) as pool:
        try:
            for future in [pool.submit(run_lane, number, lane, root, upstream, table)
                           for number, lane in enumerate(lanes)]:
                future.result()
        except BaseException:
            table.stopping.set()
            raise


def clean(root):
    """Never deletes through a mount."""
    for line in reversed(Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()):
        if line.split()[4].startswith(f"{root}/"):
            processes.run(["umount", "-l", line.split()[4]])
    shutil.rmtree(root, ignore_errors=True)


def watch(limit, root):
    """Ends a hang: kills the daemons below the folder, whose readers then get errors."""
    def bark():
        pids = processes.with_marker(f"TMPDIR={root}")
        print(f"no end after {limit:g} s\n{processes.describe(pids)}", file=sys.stderr, flush=True)
        processes.kill(pids)

    timer = threading.Timer(limit, bark)
    timer.daemon = True
    timer.start()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    full = os.environ.get("TIERFS_TEST_FULL", "") == "1"
    parser.add_argument("--only", default="", metavar="REGEX", help="faults whose name has it")
    parser.add_argument("--reads", type=int, default=1_000_000 if full else 50_000, help="verified reads at least")
    parser.add_argument("--server", choices=("nginx", "rgw"), default="nginx")
    parser.add_argument("--results", metavar="FILE", help="write the table as JSON")
    parser.add_argument("--limit", type=float, default=3600 if full else 600, help="seconds after which daemons are killed")
    options = parser.parse_args()
    if os.geteuid() != 0 or not os.access(daemon.BINARY, os.X_OK):
        sys.exit(f"matrix.py: needs root, and a tierfs program at {daemon.BINARY} (TIERFS_TEST_BINARY)")
    lacking = [name for name in ("nginx", "openssl") if not shutil.which(name)]
    if options.server == "rgw" and (more := servers.missing_for_rgw()):
        lacking.append(more)
    if lacking:
        print(f"not installed: {', '.join(lacking)} (packaging/dependencies --test)")
        sys.exit(SKIPPED)
    rows = [row for row in faults.rows() if re.search(options.only, row.name)
            and not (row.forged and options.server == "rgw")]
    root = Path(tempfile.mkdtemp(prefix="faults-", dir=os.environ.get("TIERFS_TEST_ROOT") or None))
    watch(options.limit, root)
    table, server = Table(), None
    try:
        server = servers.Rgw(root / "rgw") if options.server == "rgw" else servers.NginxS3(root / "nginx")
        server.make_bucket(worlds.BUCKET)
        server.put_all(worlds.BUCKET, {name: contents.whole(name, size) for row in rows for access in row.accesses
                                       for name, size in cells.files_of(row, access).items()})
        begun = time.monotonic()
        upstream = ("127.0.0.1", server.port)
        run_lanes(lanes_of(rows), root, upstream, table)
        table.show([row.name for row in rows])
        print(f"{len(table.lines)} cells in {time.monotonic() - begun:.0f} s, {table.failed} failed")
        if options.reads:
            weather.run(root / "weather", server, max(options.reads - table.verified, 0), table)
    finally:
        if server:
            server.stop()
        clean(root)
    if options.results:
        Path(options.results).write_text(json.dumps(table.lines), encoding="utf-8")
    print(f"{table.verified} verified reads, {table.wrong} wrong bytes")
    sys.exit(1 if table.failed or table.wrong else 0)


def interrupt(_signum, _frame):
    """Whatever ends it, what is mounted is unmounted."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    main()

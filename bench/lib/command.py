"""The command lines of the benches: the options that all of them have, the run step by step, the table at the end."""

import argparse
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from . import host, report
from .process import Deadline, Failure

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAST_LINES = """Nothing else may run on the machine while it measures. It needs root (mounts, loop devices, drop_caches).
Exit status: 0 all steps done and bars met, 1 not so, 2 wrong usage."""


def number(kind, least, most):
    """A type for add_argument: between these."""

    def parse(text):
        value = kind(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text}: give {least} to {most}")
        return value

    parse.__name__ = kind.__name__  # what argparse says of what is no number
    return parse


def names_of(known):
    """A type for add_argument: some of these, with commas between."""

    def parse(text):
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name}: not one of {', '.join(known)}")
        return names

    return parse


def parser(description, steps_help, steps):
    """With the options of every bench; a bench adds its own, and ends by finish()."""
    made = argparse.ArgumentParser(description=description, epilog=f"{steps_help}\n\n{LAST_LINES}",
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", type=names_of(steps), default=list(steps), metavar="NAME,...", help="these steps")
    made.add_argument("--tierfs", type=pathlib.Path, default=ROOT / "build/release/tierfs")
    made.add_argument("--iobench", type=pathlib.Path, help="default: beside tierfs")
    made.add_argument("-o", dest="mount_options", action="append", default=[], metavar="KEY=VALUE",
                      help="one more option of every tierfs mount")
    made.add_argument("--keep", type=pathlib.Path, metavar="DIR",
                      help="work here and keep dataset, server's data and images for the next run")
    made.add_argument("--ports", type=number(int, 1024, 65000), default=host.FIRST_PORT, metavar="FIRST",
                      help="the first of a hundred ports of 127.0.0.1 for servers; one run at a time has them (default "
                           f"{host.FIRST_PORT})")
    made.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write figures, samples and host's facts")
    return made


def add_limits(made, step, prepare):
    made.add_argument("--step-limit", type=float, default=step, metavar="S", help=f"seconds for each step (default {step})")
    made.add_argument("--prepare-limit", type=float, default=prepare, metavar="S",
                      help=f"seconds to prepare (default {prepare})")


def add_quick(made, what, scale, most_scale, rounds=None):
    """--quick, --scale and, where there are any, --rounds: each value a pair, of a full run and of a quick one."""
    made.add_argument("--quick", action="store_true", help=what)
    made.add_argument("--scale", type=number(float, 0.01, most_scale),
                      help=f"of the dataset (default {scale[0]:g}; with --quick {scale[1]:g})")
    if rounds:
        made.add_argument("--rounds", type=number(int, 1, 100),
                          help=f"of each measurement (default {rounds[0]}; with --quick {rounds[1]})")
    made.set_defaults(quick_values={"scale": scale, **({"rounds": rounds} if rounds else {})})


def finish(options):
    """What follows from the words of the command line."""
    options.iobench = options.iobench or options.tierfs.parent / "iobench"
    options.mount_options = dict(text.partition("=")[::2] for text in options.mount_options)
    for name, values in getattr(options, "quick_values", {}).items():
        if getattr(options, name) is None:
            setattr(options, name, values[options.quick])
    return options


def require(options, programs, packages, space, built=None):
    """Root, the built programs (tierfs and iobench), these others, and so many bytes of disk."""
    if os.geteuid() != 0:
        raise Failure("needs root: it mounts, makes loop devices and drops caches")
    for program in built or (options.iobench, options.tierfs):
        if not os.access(program, os.X_OK):
            raise Failure(f"{program}: not there; build it (cmake --preset release && ninja -C build/release tierfs "
                          "iobench) or name it by --tierfs and --iobench")
    host.require(programs, packages)
    free = shutil.disk_usage(options.folder).free
    if free < space:
        raise Failure(f"{options.folder}: {free / 1e9:.1f} GB free, about {space / 1e9:.1f} GB needed: choose another "
                      "disk by --keep or a smaller --scale")


def _measure(name, options, bench, steps, more):
    def say(text):
        print(f"{name}: {text}", flush=True)

    load = os.getloadavg()
    say(f"load average {load[0]:.2f} {load[1]:.2f} {load[2]:.2f} on {os.cpu_count()} processors")
    if load[0] > 0.5:
        say("WARNING: the machine is not idle; figures are lower and vary more")
    started, rows, failed = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), [], {}
    with bench:
        bench.prepare(say)
        for step in options.only:
            began, found = time.monotonic(), []
            try:
                for row in steps[step](bench, Deadline(options.step_limit)):
                    found.append(row)
            except (Failure, OSError, ValueError, KeyError) as error:
                failed[step] = str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
            rows += found
            if found:
                print(report.table(found), flush=True)
            say(f"step {step}: {'FAILED: ' + failed[step] if step in failed else 'done'}, "
                f"{time.monotonic() - began:.0f} s")
        details = more(bench)
    print("\n" + report.table(rows))
    for step, text in failed.items():
        print(f"step {step} failed: {text}")
    if options.json:
        report.write_json(options.json, {
            "tool": name, "time": started, "host": dict(host.facts(), load_before=list(load)),
            "mount_options": options.mount_options, "failed": failed, **details}, rows)
    return 1 if failed or any(row.met is False for row in rows) else 0


def run(name, options, check, make, steps, more=lambda bench: {}):
    """The whole bench: check(options), make(options) a Bench, its steps {name: step(bench, deadline)} that give rows, those of
    a generator also when it fails later; `more` goes into the result file. Returns the exit status."""
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, lambda *_: sys.exit(143))  # unwinds, and so puts everything away
    options.folder = (options.keep or pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir="/var/tmp"))).resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        check(options)
        with host.only_one(options.ports):
            return _measure(name, options, make(options), steps, more)
    except Failure as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        # a folder in which something is mounted still is not walked into
        if not options.keep and not any(host.mounted_type(entry) for entry in options.folder.iterdir()):
            shutil.rmtree(options.folder, ignore_errors=True)

"""The command line of bench/compare-mounts."""

import argparse
import os
import pathlib
import shutil

from lib import host
from lib.peers import PEERS
from lib.process import Failure

from . import fio, steps

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = {"rgw": "tests/servers/rgw.sh", "nginx": "tests/servers/nginx_s3.sh"}
SERVER_PROGRAMS = {"rgw": ["radosgw", "ceph-mon", "ceph-osd"], "nginx": []}
SERVER_PACKAGES = {"rgw": ["ceph-mon", "ceph-osd", "radosgw", "ceph-common"], "nginx": []}
TINY = 0.001
# scale, rounds, sample, bytes read in order, random reads, minutes for everything
FULL = {"scale": 1.0, "runs": 5, "sample": steps.SAMPLE, "sequential": steps.SEQUENTIAL_BYTES,
        "reads": steps.RANDOM_READS, "budget": 57.0}
QUICK = {"scale": 0.1, "runs": 2, "sample": 150, "sequential": 128 << 20, "reads": 96, "budget": 9.0}

DESCRIPTION = """Compares mounts of one bucket: tierfs, s3fs, rclone mount, and the same files on native XFS, cold
and warm, with the requests and bytes that reach the server. Starts the server, makes and loads the dataset, measures in
rounds (all mounts in turn in each), and writes iobench's result files and a page."""

EPILOG = steps.GROUPS_HELP + """Nothing else may run on the machine while it measures. It needs root (mounts, loop
devices, caches dropped). Exit status: 0 all was measured, 1 not so (what was measured is written all the same), 2 wrong
usage, 130 Ctrl-C (also then)."""


def choice(names):
    def parse(text):
        chosen = text.split(",")
        for name in chosen:
            if name not in names:
                raise argparse.ArgumentTypeError(f"{name}: not one of {', '.join(names)}")
        if len(set(chosen)) != len(chosen):
            raise argparse.ArgumentTypeError(f"{text}: names something twice")
        return chosen
    return parse


def within(least, most, kind=float):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text}: not a number") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text}: give {least:g} to {most:g}")
        return value
    return parse


def scale(text):
    return TINY if text == "tiny" else within(TINY, 10)(text)


def latencies(text):
    """Milliseconds, each once."""
    found = []
    for part in text.split(","):
        value = within(0, 10000)(part.removesuffix("ms"))
        if value in found:
            raise argparse.ArgumentTypeError(f"{text}: names {part} twice")
        found.append(value)
    if len(found) > 8:
        raise argparse.ArgumentTypeError(f"{text}: more than 8")
    return found


def add_arguments(parser):
    parser.add_argument("--quick", action="store_true",
                        help="a tenth of the dataset, 2 rounds, 150 files of each sample: about 10 minutes, building "
                             "included")
    parser.add_argument("--peers", type=choice(list(PEERS)), default=list(PEERS), metavar="a,b,...",
                        help="of " + ", ".join(PEERS) + " (default: all)")
    parser.add_argument("--only", type=choice(steps.GROUPS), metavar="a,b,...", help="these groups of steps")
    parser.add_argument("--fio", action="store_true", help="the jobs of bench/fio with --quick too")
    parser.add_argument("--latency", type=latencies, default=[0.0, 20.0], metavar="20ms,...",
                        help="of each answer's first byte, made by a proxy before the server (default 0,20ms)")
    parser.add_argument("--rate", type=within(0, 100000), default=80.0, metavar="MB/S",
                        help="of each connection where there is a latency (default 80; 0: unlimited)")
    parser.add_argument("--runs", type=within(1, 100, int), metavar="N", help="rounds (default 5)")
    parser.add_argument("--scale", type=scale,
                        help="of the dataset: 1 (the default) is 20,000 x 16 KiB, 2,000 x 110 KiB and 2 GiB; tiny: "
                             f"{TINY:g}")
    parser.add_argument("--server", choices=SCRIPTS, default="rgw", help="the object store (default: rgw)")
    parser.add_argument("--build", type=pathlib.Path, metavar="DIR",
                        help="where tierfs and iobench are (default: build/release, which is then built)")
    parser.add_argument("-o", dest="tierfs_options", action="append", default=[], metavar="KEY=VALUE",
                        help="one more option of every tierfs mount")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", default=ROOT / "build/compare-mounts",
                        help="for compare-mounts-*.json and compare-mounts.html (default: build/compare-mounts)")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR",
                        help="work here and keep dataset, server's data and disks for the next run")
    parser.add_argument("--budget", type=within(0.1, 100000), metavar="MINUTES",
                        help="from the start on: a round that cannot end by about then is left out (default 57; --quick: 9)")
    parser.add_argument("--prepare-limit", type=within(1, 1e6), default=900, metavar="S",
                        help="seconds for dataset, server and upload (default 900)")
    parser.add_argument("--ports", type=within(1024, 65000, int), default=host.FIRST_PORT, metavar="FIRST",
                        help="uses some of the 100 from this one on, on 127.0.0.1 (default 7700)")


def parse(words=None):
    parser = argparse.ArgumentParser(prog="compare-mounts", description=DESCRIPTION, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    options = parser.parse_args(words)
    defaults = QUICK if options.quick else FULL
    for name in ("scale", "runs", "budget"):
        if getattr(options, name) is None:
            setattr(options, name, defaults[name])
    for name in ("sample", "sequential", "reads"):
        setattr(options, name, defaults[name])
    if options.only is None:
        options.only = [group for group in steps.GROUPS if group != "fio" or (fio.job_files() and not options.quick)]
    if options.fio and "fio" not in options.only:
        options.only.append("fio")
    for text in options.tierfs_options:
        if not text.partition("=")[1]:
            parser.error(f"-o {text}: give KEY=VALUE")
    options.tierfs_options = dict(text.partition("=")[::2] for text in options.tierfs_options)
    options.rate = round(options.rate * 1e6)
    options.out, options.server_script = options.out.resolve(), ROOT / SCRIPTS[options.server]
    use_build(options, options.build or ROOT / "build/release")
    return options


def use_build(options, folder):
    options.tierfs, options.iobench = (folder.resolve() / name for name in ("tierfs", "iobench"))


def check(options):
    """Everything that can be known before work begins."""
    if os.geteuid() != 0:
        raise Failure("needs root: it mounts, makes loop devices and drops caches")
    programs, packages = ["nginx", "curl", "find", "losetup", "mkfs.xfs"], ["nginx-light", "curl", "xfsprogs"]
    programs += SERVER_PROGRAMS[options.server] + (["rclone"] if options.server == "rgw" else [])
    packages += SERVER_PACKAGES[options.server] + (["rclone"] if options.server == "rgw" else [])
    if options.server == "nginx" or any(options.latency):
        packages.append("libnginx-mod-http-lua")
    for name in options.peers:
        programs += PEERS[name].programs
        packages += PEERS[name].packages
    if "fio" in options.only:
        programs.append("fio")
        packages.append("fio")
    host.require(list(dict.fromkeys(programs)), list(dict.fromkeys(packages)))
    needed = 14e9 * max(options.scale, 0.05)
    free = shutil.disk_usage(options.folder).free
    if free < needed:
        raise Failure(f"{options.folder}: {free / 1e9:.1f} GB free, about {needed / 1e9:.1f} GB needed: choose another "
                      "disk by --keep or a smaller --scale")

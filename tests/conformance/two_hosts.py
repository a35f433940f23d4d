#!/usr/bin/python3
"""Two writable mounts of one source and a plain client of it, at random, against a model that knows each version.

    tests/conformance/two_hosts.py --source directory|s3|nfs [--steps N] [--seed S] [--ttl TIME] [--option KEY=VALUE]...

Starts the server that it needs, and leaves nothing behind. TIERFS_TEST_BINARY names the program, as for the mount tests. Prints
its seed; on a violation the last steps, what was seen and what could have been. Run it as root."""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mount"))

from harness import daemon, nfs, servers  # noqa: E402  pylint: disable=wrong-import-position
from two_hosts_model import Wrong  # noqa: E402
from two_hosts_race import race  # noqa: E402
from two_hosts_replay import shrink, told  # noqa: E402
from two_hosts_bucket import BucketSteps  # noqa: E402
from two_hosts_calls import Host  # noqa: E402
from two_hosts_client import Client  # noqa: E402
from two_hosts_steps import Steps  # noqa: E402

SPARE = 0.3  # seconds on top of metadata.ttl that a mount may take


def seconds(text):
    """Of metadata.ttl, with some to spare: what the model allows. None at all when the mounts believe nothing."""
    value = float(text[:-2]) / 1000 if text.endswith("ms") else float(text.removesuffix("s"))
    return value + SPARE * float(os.environ.get("TIERFS_TEST_SLOWNESS", "1")) if value else 0.0


def steps_of(kind, mounts, place, seed, ttl):
    """The steps for a source of this kind. `place`: the folder, or (client, bucket)."""
    hosts = [Host(name, mount.path) for name, mount in zip("AB", mounts)]
    if kind == "s3":
        return BucketSteps(hosts, *place, seed, ttl=seconds(ttl))
    return Steps(hosts, Host("P", place, is_mount=False), seed, ttl=seconds(ttl), is_nfs=kind == "nfs")


def race_of(kind, mounts, place, folder, seed, rounds, ttl):
    """The same for processes that work at the same time."""
    roots, fresh = [str(mount.path) for mount in mounts], None
    if kind == "s3":
        fresh = lambda: Client(*place)  # noqa: E731
    elif kind == "directory":
        roots.append(str(place))
    return race(kind, roots, folder, seed, rounds, fresh, seconds(ttl) + 0.5)


def play(steps, count):
    """Runs them; a violation is told with what led to it."""
    try:
        steps.run(count)
    except (Wrong, OSError) as problem:
        raise Wrong(steps.report(f"{type(problem).__name__} {problem}" if isinstance(problem, OSError) else problem)) from problem
    finally:
        steps.end()


@contextlib.contextmanager
def source(kind, folder, works_beside):
    """(what to mount, its options, its environment, the plain client's place). `works_beside`: the plain client of an export
    changes names without its server."""
    if kind == "directory":
        place = folder / "origin"
        place.mkdir()
        yield place, {}, {}, place
    elif kind == "nfs":
        server = nfs.Ganesha(folder / "nfs", remembers=not works_beside)
        try:
            (server.data / "folder").mkdir()
            yield server.url("folder"), {}, {}, server.data / "folder"
        finally:
            server.stop()
    else:
        server = servers.Rgw(folder / "rgw")
        try:
            server.calm()
            server.make_bucket("bucket1")
            yield ("s3://bucket1", {"s3.endpoint": server.endpoint, "s3.region": "us-east-1"},
                   {"AWS_ACCESS_KEY_ID": servers.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": servers.SECRET_KEY}, (server.client, "bucket1"))
        finally:
            server.stop()


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", choices=("directory", "s3", "nfs"), default="directory")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--ttl", default="0s", metavar="TIME")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="of both mounts")
    parser.add_argument("--race", type=int, metavar="N", help="instead: N acts of each of several processes at the same time")
    parser.add_argument("--replay", metavar="FILE", help="make these steps, as a violation has printed them, and say how each ends")
    parser.add_argument("--log", metavar="FILE", help="of all steps, after a violation")
    parser.add_argument("--shrink", action="store_true", help="replay a violation with fewer and fewer steps")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    os.umask(0o022)
    signal.signal(signal.SIGTERM, interrupt)
    folder = Path(tempfile.mkdtemp(prefix="two-hosts-"))
    folder.chmod(0o755)
    mounts, began = [], time.monotonic()
    try:
        with source(options.source, folder, not options.race) as (what, more, env, place):
            try:
                for name in "AB":
                    cache = folder / f"cache{name}"
                    cache.mkdir(mode=0o700)
                    given = dict(one.split("=", 1) for one in options.option)
                    mounts.append(daemon.Mount(what, {"rw": None, "metadata.ttl": options.ttl, "nvme.path": str(cache), "log.level": os.environ.get("TIERFS_TEST_LOG", "info"),
                                                      "nvme.limit": "1G", **more, **given}, folder=folder / name, env=env))
                    mounts[-1].start()
                steps = steps_of(options.source, mounts, place, options.seed, options.ttl)
                if options.race:
                    race_of(options.source, mounts, place, folder, options.seed, options.race, options.ttl)
                    print(f"{time.monotonic() - began:.0f} s")
                    return 0
                if options.replay:
                    roots = {host.name: host.root for host in [*steps.hosts, steps.plain]}
                    print(*told(Path(options.replay).read_text(encoding="utf-8").splitlines(), roots, steps.replay_client), sep="\n")
                    return 0
                try:
                    play(steps, options.steps)
                except Wrong as problem:
                    print(problem, file=sys.stderr)
                    if options.log:
                        Path(options.log).write_text("\n".join(steps.log), encoding="utf-8")
                    if options.shrink:
                        roots = {host.name: host.root for host in steps.everybody if host.root}
                        print("\nsmallest:", *shrink(list(steps.log), roots, steps.replay_client), sep="\n", file=sys.stderr)
                    return 1
            finally:
                for mount in mounts:
                    mount.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{options.steps} steps in {time.monotonic() - began:.0f} s: {dict(steps.counts.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

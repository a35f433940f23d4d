#!/usr/bin/python3
"""Two writable mounts of one source and a plain client of it, at random, while answers are lost, servers fail and one daemon is
killed: of each name the versions that may be there.

    tests/conformance/two_hosts_faults.py [--source s3|nfs|directory] [--steps N] [--seed S] [--no-kills] [--no-faults]

What was acknowledged is there, or was replaced by what was acknowledged later; what failed was done or not, and stays as it is
found; an object is one version, and so is what a descriptor reads; each error has a line in the log of the mount. Files of a
directory and of an export are replaced by others, so that each is one version, too. Starts the server that it needs and the fault
proxy, and leaves nothing behind. TIERFS_TEST_BINARY names the program, as for the mount tests. Run it as root."""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "mount"), str(TESTS / "faults")]

from harness import daemon, nfs, servers  # noqa: E402  pylint: disable=wrong-import-position
from proxy import Proxy  # noqa: E402  pylint: disable=wrong-import-position
from two_hosts_client import Client  # noqa: E402
from two_hosts_model import Wrong  # noqa: E402
from two_hosts_weak import Host, Weak  # noqa: E402
from two_hosts_weak_files import Folder, WeakFiles  # noqa: E402


def play(hosts, client, proxy, seed, steps, with_kills=True, with_faults=True):
    """Runs them; a violation is told with what led to it. Returns what was counted. Without a proxy there are no faults."""
    kind = WeakFiles if isinstance(client, Folder) else Weak
    weak = kind(hosts, client, proxy, seed, with_kills, with_faults and proxy is not None)
    try:
        weak.run(steps)
    except (Wrong, OSError) as problem:
        raise Wrong(f"seed {seed}, {sum(weak.counts.values())} steps\n" + "\n".join(weak.lines) + f"\nWRONG: {problem}") from problem
    finally:
        weak.calm()
        for one in [*weak.readers, *weak.writers]:
            weak.close_quietly(one)
    return weak.counts, weak.errors


def options_for(proxy, ttl):
    """Of both mounts of a bucket: a request is given up soon, so that callers see failures."""
    return {"rw": None, "metadata.ttl": ttl, "s3.endpoint": proxy.endpoint, "s3.region": "us-east-1", "origin.deadline": "2s",
            "log.level": "info"}


@contextlib.contextmanager
def source(kind, folder):
    """(what to mount, its options, its environment, the plain client, the proxy or None)."""
    usual = {"rw": None, "metadata.ttl": "0s", "log.level": "info"}
    if kind == "directory":
        (folder / "origin").mkdir()
        yield str(folder / "origin"), usual, None, Folder(folder / "origin"), None
    elif kind == "nfs":
        server = nfs.Ganesha(folder / "nfs", remembers=False)
        try:
            (server.data / "folder").mkdir()
            with Proxy(("127.0.0.1", server.port), tcp=True) as proxy:
                yield server.url("folder", port=proxy.port), {**usual, "origin.deadline": "5s"}, None, Folder(server.data / "folder"), proxy
        finally:
            server.stop()
    else:
        server = servers.Rgw(folder / "rgw")
        try:
            server.make_bucket("bucket1")
            with Proxy(("127.0.0.1", int(server.client.meta.endpoint_url.rpartition(":")[2]))) as proxy:
                yield ("s3://bucket1", options_for(proxy, "0s"),
                       {"AWS_ACCESS_KEY_ID": servers.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": servers.SECRET_KEY},
                       Client(server.client, "bucket1"), proxy)
        finally:
            server.stop()


def run(given, folder):
    mounts, began = [], time.monotonic()
    with source(given.source, folder) as (what, options, env, client, proxy):
        try:
            for name in "AB":
                cache = folder / f"cache{name}"
                cache.mkdir(mode=0o700)
                mounts.append(daemon.Mount(what, {**options, "nvme.path": str(cache), "nvme.limit": "1G"}, folder=folder / name, env=env))
                mounts[-1].start()
            hosts = [Host(name, mount) for name, mount in zip("AB", mounts)]
            counts, errors = play(hosts, client, proxy, given.seed, given.steps, not given.no_kills, not given.no_faults)
        except Wrong as problem:
            print(problem, file=sys.stderr)
            for mount in mounts:
                print(f"--- {mount.log}", *mount.log.read_text(errors="replace").splitlines()[-25:], sep="\n", file=sys.stderr)
            return 1
        finally:
            for mount in mounts:
                mount.close()
    print(f"{given.steps} steps in {time.monotonic() - began:.0f} s: {dict(counts.most_common())}\nerrors: {dict(errors)}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", choices=("directory", "s3", "nfs"), default="s3")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--no-kills", action="store_true")
    parser.add_argument("--no-faults", action="store_true")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    os.umask(0o022)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="two-hosts-faults-"))
    folder.chmod(0o755)
    try:
        return run(given, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

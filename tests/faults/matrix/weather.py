"""Bad weather: readers in several processes while requests fail here and there, the service is down for moments, and
objects change. Every read is compared with what the file holds."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from harness import daemon, processes

from . import contents, worlds
from .reader import CHANGING, LARGE, SMALL, changing_size

PROCESSES, THREADS = 2, 6
DEADLINE = 20  # seconds
BASE_TIME = 1_700_000_000
TTL = 2  # seconds
# What a reader may see: of changing objects ESTALE, of a service that is down too often ETIMEDOUT.
ALLOWED = {"ESTALE", "ETIMEDOUT"}

RULES = [
    {"name": "tail", "match": {"probability": 0.05, "seed": 1}, "faults": [{"do": "latency", "ms": 5, "tail_p": 0.2,
                                                                            "tail_ms": 300}]},
    {"name": "slow down", "match": {"probability": 0.02, "seed": 2},
     "faults": [{"do": "reply", "status": 503, "code": "SlowDown"}]},
    {"name": "internal", "match": {"probability": 0.01, "seed": 3},
     "faults": [{"do": "reply", "status": 500, "code": "InternalError"}]},
    {"name": "reset", "match": {"probability": 0.01, "seed": 4}, "faults": [{"do": "reset"}]},
    {"name": "reset within", "match": {"kind": "get", "probability": 0.01, "seed": 5},
     "faults": [{"do": "reset", "after": 5000}]},
    {"name": "truncated", "match": {"probability": 0.01, "seed": 6}, "faults": [{"do": "truncate"}]},
    {"name": "shifted", "match": {"kind": "get", "probability": 0.005, "seed": 7}, "faults": [{"do": "range", "by": 4096}]},
    {"name": "short", "match": {"kind": "get", "probability": 0.005, "seed": 8}, "faults": [{"do": "length", "by": -1}]},
]
DOWN = {"name": "down", "match": {"seconds": 0.3}, "faults": [{"do": "reply", "status": 503, "code": "SlowDown"}]}


class Changes(threading.Thread):
    """Replaces objects, each time by a version with other bytes and another size, at once as S3 does."""

    def __init__(self, server, proxy):
        super().__init__(daemon=True)
        self.server, self.proxy, self.ending = server, proxy, threading.Event()
        self.versions = dict.fromkeys(CHANGING, 0)
        self.problem = ""

    def run(self):
        chance, rounds = random.Random(1), 0
        try:
            while not self.ending.wait(0.1):
                name = chance.choice(list(CHANGING))
                self.publish(name, self.versions[name] + 1)
                rounds += 1
                if rounds % 40 == 0:
                    self.proxy.add_rule(DOWN)
        except (OSError, AssertionError) as error:
            self.problem = f"cannot change objects: {error}"

    def publish(self, name, version):
        body = contents.part(name, version, 0, changing_size(name, version))
        if hasattr(self.server, "client"):
            self.server.put(worlds.BUCKET, name, body)
        else:  # its ETags tell versions apart by the second of the change
            new, place = self.server.folder / "new", self.server.data / worlds.BUCKET / name
            place.parent.mkdir(parents=True, exist_ok=True)
            new.write_bytes(body)
            os.utime(new, (BASE_TIME + version, BASE_TIME + version))
            os.rename(new, place)
            self.server.control(rescan=1)
        self.versions[name] = version

    def stop(self):
        self.ending.set()
        self.join(60)


def put_objects(server, changes):
    server.put_all(worlds.BUCKET, {name: contents.whole(name, size) for name, size in {**LARGE, **SMALL}.items()})
    for name in CHANGING:
        changes.publish(name, 0)


def read(root, count, limit):
    """Starts the readers; what each of them found."""
    script = Path(__file__).with_name("reader.py")
    running = [subprocess.Popen([sys.executable, script, root, str(count // PROCESSES + 1), str(THREADS), str(number)],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
               for number in range(PROCESSES)]
    found = []
    for one in running:
        try:
            out, _ = one.communicate(timeout=limit)
            found.append(json.loads(out) if out else {"failed": f"a reader ended with status {one.returncode}"})
        except subprocess.TimeoutExpired:
            one.kill()
            found.append({"failed": f"a reader was still at work after {limit:g} s"})
    return found


def newest_is_served(world, changes):
    """When nothing changes any more, every name leads to the newest version after metadata.ttl."""
    def served():
        for name, version in changes.versions.items():
            try:
                if (world.mount.path / name).read_bytes() != contents.part(name, version, 0, changing_size(name, version)):
                    return False
            except OSError:
                return False
        return True

    processes.wait_until(served, TTL * 2 + 20, "the newest versions are served")
    return len(changes.versions)


def run(folder, server, count, table):
    cache = folder.parent / "weather-cache"
    cache.mkdir(mode=0o700)
    options = {"metadata.ttl": f"{TTL}s", "ram.limit": "24M", "nvme.path": cache, "nvme.limit": "64M", "class": "hot"}
    with worlds.make("plain", folder, ("127.0.0.1", server.port), DEADLINE * processes.SLOWNESS, options) as world:
        changes = Changes(server, world.proxy)
        put_objects(server, changes)
        world.proxy.set_rules(RULES)
        begun = time.monotonic()
        changes.start()
        found = read(world.mount.path, count, 120 + count / 500 * processes.SLOWNESS)
        changes.stop()
        seconds = time.monotonic() - begun
        counted = world.proxy.count()
        world.proxy.set_rules([])
        problems = [one["failed"] for one in found if "failed" in one] + ([changes.problem] if changes.problem else [])
        try:
            extra = newest_is_served(world, changes)
        except AssertionError as error:
            extra = 0
            problems.append(str(error))
        report(world.mount.status(), found, counted, changes, seconds)
    total = add_up(found)
    unknown = set(total["errors"]) - ALLOWED
    if unknown:
        problems.append(f"errors that no reader should see: {', '.join(sorted(unknown))}")
    problems += total["wrong"]
    table.add("bad weather", "all", "failed" if problems else "right bytes", seconds, 0, "; ".join(problems),
              total["verified"] + extra, len(total["wrong"]))
    for problem in problems:
        print(f"FAILED: bad weather: {problem}")


def add_up(found):
    total = {"verified": 0, "direct": 0, "changing": 0, "errors": {}, "wrong": []}
    for one in found:
        for name in ("verified", "direct", "changing"):
            total[name] += one.get(name, 0)
        total["wrong"] += one.get("wrong", [])
        for name, times in one.get("errors", {}).items():
            total["errors"][name] = total["errors"].get(name, 0) + times
    return total


def report(status, found, counted, changes, seconds):
    total = add_up(found)
    reads = status["reads"]
    errors = ", ".join(f"{times} {name}" for name, times in sorted(total["errors"].items())) or "no errors"
    print(f"bad weather: {total['verified']} reads in {seconds:.0f} s, {total['direct']} of them with O_DIRECT, "
          f"{total['changing']} of objects that changed {sum(changes.versions.values())} times; {errors}")
    print(f"  {reads['requests']} reads reached the daemon; bytes by tier: " +
          ", ".join(f"{name} {size >> 10} KiB" for name, size in reads["by_tier"].items()))
    print(f"  the server's side saw {sum(counted['requests'].values())} requests and sent "
          f"{sum(counted['bytes'].values()) >> 20} MiB; faults: " +
          ", ".join(f"{rule['name']} {rule['hits']}" for rule in counted["rules"] if rule["name"] != "down") +
          f", down {sum(rule['hits'] for rule in counted['rules'] if rule['name'] == 'down')}")

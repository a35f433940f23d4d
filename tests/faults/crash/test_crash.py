"""The daemon is killed at any moment, at any I/O, under any load: afterwards every byte is right and the mount quick."""

import os
import random
import shutil
import tempfile
import time
from pathlib import Path

import pytest

import conftest
from harness import daemon, data, processes
from load import LIMIT, MODES, TIGHT, Dataset, Kill, Readers
from session import all_points

pytestmark = pytest.mark.release

FULL = os.environ.get("TIERFS_TEST_FULL", "") == "1"
KILL_COUNT = int(os.environ.get("TIERFS_TEST_KILLS", 1000 if FULL else 15))
SEED = os.environ.get("TIERFS_TEST_SEED", "1")
RESTART_LIMIT = 2.0  # seconds; multiplied by the build's slowness


def points():
    if not os.access(daemon.BINARY, os.X_OK):
        return []
    folder = tempfile.mkdtemp(prefix="points-", dir=os.environ.get("TIERFS_TEST_ROOT") or None)
    try:
        return all_points(folder)
    finally:
        shutil.rmtree(folder)


POINTS = points()
AT_POINTS = KILL_COUNT // 3 if POINTS else 0  # the others come at random moments


class Place:
    """What the kills of one origin share: the cache that they leave, one after the other."""

    def __init__(self, source, options, folder, env=None):
        self.source, self.options, self.folder, self.env = source, options, folder, env or {}
        self.cache = folder / "cache"
        self.cache.mkdir(parents=True, mode=0o700)

    def mount_options(self, mode, cache=None):
        return {**self.options, "nvme.path": str(cache or self.cache), "memory.limit": "128M",
                "nvme.limit": str(TIGHT if mode == "evict" else LIMIT), "origin.deadline": "10s", "log.level": "info",
                "class": "hot" if mode == "evict" else "auto"}


@pytest.fixture(scope="module")
def dataset(root):
    (root / "crash-origin").mkdir()
    return Dataset(root / "crash-origin")


@pytest.fixture(scope="module")
def places(root, dataset, request):
    made = {"directory": Place(dataset.origin, {}, root / "crash-directory")}
    if shutil.which("nginx"):
        server = request.getfixturevalue("nginx_server")
        server.make_bucket("crash")
        server.put_all("crash", dataset.files)
        made["s3"] = Place("s3://crash", {"s3.endpoint": server.endpoint, "s3.region": "us-east-1"},
                           root / "crash-s3", {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"})
    return made


@pytest.fixture(scope="module")
def reached(places, dataset, root):
    """reached(origin, mode): the points that such a mount comes to, in an order of the seed's, from an empty cache."""
    known = {}

    def ask(origin, mode):
        if (origin, mode) not in known:
            folder = root / f"crash-reached-{origin}-{mode}"
            place, listed = places[origin], folder / "faults"
            (folder / "cache").mkdir(parents=True, mode=0o700)
            m = daemon.Mount(place.source, place.mount_options(mode, cache=folder / "cache"), folder=folder,
                             env={**place.env, "TIERFS_TEST_FAULT_LIST": str(listed)})
            read_and_leave(m, dataset, mode, 0, Kill(mode))
            m.close()
            hits = {line.split()[1] for line in listed.read_text().splitlines() if line.startswith("hit ")}
            known[origin, mode] = random.Random(SEED).sample(sorted(hits), len(hits))
            shutil.rmtree(folder)
        return known[origin, mode]

    return ask


def cached_bytes(place):
    folders = [path for kind in ("extents", "files") for path in place.cache.glob(f"*/{kind}")]
    return sum(map(data.disk_use, folders))


def detach(m):
    """After a kill: nothing that served the mount is left, nor the mount."""
    m.killed = True
    if m.mounted():
        processes.run(["umount", "-l", m.path])
    processes.wait_until(lambda: not m.processes(), what="killed processes gone")


def kill_now(m, pids, how, readers):
    if how == "taken over":
        processes.kill([pids["pid"]])
        pids = m.wait_for_daemon(pids["pid"])
        before = readers.read_bytes
        processes.wait_until(lambda: readers.read_bytes > before or not readers.going(), timeout=60,
                             what="readers go on")
        assert not readers.errors, f"{readers.errors[:5]}\n{m.log_tail()}"
    if how != "alone":
        processes.kill([pids["supervisor_pid"]])
    processes.kill([pids["pid"]])
    if how == "alone":  # the supervisor unmounts, so that readers get an error at once
        processes.wait_until(lambda: not m.mounted(), what="the supervisor unmounts what the killed daemon served")
        processes.wait_until(lambda: not m.processes(), what="the supervisor ends")
    detach(m)


def end_readers(readers, kill):
    assert readers.stop(20 * processes.SLOWNESS), "readers hang after the kill"
    kill.wrong += len(readers.wrong)
    assert not readers.wrong, f"wrong bytes before the kill: {readers.wrong[:5]}"


def kill_under_load(m, dataset, mode, how, chance, kill, place):
    """Kills after a part of two epochs was read, somewhere in the middle of a call."""
    pids = m.status()
    readers = Readers(m.path, dataset, mode, chance.random())
    size = sum(map(len, dataset.files.values())) // (4 if mode == "sequential" else 1)
    wanted = int(size * chance.uniform(0.05, 2.0))
    try:
        processes.wait_until(lambda: readers.read_bytes >= wanted or not readers.going(), timeout=60,
                             what="readers get on", interval=0.002)
        time.sleep(chance.uniform(0, 0.05))
        kill.under_load = readers.going() and not readers.errors and readers.read_bytes > 0
        kill_now(m, pids, how, readers)
    finally:
        end_readers(readers, kill)
    kill.happened = True
    kill.cached = cached_bytes(place)


def read_and_leave(m, dataset, mode, seed, kill):
    """Mounts, reads as much as the dataset has, and unmounts, as far as this comes."""
    finished = m.attempt()
    if finished.returncode == 0 and m.mounted():
        readers = Readers(m.path, dataset, mode, seed)
        size = sum(map(len, dataset.files.values()))
        try:
            processes.wait_until(lambda: readers.read_bytes >= size or not readers.going(), timeout=60,
                                 what="readers get on", interval=0.01)
        finally:
            readers._stopping.set()  # pylint: disable=protected-access
        if m.mounted():
            m.env.pop("TIERFS_TEST_FAULTS", None)  # of the commands
            processes.run([daemon.BINARY, "umount", "--lazy", m.path], env=m.env)
        end_readers(readers, kill)
        kill.under_load = readers.read_bytes > 0


def kill_at_point(m, dataset, mode, chance, kill, place):
    """The daemon, or whoever comes to the point first, kills itself there."""
    read_and_leave(m, dataset, mode, chance.random(), kill)
    # Whoever was not killed comes to an end, unless its partner was killed before it could be told.
    end = time.monotonic() + 5
    while m.processes() and time.monotonic() < end:
        time.sleep(0.02)
    processes.kill(m.processes())
    detach(m)
    faults = Path(m.env["TIERFS_TEST_FAULT_LIST"])
    kill.happened = faults.exists() and any(line.startswith("fired ") for line in faults.read_text().splitlines())
    kill.cached = cached_bytes(place)


def verify(made, dataset, kill, first=None):
    """All bytes; returns the status at the end."""
    for name, expected in dataset.files.items():
        found = first if first is not None and name == next(iter(dataset.files)) else data.read_cold(made.path / name)
        kill.wrong += found != expected
        data.expect_same(found, expected, name)
    status = made.status()
    assert status["reads"]["errors"] == 0
    return status


@pytest.mark.parametrize("number", range(KILL_COUNT))
def test_kill(number, places, reached, dataset, mount, folder):
    chance = random.Random(f"{SEED} {number}")
    origin = sorted(places)[number % len(places)]
    place = places[origin]
    at_point = number % 3 == 2 and bool(POINTS)
    mode = MODES[(number // len(places)) % len(MODES)]
    if number % 10 == 9:  # now and then from nothing
        shutil.rmtree(place.cache)
        place.cache.mkdir(mode=0o700)
    options = place.mount_options(mode)
    if chance.random() < 0.5:
        options["ram.limit"] = "0"
    how = chance.choice(["alone", "with the supervisor", "taken over"])
    if at_point or how == "alone":
        options["supervisor"] = "off"
    kill = Kill("at a point" if at_point else mode)
    conftest.KILLS.append(kill)
    if at_point:
        points_there = reached(origin, mode)
        point = points_there[(number // 3) % len(points_there)]
        action = "tear" if point.endswith(".write") and chance.random() < 0.5 else "kill"
        hit = 1 + (number // 3) // len(points_there) * 3 + chance.choice([0, 0, 0, 1])
        rules = f"{point}:{hit}:{action}"
        m = mount.prepare(place.source, options,
                          env={**place.env, "TIERFS_TEST_FAULTS": rules, "TIERFS_TEST_FAULT_LIST": str(folder / "faults")})
        kill_at_point(m, dataset, mode, chance, kill, place)
    else:
        m = mount(place.source, options, env=place.env)
        kill_under_load(m, dataset, mode, how, chance, kill, place)

    started = time.monotonic()
    m = mount(place.source, place.mount_options(mode), env=place.env)
    first = data.read_cold(m.path / next(iter(dataset.files)))
    kill.restart = time.monotonic() - started
    assert kill.restart <= RESTART_LIMIT * processes.SLOWNESS, f"restart took {kill.restart:.2f} s"
    kill.from_nvme = verify(m, dataset, kill, first)["reads"]["by_tier"]["nvme"]
    m.umount()

    m = mount(place.source, place.mount_options(mode, cache=folder), env=place.env)
    verify(m, dataset, kill)
    m.umount()


def test_the_kills_proved_something():
    """Kills of a mount that did nothing, and second mounts that had nothing in their cache, prove nothing."""
    kills = [kill for kill in conftest.KILLS if kill.happened]
    if len(conftest.KILLS) < KILL_COUNT:
        pytest.skip("not all kills were chosen")
    loaded = [kill for kill in kills if kill.mode != "at a point"]
    assert len(loaded) == KILL_COUNT - len([kill for kill in conftest.KILLS if kill.mode == "at a point"])
    for what, count in (("came under load", sum(kill.under_load for kill in loaded)),
                        ("found bytes in the cache", sum(kill.cached > 1 << 20 for kill in loaded)),
                        ("left what was served from NVMe", sum(kill.from_nvme > 0 for kill in loaded))):
        assert count >= 0.8 * len(loaded), f"only {count} of {len(loaded)} kills {what}"
    if POINTS:
        at_points = [kill for kill in kills if kill.mode == "at a point"]
        assert len(at_points) >= 0.2 * AT_POINTS, f"only {len(at_points)} of {AT_POINTS} kills at a point happened"
    assert sum(kill.wrong for kill in kills) == 0

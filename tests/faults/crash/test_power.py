"""The cache's disk loses what was not synced, in the middle of writes, as a power cut makes it: the mount that runs goes
on or gives honest errors in time, and on what the disk kept every byte is right."""

import os
import random
import shutil

import pytest

import conftest
from harness import data, processes
from load import Dataset, PatientReaders
from session import HONEST

FULL = os.environ.get("TIERFS_TEST_FULL", "") == "1"
COUNT = int(os.environ.get("TIERFS_TEST_POWER_CUTS", 20 if FULL else 2))
SEED = os.environ.get("TIERFS_TEST_SEED", "1")
DEADLINE = 10


@pytest.fixture(scope="module")
def dataset(root):
    (root / "power-origin").mkdir()
    return Dataset(root / "power-origin")


@pytest.mark.parametrize("number", range(COUNT))
def test_power_cut(number, dataset, mount, xfs):
    chance = random.Random(f"power {SEED} {number}")
    cache = xfs.path / "cache"
    cache.mkdir(mode=0o700)
    options = {"nvme.path": str(cache), "nvme.limit": chance.choice(["16M", "64M"]), "memory.limit": "128M",
               "origin.deadline": f"{DEADLINE}s", "ram.limit": chance.choice(["0", "16M"])}
    options["class"] = "hot" if options["nvme.limit"] == "16M" else "auto"  # with eviction where it is tight
    synced = number % 2 == 1  # something of a first run is there for sure
    if synced:
        m = mount(dataset.origin, options)
        data.expect_files(m.path, dataset.small)
        m.umount()
        os.sync()
    m = mount(dataset.origin, options)
    size = sum(map(len, dataset.files.values()))
    wanted = int(size * chance.uniform(0.1, 1.2))
    readers = PatientReaders(m.path, dataset, chance.choice(["shuffled", "evict", "stream"]), chance.random())
    try:
        processes.wait_until(lambda: readers.read_bytes >= wanted, timeout=60, what="readers get on", interval=0.005)
        before, failed_before = readers.read_bytes, len(readers.errors)
        xfs.shut_down()
        # It goes on: that much more is read, or fails.
        processes.wait_until(lambda: readers.read_bytes + sum(len(dataset.files[name]) for name, _ in readers.errors)
                             >= before + size // 2, timeout=60, what="the mount goes on after the power cut")
    finally:
        ended = readers.stop((DEADLINE + 20) * processes.SLOWNESS)
    assert ended, "readers hang after the power cut"
    assert failed_before == 0 and not readers.wrong, readers.wrong[:5]
    assert all(code in HONEST for _, code in readers.errors), readers.errors[:5]
    assert readers.longest < (DEADLINE + 20) * processes.SLOWNESS
    m.umount()

    recovered = xfs.recover()
    m = mount.prepare(dataset.origin, options)
    finished = m.attempt()
    if finished.returncode != 0:  # it may refuse, in words; then the cache goes
        assert finished.returncode == 1 and finished.err.strip(), finished
        recovered += ", cache removed"
        shutil.rmtree(cache)
        cache.mkdir(mode=0o700)
        m.start()
    data.expect_files(m.path, dataset.files)
    status = m.status()
    assert status["reads"]["errors"] == 0
    served = status["reads"]["by_tier"]["nvme"]
    if synced:
        assert served > 0, "what was synced is not served"
    m.umount()
    conftest.POWER.append([f"{number}: {options['nvme.limit']}", f"{before / 1e6:.0f} MB", len(readers.errors),
                           recovered, f"{served / 1e6:.1f} MB", 0])

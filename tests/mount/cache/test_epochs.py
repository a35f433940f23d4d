"""Epochs over a dataset that is larger than the cache: what the server sends, what is written, what status says."""

import random
import subprocess
import sys
import textwrap

import pytest

from harness import data, processes

pytestmark = pytest.mark.release

SIZE = 124 * 1024  # little is lost to rounding: memory comes in powers of two, extents of 1 MiB hold eight
NVME = 64 << 20
COUNT = 2 * NVME // SIZE
DATASET = COUNT * SIZE
RAM = DATASET // 20
LISTED = 1 << 20  # the names, three pages: the fill lists them for itself


def put_files(bucket, count=COUNT):
    files = {f"d{number % 20:02}/f{number:05}.bin": data.content(number, SIZE) for number in range(count)}
    bucket.put_all(files)
    return files


def options(bucket, cache, more=None):
    return bucket.options({**cache, "nvme.limit": str(NVME), "ram.limit": str(RAM), "metadata.ttl": "1h",
                           "origin.hedge": "0", **(more or {})})


def epoch(m, files, seed):
    """Reads everything in an order of its own; every byte is compared."""
    order = sorted(files)
    random.Random(seed).shuffle(order)
    for name in order:
        data.expect_same(data.read_cold(m.path / name), files[name], name)


def written(m, timeout=30):
    """Bytes written to NVMe when the writer has come to rest."""
    last = [-1, 0]

    def quiet():
        now = m.tier("nvme")["written_bytes"]
        last[1] = last[1] + 1 if now == last[0] else 0
        last[0] = now
        return last[1] >= 6
    processes.wait_until(quiet, timeout=timeout, what="the NVMe tier settles", interval=0.2)
    return last[0]


def sent(bucket):
    return bucket.server.control()["bytes"]


def dataset(m):
    return m.status()["datasets"][0]


@pytest.mark.parametrize("configured", ["auto", "epoch"])
def test_frozen_epochs_send_the_rest_and_write_nothing(mount, nginx_bucket, cache, configured):
    files = put_files(nginx_bucket)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache, {"class": configured}), env=nginx_bucket.env)
    limits = sum(tier["limit_bytes"] for tier in m.status()["tiers"])
    assert limits <= NVME + RAM
    share = limits / DATASET
    epoch(m, files, 1)
    wrote, sends = written(m), []
    for seed in range(2, 6):
        before = sent(nginx_bucket)
        epoch(m, files, seed)
        sends.append(sent(nginx_bucket) - before)
        if seed == 2:
            wrote = written(m)
    print(f"c {share:.4f}, sent per epoch {[round(s / DATASET, 4) for s in sends]}")
    assert max(sends) <= (1 - 0.97 * share) * DATASET
    assert written(m) - wrote < DATASET / 100
    found = dataset(m)
    assert found["configured"] == configured and found["class"] == "epoch" and found["frozen"], found
    assert found["evidence"]["visits"] == 256 and found["reason"], found
    assert configured != "auto" or found["decided_s"] > 0, found
    assert m.tier("nvme")["evicted_bytes"] == 0 and m.tier("nvme")["state"] == "normal"


def test_a_frozen_cache_stays_after_restart_and_kill(mount, nginx_bucket, cache):
    files = put_files(nginx_bucket)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache), env=nginx_bucket.env)
    epoch(m, files, 1)
    written(m)
    m.umount()
    for kill in (False, True):
        m = mount(nginx_bucket.source(), options(nginx_bucket, cache), env=nginx_bucket.env)
        before = sent(nginx_bucket)
        epoch(m, files, 7)
        # NVMe is what it was. RAM fills again, one pass long, and lets some of that go before its turn comes.
        assert m.tier("nvme")["hits"] >= 0.96 * NVME / SIZE
        assert sent(nginx_bucket) - before <= DATASET - 0.96 * NVME + RAM / 2 + LISTED
        assert written(m) <= NVME / 32 and m.tier("nvme")["evicted_bytes"] == 0
        if kill:
            m.kill_hard()
        else:
            m.umount()
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache), env=nginx_bucket.env)
    epoch(m, files, 8)
    before = sent(nginx_bucket)
    epoch(m, files, 9)
    assert sent(nginx_bucket) - before <= (1 - 0.96 * (NVME + RAM) / DATASET) * DATASET


def test_several_trials_with_their_own_seeds_are_an_epoch(mount, nginx_bucket, cache):
    files = put_files(nginx_bucket)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache), env=nginx_bucket.env)
    reader = textwrap.dedent("""
        import os, pathlib, random, sys
        root, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2])
        names = sorted(root.glob("d*/*"))
        for epoch in range(2):
            random.Random(seed * 100 + epoch).shuffle(names)
            for name in names:
                handle = os.open(name, os.O_RDONLY)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                while os.read(handle, 1 << 20):
                    pass
                os.close(handle)
    """)
    readers = [subprocess.Popen([sys.executable, "-c", reader, str(m.path), str(seed)]) for seed in range(4)]
    try:
        for one in readers:
            assert one.wait(60 * processes.SLOWNESS) == 0
    finally:
        for one in readers:
            one.kill()
            one.wait()
    found = dataset(m)
    assert found["class"] == "epoch" and found["frozen"], found
    assert m.tier("nvme")["evicted_bytes"] == 0
    wrote = written(m)
    before = sent(nginx_bucket)
    epoch(m, files, 3)
    assert sent(nginx_bucket) - before <= (1 - 0.95 * (NVME + RAM) / DATASET) * DATASET
    assert written(m) == wrote


def test_one_more_job_over_other_files_takes_the_cache_over(mount, nginx_bucket, cache):
    """Frozen for the first half of the files; then only the second is read."""
    files = put_files(nginx_bucket)
    halves = [{name: files[name] for name in sorted(files) if name.startswith("d0") == first} for first in (True, False)]
    small = {"nvme.limit": str(NVME // 4), "ram.limit": "0"}
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache, small), env=nginx_bucket.env)
    for seed in range(3):
        epoch(m, halves[0], seed)
    assert dataset(m)["frozen"] and dataset(m)["renewals"] == 0
    for seed in range(5):
        epoch(m, halves[1], seed)
    assert dataset(m)["renewals"] >= 1
    before = sent(nginx_bucket)
    epoch(m, halves[1], 9)
    assert sent(nginx_bucket) - before <= len(halves[1]) * SIZE - 0.75 * NVME / 4


def test_the_fill_brings_what_fits_before_anybody_reads(mount, nginx_bucket, cache):
    files = put_files(nginx_bucket)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache, {"class": "epoch"}), env=nginx_bucket.env)
    processes.wait_until(lambda: dataset(m)["frozen"] or dataset(m)["fill"]["done_bytes"] >= 0.98 * (NVME + RAM),
                         timeout=60, what="the tiers are full")
    wrote, before = written(m), sent(nginx_bucket)
    # Some megabytes are under way when the tiers turn out to be full.
    assert dataset(m)["fill"]["done_bytes"] <= NVME + RAM + (16 << 20)
    assert m.status()["reads"]["requests"] == 0
    epoch(m, files, 1)
    assert sent(nginx_bucket) - before <= (1 - 0.95 * (NVME + RAM) / DATASET) * DATASET + LISTED
    assert written(m) - wrote < DATASET / 100
    assert m.tier("nvme")["evicted_bytes"] == 0


def test_a_subset_is_not_filled_beyond_itself(mount, nginx_bucket, cache):
    """A rank's share of the files: what nobody reads is never fetched."""
    files = put_files(nginx_bucket)
    mine = {name: files[name] for number, name in enumerate(sorted(files)) if number % 4 == 0}
    before = sent(nginx_bucket)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache), env=nginx_bucket.env)
    for seed in range(3):
        epoch(m, mine, seed)
    assert dataset(m)["class"] == "epoch"
    assert written(m) <= 1.02 * len(mine) * SIZE
    assert sent(nginx_bucket) - before <= 1.02 * len(mine) * SIZE + LISTED

"""Rules: several datasets on one mount, each with a class of its own."""

import random
import subprocess

import pytest

from harness import daemon, data
from test_epochs import written

SIZE = 124 * 1024
NVME = 32 << 20

RULES = """
datasets:
  - {match: "/train/**", class: epoch}
  - {match: "/pinned/**", class: pin}
  - {match: "/scratch/**", class: none}
"""


@pytest.fixture
def rules(folder):
    path = folder / "tierfs.yaml"
    path.write_text(RULES)
    return path


def put(bucket, prefix, count, size=SIZE):
    files = {f"{prefix}/f{number:05}.bin": data.content(f"{prefix}{number}", size) for number in range(count)}
    bucket.put_all(files)
    return files


def start(mount, bucket, cache, rules, more=None):
    options = {**cache, "config": str(rules), "nvme.limit": str(NVME), "ram.limit": "4M", "metadata.ttl": "1h",
               "origin.hedge": "0", **(more or {})}
    return mount(bucket.source(), bucket.options(options), env=bucket.env)


def epoch(m, files, seed):
    order = sorted(files)
    random.Random(seed).shuffle(order)
    for name in order:
        data.expect_same(data.read_cold(m.path / name), files[name], name)


def sent_for(bucket, action):
    before = bucket.server.control()["bytes"]
    action()
    return bucket.server.control()["bytes"] - before


def dataset(m, match):
    return next(found for found in m.status()["datasets"] if found["match"] == match)


def test_a_stream_larger_than_all_tiers_leaves_epoch_and_pins_as_they_were(mount, nginx_bucket, cache, rules):
    train = put(nginx_bucket, "train", 400)  # half as much again as the tiers hold
    pinned = put(nginx_bucket, "pinned", 40)
    put(nginx_bucket, "video", 1, 64 << 20)
    m = start(mount, nginx_bucket, cache, rules)
    written(m, 60)
    epoch(m, pinned, 1)
    epoch(m, train, 1)
    written(m, 60)
    before = sent_for(nginx_bucket, lambda: epoch(m, train, 2))
    assert before < 0.6 * len(train) * SIZE
    assert sent_for(nginx_bucket, lambda: epoch(m, pinned, 2)) < SIZE
    (m.path / "video/f00000.bin").read_bytes()
    written(m, 60)
    assert sent_for(nginx_bucket, lambda: epoch(m, pinned, 3)) < SIZE
    # A device that is slow for a moment is passed by; nothing is written any more, so that one epoch is as good as another.
    after = min(sent_for(nginx_bucket, lambda seed=seed: epoch(m, train, seed)) for seed in (3, 4, 5))
    assert after <= before + len(train) * SIZE / 100
    assert dataset(m, "/train/**")["frozen"]
    assert dataset(m, "/pinned/**")["configured"] == "pin"


def test_nothing_is_kept_of_class_none(mount, nginx_bucket, cache, rules):
    scratch = put(nginx_bucket, "scratch", 20)
    m = start(mount, nginx_bucket, cache, rules)
    for seed in range(2):
        assert sent_for(nginx_bucket, lambda: epoch(m, scratch, seed)) >= len(scratch) * SIZE  # pylint: disable=cell-var-from-loop
    assert m.tier("nvme")["written_bytes"] == 0 and dataset(m, "/scratch/**")["bytes"] == 0


def test_config_check_names_the_rule_of_a_path(rules):
    def check(*paths):
        return subprocess.run([daemon.BINARY, "config", "--check", rules, *paths], capture_output=True, text=True,
                              check=False)
    found = check("/train/a/b", "pinned/x", "/other")
    assert found.returncode == 0, found
    assert found.stdout.splitlines() == [
        f"/train/a/b: rule {rules}:3, match /train/**, class epoch, codec none",
        f"pinned/x: rule {rules}:4, match /pinned/**, class pin, codec none",
        "/other: no rule of the file, match /**, class auto, codec none"]
    rules.write_text("nvme.codec: lz4\ndatasets:\n  - {match: /text/**, codec: zstd}\n  - {match: /jpeg/**, codec: none}\n")
    assert [line.rpartition(" ")[2] for line in check("/text/a", "/jpeg/a", "/other").stdout.splitlines()] == [
        "zstd", "none", "lz4"]
    rules.write_text("datasets:\n  - {match: /train/**, codec: gzip}\n")
    assert "codec: found 'gzip'; allowed: none, lz4, zstd" in check("/train/a").stderr
    rules.write_text("datasets:\n  - {match: train}\n")
    found = check("/train/a")
    assert found.returncode == 1 and f"{rules}:2: datasets: match: found 'train'" in found.stderr

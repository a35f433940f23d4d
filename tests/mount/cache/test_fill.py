"""The fill: several datasets from one walk, also from a class that is set while mounted."""

import time

import pytest

from harness import data, processes
from test_verbs import put, tier_of, tierfs

pytestmark = pytest.mark.release

SIZE = 60 * 1024
RULES = """
datasets:
  - {match: "/a/**", class: epoch}
  - {match: "/b/**", class: epoch}
  - {match: "/late/**"}
"""


@pytest.fixture
def m(mount, nginx_bucket, cache, folder):
    nginx_bucket.files = {**put(nginx_bucket, "a", 30), **put(nginx_bucket, "b", 20), **put(nginx_bucket, "late", 10),
                          **put(nginx_bucket, "rest", 5)}
    rules = folder / "tierfs.yaml"
    rules.write_text(RULES)
    return mount(nginx_bucket.source(), nginx_bucket.options({**cache, "config": str(rules), "origin.hedge": "0",
                                                              "metadata.ttl": "1h"}), env=nginx_bucket.env)


def datasets(m):
    return {found["match"]: found for found in m.status()["datasets"]}


def filled(m, match, count):
    return lambda: datasets(m)[match]["fill"] == {"done_bytes": count * SIZE, "total_bytes": count * SIZE}


def test_one_walk_fills_all_datasets_and_a_class_that_is_set_later(m):
    processes.wait_until(filled(m, "/a/**", 30), timeout=30, what="a filled")
    processes.wait_until(filled(m, "/b/**", 20), timeout=30, what="b filled")
    found = datasets(m)
    assert found["/late/**"]["fill"]["total_bytes"] == 0 and found["/**"]["fill"]["total_bytes"] == 0
    assert tier_of(m.path / "late/f0000.bin") == "origin"
    assert tierfs("class", m.path, "/late/**", "epoch").returncode == 0
    processes.wait_until(filled(m, "/late/**", 10), timeout=30, what="late filled")
    for number in range(10):  # what counts as done is asked for: the last of it may be on its way
        path = m.path / f"late/f{number:04}.bin"
        processes.wait_until(lambda path=path: "origin" not in tier_of(path), timeout=30, what=f"{path} has arrived")
    assert tier_of(m.path / "rest/f0000.bin") == "origin"
    processes.wait_until(filled(m, "/a/**", 30), timeout=30, what="nothing twice")


def test_status_counts_each_dataset(m):
    for name in ["a", "b", "late", "rest"]:
        assert len(list((m.path / name).iterdir())) in (30, 20, 10, 5)
    processes.wait_until(filled(m, "/b/**", 20), timeout=30, what="b filled")
    found = datasets(m)
    assert [found[match]["objects"] for match in ["/a/**", "/b/**", "/late/**", "/**"]] == [30, 20, 10, 5]
    processes.wait_until(lambda: datasets(m)["/b/**"]["bytes"] >= 20 * SIZE, timeout=30, what="written")


@pytest.mark.parametrize("tiers", [{"nvme.limit": "16M", "ram.limit": "1M"}, {"ram.limit": "4M"}], ids=["nvme", "ram alone"])
def test_a_fill_that_nothing_can_hold_ends(mount, nginx_bucket, cache, folder, tiers):
    """It brings what there is room for, and asks for no more, whatever it is that is full."""
    count, room = 1000, 12 << 20
    nginx_bucket.files = put(nginx_bucket, "a", count)
    assert count * SIZE > 4 * room
    rules = folder / "tierfs.yaml"
    rules.write_text('datasets:\n  - {match: "/a/**", class: epoch}\n')
    options = {**(cache if "nvme.limit" in tiers else {}), **tiers, "memory.limit": "128M", "config": str(rules), "origin.hedge": "0",
               "metadata.ttl": "1h"}
    m = mount(nginx_bucket.source(), nginx_bucket.options(options), env=nginx_bucket.env)

    def asked():
        return m.status()["origin"]["requests"]["get"]
    last = [-1, time.monotonic()]

    def quiet():
        if asked() != last[0]:
            last[:] = [asked(), time.monotonic()]
        return last[0] > 0 and time.monotonic() - last[1] > max(2.0, processes.SLOWNESS / 2)
    processes.wait_until(quiet, timeout=60, what="the fill ends", interval=0.1)
    assert m.status()["origin"]["bytes_read"] <= 2 * room
    # It has ended: what is read now is read once, and brings nothing else.
    before = asked()
    data.expect_same(data.read_cold(m.path / f"a/f{count - 1:04}.bin"), nginx_bucket.files[f"a/f{count - 1:04}.bin"], "the last file")
    assert asked() - before <= 4

"""The fill: several datasets from one walk, also from a class that is set while mounted."""

import pytest

from harness import processes
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
    for number in range(10):
        assert "origin" not in tier_of(m.path / f"late/f{number:04}.bin")
    assert tier_of(m.path / "rest/f0000.bin") == "origin"
    processes.wait_until(filled(m, "/a/**", 30), timeout=30, what="nothing twice")


def test_status_counts_each_dataset(m):
    for name in ["a", "b", "late", "rest"]:
        assert len(list((m.path / name).iterdir())) in (30, 20, 10, 5)
    processes.wait_until(filled(m, "/b/**", 20), timeout=30, what="b filled")
    found = datasets(m)
    assert [found[match]["objects"] for match in ["/a/**", "/b/**", "/late/**", "/**"]] == [30, 20, 10, 5]
    processes.wait_until(lambda: datasets(m)["/b/**"]["bytes"] >= 20 * SIZE, timeout=30, what="written")

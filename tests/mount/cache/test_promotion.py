"""promote, demote: what comes from NVMe into RAM, and what leaves RAM."""

import pytest

from harness import data, processes
from test_verbs import tier_of, tierfs

pytestmark = pytest.mark.release

SIZE = 60 * 1024


def files_of(origin, count=4):
    return {f"f{number}": data.write(origin / f"f{number}", data.content(number, SIZE)) for number in range(count)}


def on_nvme(mount, origin, options):
    """A mount whose files lie on NVMe alone."""
    m = mount(origin, options)
    assert tierfs("warm", m.path, "--wait").returncode == 0
    m.umount()
    return mount(origin, options)


def test_what_is_read_again_is_promoted(origin, mount, cache):
    files = files_of(origin)
    m = on_nvme(mount, origin, {**cache, "promote.after_reads": "3", "promote.within": "1h", "metadata.ttl": "1h"})
    for expected in ["nvme", "nvme", "ram"]:
        data.expect_same(data.read_cold(m.path / "f0"), files["f0"], "f0")
        assert tier_of(m.path / "f0") == expected
    data.read_cold(m.path / "f1")
    assert tier_of(m.path / "f1") == "nvme", "once only"
    before = m.status()["reads"]["by_tier"]
    data.expect_same(data.read_cold(m.path / "f0"), files["f0"], "f0")
    after = m.status()["reads"]["by_tier"]
    assert after["ram"] - before["ram"] == SIZE and after["nvme"] == before["nvme"]


def test_the_first_read_is_enough_by_default(origin, mount, cache):
    files_of(origin)
    m = on_nvme(mount, origin, {**cache, "metadata.ttl": "1h"})
    data.read_cold(m.path / "f0")
    assert tier_of(m.path / "f0") == "ram"


def test_what_is_idle_leaves_ram_and_stays_on_nvme(origin, mount, cache):
    files = files_of(origin)
    m = mount(origin, {**cache, "demote.idle": "2s", "metadata.ttl": "1h"})
    for name, expected in files.items():
        data.expect_same(data.read_cold(m.path / name), expected, name)
    processes.wait_until(lambda: all(tier_of(m.path / name) == "nvme" for name in files), timeout=30, what="demoted")
    assert m.tier("ram")["used_bytes"] == 0
    for name, expected in files.items():
        data.expect_same(data.read_cold(m.path / name), expected, name)
    assert m.status()["reads"]["by_tier"]["origin"] == len(files) * SIZE


def test_what_is_pinned_stays_in_ram(origin, mount):
    files_of(origin)
    m = mount(origin, {"demote.idle": "1s", "metadata.ttl": "1h"})
    assert tierfs("pin", m.path / "f0", "--wait").returncode == 0
    data.read_cold(m.path / "f1")
    processes.wait_until(lambda: tier_of(m.path / "f1") == "origin", timeout=30, what="demoted")
    assert tier_of(m.path / "f0") == "ram"


@pytest.mark.parametrize("options", [{"promote.after_reads": "0"}, {"promote.after_reads": "9"},
                                     {"promote.within": "0s"}, {"demote.idle": "10"}])
def test_what_makes_no_sense_is_refused(origin, mount, options):
    said = mount.prepare(origin, options).refuse(status=2)
    assert next(iter(options)) in said

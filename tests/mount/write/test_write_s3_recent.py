"""What was just written to a bucket is read, and taken into the tiers, without being fetched again."""

import os

import pytest

from harness import data, processes
from test_write_s3 import PART, body, show  # noqa: F401  pylint: disable=unused-import


def gets(m):
    return m.status()["origin"]["requests"]["get"]


@pytest.mark.release
@pytest.mark.parametrize("size", [3_000_001, 3 * PART + 5], ids=["at once", "in parts"])
def test_what_was_just_written_is_not_fetched(rgw_bucket, show, size):  # noqa: F811
    m = show()
    expected = data.content("new", size)
    (m.path / "tmp").write_bytes(expected)
    # Until the kernel has told of the last close, which it does after close has returned, the tiers are passed by.
    processes.wait_until(lambda: data.read_cold(m.path / "tmp") == expected and m.tier("ram")["used_bytes"] >= size,
                         what="it is in the tiers")
    data.expect_same(data.read_cold(m.path / "tmp"), expected, "from the tiers")
    assert gets(m) == 0
    (m.path / "tmp").write_bytes(expected[::-1])
    os.chmod(m.path / "tmp", 0o600)
    os.rename(m.path / "tmp", m.path / "final")
    data.expect_same(data.read_cold(m.path / "final"), expected[::-1], "under its last name")
    data.expect_same(body(rgw_bucket, "final"), expected[::-1], "at the bucket")
    assert gets(m) == 0


def test_a_write_of_a_sync_mount_is_at_the_bucket(rgw_bucket, mount):
    """The kernel asks for an fsync after each one."""
    m = mount(rgw_bucket.source(), rgw_bucket.options({"rw": None, "sync": None}), env=rgw_bucket.env)
    with open(m.path / "file", "wb", buffering=0) as file:
        for count in range(1, 4):
            file.write(b"x")
            assert body(rgw_bucket, "file") == count * b"x"


def read_if_possible(path):
    """Until metadata.ttl has passed, what another host has replaced may be ESTALE."""
    try:
        return data.read_cold(path)
    except OSError as error:
        return error.errno


def test_what_others_wrote_is_fetched(rgw_bucket, mount):
    m = mount(rgw_bucket.source(), rgw_bucket.options({"rw": None, "metadata.ttl": "1s"}), env=rgw_bucket.env)
    (m.path / "file").write_bytes(b"mine")
    (m.path / "gone").write_bytes(b"mine")
    rgw_bucket.put("file", b"theirs")
    os.unlink(m.path / "gone")
    rgw_bucket.put("gone", b"theirs")
    for name in ("file", "gone"):
        processes.wait_until(lambda name=name: read_if_possible(m.path / name) == b"theirs", what=f"another host's {name}")


def test_what_is_here_in_part_is_fetched(rgw_bucket, show):  # noqa: F811
    expected = bytearray(data.content("old", 2 * PART))
    rgw_bucket.put("file", bytes(expected))
    m = show()
    with open(m.path / "file", "r+b") as handle:
        handle.write(b"changed")
    expected[:7] = b"changed"
    data.expect_same(data.read_cold(m.path / "file"), bytes(expected), "on the mount")

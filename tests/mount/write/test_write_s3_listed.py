"""What a listing of a bucket showed is not asked for again, one name after the other."""

import errno
import os

from test_write_s3 import error_of, keys, show  # noqa: F401  pylint: disable=unused-import


def counted(m, call):
    """What call() returns, and the requests that it cost, by kind."""
    before = m.status()["origin"]["requests"]
    found = call()
    after = m.status()["origin"]["requests"]
    return found, {kind: after[kind] - before[kind] for kind in after if after[kind] != before[kind]}


def test_names_that_a_listing_showed(rgw_bucket, show):  # noqa: F811
    rgw_bucket.put_all({**{f"d/f{n}": b"x" for n in range(20)}, "d/both": b"x", "d/both/below": b"x", "d/sub/below": b"x"})
    m = show()
    assert len(os.listdir(m.path / "d")) == 22
    sizes, requests = counted(m, lambda: [os.stat(m.path / f"d/f{n}").st_size for n in range(20)])
    assert sizes == [1] * 20 and requests == {"head": 20}
    missing, requests = counted(m, lambda: [os.path.exists(m.path / f"d/none{n}") for n in range(20)])
    assert missing == [False] * 20 and requests == {}
    assert os.path.isdir(m.path / "d/sub") and os.path.isdir(m.path / "d/both")
    _, requests = counted(m, lambda: (m.path / "d/new").write_bytes(b"new"))
    assert requests == {"put": 1}


def test_own_changes_count_more_than_a_listing(rgw_bucket, show):  # noqa: F811
    rgw_bucket.put_all({"d/file": b"old", "d/gone": b"x", "d/sub/file": b"x", "d/tree/file": b"x"})
    m = show()
    os.listdir(m.path / "d")
    (m.path / "d/new").write_bytes(b"new")
    os.unlink(m.path / "d/gone")
    os.rename(m.path / "d/file", m.path / "d/renamed")
    os.rename(m.path / "d/tree", m.path / "d/moved")
    os.unlink(m.path / "d/sub/file")
    os.rmdir(m.path / "d/sub")
    (m.path / "d/made").mkdir()
    for name, there in {"new": 1, "gone": 0, "file": 0, "renamed": 1, "tree": 0, "moved": 1, "sub": 0, "made": 1}.items():
        assert os.path.exists(m.path / "d" / name) == bool(there), name
    assert sorted(os.listdir(m.path / "d")) == ["made", "moved", "new", "renamed"]
    assert error_of(os.mkdir, m.path / "d/new") == errno.EEXIST
    assert (m.path / "d/renamed").read_bytes() == b"old" and (m.path / "d/moved/file").read_bytes() == b"x"


def test_what_others_change_in_a_listed_directory(rgw_bucket, mount):
    m = mount(rgw_bucket.source(), rgw_bucket.options({"rw": None, "metadata.ttl": "1h"}), env=rgw_bucket.env)
    rgw_bucket.put_all({"d/file": b"x", "d/gone": b"x"})
    assert sorted(os.listdir(m.path / "d")) == ["file", "gone"]
    rgw_bucket.server.delete(rgw_bucket.name, "d/gone")
    assert not os.path.exists(m.path / "d/gone")  # nobody has looked at it before
    rgw_bucket.put("d/file", b"longer")
    assert os.stat(m.path / "d/file").st_size == 6
    assert keys(rgw_bucket) == ["d/file"]

"""Read-only and writable mounts of one source, one after another, on one cache."""

import pytest

from harness import data, processes


def fetched(m):
    return m.status()["origin"]["bytes_read"]


@pytest.mark.parametrize("kind", ["dir", "s3"])
def test_what_one_kind_of_mount_brought_serves_the_other(kind, origin, mount, cache, request):
    """Its names are asked for again: they may have changed behind a mount that is told of no change. Its bytes are not."""
    files = {f"d/{number}": data.content(f"ro-rw {number}", 70_000) for number in range(20)}
    if kind == "dir":
        source, options, env = origin, {}, {}
        for name, body in files.items():
            data.write(origin / name, body)
    else:
        bucket = request.getfixturevalue("rgw_bucket")
        source, options, env = bucket.source(), bucket.options({}), bucket.env
        for name, body in files.items():
            bucket.put(name, body)
    options = {**options, **cache, "metadata.ttl": "forever", "ram.limit": "0"}

    def run(more, expected_bytes, change=None):
        m = mount(source, {**options, **more}, env=env)
        data.expect_files(m.path, files)
        assert fetched(m) == expected_bytes
        if change is not None:
            files.update(change)
            for name, body in change.items():
                (m.path / name).write_bytes(body)
            data.expect_files(m.path, files)
        processes.wait_until(lambda: m.tier("nvme")["unwritten_bytes"] == 0, what="the tier has written")
        text = m.log.read_text(errors="replace")
        m.umount()
        assert not [line for line in text.splitlines() if "index" in line and "warning" in line], text

    run({}, sum(map(len, files.values())))
    run({"rw": None}, 0, {"d/0": b"of the second mount", "d/new": b"new"})
    # The changed ones are of versions that no read-only mount has seen.
    run({}, len(files["d/0"]) + len(files["d/new"]) if kind == "dir" else 0)
    run({"rw": None}, 0)
    run({}, 0)

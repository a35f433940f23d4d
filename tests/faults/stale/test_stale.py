"""A cache that was spoiled while no mount used it, at every kind of place: never a wrong byte, and it mends itself."""

import functools
import shutil

import pytest

import damage
from harness import daemon, data, processes

FIELDS = list(damage.CHUNK_FIELDS)
DAMAGES = {
    "extent data": damage.extent_data,
    **{f"chunk tables {n}": functools.partial(damage.chunk_table, fields=FIELDS[n::3]) for n in range(3)},
    "extents swapped": damage.extents_swapped,
    "extents swapped, index lost": damage.extents_swapped_index_lost,
    "chunk table of another extent": damage.chunk_table_of_another,
    "entries swapped": damage.entries_swapped,
    "extents of before": damage.extents_of_before,
    "backing data": damage.backing_data,
    **{f"sidecar {field}": functools.partial(damage.sidecar_headers, field=field) for field in damage.SIDECAR_FIELDS},
    "sidecar sums": damage.sidecar_sums,
    "sidecars swapped": damage.sidecars_swapped,
    "sums swapped below their headers": damage.sums_swapped_below_their_headers,
    "backing data swapped": damage.data_swapped,
    "backing files swapped": damage.both_swapped,
    "backing files swapped, index lost": damage.both_swapped_index_lost,
    "sidecars of before": damage.sidecars_of_before,
    "backing data of before": damage.data_of_before,
    **{f"index {kind}": functools.partial(damage.index_bit, kind=kind)
       for kind in (".sst", ".log", "MANIFEST", "CURRENT", "IDENTITY", "OPTIONS")},
    "index of before": damage.index_of_before,
    "index tables of before": damage.index_records_mixed,
    "data of before": damage.data_below_an_index_of_after,
    "state files": damage.state_files,
}


def options(cache):
    return {"nvme.path": str(cache), "nvme.limit": "64M", "ram.limit": "0", "memory.limit": "128M"}


@pytest.fixture(scope="module")
def filled(root):
    """(origin, files, a cache that has half of them, the same cache when it had all)."""
    origin, cache = root / "stale-origin", root / "stale-cache"
    cache.mkdir(mode=0o700)
    files = data.make_files(origin, 60, 110_000, fan=4)
    for number in range(30):  # of one length, so that they can change places
        files[f"equal/{number}"] = data.write(origin / f"equal/{number}", data.content(f"equal{number}", 30_000))
    for number in range(4):
        name = f"large/{number}"
        files[name] = data.write(origin / name, data.content(name, (3 << 20) + 5))
    names = list(files)

    def run(some, number):
        made = daemon.Mount(origin, options(cache), folder=root / f"stale-mount{number}")
        with made:
            data.expect_files(made.path, {name: files[name] for name in some})
        shutil.copytree(cache, root / f"stale-state{number}")

    run(names[::2], 0)
    run(names, 1)
    run(names, 2)  # RocksDB has made tables of what was in its log
    return origin, files, root / "stale-state0", root / "stale-state2"


@pytest.mark.parametrize("name", DAMAGES)
def test_damage(name, filled, mount, folder):
    origin, files, before, after = filled
    cache = folder / "cache"
    shutil.copytree(after, cache)
    effect = DAMAGES[name](cache, before)

    m = mount(origin, options(cache))
    data.expect_files(m.path, files)
    status = m.status()
    assert status["reads"]["errors"] == 0
    if effect == "counted":
        assert status["reads"]["checksum_errors"] > 0, "wrong bytes were not noticed, or not counted"
    if effect in ("counted", "fetched"):
        assert status["reads"]["by_tier"]["origin"] > 0, "nothing was fetched again"
    m.umount()

    m = mount(origin, options(cache))
    data.expect_files(m.path, files)
    status = m.status()
    assert status["reads"]["errors"] == 0 and status["reads"]["checksum_errors"] == 0, "it did not mend itself"
    m.umount()


def test_nothing_is_fetched_without_damage(filled, mount, folder):
    """What the tests above compare with."""
    origin, files, _, after = filled
    shutil.copytree(after, folder / "cache")
    m = mount(origin, options(folder / "cache"))
    data.expect_files(m.path, files)
    reads = m.status()["reads"]
    assert reads["by_tier"]["origin"] == 0 and reads["checksum_errors"] == 0


def test_another_version_in_place(mount, folder):
    """A file changes, keeps its size, and its new data stands where the old one is looked for, or the other way."""
    origin = folder / "origin"
    name = "large"
    first = data.write(origin / name, data.content("first", 3 << 20))
    cache = folder / "cache"
    cache.mkdir(mode=0o700)

    def read(expected):
        m = mount(origin, {**options(cache), "metadata.ttl": "1s"})
        # The old version may be shown for metadata.ttl.
        processes.wait_until(lambda: data.read_cold(m.path / name) == expected, timeout=15, what="the version of now")
        data.expect_same(data.read_cold(m.path / name), expected, name)
        m.umount()
        return {path.suffix: path for path in cache.glob("*/files/*/*")}

    old = {suffix: (path, path.read_bytes()) for suffix, path in read(first).items()}
    second = data.write(origin / name, data.content("second", 3 << 20))
    read(second)
    both = sorted(cache.glob("*/files/*/*"))
    assert len(both) == 4, f"two versions were expected: {both}"
    new = {path.suffix: path for path in both if path not in [path for path, _ in old.values()]}
    for suffixes in ((".data",), (".sums",), (".data", ".sums")):
        keep = {suffix: new[suffix].read_bytes() for suffix in suffixes}
        for suffix in suffixes:
            new[suffix].write_bytes(old[suffix][1])
        read(second)
        for suffix, content in keep.items():
            if new[suffix].exists():
                new[suffix].write_bytes(content)
        read(second)


def test_damage_reaches_every_kind_of_place():
    """Each function of damage.py is used."""
    used = {getattr(function, "func", function).__name__ for function in DAMAGES.values()}
    helpers = {"flip", "extents", "backing", "chunks", "entries", "index_files", "lose_index", "swap", "put_bytes"}
    defined = {name for name, value in vars(damage).items()
               if callable(value) and getattr(value, "__module__", "") == damage.__name__}
    assert defined - helpers == used

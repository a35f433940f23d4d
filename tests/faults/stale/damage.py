"""Ways to spoil a cache that no mount uses. Each takes the cache's folder and an older state of it, and says which of
its effects must be seen: "counted" (checksum errors), "fetched" (bytes from the origin again), "" (nothing need be)."""

import random
import shutil
import struct

CHUNK_FIELDS = {"magic": 0, "version": 8, "table length": 12, "uuid": 16, "chunk number": 32, "entry count": 36,
                "chunk offset": 40, "data length": 48, "zeros": 52, "checksum": 56, "content id": 64,
                "object size": 80, "entry offset": 88, "stored length": 92, "codec": 96, "entry zeros": 97,
                "number of sums": 100, "sums": 104}
SIDECAR_FIELDS = {"magic": 0, "version": 8, "unit": 12, "content id": 16, "object size": 32, "checksum": 40}


def flip(path, offset, bit=3):
    with open(path, "r+b") as handle:
        handle.seek(offset)
        byte = handle.read(1)
        assert byte, f"{path} has no byte {offset}"
        handle.seek(offset)
        handle.write(bytes([byte[0] ^ (1 << bit)]))


def extents(cache):
    found = sorted(cache.glob("*/extents/*.extent"))
    assert len(found) >= 3, f"too few extents: {found}"
    return found


def backing(cache, suffix):
    found = sorted(cache.glob(f"*/files/*/*{suffix}"))
    assert len(found) >= 3, f"too few backing files: {found}"
    return found


def chunks(extent):
    """[(offset, table bytes, data bytes)] by the headers."""
    found, at = [], 0
    content = extent.read_bytes()
    while content[at:at + 8] == b"TFSCHUNK":
        table, = struct.unpack_from("<I", content, at + 12)
        length, = struct.unpack_from("<I", content, at + 48)
        found.append((at, table, length))
        at += table + length
    assert found, f"{extent} has no chunk"
    return found


def entries(extent):
    """[(offset in the file, stored length)] of the first chunk."""
    content = extent.read_bytes()
    count, = struct.unpack_from("<I", content, 36)
    table, = struct.unpack_from("<I", content, 12)
    found, at = [], 64
    for _ in range(count):
        offset, length = struct.unpack_from("<II", content, at + 24)
        sums, = struct.unpack_from("<I", content, at + 36)
        found.append((table + offset, length))
        at += 40 + 4 * sums
    return found


def index_files(cache, kind):
    found = [path for path in cache.glob("*/index/*") if path.is_file() and path.stat().st_size and
             (path.name.startswith(kind) or path.suffix == kind)]
    assert found, f"the index has no {kind}: {sorted(path.name for path in cache.glob('*/index/*'))}"
    return found


def lose_index(cache):
    for folder in cache.glob("*/index"):
        shutil.rmtree(folder)


def swap(one, other):
    """The contents, in place."""
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def put_bytes(path, offset, content):
    with open(path, "r+b") as handle:
        handle.seek(offset)
        handle.write(content)


# -- extents ------------------------------------------------------------------------------------------------------------


def extent_data(cache, _old):
    for extent in extents(cache):
        for offset, length in entries(extent):
            flip(extent, offset + random.Random(offset).randrange(length))
    return "counted"


def chunk_table(cache, _old, fields):
    """A bit of each of these fields, one field a chunk; without an index, so that the tables are read."""
    places = [(extent, at) for extent in extents(cache) for at, _, _ in chunks(extent)]
    for number, (extent, at) in enumerate(places):
        flip(extent, at + CHUNK_FIELDS[fields[number % len(fields)]])
    lose_index(cache)
    return "fetched"


def extents_swapped(cache, _old):
    found = extents(cache)
    swap(found[0], found[1])
    return "counted"


def extents_swapped_index_lost(cache, old):
    extents_swapped(cache, old)
    lose_index(cache)
    return "fetched"


def chunk_table_of_another(cache, _old):
    found = extents(cache)
    first, second = found[0].read_bytes(), found[1].read_bytes()
    put_bytes(found[0], 0, second[:4096])
    put_bytes(found[1], 0, first[:4096])
    lose_index(cache)
    return "fetched"


def entries_swapped(cache, _old):
    """Two objects of one length change places."""
    for extent in extents(cache):
        by_length = {}
        content = extent.read_bytes()
        for offset, length in entries(extent):
            by_length.setdefault(length, []).append(offset)
        for length, offsets in by_length.items():
            if len(offsets) >= 2:
                put_bytes(extent, offsets[0], content[offsets[1]:offsets[1] + length])
                put_bytes(extent, offsets[1], content[offsets[0]:offsets[0] + length])
    return "counted"


def extents_of_before(cache, old):
    """As they were when only half was in the cache; those that came later are empty."""
    names = {path.name: path for path in old.glob("*/extents/*.extent")}
    for extent in extents(cache):
        if extent.name in names:
            shutil.copyfile(names[extent.name], extent)
        else:
            extent.write_bytes(bytes(extent.stat().st_size))
    return "counted"


# -- backing files ------------------------------------------------------------------------------------------------------


def backing_data(cache, _old):
    for path in backing(cache, ".data"):
        for block in range(0, path.stat().st_size, 1 << 20):
            flip(path, min(block + 77, path.stat().st_size - 1))
    return "counted"


def sidecar_headers(cache, _old, field):
    for path in backing(cache, ".sums"):
        flip(path, SIDECAR_FIELDS[field])
    return "fetched"


def sidecar_sums(cache, _old):
    for path in backing(cache, ".sums"):
        flip(path, 4096 + 4 * 10 + 1)
    return "counted"


def sidecars_swapped(cache, _old):
    found = backing(cache, ".sums")
    swap(found[0], found[1])
    return "fetched"


def data_swapped(cache, _old):
    found = backing(cache, ".data")
    swap(found[0], found[1])
    return "counted"


def both_swapped(cache, _old):
    sidecars_swapped(cache, _old)
    data_swapped(cache, _old)
    return "fetched"


def both_swapped_index_lost(cache, _old):
    both_swapped(cache, _old)
    lose_index(cache)
    return "fetched"


def sums_swapped_below_their_headers(cache, _old):
    found = backing(cache, ".sums")
    first, second = found[0].read_bytes(), found[1].read_bytes()
    found[0].write_bytes(first[:4096] + second[4096:])
    found[1].write_bytes(second[:4096] + first[4096:])
    return "counted"


def sidecars_of_before(cache, old):
    names = {path.name: path for path in old.glob("*/files/*/*.sums")}
    assert names, "the older state has no backing file"
    for path in backing(cache, ".sums"):
        if path.name in names:
            shutil.copyfile(names[path.name], path)
    return ""


def data_of_before(cache, old):
    names = {path.name: path for path in old.glob("*/files/*/*.data")}
    for path in backing(cache, ".data"):
        if path.name in names:
            shutil.copyfile(names[path.name], path)
    return ""


# -- index and state ----------------------------------------------------------------------------------------------------


def index_bit(cache, _old, kind):
    for path in index_files(cache, kind):
        size = path.stat().st_size
        for part in (0.1, 0.5, 0.9):
            flip(path, int(size * part))
    return ""


def index_of_before(cache, old):
    """It names places that have been given to others since, and knows nothing of what came later."""
    for folder in cache.glob("*/index"):
        shutil.rmtree(folder)
        shutil.copytree(next(old.glob("*/index")), folder)
    return ""


def data_below_an_index_of_after(cache, old):
    """All data as it was before, the index as it is."""
    for folder in cache.glob("*/extents"):
        shutil.rmtree(folder)
        shutil.copytree(next(old.glob("*/extents")), folder)
    for folder in cache.glob("*/files"):
        shutil.rmtree(folder)
        shutil.copytree(next(old.glob("*/files")), folder)
    return "fetched"


def index_records_mixed(cache, old):
    """The log of now on the tables of before."""
    for path in index_files(cache, ".sst"):
        source = next(old.glob(f"*/index/{path.name}"), None)
        if source:
            shutil.copyfile(source, path)
        else:
            path.unlink()
    return ""


def state_files(cache, _old):
    for name in ("lock", "source"):
        for path in cache.glob(f"*/{name}"):
            path.write_bytes(b"\xff\x00 no such pid \n" * 100)
    for folder in cache.glob("*/extents"):
        (folder / "no extent").write_bytes(b"x" * 5000)
        (folder / ("0" * 16 + "-" + "z" * 32 + ".extent")).write_bytes(b"x" * 5000)
        (folder / ("f" * 16 + "-" + "0" * 32 + ".extent")).write_bytes(b"x" * 5000)
    return ""

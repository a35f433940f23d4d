"""What every file of the matrix holds: a part of one pool of noise, found from its name and its version. A block from
elsewhere, of another file or of another version differs."""

import functools
import hashlib

POOL = hashlib.shake_256(b"the fault matrix of tierfs").digest(24 << 20)
LONGEST = 8 << 20


@functools.lru_cache(maxsize=100_000)
def start(name, version):
    digest = hashlib.sha256(f"{version} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % (len(POOL) - LONGEST)


def part(name, version, offset, size):
    at = start(name, version) + offset
    return POOL[at:at + size]


def whole(name, size, version=0):
    assert size <= LONGEST
    return part(name, version, 0, size)

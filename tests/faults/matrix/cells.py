"""One cell of the matrix: an access while something goes wrong, and the same again when it is over."""

import concurrent.futures
import dataclasses
import errno
import mmap
import os
import random
import re
import time

from harness import processes

from . import contents

LARGE = 3_000_017  # bytes
PAGES = 1100  # names in the directory of more than one page
SHORT, LONG = 2, 25  # origin.deadline in seconds
BLOCK = 4096


def token(row, access):
    """The directory of a cell: its name is what the proxy's rules look for."""
    return re.sub(r"[^a-z0-9]+", "-", f"{row.name.lower()}-{'last' if row.lasting else 'pass'}") + f".{access}"


def files_of(row, access):
    """{name: size}"""
    place = token(row, access)
    if access in ("stream", "random"):
        return {f"{place}/large": LARGE}
    count = {"small": 4 if row.lasting else 6, "list": 40, "lookup": 3, "pages": PAGES}[access]
    # Names long enough for a listing or a body that is cut after some hundred bytes to be cut in its middle.
    return {f"{place}/file-{number:04}": 600 + number * 997 % 20_000 for number in range(count)}


@dataclasses.dataclass
class Result:
    """What one access brought."""

    verified: int = 0
    errors: list = dataclasses.field(default_factory=list)  # names of errno
    wrong: list = dataclasses.field(default_factory=list)  # in words: bytes or names that are not right
    seconds: float = 0

    def add(self, other):
        self.verified += other.verified
        self.errors += other.errors
        self.wrong += other.wrong
        return self

    def outcome(self):
        if self.wrong:
            return "WRONG: " + self.wrong[0]
        return "right bytes" if not self.errors else " ".join(sorted(set(self.errors)))


def attempt(act):
    """Result of act(), which returns how many reads it verified or raises: OSError, or ValueError for wrong bytes."""
    result = Result()
    try:
        result.verified = act()
    except OSError as error:
        result.errors.append(errno.errorcode.get(error.errno, str(error.errno)))
    except ValueError as error:
        result.wrong.append(str(error))
    return result


def together(acts):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        result = Result()
        for one in pool.map(attempt, acts):
            result.add(one)
    return result


def expect(found, name, offset, size):
    if found != contents.part(name, 0, offset, size):
        raise ValueError(f"{name} at {offset}: {len(found)} bytes that are not its own")


def read_whole(root, name, size, piece=1 << 17):
    """Reads from the start to the end, past what the kernel keeps."""
    handle = os.open(root / name, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        offset = reads = 0
        while found := os.read(handle, piece):
            expect(found, name, offset, len(found))
            offset += len(found)
            reads += 1
        if offset != size:
            raise ValueError(f"{name} ends after {offset} bytes of {size}")
        return reads
    finally:
        os.close(handle)


def read_block(root, name, size, offset, direct):
    handle = os.open(root / name, os.O_RDONLY | (os.O_DIRECT if direct else 0))
    try:
        buffer = mmap.mmap(-1, BLOCK)
        got = os.preadv(handle, [buffer], offset)
        if got != min(BLOCK, size - offset):
            raise ValueError(f"{name} at {offset}: {got} bytes")
        expect(buffer[:got], name, offset, got)
        return 1
    finally:
        os.close(handle)


def read_names(root, place, names):
    found = sorted(os.listdir(root / place))
    if found != sorted(name.rpartition("/")[2] for name in names):
        raise ValueError(f"{place} has {len(found)} names, expected {len(names)}")
    return 1


def look_up(root, name, size):
    if os.stat(root / name).st_size != size:
        raise ValueError(f"{name} has another size")
    return 1


def access_once(row, access, root):
    files, place = files_of(row, access), token(row, access)
    if access == "small":
        return together([lambda name=name, size=size: read_whole(root, name, size) for name, size in files.items()])
    if access in ("list", "pages"):
        return attempt(lambda: read_names(root, place, files))
    if access == "lookup":
        return together([lambda name=name, size=size: look_up(root, name, size) for name, size in files.items()])
    (name, size), = files.items()
    if access == "stream":
        return attempt(lambda: read_whole(root, name, size))
    chance = random.Random(place)
    count = 6 if row.lasting else 20
    offsets = [chance.randrange(size // BLOCK) * BLOCK for _ in range(count)]
    return together([lambda offset=offset: read_block(root, name, size, offset, offset // BLOCK % 2 == 0)
                     for offset in offsets])


def know_names(row, access, root):
    """Reads are about bytes: what they need to know of names is asked before the fault."""
    if access in ("small", "stream", "random"):
        processes.wait_until(lambda: not attempt(lambda: len(os.listdir(root / token(row, access)))).errors, 20,
                             "names before the fault")
        for name in files_of(row, access):
            os.stat(root / name)


def right_again(row, access, root):
    """After the fault everything is right: soon, though not at once where requests pile up. Wrong bytes are never."""
    result = Result()

    def act():
        again = access_once(row, access, root)
        result.verified += again.verified
        result.wrong += again.wrong
        return not again.errors or again.wrong

    try:
        processes.wait_until(act, 20, "everything right after the fault")
    except AssertionError:
        result.errors.append("not right again")
    return result


def run(world, row, access):
    """(Result of the access under the fault, of the one after it, retries that the server saw)."""
    root, place = world.mount.path, token(row, access)
    know_names(row, access, root)
    world.proxy.forget()
    begun = time.monotonic()
    row.begin(world, place)
    try:
        result = access_once(row, access, root)
        result.seconds = time.monotonic() - begun
        retried = world.retries(place)
    finally:
        row.end(world)
    return result, right_again(row, access, root), retried


def judge(row, access, result, after):
    """What is wrong with a cell, in words; empty: nothing."""
    problems = result.wrong + after.wrong
    wanted = row.expected(access)
    if wanted == "bytes":
        if result.errors:
            problems.append(f"expected right bytes, got {result.outcome()}")
    elif not result.errors:
        problems.append(f"expected {' or '.join(wanted)}, got no error")
    elif set(result.errors) - set(wanted):
        problems.append(f"expected {' or '.join(wanted)}, got {result.outcome()}")
    # What the kernel read ahead in vain is asked for once more by the reader; a look-up asks once more after it.
    limit = 2 * SHORT + 5 if row.short else 2 * LONG
    if result.seconds > limit * processes.SLOWNESS:
        problems.append(f"took {result.seconds:.1f} s, more than {limit} s times the slowness of the build")
    if after.errors:
        problems.append("after the fault: not right again")
    return "; ".join(problems)

"""Data that can be made again from a name, and reading it back cold."""

import hashlib
import mmap
import os
import threading
import time
from pathlib import Path


def content(name, size):
    """`size` bytes that depend on the name alone and repeat nowhere near a block size."""
    seed = hashlib.sha256(str(name).encode(errors="surrogateescape")).digest()
    return hashlib.shake_256(seed).digest(size)


def write(path, data):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return data


def make_files(folder, count, size, prefix="f", fan=16):
    """count files of about `size` bytes in `fan` folders; returns {relative path: bytes}."""
    files = {}
    for number in range(count):
        name = f"d{number % fan:02}/{prefix}{number:05}.bin"
        files[name] = write(Path(folder) / name, content(name, size + number % 97))
    return files


def forget_pages(path):
    """Drops the kernel's clean cached pages of one file."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def read_cold(path):
    """The file's bytes from the daemon, not from the kernel's page cache."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        pieces = []
        while piece := os.read(handle, 1 << 20):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(handle)


def read_blocks_direct(path, blocks, size, threads):
    """Reads these blocks of `size` bytes (a multiple of 4096), past the page cache, by that many threads; returns
    {block: (seconds, bytes)}."""
    found = {}

    def work(mine):
        handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
        try:
            with mmap.mmap(-1, size) as buffer:
                for block in mine:
                    begun = time.monotonic()
                    got = os.preadv(handle, [buffer], block * size)
                    found[block] = (time.monotonic() - begun, buffer[:got])
        finally:
            os.close(handle)

    workers = [threading.Thread(target=work, args=(blocks[n::threads],)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


def forget_below(folder):
    """Drops the kernel's cached pages of all files below the folder; what was not written out yet is."""
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            if os.path.isfile(path) and not os.path.islink(path):
                handle = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(handle)
                    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(handle)


def drop_caches(kinds=1):
    """1: the page cache of the machine, 2: dentries and inodes, 3: both. It is everybody's: for tests marked alone."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text(str(kinds))


def expect_files(root, files, cold=True):
    """Every file has its bytes; says which one differs and where, not the bytes."""
    for name, expected in files.items():
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        found = read_cold(path) if cold else Path(os.fsdecode(path)).read_bytes()
        expect_same(found, expected, name)


def expect_same(found, expected, name):
    if found == expected:
        return
    common = min(len(found), len(expected))
    first = next((i for i in range(common) if found[i] != expected[i]), common)
    raise AssertionError(f"{name!r}: {len(found)} bytes, expected {len(expected)}; first difference at {first}")


def names(folder):
    """Relative paths of all that is below the folder, directories included, as sorted bytes."""
    found = []
    for where, directories, files in os.walk(os.fsencode(folder), onerror=_raise):
        base = os.path.relpath(where, os.fsencode(folder))
        found += [os.path.normpath(os.path.join(base, name)) for name in directories + files]
    return sorted(found)


def _raise(error):
    raise error


def disk_use(folder):
    """Bytes allocated below the folder."""
    total = 0
    for where, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total

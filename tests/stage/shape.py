"""What the tests know of the shape of files by themselves: FIEMAP by ioctl(2), mincore(2), the manifest."""

import ctypes
import fcntl
import json
import mmap
import os
import struct
from pathlib import Path

FS_IOC_FIEMAP = 0xC020660B
LAST, UNKNOWN, DELALLOC, ENCODED, NOT_ALIGNED, INLINE, TAIL, UNWRITTEN, SHARED = (
    0x1, 0x2, 0x4, 0x8, 0x100, 0x200, 0x400, 0x800, 0x2000)
BAD = UNKNOWN | DELALLOC | ENCODED | NOT_ALIGNED | INLINE | TAIL | UNWRITTEN | SHARED
BLOCK = 4096


def fiemap(path):
    """[(logical, physical, length, flags)] of a file, as the kernel tells it, without asking it to sync first."""
    count, start, found = 128, 0, []
    with open(path, "rb") as handle:
        while True:
            head = struct.pack("=QQLLLL", start, (1 << 64) - 1 - start, 0, 0, count, 0)
            buffer = bytearray(head + bytes(56 * count))
            fcntl.ioctl(handle, FS_IOC_FIEMAP, buffer)
            mapped = struct.unpack_from("=L", buffer, 20)[0]
            for number in range(mapped):
                logical, physical, length, _, _, flags, _, _, _ = struct.unpack_from("=QQQQQLLLL", buffer,
                                                                                     32 + 56 * number)
                found.append((logical, physical, length, flags))
            if mapped == 0 or found[-1][3] & LAST:
                return found
            start = found[-1][0] + found[-1][2]


def problems_of(path, size):
    """Why a direct reader would not like this file; an empty list: it would."""
    found = []
    status = os.lstat(path)
    if status.st_size != size:
        found.append(f"size {status.st_size}, not {size}")
    if status.st_blocks * 512 < size:
        found.append("not all is allocated")
    covered = 0
    extents = fiemap(path)
    for logical, _, length, flags in extents:
        if logical != covered:
            found.append(f"hole at {covered}")
        if flags & BAD:
            found.append(f"flags {flags:#x} at {logical}")
        covered = logical + length
    if covered < size:
        found.append(f"hole at {covered}")
    if len(extents) > size // (64 << 20) + 8:
        found.append(f"{len(extents)} extents")
    if resident_pages(path):
        found.append(f"{resident_pages(path)} pages in the page cache")
    return found


def resident_pages(path):
    """Pages of the file that the page cache holds: mincore(2)."""
    size = os.path.getsize(path)
    if size == 0:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as handle, mmap.mmap(handle.fileno(), size, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
        # mincore wants the address; a read-only mmap gives it to nobody but ctypes.
        view = (ctypes.c_char * size).from_address(address_of(mapped, size))
        pages = (ctypes.c_ubyte * ((size + BLOCK - 1) // BLOCK))()
        if libc.mincore(ctypes.byref(view), ctypes.c_size_t(size), pages) != 0:
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(page & 1 for page in pages)


def address_of(mapped, size):
    """Where a mmap lies: of the mappings of this process the one of this file and size."""
    buffer = ctypes.py_object(mapped)
    view = Buffer()
    if ctypes.pythonapi.PyObject_GetBuffer(buffer, ctypes.byref(view), 0) != 0:
        raise OSError("no buffer")
    address = view.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    assert view.len == size
    return address


class Buffer(ctypes.Structure):
    """Py_buffer of the C API."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


def files_of(folder):
    """{relative path: size} of the regular files below, without the books."""
    found = {}
    for base, folders, names in os.walk(folder):
        if ".tierfs-stage" in folders:
            folders.remove(".tierfs-stage")
        for name in names:
            path = Path(base) / name
            found[str(path.relative_to(folder))] = path.lstat().st_size
    return found


def read_direct(path):
    """All bytes, past the page cache, so that reading leaves no trace there."""
    size = os.path.getsize(path)
    out = []
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, 4 << 20) as buffer:
            offset = 0
            while offset < size:
                got = os.preadv(handle, [buffer], offset)
                if got == 0:
                    break
                out.append(buffer[:got])
                offset += got
    finally:
        os.close(handle)
    return b"".join(out)


def expect_staged(dest, files):
    """Every file of {path: bytes} is there with its bytes and in shape, and nothing else is."""
    assert files_of(dest) == {path: len(body) for path, body in files.items()}
    for path, body in files.items():
        assert problems_of(Path(dest) / path, len(body)) == [], path
        assert read_direct(Path(dest) / path) == body, path


def manifest(dest):
    """(header, {path: last record})."""
    lines = (Path(dest) / ".tierfs-stage/manifest.jsonl").read_text().splitlines()
    records = {}
    for line in lines[1:]:
        record = json.loads(line)
        records[record.get("path", record.get("path_hex"))] = record
    return json.loads(lines[0]), records

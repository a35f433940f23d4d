"""Reading by O_DIRECT, in aligned blocks, by several threads."""

import mmap
import os
import threading
import time
import zlib

from .tree import pieces

PAGE = 4096


class Rate:
    """What a reading came to."""

    def __init__(self, files, total, seconds):
        self.files, self.bytes, self.seconds = files, total, seconds

    def text(self):
        rate = self.bytes / 1e6 / self.seconds if self.seconds > 0 else 0
        return f"{self.bytes:,} bytes of {self.files:,} files in {self.seconds:.2f} s: {rate:,.0f} MB/s"

    def figures(self):
        return {"files": self.files, "bytes": self.bytes, "seconds": self.seconds,
                "bytes_per_s": self.bytes / self.seconds if self.seconds > 0 else None}


class Work:
    """Pieces for threads; the first error ends it. Thread-safe."""

    def __init__(self, files):
        self._pieces, self._lock = pieces(files), threading.Lock()
        self.errors = []

    def next(self):
        with self._lock:
            return None if self.errors else next(self._pieces, None)

    def failed(self, text):
        with self._lock:
            self.errors.append(text)


def read_piece(file, offset, length, buffer, sums):
    """Reads bytes [offset, offset + length); the last block is asked for whole and comes short at the file's end."""
    fd = os.open(file.path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        end, crc = offset + length, 0
        while offset < end:
            wanted = min(len(buffer), -(-(end - offset) // PAGE) * PAGE)
            got = os.preadv(fd, [memoryview(buffer)[:wanted]], offset)
            if got < min(wanted, end - offset):
                raise OSError(f"ended at {offset + got} of {file.size} bytes")
            got = min(got, end - offset)
            if sums is not None:
                crc = zlib.crc32(memoryview(buffer)[:got], crc)
            offset += got
        if sums is not None:
            sums[file.path, end - length] = crc
    finally:
        os.close(fd)


def worker(files, work, block, sums):
    with mmap.mmap(-1, block) as buffer:
        while (piece := work.next()) is not None:
            number, offset, length = piece
            try:
                read_piece(files[number], offset, length, buffer, sums)
            except OSError as error:
                work.failed(f"{files[number].path}: {error.strerror or error} (read by O_DIRECT)")


def read_all(files, threads, block, sums=None):
    """Reads all files; returns a Rate. sums: a dict that gets the CRC-32 of each piece. Raises OSError."""
    work = Work(files)
    crew = [threading.Thread(target=worker, args=(files, work, block, sums), daemon=True) for _ in range(threads)]
    started = time.monotonic()
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    if work.errors:
        raise OSError(work.errors[0])
    return Rate(len(files), sum(file.size for file in files), time.monotonic() - started)

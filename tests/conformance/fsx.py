#!/usr/bin/python3
"""Random operations on files, each compared with a model in memory: reads, writes, truncates, mappings, holes, copies, with
several descriptors open at a time, with caches dropped and files closed and opened again in between.

    tests/conformance/fsx.py DIR [--operations N] [--seed S]

works in any directory. The idea is that of fsx (A. Tevanian, 1991), the file system exerciser."""

import argparse
import ctypes
import mmap
import os
import random
import sys
import time

LARGEST = 300_000
FILES = 4
PUNCH_HOLE, KEEP_SIZE, ZERO_RANGE = 2, 1, 16
LIBC = ctypes.CDLL(None, use_errno=True)


class Mismatch(AssertionError):
    """The file system and the model differ."""


def fallocate(handle, mode, offset, length):
    if LIBC.fallocate(handle, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class File:
    """A file and what it should hold."""

    def __init__(self, path, chance):
        self.path, self.chance = path, chance
        self.model = bytearray()
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.reader = os.open(path, os.O_RDONLY)
        self.has_zero_range = True

    def close(self):
        for handle in (self.handle, self.reader):
            if handle is not None:
                os.close(handle)
        self.handle = self.reader = None

    def reopen(self):
        self.close()
        self.handle = os.open(self.path, os.O_RDWR)
        self.reader = os.open(self.path, os.O_RDONLY)

    def span(self, beyond=0):
        offset = self.chance.randrange(len(self.model) + beyond + 1)
        return offset, self.chance.choice((1, 100, 4096, 10_000, 70_000)) + self.chance.randrange(50)

    def compare(self, found, offset, length, how):
        wanted = bytes(self.model[offset:offset + length])
        if found == wanted:
            return
        at = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), min(len(found), len(wanted)))
        raise Mismatch(f"{self.path}: {how} of {length} bytes at {offset}: {len(found)} bytes instead of {len(wanted)}, "
                       f"differs at {offset + at}: {found[at:at + 16]!r} instead of {wanted[at:at + 16]!r}")

    def put(self, offset, piece):
        if offset > len(self.model):
            self.model.extend(bytes(offset - len(self.model)))
        self.model[offset:offset + len(piece)] = piece

    # -- operations ---------------------------------------------------------------------------------------------------

    def read(self):
        offset, length = self.span(5000)
        self.compare(os.pread(self.chance.choice((self.handle, self.reader)), length, offset), offset, length, "read")

    def write(self):
        offset, length = self.span(20_000)
        length = max(0, min(length, LARGEST - offset))
        piece = self.chance.randbytes(length)
        if os.pwrite(self.handle, piece, offset) != length:
            raise Mismatch(f"{self.path}: a short write")
        if piece:
            self.put(offset, piece)

    def append(self):
        piece = self.chance.randbytes(min(self.span()[1], max(0, LARGEST - len(self.model))))
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(handle, piece)
        finally:
            os.close(handle)
        self.put(len(self.model), piece)

    def truncate(self):
        size = self.chance.choice((0, self.chance.randrange(LARGEST), self.chance.randrange(len(self.model) + 1)))
        if self.chance.random() < 0.5:
            os.ftruncate(self.handle, size)
        else:
            os.truncate(self.path, size)
        self.model = self.model[:size] + bytes(max(0, size - len(self.model)))

    def empty_at_open(self):
        os.close(os.open(self.path, os.O_WRONLY | os.O_TRUNC))
        self.model = bytearray()

    def mapped(self):
        if not self.model:
            return
        offset, length = self.span()
        length = max(0, min(length, len(self.model) - offset))
        with mmap.mmap(self.handle, len(self.model)) as view:
            self.compare(view[offset:offset + length], offset, length, "mapped read")
            if self.chance.random() < 0.6 and length:
                piece = self.chance.randbytes(length)
                view[offset:offset + length] = piece
                self.model[offset:offset + length] = piece
                if self.chance.random() < 0.5:
                    view.flush()

    def hole(self):
        offset, length = self.span()
        mode = self.chance.choice((PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE | KEEP_SIZE, 0))
        if mode == 0:
            length = min(length, LARGEST - offset)
            if length > 0:
                fallocate(self.handle, 0, offset, length)
                self.model.extend(bytes(max(0, offset + length - len(self.model))))
            return
        if mode & ZERO_RANGE and not self.has_zero_range:
            return
        try:
            fallocate(self.handle, mode, offset, length)
        except OSError:
            if not mode & ZERO_RANGE:
                raise
            self.has_zero_range = False
            return
        end = min(offset + length, len(self.model))
        self.model[offset:end] = bytes(max(0, end - offset))

    def copy(self):
        offset, length = self.span()
        target = self.chance.randrange(LARGEST)
        length = max(0, min(length, len(self.model) - offset, LARGEST - target))
        if not length or (offset < target + length and target < offset + length):
            return  # within one file ranges must not overlap
        copied = os.copy_file_range(self.reader, self.handle, length, offset, target)
        self.put(target, bytes(self.model[offset:offset + copied]))

    def sync(self):
        self.chance.choice((os.fsync, os.fdatasync))(self.handle)

    def forget(self):
        os.fsync(self.handle)
        os.posix_fadvise(self.reader, 0, 0, os.POSIX_FADV_DONTNEED)

    def size(self):
        for found in (os.stat(self.path), os.fstat(self.handle)):
            if found.st_size != len(self.model):
                raise Mismatch(f"{self.path}: {found.st_size} bytes instead of {len(self.model)}")

    def whole(self):
        self.compare(os.pread(self.reader, LARGEST + 1, 0), 0, LARGEST + 1, "whole read")


WEIGHTS = {File.read: 30, File.write: 25, File.append: 4, File.truncate: 6, File.empty_at_open: 1, File.mapped: 12,
           File.hole: 5, File.copy: 4, File.sync: 2, File.forget: 5, File.size: 6, File.reopen: 4, File.whole: 2}


class Exerciser:
    """`rest`: seconds after which a file counts as settled, with some of such pauses in a run. `remount`: called now and
    then with all files closed. `lacks`: names of operations that the file system has not."""

    def __init__(self, folder, seed, rest=0.0, remount=None, lacks=()):
        self.chance = random.Random(seed)
        self.rest, self.remount = rest, remount
        self.weights = {kind: weight for kind, weight in WEIGHTS.items() if kind.__name__ not in lacks}
        self.files = [File(os.path.join(folder, f"fsx-{number}"), self.chance) for number in range(FILES)]
        self.last = []

    def run(self, operations, pauses=0, remounts=0):
        kinds, weights = list(self.weights), list(self.weights.values())
        pause_at = {operations * (i + 1) // (pauses + 1) for i in range(pauses)}
        remount_at = {operations * (2 * i + 1) // (2 * remounts) for i in range(remounts)}
        for number in range(operations):
            if number in pause_at:
                self.settle()
            if number in remount_at:
                self.start_anew()
            file = self.chance.choice(self.files)
            kind = self.chance.choices(kinds, weights)[0]
            self.last = self.last[-20:] + [f"{number}: {kind.__name__} {os.path.basename(file.path)} {len(file.model)}"]
            kind(file)
        for file in self.files:
            file.whole()

    def settle(self):
        """Nobody changes anything for a while; then all is read, and changed while it is open for reading."""
        for file in self.files:
            file.close()
        time.sleep(self.rest)
        for file in self.files:
            file.reader = os.open(file.path, os.O_RDONLY)
            for _ in range(5):
                os.posix_fadvise(file.reader, 0, 0, os.POSIX_FADV_DONTNEED)
                file.whole()
            file.handle = os.open(file.path, os.O_RDWR)
            file.write()
            os.posix_fadvise(file.reader, 0, 0, os.POSIX_FADV_DONTNEED)
            file.whole()

    def start_anew(self):
        for file in self.files:
            file.close()
        self.remount()
        for file in self.files:
            file.reopen()
            file.whole()

    def close(self):
        for file in self.files:
            file.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--operations", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--rest", type=float, default=1.5, metavar="S", help="seconds that files are left alone, 5 times")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    exerciser = Exerciser(options.directory, options.seed, options.rest)
    began = time.monotonic()
    try:
        exerciser.run(options.operations, pauses=5)
    except (Mismatch, OSError) as problem:
        print("\n".join(exerciser.last), f"\n{problem}", file=sys.stderr)
        return 1
    finally:
        exerciser.close()
    print(f"{options.operations} operations in {time.monotonic() - began:.1f} s, no mismatch")
    return 0


if __name__ == "__main__":
    sys.exit(main())

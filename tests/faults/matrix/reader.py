"""One process of readers: reader.py ROOT COUNT THREADS SEED. Reads until COUNT reads were right, and prints what it found
as JSON. Half of the reads are O_DIRECT; the rest drop pages of the kernel now and then."""

import collections
import errno
import json
import mmap
import os
import random
import sys
import threading

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from matrix import contents  # noqa: E402  pylint: disable=wrong-import-position

LARGE = {f"weather/large-{number:02}": 4_000_003 + number * 4097 for number in range(30)}
SMALL = {f"weather/small-{number % 8}/{number:04}": 1 + number * 7919 % 60_000 for number in range(400)}
CHANGING = {**{f"weather/changing/{number:02}": 5_000 + number * 1000 for number in range(10)},
            **{f"weather/changing/large-{number}": 2_000_000 + number * 50_000 for number in range(3)}}
VERSIONS = 50_000
BLOCK = 4096
KEY = 12  # bytes of a file's start that tell its version


def changing_size(name, version):
    return CHANGING[name] + version * 37 % 3000


class Wrong(Exception):
    """Bytes that are not what the file holds."""


class Readers:
    def __init__(self, root, count, seed):
        self.root, self.count, self.seed = root, count, seed
        self.lock = threading.Lock()
        self.verified = self.direct = self.changing = self.failed = 0
        self.errors, self.wrong = collections.Counter(), []

    def work(self, number):
        chance = random.Random(f"{self.seed} {number}")
        buffer = mmap.mmap(-1, BLOCK)
        handles = {}
        while self.verified < self.count and self.failed < self.count // 10 + 500 and not self.wrong:
            kind = chance.random()
            name = "verified"
            try:
                if kind < 0.9:
                    done = self.blocks(chance, buffer, handles, kind < 0.5)
                    name = "direct" if kind < 0.5 else name
                elif kind < 0.96:
                    done = self.small(chance)
                elif kind < 0.99:
                    done, name = self.change(chance), "changing"
                else:
                    done = self.names(chance)
            except OSError as error:
                with self.lock:
                    self.failed += 1
                    self.errors[errno.errorcode.get(error.errno, str(error.errno))] += 1
                continue
            except Wrong as error:
                with self.lock:
                    self.wrong.append(str(error))
                continue
            with self.lock:
                self.verified += done
                if name != "verified":
                    setattr(self, name, getattr(self, name) + done)
        for handle in handles.values():
            os.close(handle)

    def blocks(self, chance, buffer, handles, direct):
        """Some reads of 4 KiB anywhere in a large file."""
        name = chance.choice(list(LARGE))
        if (name, direct) not in handles:
            handles[name, direct] = os.open(self.root + "/" + name, os.O_RDONLY | (os.O_DIRECT if direct else 0))
        handle, size = handles[name, direct], LARGE[name]
        if not direct and chance.random() < 0.2:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        for _ in range(8):
            offset = chance.randrange(size // BLOCK + 1) * BLOCK
            got = os.preadv(handle, [buffer], offset)
            if got != min(BLOCK, size - offset) or buffer[:got] != contents.part(name, 0, offset, got):
                raise Wrong(f"{name} at {offset}: {got} bytes that are not its own")
        return 8

    def small(self, chance):
        name = chance.choice(list(SMALL))
        handle = os.open(self.root + "/" + name, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            found = os.read(handle, 1 << 17)
        finally:
            os.close(handle)
        if found != contents.part(name, 0, 0, SMALL[name]):
            raise Wrong(f"{name}: {len(found)} bytes that are not its own")
        return 1

    def change(self, chance):
        """One open file is one version, whichever, from its first byte to its last."""
        name = chance.choice(list(CHANGING))
        handle = os.open(self.root + "/" + name, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            version, offset, reads = None, 0, 0
            while found := os.read(handle, 1 << 16):
                if version is None:
                    version = self.version_of(name, found)
                if found != contents.part(name, version, offset, len(found)):
                    raise Wrong(f"{name} at {offset}: not of version {version}, as what was read before")
                offset += len(found)
                reads += 1
        finally:
            os.close(handle)
        if version is None or offset != changing_size(name, version):
            raise Wrong(f"{name} ends after {offset} bytes, version {version}")
        return reads

    @staticmethod
    def version_of(name, found):
        for version in range(VERSIONS):
            if found[:KEY] == contents.part(name, version, 0, KEY):
                return version
        raise Wrong(f"{name} begins as none of its versions does")

    def names(self, chance):
        place = f"weather/small-{chance.randrange(8)}"
        found = sorted(os.listdir(self.root + "/" + place))
        if found != sorted(name.rpartition("/")[2] for name in SMALL if name.startswith(place + "/")):
            raise Wrong(f"{place} has {len(found)} names")
        return 1


def main():
    root, count, threads, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    readers = Readers(root, count, seed)
    working = [threading.Thread(target=readers.work, args=(number,)) for number in range(threads)]
    for thread in working:
        thread.start()
    for thread in working:
        thread.join()
    result = {name: getattr(readers, name) for name in ("verified", "direct", "changing", "errors", "wrong")}
    if readers.verified < count and not readers.wrong:
        result["failed"] = f"gave up after {readers.failed} errors and {readers.verified} reads"
    print(json.dumps(result))


if __name__ == "__main__":
    main()

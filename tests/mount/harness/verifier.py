"""A reader in a process of its own, which compares what it reads with the origin until it is told to stop:

    verifier.py MODE MOUNT ORIGIN NAME...

It ends when standard input ends, and prints one JSON object: rounds, longest (seconds of one round), problems. In its
own process, since a page fault that waits for a daemon holds all of Python."""

import json
import mmap
import os
import random
import select
import sys
import time

BLOCK = 1 << 20


def forget(handle):
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


class Reader:
    def __init__(self, mount, origin, names):
        self.mount, self.names = mount, names
        self.expected = {}
        for name in names:
            with open(os.path.join(origin, name), "rb") as file:
                self.expected[name] = file.read()
        self.chance = random.Random(os.getpid())
        self.held = {}
        self.maps = {}

    def open(self, name):
        return os.open(os.path.join(self.mount, name), os.O_RDONLY)

    def compare(self, name, offset, found, size):
        wanted = self.expected[name][offset:offset + size]
        if found != wanted:
            raise ValueError(f"{name}: {size} bytes at {offset} are wrong ({len(found)} came)")

    def files(self):
        """Whole files one by one: looked up, opened, read past the page cache."""
        name = self.chance.choice(self.names)
        handle = self.open(name)
        try:
            forget(handle)
            size = os.fstat(handle).st_size
            self.compare(name, 0, os.pread(handle, size + 1, 0), len(self.expected[name]))
        finally:
            os.close(handle)

    def stream(self):
        name = self.chance.choice(self.names)
        handle = self.open(name)
        try:
            forget(handle)
            for offset in range(0, len(self.expected[name]) + 1, BLOCK):
                self.compare(name, offset, os.read(handle, BLOCK), BLOCK)
        finally:
            os.close(handle)

    def hold(self):
        """Files that stay open over many rounds; now and then one is closed, or opened once more."""
        name = self.chance.choice(self.names)
        if name not in self.held:
            self.held[name] = self.open(name)
        size = len(self.expected[name])
        for _ in range(8):
            offset = self.chance.randrange(size)
            self.compare(name, offset, os.pread(self.held[name], 10000, offset), 10000)
        if self.chance.random() < 0.2:
            again = self.open(name)
            os.close(self.held.pop(name))
            if self.chance.random() < 0.5:
                self.held[name] = again
            else:
                os.close(again)
        for handle in self.held.values():
            forget(handle)

    def map(self):
        name = self.chance.choice(self.names)
        if name not in self.maps:
            handle = self.open(name)
            self.maps[name] = (handle, mmap.mmap(handle, 0, access=mmap.ACCESS_READ))
        handle, memory = self.maps[name]
        for _ in range(8):
            offset = self.chance.randrange(len(memory))
            self.compare(name, offset, memory[offset:offset + 100], 100)
        memory.madvise(mmap.MADV_DONTNEED)
        forget(handle)
        if self.chance.random() < 0.05:
            memory.close()
            os.close(handle)
            del self.maps[name]

    def walk(self):
        """Names and attributes, nothing else."""
        found = set()
        for folder, _, names in os.walk(self.mount, onerror=_raise):
            found.update(os.path.relpath(os.path.join(folder, name), self.mount) for name in names)
        if lost := set(self.names) - found:
            raise ValueError(f"not listed: {sorted(lost)[:3]}")


def _raise(error):
    raise error


def main():
    mode, mount, origin, *names = sys.argv[1:]
    reader = Reader(mount, origin, names)
    rounds, longest, problems = 0, 0.0, []
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0] and len(problems) < 10:
        begun = time.monotonic()
        try:
            getattr(reader, mode)()
        except (OSError, ValueError) as error:
            problems.append(f"{mode}: {error!r}")
        rounds += 1
        longest = max(longest, time.monotonic() - begun)
    print(json.dumps({"mode": mode, "rounds": rounds, "longest": longest, "problems": problems}), flush=True)


main()

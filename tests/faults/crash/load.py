"""A dataset, readers of it in several modes that go on until they are stopped, and what a kill found."""

import os
import random
import threading
import time
from pathlib import Path

from harness import data

SMALL, SMALL_SIZE = 200, 20_000
LARGE, LARGE_SIZE = 4, 6 << 20
LIMIT = 64 << 20  # nvme.limit that holds all
TIGHT = 16 << 20  # nvme.limit that does not
MODES = ("sequential", "shuffled", "stream", "random", "evict")


class Dataset:
    def __init__(self, origin):
        self.origin = Path(origin)
        self.small = data.make_files(origin, SMALL, SMALL_SIZE, fan=8)
        self.large = {}
        for number in range(LARGE):
            name = f"large/{number}"
            self.large[name] = data.write(self.origin / name, data.content(name, LARGE_SIZE + 1000 * number + 1))
        self.files = {**self.small, **self.large}


class Kill:
    """What one kill found. restart: seconds from the start of the command to the answer of the first read."""

    def __init__(self, mode):
        self.mode = mode
        self.happened = self.under_load = False
        self.cached = self.from_nvme = self.wrong = 0
        self.restart = 0.0


class Readers:
    """Threads that read below `path` in a mode, compare, and begin anew, until a call fails or stop()."""

    def __init__(self, path, dataset, mode, seed, threads=2):
        self.path, self.dataset, self.mode = Path(path), dataset, mode
        self.read_bytes = 0
        self.wrong = []
        self.errors = []
        self.longest = 0.0
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(random.Random(f"{seed} {number}"),), daemon=True)
                         for number in range(threads)]
        for thread in self._threads:
            thread.start()

    def going(self):
        return any(thread.is_alive() for thread in self._threads)

    def stop(self, patience):
        """Whether all ended in time."""
        self._stopping.set()
        end = time.monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not self.going()

    def _run(self, chance):
        while not self._stopping.is_set():
            for name, offset, length in self._plan(chance):
                if self._stopping.is_set():
                    return
                started = time.monotonic()
                try:
                    found = self._read(name, offset, length)
                except OSError as error:
                    self.errors.append((name, error.errno))
                    self.longest = max(self.longest, time.monotonic() - started)
                    if not self.on_error(error):
                        return
                    continue
                self.longest = max(self.longest, time.monotonic() - started)
                if found != self.dataset.files[name][offset:offset + length]:
                    self.wrong.append((name, offset, length))
                with self._lock:
                    self.read_bytes += len(found)

    def on_error(self, _error):
        """Whether to go on after a failed call."""
        return False

    def _plan(self, chance):
        """(name, offset, length) of the reads of one epoch."""
        names = list(self.dataset.files if self.mode in ("evict", "shuffled") else self.dataset.small)
        if self.mode in ("evict", "shuffled"):
            chance.shuffle(names)
        if self.mode == "stream":
            names = list(self.dataset.large)
        if self.mode != "random":
            pieces = ((name, offset) for name in names for offset in range(0, len(self.dataset.files[name]), 1 << 20))
            return ((name, offset, 1 << 20) for name, offset in pieces)
        name = chance.choice(list(self.dataset.large))
        size = len(self.dataset.files[name])
        return ((name, chance.randrange(size), chance.randrange(1, 200_000)) for _ in range(100))

    def _read(self, name, offset, length):
        handle = os.open(self.path / name, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            pieces = []
            while length > 0 and (piece := os.pread(handle, length, offset)):
                pieces.append(piece)
                offset += len(piece)
                length -= len(piece)
            return b"".join(pieces)
        finally:
            os.close(handle)


class PatientReaders(Readers):
    """Go on after errors."""

    def on_error(self, _error):
        time.sleep(0.01)
        return True

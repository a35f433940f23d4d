"""A process that locks files as it is told, one call after the other, and says what came of each."""

import json
import os
import select
import signal
import subprocess
import sys
import time

from harness import processes

SCRIPT = r"""
import fcntl, json, os, signal, struct, sys, threading

KINDS = {"read": fcntl.F_RDLCK, "write": fcntl.F_WRLCK, "none": fcntl.F_UNLCK}
FLOCK = "hhqqi0q"

is_calling = False

def interrupted(*_):
    if is_calling:
        raise InterruptedError(4, "a signal")

signal.signal(signal.SIGUSR1, interrupted)  # ends a call
signal.signal(signal.SIGUSR2, lambda *_: None)  # the interpreter makes the call again

def lock(command):
    def call(handle, kind, start=0, length=0):
        found = fcntl.fcntl(handle, command, struct.pack(FLOCK, KINDS[kind], 0, start, length, 0))
        kind, _, start, length, pid = struct.unpack(FLOCK, found)
        return [next(name for name, value in KINDS.items() if value == kind), start, length, pid]
    return call

def fork():
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    return child

def end(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)

CALLS = {
    "open": os.open, "close": os.close, "set": lock(fcntl.F_SETLK), "wait": lock(fcntl.F_SETLKW), "get": lock(fcntl.F_GETLK),
    "ofd_set": lock(37), "ofd_wait": lock(38), "ofd_get": lock(36), "flock": lambda *words: fcntl.flock(*words),
    "read": lambda handle, size, at: os.pread(handle, size, at).decode(),
    "write": lambda handle, text, at: os.pwrite(handle, text.encode(), at),
    "dup": os.dup, "fork": fork, "end": end, "size": lambda handle: os.fstat(handle).st_size,
}
for line in sys.stdin:
    name, *words = json.loads(line)
    try:
        is_calling = True
        value = CALLS[name](*words)
    except OSError as error:
        value = {"errno": error.errno}
    is_calling = False
    print(json.dumps(value), flush=True)
"""


# flock and fcntl, on x86-64 and on ARM.
LOCKING = (b"72", b"73", b"25", b"32")


class Locker:
    """ask("open", path, flags) and so on; see CALLS. What fails is an OSError here, too."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        bufsize=0, start_new_session=True)
        self.pid = self.process.pid
        self.rest = b""

    def begin(self, *words):
        """Without waiting for what comes of it."""
        self.process.stdin.write(json.dumps(words, default=str).encode() + b"\n")
        return self

    def _line(self, seconds):
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                return None
            got = os.read(self.process.stdout.fileno(), 4096)
            assert got, "the process that locks has ended"
            self.rest += got
        line, self.rest = self.rest.split(b"\n", 1)
        return line

    def answer(self, timeout=20):
        line = self._line(timeout * processes.SLOWNESS)
        assert line is not None, f"no answer after {timeout * processes.SLOWNESS:g} s"
        value = json.loads(line)
        if isinstance(value, dict):
            raise OSError(value["errno"], os.strerror(value["errno"]))
        return value

    def ask(self, *words):
        return self.begin(*words).answer()

    def tries(self, *words):
        """0, or the errno of the call."""
        try:
            self.ask(*words)
        except OSError as error:
            return error.errno
        return 0

    def _has_answered(self, seconds):
        return b"\n" in self.rest or bool(select.select([self.process.stdout], [], [], seconds)[0])

    def _is_in_the_call(self):
        try:
            with open(f"/proc/{self.pid}/syscall", "rb") as file:
                return file.read().split(b" ")[0] in LOCKING
        except PermissionError:
            return True  # cannot be told

    def is_waiting(self, seconds=0.3):
        """Whether no answer comes for so long from when the kernel has the call."""
        end = time.monotonic() + 20 * processes.SLOWNESS
        while not self._has_answered(0.01) and not self._is_in_the_call():
            assert time.monotonic() < end, "the process that locks does not call"
        return not self._has_answered(seconds)

    def close(self):
        """Ends it and what it has forked."""
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(20 * processes.SLOWNESS)
        self.process.stdin.close()
        self.process.stdout.close()

"""How slow this machine is, and when a run has to end."""

import subprocess
import sys
import time

# Interpreted code, since what the tests wait for is compiling, Python and system calls, not arithmetic.
WORK = """
import time
begun = time.perf_counter()
words = {}
for i in range(400000):
    key = str(i % 5003)
    words[key] = words.get(key, 0) + len(key)
print(time.perf_counter() - begun)
"""
# Seconds of WORK, twice at the same time, on the machine that the budgets in plan.py were measured on.
REFERENCE = 0.14
TRIES = 3
SLOWEST = 4.0  # what is slower than that is no machine to test on
GRACE = 12 * 60  # seconds after the end in which what is under way then has to be done

_end = None


def pace():
    """1 on the machine of the budgets or a faster one, 2 on one that takes twice as long just now. Virtual machines with
    neighbours differ by three from one minute to the next: whoever judges by it measures again."""
    seconds = []
    for _ in range(TRIES):
        pair = [subprocess.Popen([sys.executable, "-c", WORK], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
                for _ in range(2)]
        seconds += [float(process.communicate()[0]) for process in pair]
    return min(max(1.0, sorted(seconds)[len(seconds) // 2] / REFERENCE), SLOWEST)


def end_after(minutes):
    """What has not begun when so many minutes are over is skipped; None: everything runs."""
    global _end  # pylint: disable=global-statement
    _end = None if minutes is None else time.time() + minutes * 60


def end():
    """Seconds since the epoch, None without an end."""
    return _end


def has(seconds):
    """Whether so much time is left."""
    return _end is None or time.time() + seconds < _end


def left():
    """Seconds until what still runs is stopped, whatever it is; at least 1. None: as long as it takes."""
    return None if _end is None else max(1.0, _end + GRACE - time.time())


def is_over():
    """Whether what still ran has been stopped."""
    return _end is not None and time.time() >= _end + GRACE - 1

"""A command with a time limit whose whole process group ends with it."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import clock

_lock = threading.Lock()
_running = set()  # what stop_all stops; None once it has


class Stopped(Exception):
    """Of a command that stop_all did not let run."""


class Outcome:
    """status: exit status, None when the limit passed; text: standard output and error together."""

    def __init__(self, status, text, seconds):
        self.status, self.text, self.seconds = status, text, seconds


def run(command, log, limit, env=None, cwd=None, grace=60, gives_way=False):
    """Runs the command with its output in the file `log`. When the limit passes, or this process is interrupted,
    asks it to end (SIGINT: pytest then unmounts what it mounted) and kills what is left after `grace` seconds. No command
    runs longer than this run of the tests may. `gives_way`: others have the processors whenever they want them."""
    started = time.monotonic()
    if clock.left() is not None:
        limit = min(limit, clock.left())
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   env=env, cwd=cwd, start_new_session=True)
        if gives_way:
            give_way(process)
        status = None
        try:
            with _lock:
                if _running is None:
                    raise Stopped
                _running.add(process)
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            stop(process, grace)
        except BaseException:
            stop(process, grace)
            raise
        finally:
            with _lock:
                if _running is not None:
                    _running.discard(process)
            signal_group(process, signal.SIGKILL)  # what the command left in its group
    with open(log, "rb") as output:
        text = output.read().decode(errors="replace")
    return Outcome(status, text, time.monotonic() - started)


def give_way(process):
    """Of a process with a session of its own, and of its children: its priority counts only inside its group of the
    scheduler, which is its session where the kernel groups by sessions (sched(7), autogroup)."""
    try:
        os.setpriority(os.PRIO_PROCESS, process.pid, 19)
        Path(f"/proc/{process.pid}/autogroup").write_text("19", encoding="ascii")
    except OSError:
        pass  # it has ended, or the kernel does not group


def stop_all(grace=60):
    """Stops what other threads are running and will want to run: only the main thread hears of an interruption."""
    global _running  # pylint: disable=global-statement
    with _lock:
        running, _running = _running or (), None
    for process in running:  # all of them at once: each may have much to put away
        signal_group(process, signal.SIGINT)
    for process in running:
        await_end(process, grace)


def stop(process, grace):
    """Asks the process's group to end, kills it after `grace` seconds."""
    signal_group(process, signal.SIGINT)
    await_end(process, grace)


def await_end(process, grace):
    """One that the kernel does not let go of even when it is killed is left alone: it must not hold up the run."""
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        signal_group(process, signal.SIGKILL)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            pass


def signal_group(process, signum):
    try:
        os.killpg(process.pid, signum)
    except ProcessLookupError:
        pass

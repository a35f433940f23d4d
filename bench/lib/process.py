"""Running other programs with a limit on everything, and saying clearly what went wrong."""

import contextlib
import os
import signal
import subprocess
import time


class Failure(Exception):
    """A step cannot go on; the text names the thing and what is wrong with it."""


class Deadline:
    """The end of a step. Everything that is run in it gets at most what is left."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.end = time.monotonic() + seconds

    def left(self):
        left = self.end - time.monotonic()
        if left <= 0:
            raise Failure(f"the step took longer than its limit of {self.seconds:.0f} s")
        return left


def clean_environment(**more):
    """The environment without what would lead clients elsewhere: other credentials, other certificates, proxies."""
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(("AWS_", "RCLONE_")) and not k.lower().endswith("_proxy")}
    kept["LC_ALL"] = "C"
    kept.update(more)
    return kept


def run(command, deadline, environment=None, check=True, limit=None, log=None, folder=None):
    """Runs a command to its end in a process group of its own, which is killed when its time is over.

    Returns (exit status, standard output, standard error); raises Failure unless `check` is false. With `log` both go
    to that file instead: for commands that leave a daemon behind, which would keep a pipe open. The limit holds for a
    process that cannot be killed (asleep in a file system that hangs) too: it is then left behind.
    """
    seconds = min(deadline.left(), limit or deadline.left())
    name = " ".join(str(part) for part in command[:4])
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(open(log, "wb")) if log else subprocess.PIPE
        process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=stream,
                                   stderr=stream, env=environment or clean_environment(), start_new_session=True,
                                   cwd=folder, text=True, errors="replace")
    try:
        out, err = process.communicate(timeout=seconds)
    except BaseException as error:
        kill_group(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failure(f"{name} …: not done after {seconds:.0f} s") from None
        raise
    if log:
        with open(log, encoding="utf-8", errors="replace") as file:
            out, err = "", file.read()
    if check and process.returncode != 0:
        raise Failure(f"{name} …: exit status {process.returncode}: {tail(err or out)}")
    return process.returncode, out, err


def kill_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)


def tail(text, lines=3):
    kept = [line for line in text.strip().splitlines() if line.strip()][-lines:]
    return " | ".join(kept) or "it said nothing"


@contextlib.contextmanager
def signals_held():
    """For putting things away: signals that would end this program do so when that is done. Not by ignoring or blocking
    them, which the commands that are run meanwhile would inherit."""
    came = []
    kept = {number: signal.signal(number, lambda which, _: came.append(which))
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def start(command, log, environment=None):
    """A server or a mount in the foreground, its output in the file `log`; end it by stop()."""
    with open(log, "ab") as out:
        return subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                env=environment or clean_environment(), start_new_session=True)


def stop(process, seconds=15):
    """SIGTERM, then SIGKILL, to this process alone."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)


def stop_pid(pid, seconds=10, number=signal.SIGTERM):
    """Ends a process that is not our child; waits until it is gone, then kills it."""
    for what, patience in ((number, seconds), (signal.SIGKILL, 5)):
        try:
            os.kill(pid, what)
        except ProcessLookupError:
            return
        end = time.monotonic() + patience
        while time.monotonic() < end and alive(pid):
            time.sleep(0.02)


def cpu_seconds(pid):
    """Of user and system time, of all threads of the process until now."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(what, condition, deadline, limit=60, process=None, log=None):
    """Polls until `condition` returns something true, and returns that."""
    end = time.monotonic() + min(limit, deadline.left())
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        if process is not None and process.poll() is not None:
            text = open(log, encoding="utf-8", errors="replace").read() if log else ""
            raise Failure(f"{what}: the process ended with status {process.returncode}: {tail(text)}")
        time.sleep(0.02)
    raise Failure(f"{what}: not so within {limit:.0f} s")

"""Running commands with a limit, finding processes of a test, and showing what a hanging one waits for."""

import contextlib
import fcntl
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

# How much slower than the release build the daemon under test is: every limit is multiplied by it.
SLOWNESS = float(os.environ.get("TIERFS_TEST_SLOWNESS", "1"))


class Finished:
    """What a command left: status, standard output, standard error."""

    def __init__(self, command, returncode, out, err):
        self.command, self.returncode, self.out, self.err = command, returncode, out, err

    def __repr__(self):
        return f"{self.command} -> {self.returncode}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def run(command, timeout=30, env=None, cwd=None, suspects=None):
    """Runs a command to its end. Output goes through files, not pipes: a daemon that keeps them open must not hold us
    up. When the limit passes, shows what `suspects()` (process ids) wait for and fails."""
    command = [str(part) for part in command]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=cwd, start_new_session=True)
        try:
            process.wait(timeout * SLOWNESS)
        except subprocess.TimeoutExpired:
            waits = describe([process.pid] + list(suspects() if suspects else []))
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(f"no end after {timeout * SLOWNESS:g} s: {command}\n{waits}") from None
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
    return Finished(command, process.returncode, *texts)


def check(command, **options):
    """run(), and the status must be 0."""
    finished = run(command, **options)
    assert finished.returncode == 0, finished
    return finished


def wait_until(condition, timeout=20, what="condition", interval=0.05):
    """Waits for condition() to be true; returns its value."""
    end = time.monotonic() + timeout * SLOWNESS
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout * SLOWNESS:g} s: {what}")
        time.sleep(interval)


def settled(value, quiet=0.5):
    """Calls value() until it is the same for `quiet` seconds; returns it."""
    last = []

    def is_settled():
        now = value()
        if not last or last[0] != now:
            last[:] = [now, time.monotonic()]
        return time.monotonic() - last[1] > quiet * SLOWNESS
    wait_until(is_settled, what="a value that stays the same")
    return last[0]


def _read(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _state(base):
    """One letter of proc_pid_stat(5), or nothing where the process or thread is no more."""
    return b"".join(_read(f"{base}/stat").rpartition(b")")[2].split()[:1])


def living_thread(pid):
    """A folder below /proc of a thread that has not ended, or None. What was killed may go on for a while with its
    leader a zombie already: the other threads still hold its files, its locks and its sockets."""
    base = f"/proc/{pid}"
    if _state(base) not in (b"", b"Z", b"X"):
        return base
    try:
        threads = os.listdir(f"{base}/task")
    except OSError:
        return None
    return next((f"{base}/task/{thread}" for thread in threads
                 if _state(f"{base}/task/{thread}") not in (b"", b"Z", b"X")), None)


def alive(pid):
    """Whether the process is there, with at least one thread that has not ended."""
    return living_thread(pid) is not None


def with_marker(marker):
    """Ids of living processes that have the text in their environment or command line."""
    marker = marker.encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid() and (base := living_thread(entry)):
            if marker in _read(f"{base}/environ") or marker in _read(f"{base}/cmdline"):
                found.append(int(entry))
    return found


def kill(pids, signum=signal.SIGKILL):
    for pid in pids:
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            pass


def describe(pids):
    """What each thread of the processes waits for: name, state, kernel function, kernel stack."""
    lines = []
    for pid in pids:
        command = _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")
        lines.append(f"process {pid}: {command}")
        try:
            threads = sorted(os.listdir(f"/proc/{pid}/task"), key=int)
        except OSError:
            continue
        for thread in threads:
            base = f"/proc/{pid}/task/{thread}"
            state = _read(f"{base}/stat").rpartition(b")")[2].split()[:1]
            lines.append(f"  thread {thread} {_read(base + '/comm').decode(errors='replace').strip()} "
                         f"{b''.join(state).decode()} wchan {_read(base + '/wchan').decode()} "
                         f"syscall {_read(base + '/syscall').decode().split(' ')[0].strip()}")
            lines += ["    " + line for line in _read(base + "/stack").decode(errors="replace").splitlines()[:12]]
    return "\n".join(lines)


@contextlib.contextmanager
def fuse_for_all():
    """/dev/fuse open to everybody, as udev makes it; a machine without udev has it for root alone. One process of tests
    at a time, since it is put back afterwards."""
    with open(__file__, "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mode = os.stat("/dev/fuse").st_mode & 0o7777
        os.chmod("/dev/fuse", 0o666)
        try:
            yield
        finally:
            os.chmod("/dev/fuse", mode)


def memory_of(pid):
    """Bytes that count against memory.limit: RssAnon + RssShmem + HugetlbPages; 0 when the process is gone."""
    total = 0
    for line in _read(f"/proc/{pid}/status").decode().splitlines():
        name, _, value = line.partition(":")
        if name in ("RssAnon", "RssShmem", "HugetlbPages"):
            total += int(value.split()[0]) * 1024
    return total

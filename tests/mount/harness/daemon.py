"""Mount: one tierfs mount from start to the proof that nothing of it is left."""

import contextlib
import functools
import json
import os
import re
import signal
import socket
import tempfile
import time
import uuid
from pathlib import Path

from . import processes

REPOSITORY = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("TIERFS_TEST_BINARY", str(REPOSITORY / "build/dev/tierfs"))
SOCKETS = Path("/run/tierfs")

START_LIMIT = 45  # seconds; an origin that does not answer may use up origin.deadline first
STOP_LIMIT = 30


@functools.cache
def fault_points():
    """Names of the fault points of the program under test, as it lists them; none in one that was built without
    TIERFS_TEST_POINTS, which has no sync points either."""
    with tempfile.NamedTemporaryFile("r", prefix="points-") as listed:
        processes.check([BINARY, "--version"], env={**os.environ, "TIERFS_TEST_FAULT_LIST": listed.name})
        return frozenset(line.split()[1] for line in listed if line.startswith("point "))


def mountinfo(path):
    """The line of /proc/self/mountinfo of what is mounted at the path (topmost), as a dict, or None. Never asks the
    mount itself, which may hang."""
    wanted = os.path.abspath(os.fsdecode(path))
    found = None
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        for line in lines:
            left, _, right = line.rstrip("\n").partition(" - ")
            fields, kinds = left.split(" "), right.split(" ")
            where = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), fields[4])
            if where == wanted:
                found = {"device": fields[2], "options": fields[5].split(","), "type": kinds[0],
                         "source": kinds[1], "super_options": kinds[2].split(",")}
    return found


def ask(path, command, patience=10):
    """The result of a command that has no parameters, from the control socket; None: nobody answers it."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(patience * processes.SLOWNESS)
        try:
            connection.connect(str(path))
            connection.sendall(json.dumps({"command": command}).encode() + b"\n")
            with connection.makefile("rb") as lines:
                answer = json.loads(lines.readline() or "{}")
        except OSError:
            return None
    return answer.get("result") if answer.get("ok") else None


def answers(path):
    """Whether somebody listens on the UNIX socket, or it is gone meanwhile."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except FileNotFoundError:
            pass
    return True


def environment(folder, marker, extra=None):
    """The test's environment for a daemon: nobody's credentials or proxies, sanitizers that report into the folder."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("AWS_", "TIERFS_")) and not name.lower().endswith("_proxy")}
    report = f"log_path={folder}/sanitizer"
    env.update({
        "HOME": str(folder), "TMPDIR": str(folder), "AWS_EC2_METADATA_DISABLED": "true", "TIERFS_TEST_MARKER": marker,
        "ASAN_OPTIONS": f"abort_on_error=1:detect_leaks=1:detect_stack_use_after_return=1:disable_coredump=1:{report}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1:abort_on_error=1:{report}",
        # libfuse keeps the structure of a request that was under way when the session ended.
        "LSAN_OPTIONS": f"suppressions={Path(__file__).with_name('lsan.supp')}:print_suppressions=0:{report}",
        # Debian's libraries are not instrumented: without the first option RocksDB gives false reports.
        "TSAN_OPTIONS": f"ignore_noninstrumented_modules=1:halt_on_error=0:second_deadlock_stack=1:{report}",
    })
    env.update(extra or {})
    return env


class Mount:
    """tierfs SOURCE MOUNTPOINT -o OPTIONS, to be used in a with statement or through the `mount` fixture.

    folder: where this mount's own things go (mount point, home, log, sanitizer reports). options: a dict of -o keys;
    a value of None is a flag (ro); the key "" is not used. env: more environment."""

    def __init__(self, source, options=None, folder=None, mountpoint=None, env=None):
        self.source = str(source)
        self.marker = f"tierfs-test-{uuid.uuid4().hex}"
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = Path(mountpoint) if mountpoint else self.folder / "mnt"
        self.log = self.folder / "tierfs.log"
        self.options = {"log.file": str(self.log), "log.level": "debug", "memory.limit": "256M", **(options or {})}
        self.env = environment(self.folder, self.marker, env)
        self.place = None  # the mount point without symbolic links, found before anything is mounted there
        self.device = None
        self.killed = False

    # -- life ---------------------------------------------------------------------------------------------------------

    def command(self):
        words = [key if value is None else f"{key}={value}" for key, value in self.options.items()]
        return [BINARY, self.source, str(self.path)] + (["-o", ",".join(words)] if words else [])

    def attempt(self, command=None, timeout=START_LIMIT):
        """Runs the command that mounts and returns how it ended."""
        with contextlib.suppress(FileExistsError):  # a dead mount cannot be asked whether it is a directory
            self.path.mkdir()
        self.place = self.place or self.path.resolve()
        return processes.run(command or self.command(), timeout=timeout, env=self.env, suspects=self.processes)

    def start(self, command=None):
        finished = self.attempt(command)
        assert finished.returncode == 0, f"did not mount: {finished}\n{self.log_tail()}"
        info = mountinfo(self.place)
        assert info and info["type"] == "fuse.tierfs", f"returned 0 but is not mounted: {info}\n{self.log_tail()}"
        self.device = info["device"]
        return self

    def refuse(self, status=1, timeout=START_LIMIT):
        """The mount must fail with this exit status and leave nothing; returns what it said, in lower case."""
        finished = self.attempt(timeout=timeout)
        assert finished.returncode == status, f"{finished}\n{self.log_tail()}"
        assert not self.mounted(), "failed, but left a mount"
        self.expect_gone()
        said = (finished.out + finished.err).strip()
        assert said, "failed without a word"
        return said.lower()

    def umount(self):
        """`tierfs umount`, as a user does it."""
        processes.check([BINARY, "umount", self.path], timeout=STOP_LIMIT, env=self.env, suspects=self.processes)
        assert not self.mounted(), "umount returned 0 but the mount is still there"
        self.expect_gone()

    def daemon_of(self, supervisor):
        """The process that the supervisor has started, or None: nobody is asked."""
        try:
            children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        except OSError:
            return None
        return next((int(pid) for pid in children if processes.alive(int(pid))), None)

    def kill_daemon(self, supervisor=None):
        """kill -9 of the daemon alone; its process id, or None when none ran."""
        pid = self.daemon_of(supervisor or self.status()["supervisor_pid"])
        if pid:
            os.kill(pid, signal.SIGKILL)
        return pid

    def wait_for_daemon(self, other_than=None):
        """Waits until a daemon, another one than that, answers; its status."""
        def answer():
            status = self.asked_status()
            if status is None and not self.device:
                finished = processes.run([BINARY, "status", self.path, "--json"], env=self.env, suspects=self.processes)
                status = json.loads(finished.out) if finished.returncode == 0 else None
            status = status or {}
            return status if status.get("pid") not in (None, other_than) else None
        try:
            return processes.wait_until(answer, timeout=START_LIMIT, what="a daemon serves")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log_tail()}") from None

    def take_over(self):
        """kill -9 of the daemon; the status of the one that takes over."""
        return self.wait_for_daemon(self.kill_daemon())

    def mounted(self):
        info = mountinfo(self.place or self.path)
        return bool(info and info["type"] == "fuse.tierfs")

    def kill_hard(self):
        """kill -9 of everything that serves the mount, as a crash of the node's memory would; then detaches the dead
        mount. The supervisor goes first, so that it starts no new daemon."""
        status = self.status()
        processes.kill([pid for pid in (status.get("supervisor_pid"), status["pid"]) if pid])
        processes.kill(self.processes())
        processes.wait_until(lambda: not self.processes(), what="killed processes gone")
        self.killed = True
        if self.mounted():
            processes.check(["umount", "-l", self.path], timeout=STOP_LIMIT)

    def processes(self):
        return processes.with_marker(self.marker)

    def left(self):
        """The processes of this mount that have not ended in time: one that takes its mount away ends after that."""
        end = time.monotonic() + STOP_LIMIT * processes.SLOWNESS
        while self.processes() and time.monotonic() < end:
            time.sleep(0.02)
        return self.processes()

    def expect_gone(self):
        """No process and no control socket of this mount is left."""
        left = self.left()
        assert not left, f"processes left after the mount ended:\n{processes.describe(left)}\n{self.log_tail()}"
        if self.device and not self.killed:
            path = SOCKETS / f"{self.device}.sock"
            # The kernel reuses device numbers at once: a socket that somebody listens on belongs to another mount, which
            # may be making it just now.
            processes.wait_until(lambda: not path.exists() or answers(path), timeout=5, what=f"control socket left behind: {path}")

    def close(self):
        """Unmounts whatever happened; then tells what was wrong: a hang, something left, a sanitizer's report."""
        problems = []
        if self.mounted():
            try:
                self.umount()
            except AssertionError as error:
                problems.append(str(error))
                processes.kill(self.processes())
                while self.mounted() and processes.run(["umount", "-l", self.path]).returncode == 0:
                    pass
        left = self.left()
        if left:
            problems.append("processes left:\n" + processes.describe(left))
            processes.kill(left)
        problems += self.sanitizer_reports()
        if problems:
            raise AssertionError("\n".join(problems) + "\n" + self.log_tail())

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, error, trace):
        self.close()

    # -- looking ------------------------------------------------------------------------------------------------------

    def status(self):
        """What `tierfs status --json` prints, from where that has it: a program with a sanitizer is slow to start."""
        status = self.asked_status()
        if status is None:
            status = json.loads(processes.check([BINARY, "status", self.path, "--json"], env=self.env, suspects=self.processes).out)
        return status

    def asked_status(self):
        """The same where root mounted it and its daemon answers, else None."""
        status = ask(SOCKETS / f"{self.device}.sock", "status") if self.device else None
        place = self.place or self.path.parent.resolve() / self.path.name
        return status if status is not None and status["mountpoint"] == str(place) else None

    def requests(self, kinds=("get", "head", "list", "put", "delete", "other")):
        """Number of origin requests since the mount started."""
        counts = self.status()["origin"]["requests"]
        return sum(counts[kind] for kind in kinds)

    def tier(self, name):
        return next(tier for tier in self.status()["tiers"] if tier["name"] == name)

    def log_tail(self, lines=60):
        try:
            text = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return f"(no log in {self.log})"
        return "\n".join(["--- end of " + str(self.log)] + text[-lines:])

    def sanitizer_reports(self):
        reports = []
        for path in sorted(self.folder.glob("sanitizer*")):
            text = path.read_text(errors="replace")
            if text.strip():
                reports.append(f"--- sanitizer report {path}\n" + "\n".join(text.splitlines()[:150]))
        return reports

    def terminate(self):
        """SIGTERM to the daemon, as a service manager stops it."""
        os.kill(self.status()["pid"], signal.SIGTERM)

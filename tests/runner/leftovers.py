"""Nothing of a run may stay: mounts, loop devices and processes whose paths lie in the run's folder. What is found is
a failure; it is cleaned up all the same."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path


def _read(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def mounts(root):
    """Mount points below the folder, the innermost first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        where = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), line.split(" ")[4])
        if where.startswith(root + "/"):
            found.append(where)
    return found[::-1]


def processes(root):
    """Processes that name the folder in their command line or environment, our own ancestors apart."""
    mine, ours = os.getpid(), set()
    while mine > 1:
        ours.add(mine)
        mine = int(_read(f"/proc/{mine}/stat").rpartition(b")")[2].split()[1])
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in ours:
            text = _read(f"/proc/{entry}/cmdline") + b"\0" + _read(f"/proc/{entry}/environ")
            if root.encode() in text:
                found.append((int(entry), _read(f"/proc/{entry}/cmdline").replace(b"\0", b" ").decode(errors="replace")))
    return found


def loops(root):
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        if _read(backing).decode(errors="replace").startswith(root + "/"):
            found.append("/dev/" + backing.parts[3])
    return found


def attempt(words):
    try:
        subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        pass  # what it was to put away is named already


def clean(root, results):
    left = []
    patience = time.monotonic() + 10  # a process that is just ending is none that stays
    while processes(root) and time.monotonic() < patience:
        time.sleep(0.1)
    for pid, what in processes(root):
        left.append(f"process {pid}: {what}")
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    for where in mounts(root):
        left.append(f"mount {where}")
        attempt(["umount", "-l", where])
    for device in loops(root):
        left.append(f"loop device {device}")
        attempt(["losetup", "--detach", device])
    results.add("leftovers", "nothing is left behind", "failed" if left else "passed", "\n".join(left))
    if not mounts(root):  # never delete through a mount
        attempt(["rm", "-rf", "--one-file-system", root])  # not shutil.rmtree, which deep folders stop (RecursionError)

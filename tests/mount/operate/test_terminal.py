"""Names and words from outside steer no terminal: each command, with a mount point, files and a server that are full of control
sequences."""

import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path

import pytest

from harness import daemon, data, processes

pytestmark = pytest.mark.release

EVIL = "e\x1b]0;owned\x07\x1b[2J\x7f\u009b31m\rx"  # C0, DEL and, as UTF-8, C1
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f]")
STAGE = str(Path(daemon.BINARY).with_name("tierfs-stage"))


@pytest.fixture
def evil(mount, origin, folder, cache):
    """A mount of a folder with such a name on one, with files of such names."""
    data.write(origin / EVIL.replace("\r", "") / "file", bytes(5000))
    data.write(origin / EVIL.replace("\r", "") / EVIL, b"x")
    # Lists of mounts escape no carriage return, and not all who read them beside this test bear one.
    place = folder / EVIL.replace("\r", "")
    place.mkdir()
    return mount(origin / EVIL.replace("\r", ""), cache, mountpoint=place)


def on_a_terminal(words, env):
    """What a terminal would get."""
    master, slave = pty.openpty()
    try:
        with subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=env) as process:
            os.close(slave)
            shown, end = b"", time.monotonic() + 60 * processes.SLOWNESS
            while time.monotonic() < end:
                try:
                    if select.select([master], [], [], 0.1)[0]:
                        shown += os.read(master, 65536)
                except OSError:  # nobody has the other end any more
                    break
            process.wait(60 * processes.SLOWNESS)
    finally:
        os.close(master)
    return shown.decode(errors="replace").replace("\r\n", "\n")


OWN = re.compile("\r\x1b\\[K")  # of a progress line
COMMANDS = {
    "status": lambda m: ["status", m.path], "status of all": lambda m: ["status"], "status --json": lambda m: ["status", "--json", m.path],
    "doctor": lambda m: ["doctor", "--seconds", "0.2", m.path], "doctor --json": lambda m: ["doctor", "--json", "--seconds", "0.2", m.path],
    "top": lambda m: ["top", "--once", m.path], "warm": lambda m: ["warm", "--wait", m.path / "file"],
    "warm of nothing": lambda m: ["warm", "--wait", m.path / f"no{EVIL}"], "pin": lambda m: ["pin", "--wait", m.path / "file"],
    "evict": lambda m: ["evict", m.path / "file"], "unpin": lambda m: ["unpin", m.path / "file"], "unpin of nothing": lambda m: ["unpin", m.path / f"no{EVIL}"],
    "class": lambda m: ["class", m.path, EVIL, "hot"], "verify": lambda m: ["verify", m.path / f"no{EVIL}"],
    "config": lambda m: ["config", "--check", EVIL], "reload": lambda m: ["reload", m.path], "trace": lambda m: ["trace", "--seconds", "1", m.path],
    "trace --order": lambda m: ["trace", "--order", "--seconds", "1", m.path], "pack": lambda m: ["pack", m.path, m.path / f"no{EVIL}"],
    "pack verify": lambda m: ["pack", "verify", m.path / f"no{EVIL}"], "mount again": lambda m: [m.source, m.path],
    "mount of nothing": lambda m: [f"{m.source}/{EVIL}", m.path], "an option": lambda m: [m.source, m.path, "-o", EVIL],
    "a setting": lambda m: [m.source, m.path, "-o", f"metadata.ttl={EVIL}"], "no command": lambda m: [EVIL],
    "umount of nothing": lambda m: ["umount", m.path / f"no{EVIL}"], "umount": lambda m: ["umount", m.path],
}


@pytest.mark.parametrize("what", COMMANDS)
def test_no_command_passes_control_sequences_on(evil, what):
    words = [daemon.BINARY, *COMMANDS[what](evil)]
    if what.startswith("trace"):
        reader = subprocess.Popen(["/bin/sh", "-c", 'sleep 0.5; cat "$0" > /dev/null', evil.path / "file"])
    shown = on_a_terminal(words, evil.env)
    if what.startswith("trace"):
        assert reader.wait(60) == 0
    left = OWN.sub("", shown)
    assert not STEERS.search(left), repr(left)
    assert what in ("status of all",) or shown or what in ("umount", "unpin"), "it says something"


@pytest.mark.parametrize("words", [["in", "SOURCE", "DEST"], ["out", "SOURCE", "DEST"], ["verify", "DEST"], ["gc", "DEST"], ["check", "SOURCE/none"],
                                   ["plan", "SOURCE"]], ids=lambda words: words[0])
def test_nor_does_tierfs_stage(evil, folder, words):
    dest = folder / f"dest{EVIL}"
    dest.mkdir()
    words = [word.replace("SOURCE", str(evil.path)).replace("DEST", str(dest)) for word in words]
    shown = OWN.sub("", on_a_terminal([STAGE, *words], evil.env))
    assert not STEERS.search(shown), repr(shown)


def test_nor_does_what_a_server_says_when_it_is_mounted(mount, faulty):
    faulty.fault = lambda method, key, number: (403, EVIL)
    m = mount.prepare("s3://bucket", faulty.options, env=faulty.env)
    said = m.refuse()
    assert not STEERS.search(said), repr(said)

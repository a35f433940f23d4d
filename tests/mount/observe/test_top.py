"""tierfs top: on a terminal of two sizes, for scripts, and while daemons come and go."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from harness import daemon, data, processes


LIMIT = 30 * processes.SLOWNESS


class Screen:
    """What a terminal shows that understands the few sequences that tierfs top sends."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.lines, self.row, self.column = [[" "] * width for _ in range(height)], 0, 0
        self.alternate = self.hidden = False
        self.pictures = 0

    def feed(self, text):
        for found in re.finditer(r"\x1b\[([?0-9;]*)([a-zA-Z])|([\r\n])|([^\x1b\r\n])", text):
            arguments, sequence, control, character = found.groups()
            if character:
                assert self.column < self.width, f"a line of more than {self.width} columns"
                self.lines[self.row][self.column] = character
                self.column += 1
            elif control == "\r":
                self.column = 0
            elif control == "\n":
                self.row += 1
                assert self.row < self.height, f"more than {self.height} lines"
            elif sequence == "H":
                self.row = self.column = 0
            elif sequence == "K":
                self.lines[self.row][self.column:] = [" "] * (self.width - self.column)
            elif sequence == "J":
                first = 0 if arguments == "2" else self.row + 1
                for row in range(first, self.height):
                    self.lines[row] = [" "] * self.width
                self.pictures += arguments != "2"
            elif sequence in "hl":
                on = sequence == "h"
                assert arguments in ("?1049", "?25"), arguments
                if arguments == "?1049":
                    self.alternate = on
                else:
                    self.hidden = not on
            else:
                raise AssertionError(f"unknown sequence {found.group(0)!r}")

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.lines)


class Top:
    """tierfs top on a terminal of its own."""

    def __init__(self, m, width, height, *more):
        self.master, slave = pty.openpty()
        self.resize_only(width, height)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.screen = Screen(width, height)
        # It outlives the mount, and is none of its processes.
        env = {name: value for name, value in m.env.items() if name != "TIERFS_TEST_MARKER"}
        self.process = subprocess.Popen([daemon.BINARY, "top", str(m.path), "--interval", "0.2", *more], stdin=slave, stdout=slave,
                                        stderr=slave, env=env, start_new_session=True)

    def resize_only(self, width, height):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self, seconds=0.2):
        if select.select([self.master], [], [], seconds)[0]:
            self.screen.feed(os.read(self.master, 1 << 16).decode())

    def wait_for(self, pattern):
        end = time.monotonic() + LIMIT
        while not re.search(pattern, self.screen.text()):
            assert time.monotonic() < end and self.process.poll() is None, f"no {pattern} on\n{self.screen.text()}"
            self.read()
        return self.screen.text()

    def end(self):
        """How it ended; the terminal must be as it was."""
        status = self.process.wait(LIMIT)
        while select.select([self.master], [], [], 0)[0]:
            self.read(0)
        assert not self.screen.alternate and not self.screen.hidden, "the screen is not put back"
        assert termios.tcgetattr(self.slave) == self.before, "the terminal is not put back"
        return status

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def top(request):
    running = []

    def start(*arguments):
        running.append(Top(*arguments))
        return running[-1]
    yield start
    for one in running:
        one.close()


@pytest.fixture
def m(origin, mount, cache):
    files = data.make_files(origin, 60, 20000)
    made = mount(origin, cache)
    made.files = files
    return made


@pytest.mark.release
@pytest.mark.parametrize("width, height", [(80, 24), (200, 50)])
def test_shows_what_is_read(m, top, width, height):
    shown = top(m, width, height)
    shown.wait_for(r"dataset .*class")
    data.expect_files(m.path, m.files)
    text = shown.wait_for(r"reads [1-9][^ ]*/s")
    lines = text.split("\n")
    assert "tierfs top" in lines[0] and "up 0:" in lines[0], text
    assert re.search(r"^ram ", text, re.M) and re.search(r"^nvme ", text, re.M) and re.search(r"^origin ", text, re.M), text
    assert re.search(r"^waiting ", text, re.M) and re.search(r"^memory ", text, re.M) and re.search(r"^device ", text, re.M), text
    assert shown.screen.alternate and shown.screen.hidden
    os.write(shown.master, b"q")
    assert shown.end() == 0


@pytest.mark.parametrize("how", ["ctrl-c", signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ends_in_order(m, top, how):
    shown = top(m, 80, 24)
    shown.wait_for("tierfs top")
    if how == "ctrl-c":
        os.write(shown.master, b"\x03")
    else:
        os.kill(shown.process.pid, how)
    assert shown.end() == 0


def test_takes_a_new_size(m, top):
    shown = top(m, 80, 24)
    shown.wait_for("dataset")
    shown.screen = Screen(120, 30)
    shown.screen.alternate = shown.screen.hidden = True
    shown.resize_only(120, 30)
    text = shown.wait_for("dataset")
    assert len(text.split("\n")[0]) > 80, text
    os.write(shown.master, b"q")
    assert shown.end() == 0


def test_goes_on_when_the_daemon_does(m, top):
    status = m.status()
    shown = top(m, 80, 24)
    shown.wait_for("dataset")
    if status["supervisor"]["enabled"]:
        m.take_over()
        data.expect_files(m.path, m.files)
        shown.wait_for("dataset")
    m.umount()
    shown.wait_for("is not")
    m.start()
    shown.wait_for("dataset")
    os.write(shown.master, b"q")
    assert shown.end() == 0


def test_prints_for_scripts(m, folder):
    def printed(*words):
        return processes.run([daemon.BINARY, "top", m.path, "--interval", "0.1", *words], env=m.env)
    once = printed("--once")
    assert once.returncode == 0 and "\x1b" not in once.out, once
    assert all(len(line) <= 80 for line in once.out.splitlines()) and len(once.out.splitlines()) <= 24
    wide = printed("--once", "--width", "150", "--height", "40")
    assert max(len(line) for line in wide.out.splitlines()) > 80
    three = printed("--batch", "--count", "3")
    assert three.returncode == 0 and three.out.count("tierfs top") == 3
    assert processes.run([daemon.BINARY, "top", folder], env=m.env).returncode == 1
    for wrong in (["--interval", "0"], ["--width", "3"], []):
        assert processes.run([daemon.BINARY, "top", *wrong], env=m.env).returncode == 2

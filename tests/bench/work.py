"""For tests of whole benches: free ports, and that nothing stays behind."""

import random
import socket
from pathlib import Path


def free(port):
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def first_port():
    """The first of ports that nobody has."""
    chance = random.Random()
    return next(port for port in iter(lambda: chance.randrange(20000, 32000, 20), None)
                if all(free(port + i) for i in range(1, 12)))


def assert_nothing_is_left(folder):
    assert str(folder) not in Path("/proc/self/mounts").read_text()
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            assert not backing.read_text().startswith(str(folder))
        except FileNotFoundError:
            pass  # another one's, gone meanwhile
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except (FileNotFoundError, ProcessLookupError):
            continue
        assert str(folder).encode() not in words, words

"""The suite metadata, as the program runs it."""

import os
import signal
import subprocess
import time

from conftest import IOBENCH, LIMIT, SLOWNESS


def files_in(folder):
    data = folder / "data"
    data.mkdir()
    for number in range(20):
        (data / f"file{number}").write_bytes(b"x")
    return data


def test_nothing_is_written_unless_asked_for(iobench, folder):
    data = files_in(folder)
    before = data.stat().st_mtime_ns
    out = iobench("run", "--suite", "metadata", "--path", data, "--runs", 2).out
    assert "lookup" in out and "create" not in out
    assert data.stat().st_mtime_ns == before


def test_an_interrupt_removes_what_was_written(folder):
    data = files_in(folder)
    for signum in (signal.SIGINT, signal.SIGTERM):
        words = [IOBENCH, "run", "--suite", "metadata", "--path", str(data), "--runs", "1", "--write",
                 "--write-names", "2000000", "--processes", "2"]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              start_new_session=True) as process:
            try:
                end = time.monotonic() + LIMIT * SLOWNESS
                while not [name for scratch in data.glob("iobench-scratch-*") for name in scratch.glob("0/*")]:
                    assert process.poll() is None and time.monotonic() < end
                    time.sleep(0.05)
                os.killpg(process.pid, signum)  # as a terminal does: everybody in the foreground hears of it
                process.communicate(timeout=LIMIT * SLOWNESS)
            finally:
                process.kill()
        assert process.returncode != 0
        assert sorted(path.name for path in data.iterdir()) == sorted(f"file{number}" for number in range(20)), signum

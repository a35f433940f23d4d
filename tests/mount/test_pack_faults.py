"""A pack whose making was killed."""

import random
import signal
import subprocess
import time

from conftest import FULL
from harness import daemon, data
from test_pack import files_of, pack

KILLS = 50 if FULL else 5


def test_killed_at_random_points_and_run_again(origin, folder):
    """Whenever it is killed, the next run makes what a run in peace makes, byte for byte."""
    for number in range(50):
        data.write(origin / f"d{number % 3}" / f"f{number}", data.content(number, 900_000))
    whole = folder / "whole"
    began = time.monotonic()
    pack(origin, whole)
    took = time.monotonic() - began
    wanted = files_of(whole)
    chance = random.Random(50)
    kills = 0
    for number in range(KILLS):
        dest = folder / f"pack{number}"
        with subprocess.Popen([daemon.BINARY, "pack", str(origin), str(dest)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            time.sleep(chance.uniform(0.02, 1.0) * took)
            kills += process.poll() is None
            process.send_signal(signal.SIGKILL)
        pack(origin, dest)
        assert files_of(dest) == wanted, f"kill {number}"
        for path in dest.rglob("*"):
            if path.is_file():
                path.unlink()
    assert kills > KILLS // 3

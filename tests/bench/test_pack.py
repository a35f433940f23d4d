"""bench/pack, tiny; not the steps that take long."""

import collections
import json
import os
import subprocess
from pathlib import Path

import pytest

from conftest import IOBENCH, REPOSITORY, SLOWNESS
from work import assert_nothing_is_left, first_port


def test_the_steps_measure_and_put_everything_away(folder):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    result, ports = folder / "result.json", first_port()
    command = [REPOSITORY / "bench/pack", "--quick", "--scale", "0.01", "--rounds", "1", "--tierfs",
               Path(IOBENCH).parent / "tierfs", "--json", result, "--keep", folder / "work", "--ports", ports,
               "--only", "names,epoch,sampler,million"]
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", timeout=200 * SLOWNESS, check=False)
    Path(f"/run/tierfs-bench-{ports}.lock").unlink(missing_ok=True)
    assert done.returncode in (0, 1), f"{done.stdout}\n{done.stderr}"  # bars are for the real size
    document = json.loads(result.read_text())
    assert document["failed"] == {}, done.stdout
    rows = {(row["step"], row["name"], row["other_name"]): row["value"] for row in document["rows"]}
    counts = collections.Counter(step for step, _, _ in rows)
    assert counts == {"names": 6, "epoch": 4, "sampler": 8, "million": 6}
    assert rows["names", "mount and find: LIST requests", ""] == rows["names", "mount and find: HEAD requests", ""] == 0
    assert all(0.8 < rows["sampler", f"{order}: bytes sent for each byte", ""] for order in ("random", "chunks", "ahead"))
    assert 0 < rows["million", "index of a file", ""] < 100
    assert_nothing_is_left(folder)

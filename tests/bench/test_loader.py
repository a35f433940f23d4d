"""The suite loader with PyTorch's own DataLoader, and what happens to its processes."""

import json
import os
import signal
import subprocess
import time

import pytest

from conftest import IOBENCH, LIMIT, SLOWNESS

TORCH = """
import os
from torch.utils.data import DataLoader, Dataset

class Files(Dataset):
    def __init__(self, path):
        self.names = sorted(os.path.join(path, name) for name in os.listdir(path))
    def __len__(self):
        return len(self.names)
    def __getitem__(self, index):
        with open(self.names[index], "rb") as handle:
            return len(handle.read())

def make(path, num_workers):
    return DataLoader(Files(path), batch_size=4, shuffle=True, num_workers=num_workers)

def spawned(path, num_workers):
    context = "spawn" if num_workers else None
    return DataLoader(Files(path), batch_size=4, num_workers=num_workers, multiprocessing_context=context)

class Broken(Files):
    def __getitem__(self, index):
        if index == 30:
            raise ValueError("sample 30 is bad")
        return super().__getitem__(index)

def broken(path, num_workers):
    return DataLoader(Broken(path), batch_size=4, num_workers=num_workers)
"""


@pytest.fixture(scope="module", autouse=True)
def torch():
    if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True, timeout=120, check=False).returncode:
        pytest.skip("torch is not installed (packaging/dependencies --run)")


@pytest.fixture(name="data")
def data_folder(folder):
    data = folder / "data"
    data.mkdir()
    for number in range(48):
        (data / f"{number:02}").write_bytes(b"x" * 2000)
    (folder / "user.py").write_text(TORCH, encoding="ascii")
    return data


def words_for(data, function, *more):
    return ["run", "--suite", "loader", "--path", str(data), "--runs", "1", "--batches", "10", "--loader-workers", "2",
            "--loader", f"{data.parent}/user.py:{function}", *more]


def test_a_data_loader_is_timed(iobench, data, folder):
    result = folder / "result.json"
    iobench(*words_for(data, "make", "--compute", "1", "--json", str(result)))
    figures = json.loads(result.read_text(encoding="utf-8"))["figures"]
    assert list(dict.fromkeys(figure["case"] for figure in figures)) == \
        ["workers-0", "workers-2", "workers-0-pause", "workers-2-pause"]
    values = {(figure["case"], figure["metric"]): figure["median"] for figure in figures}
    for case in ("workers-0", "workers-2", "workers-0-pause", "workers-2-pause"):
        assert values[case, "batches"] == 10
        assert values[case, "python_s"] > 0
        assert values[case, "wait_s"] == pytest.approx(values[case, "storage_s"] + values[case, "python_s"])
    assert values["workers-2-pause", "batches_per_s"] < 1000


def test_workers_may_be_spawned(iobench, data):
    iobench(*words_for(data, "spawned", "--compute", "0"))


def test_an_error_in_a_worker_is_told(iobench, data):
    told = iobench(*words_for(data, "broken", "--compute", "0"), expect=1)
    assert "sample 30 is bad" in told.err


def processes_with(text):
    """Running processes whose command line holds the text."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as handle:
                if text.encode() in handle.read() and int(pid) != os.getpid():
                    found.append(int(pid))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupt_ends_python_and_its_workers(data, signum):
    words = [IOBENCH, *words_for(data, "make", "--compute", "100000", "--loader-timeout", "10000")]
    mark = f"{data.parent}/user.py"
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + LIMIT * SLOWNESS
            while len(processes_with(mark)) < 2:  # iobench and Python
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.05)
            process.send_signal(signum)
            process.wait(LIMIT * SLOWNESS)
        finally:
            process.kill()
    while processes_with(mark):
        assert time.monotonic() < end, "Python outlives iobench"
        time.sleep(0.05)
    assert process.returncode != 0

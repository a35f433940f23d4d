"""The job files of bench/fio: each is one that fio takes, and runs on a small directory."""

import json
import os
import shutil
import subprocess

import pytest

from conftest import LIMIT, REPOSITORY, SLOWNESS

JOBS = sorted((REPOSITORY / "bench/fio").glob("*.fio"))
FIO = shutil.which("fio")

pytestmark = pytest.mark.skipif(FIO is None, reason="fio is not installed (packaging/dependencies --test)")


def fio(folder, *words, target=None):
    variables = {"DIR": target or folder, "FILE": "big.bin", "SIZE": "4m", "PART": "1m", "RUNTIME": "20", "BS": "4k",
                 "NRFILES": "3", "FILESIZE": "4k"}
    return subprocess.run([FIO, *map(str, words)], env={**os.environ, **{k: str(v) for k, v in variables.items()}},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT * SLOWNESS, check=False,
                          cwd=folder)


def has(folder, engine, direct):
    done = fio(folder, "--name=probe", f"--filename={folder}/big.bin", "--size=4k", "--bs=4k", "--rw=read", "--readonly",
               f"--ioengine={engine}", f"--direct={direct}")
    return done.returncode == 0


def adapted(folder, job):
    """The job file without what this machine does not have: containers may forbid io_uring, tmpfs may have no O_DIRECT."""
    text = job.read_text()
    if not has(folder, "io_uring", 0):
        text = text.replace("ioengine=io_uring", "ioengine=psync")
    if not has(folder, "psync", 1):
        text = text.replace("direct=1", "direct=0")
    (folder / "job").mkdir(exist_ok=True)
    target = folder / "job" / job.name
    target.write_text(text)
    return target


@pytest.fixture
def data(folder):
    if not JOBS:
        pytest.fail("bench/fio has no job files")
    for name, size in (("big.bin", 4 << 20), ("small/a", 4096), ("small/b", 4096), ("small/c", 8192)):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(os.urandom(size))
    return folder


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_job_file_is_understood(data, job):
    done = fio(data, "--parse-only", job)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "job global dropped" not in done.stdout + done.stderr


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_every_job_moves_bytes_and_writes_only_where_it_says(data, job):
    writes = "write" in job.stem
    target = data / "written" if writes else data / "small" if "small" in job.stem else data
    target.mkdir(exist_ok=True)
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    job = adapted(data, job)
    output = data / "job" / "output"
    done = fio(data / "job", *([] if writes else ["--readonly"]), "--output-format=json", f"--output={output}", job,
               target=target)
    text = output.read_text()
    assert done.returncode == 0, done.stdout + done.stderr + text
    jobs = json.loads(text[text.index("{"):])["jobs"]
    assert jobs
    for one in jobs:
        assert one["error"] == 0, one["jobname"]
        assert one["read"]["io_bytes"] + one["write"]["io_bytes"] > 0, one["jobname"]
    after = {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.parent.name != "job"}
    new = {path.parent.name for path in after if path not in before}
    assert new == ({"written"} if writes else set())
    assert all(after[path] == content for path, content in before.items())


def test_comparison_with_fio_knows_its_options(folder):
    program = REPOSITORY / "bench/agree-with-fio"
    done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=LIMIT * SLOWNESS, check=False)
    assert done.returncode == 0 and "--tolerance" in done.stdout, done.stderr
    done = subprocess.run([program, "--size", "5m"], capture_output=True, text=True, timeout=LIMIT * SLOWNESS, check=False)
    assert done.returncode == 2 and "--size" in done.stderr
    done = subprocess.run([program, "--iobench", folder / "none"], capture_output=True, text=True, timeout=LIMIT * SLOWNESS,
                          check=False)
    assert done.returncode == 1 and ("none: not there" in done.stderr or "needs root" in done.stderr)

"""The jobs of bench/fio that only read, on a mount, and what fio says of them."""

import json
import pathlib
import re
import shutil

from lib import host
from lib.process import Failure, clean_environment, run

JOBS = pathlib.Path(__file__).resolve().parent.parent / "fio"
RUNTIME = 3  # seconds of a job at most
MOST_BYTES = 256 << 20  # of the large file that a job reads
START_SECONDS = 1.0  # of a job: fio's start, opening


def job_files():
    """Those with --readonly in the command that their comment shows: the others write."""
    return [file for file in sorted(JOBS.glob("*.fio")) if "--readonly" in file.read_text()]


def jobs_of(text):
    return [name for name in re.findall(r"^\[(.+)\]\s*$", text, re.M) if name != "global"]


def seconds():
    """Of all jobs on one mount, at most."""
    return sum(len(jobs_of(file.read_text())) for file in job_files()) * (RUNTIME + START_SECONDS)


def environment(file, mountpoint, dataset):
    """What the job files are told. Those of small files read the medium ones: all of one size, and not too many."""
    size = min(MOST_BYTES, dataset.large_bytes)
    folder = mountpoint / dataset.medium.name if file.name.startswith("small-files") else mountpoint
    return clean_environment(DIR=str(folder), FILE=dataset.large, SIZE=str(size), PART=str(size // 4), RUNTIME=str(RUNTIME),
                             BS=str(dataset.medium.size))


def figures_of(document, stem):
    """((case, metric, value, unit, better) of each job, what is wrong with the jobs of which nothing is known)."""
    found, problems = [], []
    for job in document["jobs"]:
        read, case = job["read"], f"fio-{stem}-{job['jobname']}" if job["jobname"] != stem else f"fio-{stem}"
        if job["error"] or not read["total_ios"]:
            problems.append(f"{case}: error {job['error']}, {read['total_ios']} reads")
            continue
        found += [(case, "mb_per_s", read["bw_bytes"] / 1e6, "MB/s", "higher"),
                  (case, "reads_per_s", read["iops"], "reads/s", "higher")]
        percentiles = read.get("clat_ns", {}).get("percentile", {})
        for share, metric in (("50.000000", "p50_us"), ("99.000000", "p99_us")):
            if share in percentiles:
                found.append((case, metric, percentiles[share] / 1e3, "us", "lower"))
    return found, problems


def measure(session, mount, deadline):
    """Each file of jobs once, after the page cache was dropped. A job that fails is a warning."""
    result, dataset = session.world.folder / "fio.json", session.world.dataset
    for file in job_files():
        result.unlink(missing_ok=True)
        host.drop_caches(1)
        limit = 60 + 3 * len(jobs_of(file.read_text())) * (RUNTIME + START_SECONDS)
        try:
            status, out, err = run(["fio", "--readonly", "--output-format=json", "--output", result, file], deadline,
                                   environment(file, mount.mountpoint, dataset), check=False, limit=limit)
            text = result.read_text() if result.exists() else ""
            if "{" not in text:
                raise Failure(f"exit status {status}: {(err or out).strip()[-200:]}")
            figures, problems = figures_of(json.loads(text[text.index("{"):]), file.stem)  # notes may stand before it
            for figure in figures:
                session.add(*figure)
        except (Failure, ValueError, KeyError, OSError) as error:
            problems = [f"{file.name}: {error}"]
        session.warnings += [f"{session.peer}, {session.line.name()}, round {session.number + 1}: fio, {problem}"
                             for problem in problems]

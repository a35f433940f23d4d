"""The jobs of bench/fio on a mount, and what fio says of them."""

import json
import pathlib
import shutil

from lib import host
from lib.process import clean_environment, run

JOBS = pathlib.Path(__file__).resolve().parent.parent / "fio"
JOB_LIMIT = 90  # seconds for one file of jobs
JOB_SECONDS = 15  # what the plan reckons with


def job_files():
    return sorted(JOBS.glob("*.fio")) if shutil.which("fio") else []


def figures_of(document, stem):
    """(case, metric, value, unit, better) of fio's JSON. A job that failed or read nothing is a ValueError."""
    found = []
    for job in document["jobs"]:
        name = stem if job["jobname"] == stem or len(document["jobs"]) == 1 else f"{stem}-{job['jobname']}"
        read = job["read"]
        if job["error"] or not read["total_ios"]:
            raise ValueError(f"fio, {name}: error {job['error']}, {read['total_ios']} reads")
        found += [(f"fio-{name}", "mb_per_s", read["bw_bytes"] / 1e6, "MB/s", "higher"),
                  (f"fio-{name}", "reads_per_s", read["iops"], "reads/s", "higher")]
        percentiles = read.get("clat_ns", {}).get("percentile", {})
        for share, metric in (("50.000000", "p50_us"), ("99.000000", "p99_us")):
            if share in percentiles:
                found.append((f"fio-{name}", metric, percentiles[share] / 1e3, "us", "lower"))
    return found


def measure(session, mount, deadline):
    """Each file of jobs once. A file that fio cannot do here (a job that needs what the mount has not) is a warning."""
    result = session.world.folder / "fio.json"
    for file in job_files():
        result.unlink(missing_ok=True)
        host.drop_caches(1)
        status, out, err = run(["fio", "--output-format=json", "--output", result, file], deadline,
                               clean_environment(FIO_DIR=str(mount.mountpoint)), check=False, limit=JOB_LIMIT)
        try:
            if status != 0:
                raise ValueError(f"fio {file.name}: exit status {status}: {(err or out).strip()[-200:]}")
            text = result.read_text()
            for figure in figures_of(json.loads(text[text.index("{"):]), file.stem):  # notes may stand before the JSON
                session.add(*figure)
        except (ValueError, KeyError, OSError) as error:
            session.warnings.append(f"{session.peer}, {session.line.name()}, round {session.number + 1}: {error}")

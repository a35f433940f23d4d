"""What tierfs is compared with that has no mount."""

import time

from lib.process import run


def get_in_parallel(url, size, folder, deadline, parts=8):
    """`parts` ranged GETs at a time by one curl each, into files in `folder`; MB/s until the last one has ended."""
    folder.mkdir(parents=True, exist_ok=True)
    step = -(-size // parts)
    script = "\n".join(
        f"curl -sS -f -r {i * step}-{min(size, (i + 1) * step) - 1} -o '{folder}/{i}' '{url}' & p{i}=$!"
        for i in range(parts)) + "\nrc=0; " + " ".join(f"wait $p{i} || rc=1;" for i in range(parts)) + " exit $rc"
    start = time.monotonic()
    run(["bash", "-c", script], deadline)
    seconds = time.monotonic() - start
    got = sum(entry.stat().st_size for entry in folder.iterdir())
    if got != size:
        raise ValueError(f"curl fetched {got} of {size} bytes of {url}")
    for entry in folder.iterdir():
        entry.unlink()
    return size / 1e6 / seconds

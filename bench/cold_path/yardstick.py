"""What the server gives to parallel GETs by one curl: nothing between it and the network but libcurl."""

import time

from lib.process import Failure, run


def _get(entries, parallel, folder, deadline):
    """[(url, range or None)], so many at a time, thrown away; seconds."""
    script = folder / "gets.curl"
    text = "fail\n"
    for number, (url, part) in enumerate(entries):
        if part:  # of one URL alone
            text += ("next\nfail\n" if number else "") + f'range = "{part}"\n'
        text += f'url = "{url}"\noutput = "/dev/null"\n'
    script.write_text(text)
    began = time.monotonic()
    status, _, err = run(["curl", "--silent", "--show-error", "--no-progress-meter", "--parallel", "--parallel-immediate",
                          "--parallel-max", parallel, "--config", script], deadline, check=False)
    seconds = time.monotonic() - began
    if status != 0:
        raise Failure(f"parallel GETs by curl: exit status {status}: {err.strip()[-200:]}")
    return seconds


def seconds_of_gets(urls, parallel, folder, deadline):
    """Whole objects."""
    return _get([(url, None) for url in urls], parallel, folder, deadline)


def files_per_second(endpoint, bucket, names, parallel, folder, deadline):
    """Whole objects."""
    return len(names) / seconds_of_gets([f"{endpoint}/{bucket}/{name}" for name in names], parallel, folder, deadline)


def megabytes_per_second(url, size, part, parallel, folder, deadline):
    """Ranges of `part` bytes of the first `size` bytes."""
    ranges = [(url, f"{at}-{min(size, at + part) - 1}") for at in range(0, size, part)]
    return size / 1e6 / _get(ranges, parallel, folder, deadline)

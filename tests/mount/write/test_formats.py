"""Table formats on a writable bucket: 40 commits by programs on two mounts, eight at a time, of which none is lost. The formats
are of other registries than Debian's: TIERFS_TEST_FORMATS_PYTHON names a python3 that has deltalake, pylance and zarr."""

import concurrent.futures
import os
import pathlib

import pytest

from harness import processes

PYTHON = os.environ.get("TIERFS_TEST_FORMATS_PYTHON", "/usr/bin/python3")
WRITER = pathlib.Path(__file__).with_name("format_writer.py")
MODULES = {"delta": "deltalake", "lance": "lance", "zarr": "zarr"}
COMMITS, AT_ONCE, ROWS = 40, 8, 1000


@pytest.mark.parametrize("kind", MODULES)
def test_tables_of_two_hosts_lose_no_commit(rgw_bucket, mount, kind):
    if processes.run([PYTHON, "-c", f"import {MODULES[kind]}"]).returncode != 0:
        pytest.skip(f"{PYTHON} has no {MODULES[kind]} (TIERFS_TEST_FORMATS_PYTHON)")
    mounts = [mount(rgw_bucket.source(), rgw_bucket.options({"rw": None, "metadata.ttl": "1s"}), env=rgw_bucket.env)
              for _ in range(2)]

    def write(number):
        return processes.check([PYTHON, WRITER, kind, mounts[number % 2].path / "table", str(number)], timeout=300)

    write(-1)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(write, range(COMMITS)))
    for m in mounts:
        said = processes.check([PYTHON, WRITER, kind, m.path / "table", "-2"], timeout=300).out.split()
        found = {int(number): int(count) for number, count in (word.split(":") for word in said) if int(number) >= 0}
        assert found == {number: ROWS for number in range(COMMITS)}

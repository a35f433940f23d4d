"""Random operations on a bucket that is mounted writable, against models (tests/conformance/)."""

import importlib.machinery
import importlib.util
import re

import pytest

from harness import daemon, processes
from test_conformance import SEED, count, fsx, tree

LACKS = ("link", "mkfifo", "exchange", "folder_times", "long_paths")  # keys have 1,024 bytes at most


@pytest.fixture(params=["through", "back"])
def show(request, rgw_bucket, mount, folder):
    """show(**options): the bucket, mounted writable."""
    back = {"writes": "back", "journal.path": str(folder / "journal")} if request.param == "back" else {}

    def start(**options):
        return mount(rgw_bucket.source(), rgw_bucket.options({"rw": None, "metadata.ttl": "1h", **back, **options}),
                     env=rgw_bucket.env)
    return start


@pytest.mark.release
def test_files_against_a_model_in_memory(show, cache):
    m = show(**cache)
    operations = count(100_000, 400)

    def remount():
        m.umount()
        m.start()

    exerciser = fsx.Exerciser(m.path, SEED, remount=remount)
    try:
        exerciser.run(operations, pauses=0, remounts=max(1, operations // 5000))
    except (fsx.Mismatch, OSError) as problem:
        raise AssertionError("\n".join([f"seed {SEED}", *exerciser.last, str(problem)])) from problem
    finally:
        exerciser.close()
    status = m.status()
    assert status["writes"]["errors"] == 0 and status["reads"]["errors"] == 0


@pytest.mark.release
def test_tree_against_a_native_directory(show, folder):
    """The last comparison is by a mount that knows nothing of what the first one did: of what is at the bucket."""
    oracle = folder / "oracle"
    oracle.mkdir()
    m = show()
    walker = tree.Walker(m.path, oracle, SEED, LACKS)
    try:
        walker.run(count(100_000, 3000))
    except (tree.Different, OSError) as problem:
        raise AssertionError("\n".join([f"seed {SEED}", *walker.last, str(problem)])) from problem
    finally:
        walker.close()
    processes.check([daemon.BINARY, "flush", "--wait", m.path], timeout=120)
    m.umount()
    tree.Walker(show().path, oracle, SEED, LACKS).compare()


def test_known_failures_of_pjdfstest():
    """What tierfs-semantics(7) counts is what tests/conformance/pjdfstest expects; the tests themselves are not here."""
    path = daemon.REPOSITORY / "tests/conformance/pjdfstest"
    loader = importlib.machinery.SourceFileLoader("pjdfstest", str(path))
    pjdfstest = importlib.util.module_from_spec(importlib.util.spec_from_loader("pjdfstest", loader))
    loader.exec_module(pjdfstest)
    counts = {}
    for numbers in pjdfstest.known_failures("s3").values():
        for reason in numbers.values():
            counts[reason] = counts.get(reason, 0) + 1
    manual = (daemon.REPOSITORY / "man/tierfs-semantics.7").read_text(encoding="utf-8")
    section = manual[manual.index(".SH CONFORMANCE"):]
    assert sorted(map(int, re.findall(r"^([0-9]+) (?:need|look)", section, re.MULTILINE))) == sorted(counts.values())
    passing, every = map(int, re.search(r"([0-9]+) of its ([0-9]+) tests", section).groups())
    assert every - passing == sum(counts.values())

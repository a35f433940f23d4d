"""One who waits holds up nobody else: as many requests are under way as there are, whatever they wait for."""

import contextlib
import hashlib
import os
import random
import threading
from pathlib import Path

import pytest

from harness import data, faults, processes

MANY = 48


def done(act):
    """What the act returns, which must come without anybody's help."""
    got = []

    def run():
        try:
            got.append((True, act()))
        except BaseException as problem:  # pylint: disable=broad-exception-caught
            got.append((False, problem))
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(8 * processes.SLOWNESS)
    assert got, "it waits for others"
    good, result = got[0]
    if not good:
        raise result
    return result


@contextlib.contextmanager
def together(acts):
    """The acts, in threads of their own, which must have ended soon after the block."""
    threads = [threading.Thread(target=act, daemon=True) for act in acts]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(60 * processes.SLOWNESS)
        assert not thread.is_alive()


def quietly(act):
    def run():
        with contextlib.suppress(OSError):
            act()
    return run


def stalls(faulty, method, prefix):
    """Requests of that method whose key begins so are not answered before release()."""
    faulty.fault = lambda asked, key, number: "stall" if asked == method and key.startswith(prefix) else None

    def count():
        return sum(1 for seen, path, _ in list(faulty.seen) if seen == method and f"/bucket/{prefix}" in path)
    return count


def answer_again(faulty):
    faulty.fault = lambda method, key, number: None
    faulty.release()


def start(mount, faulty, **options):
    faulty.objects = {"known": b"known", "d/cold": b"cold", **{f"slow/{n}": b"slow" for n in range(MANY)}, "new/there": b"there"}
    m = mount("s3://bucket", {**faulty.options, "metadata.ttl": "1h", "origin.hedge": "0", **options}, env=faulty.env)
    assert (m.path / "known").read_bytes() == b"known"
    return m


class Writable(faults.FaultyS3):
    """Takes whole objects, too."""

    def object(self, request, key, fault):
        if request.command != "PUT":
            return super().object(request, key, fault)
        self.objects[key] = request.rfile.read(int(request.headers["Content-Length"]))
        return request.answer(200, b"", {"ETag": self.etag(key)})


@pytest.fixture
def writable(faulty):
    with Writable() as server:
        server.options, server.env = {**faulty.options, "s3.endpoint": server.endpoint}, faulty.env
        yield server


def test_closes_that_upload_slowly(mount, writable):
    m = start(mount, writable, rw=None)
    faulty, count = writable, stalls(writable, "PUT", "slow/")
    with together([quietly(lambda n=n: (m.path / f"slow/{n}").write_bytes(b"new")) for n in range(MANY)]):
        processes.wait_until(lambda: count() >= MANY, what="all of them are under way")
        assert done((m.path / "known").read_bytes) == b"known"
        assert done(lambda: sorted(os.listdir(m.path / "d"))) == ["cold"]
        assert done((m.path / "d/cold").read_bytes) == b"cold"
        done((m.path / "made").mkdir)
        done(lambda: (m.path / "made/file").write_bytes(b"1"))
        answer_again(faulty)


class SlowToList(faults.FaultyS3):
    """Does not list what begins with slow- before release()."""

    def list(self, request, bucket, query):
        if query.get("prefix", "").startswith("slow-"):
            self.released.wait()
        super().list(request, bucket, query)


def test_listings_that_are_not_answered(mount, faulty):
    with SlowToList() as server:
        server.options, server.env = {**faulty.options, "s3.endpoint": server.endpoint}, faulty.env
        m = start(mount, server, **{"memory.limit": "1G"})  # each may have a long answer
        server.objects.update({f"slow-{n}/one": b"" for n in range(MANY)})
        with together([quietly(lambda n=n: os.listdir(m.path / f"slow-{n}")) for n in range(MANY)]):
            processes.wait_until(lambda: sum("prefix=slow-" in path for _, path, _ in list(server.seen)) >= MANY,
                                 what="all of them are under way")
            assert done(lambda: os.stat(m.path / "new/there").st_size) == 5
            assert done((m.path / "d/cold").read_bytes) == b"cold"
            server.release()
        m.umount()


def test_reads_that_are_not_answered(mount, faulty):
    """Names have connections of their own."""
    m = start(mount, faulty, **{"origin.connections": str(MANY - 8)})
    os.listdir(m.path / "slow")
    count = stalls(faulty, "GET", "slow/")
    with together([quietly((m.path / f"slow/{n}").read_bytes) for n in range(MANY)]):
        processes.wait_until(lambda: count() >= MANY - 10, what="they are under way")
        assert done(lambda: os.stat(m.path / "new/there").st_size) == 5
        assert done(lambda: os.listdir(m.path / "d")) == ["cold"]
        answer_again(faulty)


def test_files_of_a_directory_that_are_not_answered(mount, faulty):
    """A directory, one part of which hangs in the kernel."""
    below = start(mount, faulty, **{"profile": "large"})
    names = [f"slow/{n}" for n in range(MANY)]
    m = mount(below.path, {"metadata.ttl": "1h"})
    for name in names:
        os.stat(m.path / name)
    count = stalls(faulty, "GET", "slow/")
    with together([quietly((m.path / name).read_bytes) for name in names]):
        processes.wait_until(lambda: count() >= MANY // 2, what="they are under way")
        assert done((m.path / "d/cold").read_bytes) == b"cold"
        assert done(lambda: os.stat(m.path / "new/there").st_size) == 5
        answer_again(faulty)


@pytest.mark.test_points
@pytest.mark.tsan
def test_threads_come_while_a_device_is_slow_and_go_again(mount, origin, cache):
    files = data.make_files(origin, 300, 16_000)
    m = mount(origin, cache)
    data.expect_files(m.path, files)
    processes.wait_until(lambda: m.tier("nvme")["unwritten_bytes"] == 0, what="the tier has written")
    m.umount()
    m = mount(origin, {**cache, "ram.limit": "0"}, env={"TIERFS_TEST_FAULTS": "nvme.extent.read:1+:delay=40"})
    tasks = Path(f"/proc/{m.status()['pid']}/task")
    before, most, over = len(list(tasks.iterdir())), [0], threading.Event()

    def read(number):
        order = sorted(files)
        random.Random(number).shuffle(order)
        while not over.is_set():
            for name in order:
                data.expect_same(data.read_cold(m.path / name), files[name], name)
                if over.is_set():
                    return
    with together([lambda number=number: read(number) for number in range(MANY)]):
        def are_many():
            most[0] = max(most[0], len(list(tasks.iterdir())))
            return most[0] >= before + MANY // 2
        try:
            processes.wait_until(are_many, timeout=60, what="each reader has a thread")
        finally:
            over.set()

    def are_few():
        """Each goes after one more request."""
        data.expect_files(m.path, dict(list(files.items())[:20]))
        return len(list(tasks.iterdir())) <= before + 2
    processes.wait_until(are_few, timeout=60, what="they have gone")

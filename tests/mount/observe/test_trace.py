"""tierfs trace: who read what, from which tier; for programs, for people, and as a list for tierfs warm."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from harness import daemon, data, processes
from test_passthrough import fill, files as large, is_passed, on_xfs, passthrough  # noqa: F401  pylint: disable=unused-import

LIMIT = 30 * processes.SLOWNESS
SIZE = 5000


class Trace:
    """tierfs trace that runs until it is ended; it traces once this is made."""

    def __init__(self, m, *words):
        # It outlives the mount, and is none of its processes.
        self.errors = m.folder / f"trace{id(self)}.err"
        self.out = m.folder / f"trace{id(self)}.out"
        with open(self.out, "wb") as out, open(self.errors, "wb") as errors:
            self.process = subprocess.Popen([daemon.BINARY, "trace", str(m.path), *words], stdout=out, stderr=errors)
        processes.wait_until(lambda: "tracing" in self.errors.read_text() or self.process.poll() is not None,
                             what="tracing")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LIMIT)

    def end(self, signum=signal.SIGINT):
        """What it printed, in bytes."""
        self.process.send_signal(signum)
        assert self.process.wait(LIMIT) == 0, self.errors.read_text()
        return self.out.read_bytes()

    def events(self):
        return [json.loads(line) for line in self.end().splitlines()]


@pytest.fixture
def files(origin):
    return {name: data.write(origin / name, data.content(name, SIZE)) for name in ("b", "a", "folder/c")}


def read(m, files):
    for name, expected in files.items():
        data.expect_same(data.read_cold(m.path / name), expected, name)


def tiers(events):
    return {event["path"]: event["tier"] for event in events}


def ended(m):
    return "who traced reads has gone" in m.log.read_text()


def test_says_who_read_what_and_from_which_tier(origin, mount, cache, files):
    m = mount(origin, cache)
    with Trace(m, "--json") as trace:
        read(m, files)
        events = trace.events()
    assert [event["path"] for event in events] == list(files), events
    for event in events:
        assert event["event"] == "read" and event["pid"] == os.getpid() and event["uid"] == os.getuid(), event
        assert event["command"] == open("/proc/self/comm", encoding="ascii").read().strip(), event
        assert event["offset"] == 0 and event["length"] == SIZE and event["microseconds"] > 0, event
        assert "error" not in event and event["time"].endswith("Z"), event
    # Small files are fetched ahead of their readers; it is the origin all the same.
    assert set(tiers(events).values()) == {"origin"} and all(event["origin_bytes"] == SIZE for event in events), events
    with Trace(m, "--json") as trace:
        read(m, files)
        assert set(tiers(trace.events()).values()) == {"ram"}
    processes.wait_until(lambda: m.status()["tiers"][1]["used_bytes"] >= 3 * SIZE, what="on NVMe")
    m.umount()
    m.start()
    with Trace(m, "--json") as trace:
        read(m, files)
        events = trace.events()
    assert set(tiers(events).values()) <= {"nvme", "ram"} and "nvme" in tiers(events).values(), events


def test_a_read_that_fails(origin, mount, files):
    m = mount(origin, {"metadata.ttl": "1h"})
    assert (m.path / "a").stat().st_size == SIZE
    (origin / "a").unlink()
    with Trace(m, "--json") as trace:
        with pytest.raises(OSError):
            data.read_cold(m.path / "a")
        events = trace.events()
    assert events and events[0]["tier"] == "error" and events[0]["error"] and events[0]["length"] == 0, events


def test_columns_for_people_in_a_file(origin, mount, folder, files):
    (origin / "new\nline").write_bytes(b"x" * 10)
    m = mount(origin)
    with Trace(m, "-o", str(folder / "found")) as trace:
        read(m, {**files, "new\nline": b"x" * 10})
        assert trace.end(signal.SIGTERM) == b""
    lines = (folder / "found").read_text().splitlines()
    assert lines[0].split() == ["TIME", "PID", "COMMAND", "UID", "TIER", "OFFSET", "LENGTH", "MICROS", "PATH"]
    column = lines[0].index("PATH")
    assert [line[column:] for line in lines[1:]] == [*files, "new\\nline"], lines
    assert all(re.match(r"\d\d:\d\d:\d\d\.\d{6} +\d+ \S", line) for line in lines[1:]), lines


def test_a_list_in_order_warms_the_mount(origin, mount, folder, files):
    odd = os.fsdecode(b"caf\xe9")
    (origin / odd).write_bytes(b"x" * SIZE)
    m = mount(origin)
    with Trace(m, "--order", "-o", str(folder / "list")) as trace:
        read(m, files)
        read(m, files)
        assert data.read_cold(m.path / odd) == b"x" * SIZE
        trace.end()
    expected = b"".join(os.fsencode(m.path / name) + b"\n" for name in [*files, odd])
    assert (folder / "list").read_bytes() == expected
    m.umount()
    m.start()
    done = processes.check([daemon.BINARY, "warm", "-f", folder / "list", "--wait", "--json"], env=m.env)
    assert json.loads(done.out)["files"] == 4 and json.loads(done.out)["failed"] == 0, done


def test_ends_after_so_many_lines_or_so_long(origin, mount, files):
    m = mount(origin)
    with Trace(m, "--json", "--limit", "2") as trace:
        read(m, files)
        assert trace.process.wait(LIMIT) == 0
        assert [json.loads(line)["path"] for line in trace.out.read_bytes().splitlines()] == ["b", "a"]
    with Trace(m, "--json", "--seconds", "0.2") as trace:
        assert trace.process.wait(LIMIT) == 0
    assert not ended(m), "they said so when they went"


def test_a_client_that_is_killed_is_forgotten(origin, mount, files):
    m = mount(origin)
    with Trace(m) as trace:
        trace.process.kill()
        trace.process.wait(LIMIT)
    processes.wait_until(lambda: ended(m), timeout=40, what="nobody traces")
    read(m, files)


def test_several_trace_each_for_itself(origin, mount, files):
    m = mount(origin)
    names = list(files)
    with Trace(m, "--json") as one, Trace(m, "--json") as two, Trace(m, "--json") as three, Trace(m, "--json") as four:
        read(m, {names[0]: files[names[0]]})
        fifth = processes.run([daemon.BINARY, "trace", m.path], env=m.env)
        assert fifth.returncode == 1 and "4 trace this mount already" in fifth.err, fifth
        assert [event["path"] for event in one.events()] == names[:1]
        read(m, {names[1]: files[names[1]]})
        for trace in (two, three, four):
            assert [event["path"] for event in trace.events()] == names[:2]


def test_goes_on_with_the_next_daemon(origin, mount, files):
    m = mount(origin)
    with Trace(m, "--json") as trace:
        read(m, files)
        processes.wait_until(lambda: len(trace.out.read_bytes().splitlines()) == 3, what="three reads")
        m.take_over()
        processes.wait_until(lambda: "another daemon" in trace.errors.read_text(), what="begun again")
        read(m, files)
        assert [event["path"] for event in trace.events()] == 2 * list(files)


def test_the_mount_ends(origin, mount, files):
    m = mount(origin)
    with Trace(m) as trace:
        m.umount()
        assert trace.process.wait(2 * LIMIT) == 1


def test_a_reader_of_the_trace_that_goes(origin, mount, files):
    m = mount(origin)
    command = [daemon.BINARY, "trace", str(m.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as trace:
        trace.stdout.readline()
        trace.stdout.close()
        read(m, files)
        assert trace.wait(LIMIT) == 1


def test_files_that_the_kernel_reads(origin, mount, large, on_xfs):  # noqa: F811
    m = mount(origin, on_xfs)
    fill(m, large)
    with Trace(m, "--json") as trace:
        data.expect_same((m.path / "large1").read_bytes(), large["large1"], "large1")
        events = trace.events()
    assert [(event["event"], event["path"], event["length"]) for event in events] == [
        ("passthrough", "large1", len(large["large1"]))], events
    assert events[0]["pid"] == os.getpid() and events[0]["tier"] == "nvme"
    with Trace(m) as trace:
        assert is_passed(m, "large1")
        assert " kernel " in trace.end().decode()


def test_a_writable_mount(origin, mount, cache, files):
    m = mount(origin, {**cache, "ro": "false", "metadata.ttl": "1h", "writes.passthrough": "false"})
    # What has just changed is not taken into the tiers.
    processes.wait_until(lambda: all(time.time() - os.stat(origin / name).st_ctime > 1.5 for name in files), what="settled")
    with Trace(m, "--json") as trace:
        read(m, files)
        with open(m.path / "new", "w+b") as file:
            file.write(b"x" * SIZE)
            file.flush()
            (m.path / "new").rename(m.path / "folder/renamed")
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.seek(0)
            assert file.read() == b"x" * SIZE
        events = trace.events()
    assert {event["path"] for event in events} == {*files, "folder/renamed"}, events
    for event in events:
        assert event["event"] == "read" and event["pid"] == os.getpid() and event["length"] == SIZE, event
        assert event["tier"] in ("origin", "ram", "nvme"), event
    assert tiers(events)["folder/renamed"] == "origin", "what is being written comes from the file itself"
    with Trace(m, "--json") as trace:
        read(m, files)
        assert "origin" not in tiers(trace.events()).values()


def test_who_may_not_ask_and_what_cannot_be_traced(origin, mount, folder, files):
    m = mount(origin, {"allow_other": None})
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    other = processes.run([*as_nobody, daemon.BINARY, "trace", m.path, "--seconds", "1"])
    assert other.returncode != 0 and "tracing" not in other.err, other
    assert processes.run([daemon.BINARY, "trace", folder], env=m.env).returncode == 1
    for wrong in ([], [m.path, "--seconds", "0"], [m.path, "--limit", "0"], [m.path, "--json", "--order"]):
        assert processes.run([daemon.BINARY, "trace", *wrong], env=m.env).returncode == 2, wrong
    nowhere = processes.run([daemon.BINARY, "trace", m.path, "-o", folder / "no" / "where"], env=m.env)
    assert nowhere.returncode == 1 and "No such file" in nowhere.err, nowhere

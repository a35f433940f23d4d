"""Killed at any moment, `tierfs-stage in` goes on where it was."""

import os
import random
import signal
import time

import pytest

import shape
from conftest import FULL, SLOWNESS, content
from harness import data, processes

KILLS = int(os.environ.get("TIERFS_TEST_KILLS", "100" if FULL else "5"))
CHUNK = 16 << 20
PIECE = 4 << 20


def make_source(source):
    files = {f"small/{number % 7}/f{number}": content(number, 3000 + number) for number in range(150)}
    files |= {f"large{number}": content(f"l{number}", (24 << 20) + number * 999) for number in range(3)}
    for path, body in files.items():
        data.write(source / path, body)
    return files


def no_half_files(dest, files):
    """What has a final name is whole."""
    for path, size in shape.files_of(dest).items():
        assert size == len(files[path]), path
        assert shape.read_direct(dest / path) == files[path], path


def test_killed_at_random_points(stage, source, xfs):
    files = make_source(source)
    chance = random.Random(os.environ.get("TIERFS_TEST_SEED", "1"))
    workers = 4
    killed, begun = 0, time.monotonic()
    words = ["in", source, xfs.path / "d", "--workers", workers, "--quiet"]
    stage(*words)
    length = time.monotonic() - begun
    evict(stage, xfs.path / "d")
    while killed < KILLS:
        process = stage.start(*words)
        time.sleep(chance.uniform(0, length))
        process.kill()
        process.wait()
        if process.returncode != -signal.SIGKILL:
            length *= 0.9
            evict(stage, xfs.path / "d")
            continue
        killed += 1
        if not (xfs.path / "d").exists():
            continue
        no_half_files(xfs.path / "d", files)
        if chance.random() < 0.5:  # else: killed once more before it is whole
            stage(*words)
            shape.expect_staged(xfs.path / "d", files)
            evict(stage, xfs.path / "d")
    stage(*words)
    shape.expect_staged(xfs.path / "d", files)
    assert not list((xfs.path / "d/.tierfs-stage/parts").rglob("*.part"))


def test_each_kill_repeats_at_most_a_chunk(stage, xfs, bucket):
    """Counted at the source, over random kills in a row until all is there."""
    files = {f"x{number}": content(f"x{number}", (20 << 20) + number) for number in range(3)}
    for name, body in files.items():
        bucket.put(name, body)
    size = sum(len(body) for body in files.values())
    bucket.server.control(rate_bps=20 << 20)  # else a run is over before it is killed
    chance = random.Random(os.environ.get("TIERFS_TEST_SEED", "2"))
    words = ["in", bucket.url, xfs.path, *bucket.options, "--workers", 1, "--quiet"]
    begun = time.monotonic()
    stage(*words)
    length = time.monotonic() - begun
    evict(stage, xfs.path)
    killed, in_a_row, before = 0, 0, bucket.server.control()["bytes"]
    while killed < KILLS:
        process = stage.start(*words)
        time.sleep(chance.uniform(0, length))
        process.kill()
        process.wait()
        if process.returncode == -signal.SIGKILL:
            killed += 1
            in_a_row += 1
            continue
        sent = bucket.server.control()["bytes"] - before
        # Beside the chunk: what lies in sockets and in the server's buffers then; beside the files: listings.
        assert sent <= size + (1 << 20) + in_a_row * (CHUNK + (8 << 20)), f"after {in_a_row} kills"
        shape.expect_staged(xfs.path, files)
        evict(stage, xfs.path)
        in_a_row, length, before = 0, length * 0.9, bucket.server.control()["bytes"]
    stage(*words)
    shape.expect_staged(xfs.path, files)


def evict(stage, folder):
    if (folder / ".tierfs-stage/manifest.jsonl").exists():
        stage("evict", folder)


def test_repeated_work_is_at_most_what_was_under_way(stage, source, xfs, bucket):
    """The source's own counter says how much was read twice."""
    size = 96 << 20
    body = content("x", size)
    bucket.put("x", body)
    bucket.server.control(rate_bps=40 << 20)
    workers = 2
    words = ["in", bucket.url, xfs.path, *bucket.options, "--workers", workers, "--json"]
    process = stage.start(*words)
    journal = xfs.path / ".tierfs-stage/journal.jsonl"
    processes.wait_until(lambda: journal.exists() and journal.read_text().count("offset") >= 6, 60 * SLOWNESS,
                         "some pieces in the journal")
    process.kill()
    process.wait()
    noted = journal.read_text().count("offset") * (4 << 20)
    bucket.server.control(rate_bps=0)
    before = bucket.server.control()["bytes"]
    done = stage(*words).event("done")
    again = bucket.server.control()["bytes"] - before
    assert done["bytes_reused"] == noted
    assert done["bytes_from_source"] == size - noted
    assert again <= size - noted + (1 << 20)
    # All that the first run had read but that was lost fits into the memory of its workers.
    assert before - noted <= workers * CHUNK + (8 << 20)
    shape.expect_staged(xfs.path, {"x": body})


def interrupted(stage, source, dest, size=48 << 20):
    """A file of this size, a piece of which is staged."""
    body = content("x", size)
    data.write(source / "x", body)
    env = {"TIERFS_TEST_FAULTS": "stage.write:6+:kill"}
    process = stage("in", source, dest, "--workers", 1, expect=None, env=env)
    assert process.status == -signal.SIGKILL, "a build with fault points?"
    return body


@pytest.mark.test_points
def test_a_damaged_piece_is_copied_again(stage, source, xfs):
    body = interrupted(stage, source, xfs.path)
    part = next((xfs.path / ".tierfs-stage/parts").rglob("*.part"))
    with open(part, "r+b") as handle:
        handle.seek(5 << 20)
        handle.write(b"damage")
    os.sync()
    done = stage("in", source, xfs.path, "--json").event("done")
    assert done["bytes_reused"] > 0
    assert done["bytes_from_source"] + done["bytes_reused"] == len(body)
    shape.expect_staged(xfs.path, {"x": body})


@pytest.mark.test_points
def test_the_source_changed_in_between(stage, source, xfs):
    interrupted(stage, source, xfs.path)
    body = data.write(source / "x", content("y", 48 << 20))
    found = stage("in", source, xfs.path, "--json")
    assert any("has changed at the source" in event["message"] for event in found.all("warning"))
    done = found.event("done")
    assert done["bytes_reused"] == 0 and done["bytes_from_source"] == len(body)
    shape.expect_staged(xfs.path, {"x": body})


def test_the_source_changes_while_it_is_copied(stage, source, xfs, bucket):
    bucket.put("x", content("old", 40 << 20))
    bucket.server.control(rate_bps=2 << 20)
    process = stage.start("in", bucket.url, xfs.path, *bucket.options, "--workers", 1, "--json", stdout=-1, stderr=-1)
    journal = xfs.path / ".tierfs-stage/journal.jsonl"
    processes.wait_until(lambda: journal.exists() and "offset" in journal.read_text(), 60 * SLOWNESS, "a piece")
    body = content("new", (40 << 20) + 1)
    bucket.put("x", body)
    bucket.server.control(rate_bps=0)
    out, err = process.communicate(timeout=100 * SLOWNESS)
    assert process.returncode == 0, out + err
    assert "the new version is copied whole" in out
    shape.expect_staged(xfs.path, {"x": body})


@pytest.mark.test_points
def test_killed_between_the_name_and_the_record(stage, source, xfs):
    files = {f"f{number}": data.write(source / f"f{number}", content(number, 5000)) for number in range(10)}
    done = stage("in", source, xfs.path, expect=None, env={"TIERFS_TEST_FAULTS": "stage.rename:6:kill"})
    assert done.status == -signal.SIGKILL
    assert len(shape.files_of(xfs.path)) == 5
    done = stage("in", source, xfs.path, "--json").event("done")
    assert done["bytes_from_source"] <= 5 * 5000  # what had its name was not copied again
    assert done["files_staged"] + done["files_kept"] == 10
    shape.expect_staged(xfs.path, files)


@pytest.mark.test_points
def test_killed_between_the_name_and_the_record_and_then_the_source_changed(stage, source, xfs):
    for number in range(10):
        data.write(source / f"f{number}", content(number, 5000))
    stage("in", source, xfs.path, expect=None, env={"TIERFS_TEST_FAULTS": "stage.rename:6:kill"})
    files = {f"f{number}": data.write(source / f"f{number}", content(f"n{number}", 6000)) for number in range(10)}
    stage("in", source, xfs.path)
    shape.expect_staged(xfs.path, files)


def state_of(process):
    """The letter of proc(5)."""
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


@pytest.mark.test_points
def test_a_signal_ends_it_in_order(stage, source, xfs):
    """It comes at the third write of one file of twelve, of which at most four are under way."""
    body = data.write(source / "x", content("x", 48 << 20))
    words = ["in", source, xfs.path, "--workers", 1, "--json"]
    process = stage.start(*words, stdout=-1, stderr=-1, env={"TIERFS_TEST_FAULTS": "stage.write:3:stop;dir.read:5+:delay=300"})
    processes.wait_until(lambda: state_of(process) == "T", 60 * SLOWNESS, "it has stopped within the file")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=100 * SLOWNESS)
    assert process.returncode == 1 and "the same command goes on" in err
    assert '"complete":false' in out and '"files_staged":0' in out
    assert shape.files_of(xfs.path) == {}
    done = stage(*words).event("done")
    assert 2 * PIECE <= done["bytes_reused"] < len(body)
    assert done["bytes_reused"] + done["bytes_from_source"] == len(body)
    shape.expect_staged(xfs.path, {"x": body})


@pytest.mark.test_points
def test_a_second_signal_ends_it_at_once(stage, source, xfs, folder):
    files = {"x": data.write(source / "x", content("x", 24 << 20))}
    done = folder / "faults"
    process = stage.start("in", source, xfs.path, env={"TIERFS_TEST_FAULTS": "stage.write:3:delay=600000",
                                                       "TIERFS_TEST_FAULT_LIST": str(done)})
    processes.wait_until(lambda: done.exists() and "fired stage.write" in done.read_text(), 60 * SLOWNESS, "it copies")
    for number in (signal.SIGTERM, signal.SIGINT):
        assert process.poll() is None
        process.send_signal(number)
        time.sleep(0.5)  # signals of one number that wait are one
    assert process.wait(10 * SLOWNESS) == 128 + signal.SIGINT
    assert shape.files_of(xfs.path) == {}
    stage("in", source, xfs.path)
    shape.expect_staged(xfs.path, files)

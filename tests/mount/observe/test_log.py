"""The log: as JSON, to the journal, and a file that is put aside or moved away while supervisor and daemon append to it."""

import datetime
import json
import os
import subprocess

import pytest

from harness import daemon, data, processes


def expect_files(origin, m):
    for number in range(8):
        assert (m.path / f"f{number}").read_bytes() == (origin / f"f{number}").read_bytes()


def fill(origin):
    for number in range(8):
        data.write(origin / f"f{number}", os.urandom(1000))


@pytest.mark.quick
def test_json_lines_of_supervisor_and_daemon(origin, mount):
    fill(origin)
    m = mount(origin, {"log.format": "json"})
    expect_files(origin, m)
    supervisor, first = m.status()["supervisor_pid"], m.status()["pid"]
    second = m.take_over()["pid"]
    m.umount()
    lines = [json.loads(line) for line in m.log.read_text().splitlines()]
    assert all(set(line) == {"time", "level", "pid", "message", "mountpoint", "source"} for line in lines), lines
    assert {line["mountpoint"] for line in lines} == {str(m.path)} and {line["source"] for line in lines} == {str(origin)}
    assert {supervisor, first, second} <= {line["pid"] for line in lines}
    for line in lines:
        assert line["level"] in ("debug", "info", "warning", "error") and line["time"].endswith("Z")
        when = datetime.datetime.strptime(line["time"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
        assert abs((datetime.datetime.now(datetime.timezone.utc) - when).total_seconds()) < 3600


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_journal_is_told_the_level_and_no_time(origin, mount, folder, form):
    fill(origin)
    m = mount.prepare(origin, {"log.format": form})
    del m.options["log.file"]
    m.path.mkdir()
    with open(folder / "journal", "ab") as journal:
        status = os.fstat(journal.fileno())
        m.env["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
        with subprocess.Popen([*m.command(), "-f"], env=m.env, stderr=journal) as process:
            processes.wait_until(m.mounted, what="mounted")
            m.device = daemon.mountinfo(m.path)["device"]
            expect_files(origin, m)
            m.wait_for_daemon()
            m.umount()
            assert process.wait(daemon.STOP_LIMIT * processes.SLOWNESS) == 0
    lines = (folder / "journal").read_text().splitlines()
    serving = [line for line in lines if f"serving {origin}" in line]
    assert len(serving) == 1, lines
    if form == "text":
        assert serving[0].startswith(f"<6>serving {origin}"), serving
        assert all(line[0] == "<" and line[2] == ">" for line in lines), lines
    else:
        assert serving[0].startswith("<6>{") and json.loads(serving[0][3:])["level"] == "info", serving


def test_a_stream_of_somebody_else_is_no_journal(origin, mount, folder):
    m = mount.prepare(origin, env={"JOURNAL_STREAM": "1:1"})
    del m.options["log.file"]
    m.path.mkdir()
    with open(folder / "err", "ab") as err, subprocess.Popen([*m.command(), "-f"], env=m.env, stderr=err) as process:
        processes.wait_until(m.mounted, what="mounted")
        m.device = daemon.mountinfo(m.path)["device"]
        m.wait_for_daemon()
        m.umount()
        assert process.wait(daemon.STOP_LIMIT * processes.SLOWNESS) == 0
    lines = (folder / "err").read_text().splitlines()
    assert any(" info " in line and line.startswith("20") for line in lines), lines


def test_a_full_file_is_put_aside(origin, mount):
    """Supervisor and daemon write it both; each line is in one of the two files, whole."""
    fill(origin)
    m = mount(origin, {"log.format": "json", "log.max_size": "4K", "restart.limit": "1000"})
    aside = m.log.with_name(m.log.name + ".1")
    for _ in range(60):
        if aside.exists():
            break
        m.take_over()
        assert (m.path / "f0").read_bytes()
    assert aside.exists() and aside.stat().st_size >= 4096
    m.take_over()
    m.umount()
    lines = [json.loads(line) for file in (aside, m.log) for line in file.read_text().splitlines()]
    assert "has ended" in m.log.read_text() and lines


def test_goes_on_in_a_new_file_when_its_own_is_moved_away(origin, mount):
    m = mount(origin)
    old = m.log.with_name("moved")
    os.rename(m.log, old)
    processes.wait_until(lambda: m.take_over() and m.log.exists(), what="a new file")
    m.umount()
    assert "has ended" in m.log.read_text() and "serving" in old.read_text()


def test_reload_takes_up_the_level(origin, mount, folder):
    configured = folder / "settings.yaml"
    configured.write_text("log.level: error\n")
    m = mount.prepare(origin, {"config": str(configured)})
    del m.options["log.level"]
    m.start()
    assert "serving" not in m.log.read_text()
    configured.write_text("log.level: info\n")
    done = processes.run([daemon.BINARY, "reload", m.path], env=m.env)
    assert done.returncode == 0, done
    processes.wait_until(lambda: f"serving {origin}" in m.log.read_text(), what="the daemon logs")
    configured.write_text("log.level: info\nlog.format: json\n")
    done = processes.run([daemon.BINARY, "reload", m.path], env=m.env)
    assert done.returncode == 1 and "log.format: found json; allowed: text" in done.err, done

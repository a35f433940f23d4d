"""The commands: mounting, refusing, status, unmounting, mount(8) and fstab, exit statuses."""

import json
import os
import re
import signal

import pytest

from harness import daemon, data, processes

pytestmark = pytest.mark.release

# The members that `tierfs status --json` promises; a list stands for any number of such elements.
NUMBER = (int, float)
STATUS = {
    "version": str, "pid": int, "supervisor_pid": (int, type(None)), "mountpoint": str, "source": str,
    "read_only": bool, "uptime_s": NUMBER,
    "supervisor": {"enabled": bool, "reason": str, "restarts": int, "mount_uptime_s": NUMBER},
    "profile": {"kind": str, "reason": str}, "transport": {"kind": str, "reason": str},
    "passthrough": {"enabled": bool, "reason": str, "opens": int, "open_files": int},
    "requests": {"under_way": int, "oldest_s": NUMBER, "over_deadline": int, "timed_out": int, "interrupted": int},
    "reads": {"requests": int, "bytes": int, "errors": int,
              "by_tier": {"ram": int, "nvme": int, "shared": int, "origin": int}},
    "writes": {"requests": int, "bytes": int, "errors": int, "dirty_bytes": int, "oldest_dirty_s": NUMBER,
               "queue": (dict, type(None)),
               "failures": int, "last_failure": str, "last_failure_age_s": NUMBER},
    "origin": {"requests": {"get": int, "head": int, "list": int, "put": int, "delete": int, "other": int},
               "bytes_read": int, "bytes_written": int, "retries": int, "throttled": int, "hedged": int, "hedges_won": int,
               "errors": int, "away_s": NUMBER, "away_why": str},
    "pack": (dict, type(None)),
    "tiers": [{"name": str, "limit_bytes": int, "used_bytes": int, "hits": int, "misses": int, "evicted_bytes": int,
               "written_bytes": int, "state": str}],
    "memory": {"limit_bytes": int, "used_bytes": int, "peak_bytes": int, "rss_bytes": int},
    "datasets": [{"match": str, "configured": str, "class": str, "reason": str, "frozen": bool, "objects": int,
                  "bytes": int, "decided_s": int, "renewals": int,
                  "evidence": {"visits": int, "new": int, "repeats": int, "short_gaps": int, "compared": int,
                               "ordered": int, "sequential": int, "items": int, "bytes": int},
                  "fill": {"done_bytes": int, "total_bytes": int}}],
    "fill": {"under_way": int, "window": int, "asked_files": int, "sent_files": int, "found_files": int, "quiet_us": int,
             "beside_us": int},
    "hidden_keys": [{"reason": str, "count": int}],
    "configuration": {"metadata.ttl": str, "log.file": str, "origin.deadline": str},
}


def mismatches(shape, value, where="status"):
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{where} is {value!r}"]
        return [wrong for name, inner in shape.items() for wrong in
                (mismatches(inner, value[name], f"{where}.{name}") if name in value else [f"{where}.{name} is missing"])]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{where} is {value!r}"]
        return [wrong for n, one in enumerate(value) for wrong in mismatches(shape[0], one, f"{where}[{n}]")]
    kinds = shape if isinstance(shape, tuple) else (shape,)
    fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
    return [] if fits else [f"{where} is {value!r}"]


def tierfs(*words, env=None):
    return processes.run([daemon.BINARY, *words], env=env)


@pytest.mark.quick
@pytest.mark.tsan
def test_mount_status_umount(origin, mount, cache):
    data.write(origin / "file", b"x" * 1000)
    m = mount(origin, cache)
    (m.path / "file").read_bytes()
    status = m.status()
    assert mismatches(STATUS, status) == []
    assert status["mountpoint"] == str(m.path) and status["source"].endswith(str(origin))
    assert status["read_only"] is True
    assert processes.alive(status["pid"])
    assert [tier["name"] for tier in status["tiers"]] == ["ram", "nvme"]
    assert status["tiers"][1]["devices"][0].keys() >= {"path", "state", "used_bytes", "limit_bytes"}
    assert status["memory"]["limit_bytes"] == 256 << 20
    assert status["reads"]["requests"] >= 1 and status["reads"]["bytes"] >= 1000
    assert re.match(r"\d+\.\d+\.\d+", status["version"])
    m.umount()
    assert tierfs("status", m.path, "--json").returncode == 1


def test_status_for_people(origin, mount):
    m = mount(origin)
    finished = processes.check([daemon.BINARY, "status", m.path], env=m.env)
    assert str(origin) in finished.out
    with pytest.raises(ValueError):
        json.loads(finished.out)


def test_status_of_what_is_no_mount(folder):
    finished = tierfs("status", folder)
    assert finished.returncode == 1 and str(folder) in finished.err
    finished = tierfs("umount", folder)
    assert finished.returncode == 1 and str(folder) in finished.err
    finished = tierfs("status", folder / "nowhere")
    assert finished.returncode == 1 and "does not exist" in finished.err


def test_version_and_help():
    assert re.search(r"\d+\.\d+\.\d+", processes.check([daemon.BINARY, "--version"]).out)
    text = processes.check([daemon.BINARY, "--help"]).out
    for word in ("memory.limit", "nvme.path", "s3.endpoint", "status", "umount"):
        assert word in text


@pytest.mark.parametrize("words", [
    [], ["/tmp"], ["--no-such-flag"], ["word"], ["umount"], ["status", "/a", "/b"], ["status", "--no"], ["warm"], ["trace"],
    ["pack", "/a", "/b", "--shard", "7/7"], ["pack", "/a", "/b", "--codec", "no"], ["doctor", "/a", "--seconds", "x"]])
def test_wrong_usage(words):
    finished = tierfs(*words)
    verb = "tierfs" if not words or len(words) == 1 and words[0] in ("/tmp", "--no-such-flag", "word") else f"tierfs {words[0]}"
    assert finished.returncode == 2 and finished.out == "", finished
    assert re.fullmatch(rf"tierfs: .+; `{verb} --help` shows how it is used\n", finished.err), finished


def test_of_an_option_that_is_given_twice_the_last_counts(origin, mount):
    m = mount.prepare(origin)
    m.path.mkdir()
    m.start([*m.command(), "-o", "memory.limit=200M,rw", "-o", "memory.limit=192M,ro"])
    status = m.status()
    assert status["memory"]["limit_bytes"] == 192 << 20 and status["read_only"] is True
    words = ["trace", m.path, "--json", "--seconds", "0.1", "-o", m.folder / "one", "-o", m.folder / "two", "--seconds", "0.2"]
    processes.check([daemon.BINARY, *words], env=m.env)
    assert (m.folder / "two").exists() and not (m.folder / "one").exists()


def test_status_of_a_path_inside(origin, mount):
    data.write(origin / "sub/file", b"x")
    m = mount(origin)
    (m.folder / "link").symlink_to(m.path / "sub")
    for path in (m.path / "sub/file", m.path / "sub", m.path / "absent", m.folder / "link"):
        status = json.loads(processes.check([daemon.BINARY, "status", path, "--json"], env=m.env).out)
        assert status["mountpoint"] == str(m.path)


def test_status_alone_lists_all_mounts(origin, mount):
    first, second = mount(origin), mount(origin, {"rw": None})
    lines = processes.check([daemon.BINARY, "status"], env=first.env).out.splitlines()
    assert f"{first.path}  {origin}  read-only  serves" in lines and f"{second.path}  {origin}  writable  serves" in lines
    listed = {one["mountpoint"]: one for one in json.loads(processes.check([daemon.BINARY, "status", "--json"], env=first.env).out)}
    assert listed[str(second.path)] == {"mountpoint": str(second.path), "source": str(origin), "read_only": False, "serves": True,
                                        "error": ""}
    first.umount()
    second.umount()
    script = 'umount -a -l -t fuse.tierfs; exec "$@"'
    bare = processes.check(["unshare", "--mount", "sh", "-c", script, "sh", daemon.BINARY, "status"])
    assert bare.out == "nothing is mounted by tierfs\n"


@pytest.mark.parametrize("options,word", [
    ({"no.such.key": "1"}, "no.such.key"),
    ({"memory.limt": "1G"}, "memory.limt"),
    ({"memory.limit": "lots"}, "memory.limit"),
    ({"memory.limit": "1GB"}, "write 1G for powers of 1024"),
    ({"metadata.ttl": "10"}, "write 10s, 10m or 10h"),
    ({"metadata.ttl": "5 parsecs"}, "metadata.ttl"),
    ({"profile": "medium"}, "profile"),
    ({"rw": None, "profile": "small"}, "profile"),
])
def test_wrong_options(origin, mount, options, word):
    m = mount.prepare(origin, options)
    finished = m.attempt()
    assert finished.returncode == 2, finished
    assert word in finished.err
    assert not m.mounted()


def test_mount_point_is_absent(origin, mount, folder):
    finished = tierfs(origin, folder / "absent", "-o", f"log.file={folder / 'log'}")
    assert finished.returncode == 1 and str(folder / "absent") in finished.err, finished


def test_mount_point_is_a_file(origin, folder):
    data.write(folder / "file", b"x")
    finished = tierfs(origin, folder / "file", "-o", f"log.file={folder / 'log'}")
    assert finished.returncode == 1 and "director" in finished.err and str(folder / "file") in finished.err, finished


def test_mount_point_is_not_empty(origin, mount, folder):
    """Either it is refused by name, or what is below is merely hidden; never changed."""
    data.write(folder / "busy/file", b"x")
    m = mount.prepare(origin, mountpoint=folder / "busy")
    finished = m.attempt()
    if finished.returncode == 0:
        assert os.listdir(folder / "busy") == []
        m.device = daemon.mountinfo(m.path)["device"]
        m.umount()
    else:
        assert finished.returncode == 1 and "empty" in finished.err, finished
    assert (folder / "busy/file").read_bytes() == b"x"


def test_source_is_absent(mount, folder):
    said = mount.prepare(folder / "absent").refuse()
    assert str(folder / "absent").lower() in said


def test_source_is_a_file(mount, folder):
    data.write(folder / "file", b"x")
    said = mount.prepare(folder / "file").refuse()
    assert "director" in said


@pytest.mark.parametrize("source", ["gopher://host/x", "s3://", "relative/path"])
def test_source_is_nonsense(mount, source):
    m = mount.prepare(source)
    finished = m.attempt()
    assert finished.returncode in (1, 2) and finished.err.strip(), finished
    assert not m.mounted()


def test_mounted_twice_at_one_place(origin, mount):
    data.write(origin / "file", b"x")
    first = mount(origin)
    finished = first.attempt()
    assert finished.returncode == 1 and str(first.path) in finished.err, finished
    assert (first.path / "file").read_bytes() == b"x"


def test_file_url(origin, mount):
    data.write(origin / "file", b"x")
    m = mount(f"file://{origin}")
    assert (m.path / "file").read_bytes() == b"x"


def test_relative_mount_point(origin, mount):
    data.write(origin / "file", b"x")
    m = mount.prepare(origin)
    m.path.mkdir()
    command = m.command()
    command[2] = m.path.name
    processes.check(command, env=m.env, cwd=m.path.parent)
    m.device = daemon.mountinfo(m.path)["device"]
    assert m.status()["mountpoint"] == str(m.path)


def test_configuration_file(origin, mount, folder):
    data.write(folder / "tierfs.yaml", b"memory:\n  limit: 128M\nmetadata:\n  ttl: 7s\n")
    m = mount.prepare(origin)
    m.options = {"config": str(folder / "tierfs.yaml"), "log.file": str(m.log)}
    m.start()
    assert m.status()["memory"]["limit_bytes"] == 128 << 20
    data.write(folder / "bad.yaml", b"memory:\n  limit: 128M\n  nonsense: 1\n")
    finished = tierfs("config", "--check", folder / "bad.yaml")
    assert finished.returncode in (1, 2) and "nonsense" in finished.err and "bad.yaml" in finished.err
    processes.check([daemon.BINARY, "config", "--check", folder / "tierfs.yaml"])


def test_defaults_are_a_valid_file(folder):
    text = processes.check([daemon.BINARY, "config", "--defaults"]).out
    data.write(folder / "defaults.yaml", text.encode())
    processes.check([daemon.BINARY, "config", "--check", folder / "defaults.yaml"])


def test_umount_while_busy(origin, mount):
    data.write(origin / "file", b"x" * 100)
    m = mount(origin)
    with open(m.path / "file", "rb"):
        finished = processes.run([daemon.BINARY, "umount", m.path], env=m.env)
        if finished.returncode:
            assert finished.returncode == 1 and ("busy" in finished.err.lower() or "use" in finished.err.lower())
            assert (m.path / "file").read_bytes() == b"x" * 100


@pytest.mark.quick
def test_plain_umount(origin, mount):
    m = mount(origin)
    processes.check(["umount", m.path], suspects=m.processes)
    m.expect_gone()


@pytest.mark.tsan
def test_sigterm_unmounts(origin, mount):
    data.write(origin / "file", b"x")
    m = mount(origin)
    assert (m.path / "file").read_bytes() == b"x"
    m.terminate()
    processes.wait_until(lambda: not m.mounted(), what="unmounted after SIGTERM")
    m.expect_gone()


@pytest.mark.quick
def test_foreground(origin, mount):
    data.write(origin / "file", b"x")
    m = mount.prepare(origin)
    m.path.mkdir()
    with open(m.folder / "output", "wb") as output:
        process = processes.subprocess.Popen(m.command() + ["-f"], env=m.env, stdin=processes.subprocess.DEVNULL,
                                             stdout=output, stderr=output)
    try:
        processes.wait_until(m.mounted, what="mounted in the foreground")
        processes.wait_until(lambda: (m.path / "file").exists(), what="the mount answers")
        m.device = daemon.mountinfo(m.path)["device"]
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(30 * processes.SLOWNESS) == 0
    finally:
        process.kill()
        process.wait()
    assert not m.mounted()
    m.expect_gone()


def test_mount_type(origin, mount, mount_helper):
    data.write(origin / "file", b"x")
    m = mount.prepare(origin)
    m.path.mkdir()
    m.start(["mount", "-t", "fuse.tierfs", origin, m.path, "-o",
             f"noatime,_netdev,memory.limit=256M,log.file={m.log}"])  # mount(8) adds rw by itself
    assert (m.path / "file").read_bytes() == b"x"
    processes.check(["umount", m.path], suspects=m.processes)
    m.expect_gone()


def test_fstab(origin, mount, mount_helper, folder):
    data.write(origin / "file", b"x")
    m = mount.prepare(origin)
    m.path.mkdir()
    data.write(folder / "fstab", f"{origin} {m.path} fuse.tierfs ro,noauto,_netdev,x-systemd.automount,"
                                 f"memory.limit=256M,log.file={m.log} 0 0\n".encode())
    m.start(["mount", "-T", folder / "fstab", m.path])
    assert m.status()["memory"]["limit_bytes"] == 256 << 20
    assert (m.path / "file").read_bytes() == b"x"
    m.umount()  # before the helper goes


def test_failure_through_mount(mount, folder, mount_helper):
    (folder / "mnt").mkdir()
    finished = processes.run(["mount", "-t", "fuse.tierfs", folder / "absent", folder / "mnt", "-o", "ro"])
    assert finished.returncode != 0 and str(folder / "absent") in finished.err
    assert daemon.mountinfo(folder / "mnt") is None


def test_umount_from_inside_does_not_count_itself(origin, mount):
    m = mount(origin)
    finished = processes.run([daemon.BINARY, "umount", "."], env=m.env, cwd=m.path)
    assert finished.returncode == 0 and not m.mounted(), finished
    m.expect_gone()


def test_settings_of_a_running_mount(origin, mount):
    m = mount(origin, {"metadata.ttl": "7 min", "prefetch.window": "8M"})
    lines = processes.check([daemon.BINARY, "status", "--settings", m.path], env=m.env).out.splitlines()
    assert "metadata.ttl: 7m" in lines and "prefetch.window: 8M" in lines and f"log.file: {m.log}" in lines, lines
    told = json.loads(processes.check([daemon.BINARY, "status", "--settings", "--json", m.path], env=m.env).out)
    assert told["metadata.ttl"] == "7m" and told["origin.deadline"] == "30s", told

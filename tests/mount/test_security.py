"""What tierfs-security(7) says of other local users, hostile buckets and secrets, where no other file tests it."""

import errno
import os
import re
import socket
import stat
import urllib.parse

import pytest

from harness import daemon, data, processes

pytestmark = pytest.mark.release

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
SECRETS = {"AWS_ACCESS_KEY_ID": "AKIAOFTHETEST", "AWS_SECRET_ACCESS_KEY": "the-secret-of-the-test",
           "AWS_SESSION_TOKEN": "the-token-of-the-test"}
HIDDEN = [SECRETS["AWS_SECRET_ACCESS_KEY"], SECRETS["AWS_SESSION_TOKEN"]]


def of_source(cache):
    """The folder of the one source in a cache."""
    made = [path for path in cache.iterdir() if path.is_dir()]
    assert len(made) == 1
    return made[0]


@pytest.mark.parametrize("trap", ["owned by another", "a link"])
def test_cache_that_somebody_else_has_prepared_is_refused(origin, mount, folder, trap):
    """Where everybody may make folders, the name of a source's cache can be guessed."""
    place = folder / "shared"
    place.mkdir()
    place.chmod(0o1777)
    options = {"nvme.path": str(place), "nvme.limit": "64M"}
    data.write(origin / "file", b"x")
    mount(origin, options).umount()
    cache = of_source(place)
    cache.rename(folder / "aside")
    if trap == "a link":
        (folder / "elsewhere").mkdir()
        cache.symlink_to(folder / "elsewhere")
    else:
        cache.mkdir()
        os.chown(cache, 65534, 65534)
    said = mount.prepare(origin, options).refuse()
    assert "another user" in said or "no directory" in said
    assert not (folder / "elsewhere").exists() or not list((folder / "elsewhere").iterdir())


def test_the_daemon_asks_who_asks(origin, mount):
    """Not only the mode of the socket keeps others out."""
    m = mount(origin)
    path = daemon.SOCKETS / f"{m.device}.sock"
    assert os.stat(path).st_mode & 0o777 == 0o600 and os.stat(path).st_uid == 0
    assert os.stat(path.parent).st_uid == 0 and os.stat(path.parent).st_mode & 0o022 == 0
    path.chmod(0o777)
    finished = processes.run([*NOBODY, daemon.BINARY, "umount", m.path])
    assert finished.returncode == 1 and m.mounted()
    status = processes.run([*NOBODY, daemon.BINARY, "status", m.path, "--json"])
    assert status.returncode == 1 and not status.out
    with socket.socket(socket.AF_UNIX) as root:
        root.connect(str(path))
        root.sendall(b'{"command": "status"}\n')
        assert b'"ok":true' in root.recv(100)
    processes.check([daemon.BINARY, "umount", m.path], env=m.env)
    path.unlink(missing_ok=True)  # a socket whose times have changed is not the daemon's any more


def test_secrets_are_where_they_were_and_nowhere_else(mount, faulty, cache):
    faulty.objects = {"open": b"x" * 5000, "closed": b"y" * 5000}
    faulty.fault = lambda method, key, number: (403, "AccessDenied") if key == "closed" and method == "GET" else None
    m = mount("s3://bucket", {**faulty.options, **cache}, env=SECRETS)
    assert (m.path / "open").read_bytes() == faulty.objects["open"]
    with pytest.raises(PermissionError):
        (m.path / "closed").read_bytes()
    assert any(SECRETS["AWS_SESSION_TOKEN"] in headers.values() for _, _, headers in faulty.seen), "they were in use"
    pids = m.processes()
    assert len(pids) >= 2
    shown = [m.log.read_text(), str(m.status()), open("/proc/self/mountinfo", encoding="utf-8").read()]
    shown += [open(f"/proc/{pid}/cmdline", encoding="utf-8").read() for pid in pids]
    for pid in pids:
        for name in ("environ", "mem", "maps"):
            assert processes.run([*NOBODY, "cat", f"/proc/{pid}/{name}"]).returncode != 0
    m.umount()
    shown += [path.read_bytes().decode("latin-1") for path in of_source(m.folder.parent / "cache").rglob("*") if path.is_file()]
    assert not [secret for secret in HIDDEN for text in shown if secret in text]


def test_refusals_of_a_mount_name_no_secret(mount, faulty, cache):
    faulty.fault = lambda method, key, number: (403, "SignatureDoesNotMatch")
    said = mount.prepare("s3://bucket", {**faulty.options, **cache}, env=SECRETS).refuse()
    assert not [secret for secret in HIDDEN if secret in said]


def test_names_of_a_bucket_cannot_write_to_a_terminal(mount, faulty):
    """Escape sequences in a key: whoever shows the log or a message of a command sees them as text."""
    key = "evil\x1b]0;owned\x07\r\nname"
    faulty.objects = {key: b"x" * 5000}
    faulty.fault = lambda method, name, number: (500, "InternalError") if name == key and method == "GET" else None
    m = mount("s3://bucket", {**faulty.options, "origin.deadline": "2s"}, env=faulty.env)
    with pytest.raises(OSError):
        (m.path / key).read_bytes()
    log = m.log.read_bytes()
    assert b"evil" in log and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", log)
    warmed = processes.run([daemon.BINARY, "warm", m.path / key, "--wait"], env=m.env)
    assert warmed.returncode == 1 and r"evil\x1b]0;owned\x07\x0d\nname" in warmed.err, warmed.err
    assert not re.search(r"[\x1b\x07]", warmed.out + warmed.err), repr(warmed.err)


def below(folder):
    """All that lies there, with what would show that somebody touched it."""
    return {path: (path.lstat().st_mode, path.lstat().st_uid, path.lstat().st_mtime_ns, path.lstat().st_ctime_ns)
            for path in folder.rglob("*")}


@pytest.mark.parametrize("way", ["ro", "rw"])
def test_a_hostile_bucket_makes_nobody_root_and_reaches_nothing_outside(mount, faulty, folder, way):
    """Whoever writes to the bucket chooses names, modes, owners and what a link says."""
    def metadata(mode, owner=0):
        return {"x-amz-meta-mode": str(mode), "x-amz-meta-uid": str(owner), "x-amz-meta-gid": str(owner)}
    data.write(folder / "outside/secret", b"nobody's business")
    with open("/usr/bin/id", "rb") as program:
        set_user_id = program.read()
    faulty.objects = {"id": set_user_id, "device": b"x", "socket": b"y", "odd": b"z", "link": str(folder / "outside").encode(),
                      "..": b"1", "../up": b"2", "../../outside/secret": b"3", "d/../../outside/new": b"4", "/abs": b"5",
                      "d/./same": b"6", "d//twice": b"7", "d/fine": b"8"}
    faulty.metadata = {"id": metadata(stat.S_IFREG | 0o6755), "device": metadata(stat.S_IFBLK | 0o666),
                       "socket": metadata(stat.S_IFSOCK | 0o777), "link": metadata(stat.S_IFLNK | 0o777),
                       "odd": {"x-amz-meta-mode": "-1", "x-amz-meta-uid": "4294967295", "x-amz-meta-mtime": "1e999"}}
    before = below(folder / "outside")
    m = mount("s3://bucket", {**faulty.options, way: None, "allow_other": None, "s3.file_mode": "0755"}, env=faulty.env)
    assert {"nosuid", "nodev"} <= set(daemon.mountinfo(m.path)["options"])
    assert sorted(os.listdir(m.path)) == ["d", "device", "id", "link", "odd", "socket"]
    assert os.listdir(m.path / "d") == ["fine"]
    for name in ("device", "socket", "odd"):
        assert stat.S_ISREG(os.lstat(m.path / name).st_mode), name
    if way == "rw":
        assert os.lstat(m.path / "id").st_mode & 0o7777 == 0o6755, "shown as it is, without effect"
        assert stat.S_ISLNK(os.lstat(m.path / "link").st_mode)
    assert processes.check([*NOBODY, m.path / "id", "-u"]).out.strip() == "65534"
    assert processes.check([*NOBODY, m.path / "id", "-g"]).out.strip() == "65534"
    for name in ("id", "d/fine", "odd"):
        data.expect_same(data.read_cold(m.path / name), faulty.objects[name], name)
    warmed = processes.run([daemon.BINARY, "warm", m.path, "--wait"], env=m.env)
    assert "outside" not in warmed.out + warmed.err, warmed
    m.umount()
    assert below(folder / "outside") == before
    assert (folder / "outside/secret").read_bytes() == b"nobody's business"
    asked = {urllib.parse.unquote(path.partition("?")[0]) for method, path, _ in faulty.seen if method in ("PUT", "DELETE")}
    assert not asked, "nothing was written, and nothing is"


def test_a_size_that_no_server_has_costs_nothing(mount, faulty):
    """A listing that says 8 EiB: no memory is taken for it, and its neighbours are served."""
    class Huge(bytes):
        def __len__(self):
            return (1 << 63) - 1
    faulty.objects = {"huge": Huge(b"x"), "small": b"y" * 5000}
    m = mount("s3://bucket", {**faulty.options, "origin.deadline": "2s"}, env=faulty.env)
    with pytest.raises(OSError) as error, open(m.path / "huge", "rb") as file:
        os.pread(file.fileno(), 4096, 1 << 62)
    assert error.value.errno in (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EINVAL, errno.EOVERFLOW)
    assert (m.path / "small").read_bytes() == faulty.objects["small"]
    memory = m.status()["memory"]
    assert memory["peak_bytes"] <= memory["limit_bytes"]

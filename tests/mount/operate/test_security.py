"""What tierfs-security(7) says of other local users, hostile buckets and secrets, where no other file tests it."""

import errno
import json
import os
import re
import socket
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

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
    ask = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b'{\"command\": \"status\"}\\n'); print(s.recv(9))"
    asked = processes.run([*NOBODY, sys.executable, "-c", ask, path])
    assert "ok" not in asked.out and ("b''" in asked.out or re.search("ConnectionReset|BrokenPipe", asked.err)), asked
    with socket.socket(socket.AF_UNIX) as root:
        root.connect(str(path))
        root.sendall(b'{"command": "status"}\n')
        assert b'"ok":true' in root.recv(100)
    processes.check([daemon.BINARY, "umount", m.path], env=m.env)
    path.unlink(missing_ok=True)  # a socket whose times have changed is not the daemon's any more


def test_who_may_not_command_a_mount_is_told_whose_it_is(origin, mount):
    data.write(origin / "file", b"x")
    m = mount(origin, {"allow_other": None})
    for verb, *words in (["status"], ["top", "--once"], ["doctor", "--seconds", "0.2"], ["trace", "--seconds", "1"], ["reload"],
                         ["umount"], ["class", "/**", "hot"], ["warm", "--wait"], ["evict"], ["pin"]):
        path = m.path / "file" if verb in ("warm", "evict", "pin") else m.path
        told = processes.run([*NOBODY, daemon.BINARY, verb, path, *words], env=m.env)
        assert told.returncode == 1 and not told.out and told.err.count("\n") == 1, told
        assert f"{m.path} was mounted by root" in told.err and "sudo" in told.err, told
    assert m.mounted() and m.status()["datasets"][0]["configured"] == "auto"


OF_NOBODY = Path("/tmp/tierfs-65534")  # where a user's sockets lie who has no XDG_RUNTIME_DIR
LIAR = """
import os, socket, sys
os.makedirs(os.path.dirname(sys.argv[1]))
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
while True:
    client = listener.accept()[0]
    got = client.recv(100)
    if got:
        print("got", got, flush=True)
        client.sendall(b'{"ok": true, "result": {"pid": 1, "lie": true}}\\n')
"""


@pytest.fixture(name="of_nobody")
def mount_of_nobody(origin, mount, fuse_for_all):
    """of_nobody(runtime): a mount by another user than root, with that XDG_RUNTIME_DIR."""
    if not shutil.which("fusermount3"):
        pytest.skip("fusermount3 (Debian's fuse3) is not installed")
    shutil.rmtree(OF_NOBODY, ignore_errors=True)
    data.make_files(origin, 10, 3000)

    def start(runtime):
        m = mount.prepare(origin, env={"XDG_RUNTIME_DIR": str(runtime or "")})
        m.path.mkdir()
        for path in (m.folder, m.path, *([runtime] if runtime else [])):
            path.mkdir(mode=0o700, exist_ok=True)
            os.chown(path, 65534, 65534)
        return m.start([*NOBODY, *m.command()])
    yield start
    shutil.rmtree(OF_NOBODY, ignore_errors=True)


@pytest.fixture
def short_folder(root):
    """A folder whose path leaves room for the name of a socket (unix(7): 108 bytes)."""
    return Path(tempfile.mkdtemp(prefix="run-", dir=root))


@pytest.mark.parametrize("place", ["default", "runtime"])
def test_root_commands_the_mount_of_another_user(of_nobody, short_folder, place):
    m = of_nobody(short_folder if place == "runtime" else None)
    assert daemon.mountinfo(m.path)["super_options"].count("user_id=65534") == 1
    env = {**m.env, "XDG_RUNTIME_DIR": "/run/user/0"}

    def root(verb, *words):
        return processes.check([daemon.BINARY, verb, *words], env=env, suspects=m.processes).out
    assert json.loads(root("status", m.path, "--json"))["mountpoint"] == str(m.path)
    assert "10 files" in root("warm", m.path, "--wait")
    root("class", m.path, "/**", "hot")
    assert json.loads(root("doctor", m.path, "--seconds", "0.2", "--json"))
    assert root("top", m.path, "--once")
    assert root("trace", m.path, "--seconds", "0.3")
    assert json.loads(root("status", m.path, "--json"))["datasets"][0]["configured"] == "hot"
    third = processes.run(["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", daemon.BINARY, "status", m.path], env=m.env)
    assert third.returncode == 1 and f"{m.path} was mounted by nobody" in third.err, third
    root("umount", m.path)
    assert not m.mounted() and not m.processes()


@pytest.mark.parametrize("liar", [65533, 65534], ids=["third user", "no tierfs"])
def test_root_is_not_lured_to_another_socket(of_nobody, short_folder, liar):
    """Somebody, or another program of that user, listens where root looks first."""
    m = of_nobody(short_folder)
    with subprocess.Popen([sys.executable, "-c", LIAR, str(OF_NOBODY / f"{m.device}.sock")], user=liar, group=liar, extra_groups=[],
                          cwd="/", stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            status = processes.check([daemon.BINARY, "status", m.path, "--json"], env=m.env).out
            assert json.loads(status)["mountpoint"] == str(m.path) and "lie" not in status
        finally:
            process.kill()
        assert not process.stdout.read(), "nothing was said to it"


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


LIES = {"larger": lambda size: size + 1000, "smaller": lambda size: size - 1000, "far larger": lambda size: size * 1000}


@pytest.mark.parametrize("size", [5000, 20 << 20], ids=["small", "large"])
@pytest.mark.parametrize("lie", LIES)
def test_a_size_that_is_a_lie_ends_in_an_error(mount, faulty, cache, lie, size):
    """Listings and HEADs say another size than GETs give: no read and no warm-up takes for the file what is not the file."""
    body = data.content("liar", size)
    faulty.objects = {"liar": body, "honest": data.content("honest", 5000)}
    faulty.said_sizes = {"liar": LIES[lie](size)}
    m = mount("s3://bucket", {**faulty.options, **cache, "origin.deadline": "3s"}, env=faulty.env)
    for _ in range(2):  # the second time with what the first one may have left in the tiers
        with pytest.raises(OSError) as error, open(m.path / "liar", "rb", buffering=0) as file:
            at = 0
            while piece := file.read(1 << 20):
                data.expect_same(piece, body[at:at + len(piece)], "liar")
                at += len(piece)
        assert error.value.errno in (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
        warmed = processes.run([daemon.BINARY, "warm", m.path, "--wait"], env=m.env, suspects=m.processes)
        assert warmed.returncode == 1 and "liar" in warmed.err and "1 failed" in warmed.out, warmed
    assert sum(path.startswith("/bucket/liar") for _, path, _ in faulty.seen) < 100, "it is not asked again and again"
    data.expect_same((m.path / "honest").read_bytes(), faulty.objects["honest"], "honest")
    memory = m.status()["memory"]
    assert memory["peak_bytes"] <= memory["limit_bytes"]


def test_a_size_that_was_a_lie_is_found_out(mount, faulty):
    """Only the listing lies: who opens the file again after the error has it whole."""
    body = data.content("liar", 5000)
    faulty.objects = {"liar": body}
    faulty.said_sizes = {"liar": 4000}
    m = mount("s3://bucket", {**faulty.options, "origin.deadline": "3s", "metadata.ttl": "1s"}, env=faulty.env)
    os.listdir(m.path)
    faulty.said_sizes = {}

    def whole():
        try:
            return (m.path / "liar").read_bytes() == body
        except OSError:
            return False
    processes.wait_until(whole, what="the file as it is")


@pytest.mark.test_points
@pytest.mark.parametrize("part", ["parent", "itself"])
def test_mount_point_that_becomes_a_link_is_not_mounted_on(mount, origin, folder, part):
    """Whoever owns the directory around a mount point must not choose what root covers, or uncovers."""
    (folder / "theirs").mkdir()
    (folder / "elsewhere/mnt").mkdir(parents=True)
    (folder / "theirs/mnt").mkdir()
    m = mount.prepare(origin, mountpoint=folder / "theirs/mnt", env={"TIERFS_TEST_FAULTS": "fuse.device:1:delay=3000"})
    starting = threading.Thread(target=lambda: outcomes.append(m.attempt()))
    outcomes = []
    starting.start()
    time.sleep(1)
    if part == "parent":
        (folder / "theirs").rename(folder / "old")
        (folder / "theirs").symlink_to(folder / "elsewhere")
    else:
        (folder / "theirs/mnt").rmdir()
        (folder / "theirs/mnt").symlink_to(folder / "elsewhere/mnt")
    starting.join()
    assert outcomes[0].returncode == 1, outcomes
    # Nor for a moment: else the mount would be missed in its place, and taken away again.
    assert part == "itself" or "has become a symbolic link" in outcomes[0].err, outcomes
    assert daemon.mountinfo(folder / "elsewhere/mnt") is None
    assert not m.processes()


def test_mount_that_was_moved_under_a_link_is_not_unmounted_in_its_stead(mount, origin, folder):
    """Where the path of a mount leads elsewhere by now, another mount lies there."""
    for name in ("theirs", "elsewhere"):
        (folder / name / "mnt").mkdir(parents=True)
    first = mount.prepare(origin, mountpoint=folder / "theirs/mnt").start()
    second = mount.prepare(origin, mountpoint=folder / "elsewhere/mnt").start()
    (folder / "theirs").rename(folder / "old")
    (folder / "theirs").symlink_to(folder / "elsewhere")
    first.terminate()
    processes.wait_until(lambda: not first.processes(), what="the daemon ends")
    assert second.mounted()
    (folder / "theirs").unlink()
    (folder / "old").rename(folder / "theirs")
    if first.mounted():
        processes.check(["umount", "-l", first.path])


def test_wide_listings_take_bounded_memory(mount, faulty):
    """Dozens of readers list what a hostile server says: pages as long as it pleases, of tags that cost much more than their bytes."""
    page = b"<ListBucketResult><IsTruncated>false</IsTruncated>" + b"<a/>" * 4_000_000 + b"</ListBucketResult>"
    faulty.objects = {f"d{number}/f": b"x" for number in range(32)}
    m = mount("s3://bucket", {**faulty.options, "memory.limit": "96M", "metadata.ttl": "1h", "origin.deadline": "20s"}, env=faulty.env)
    os.listdir(m.path)
    before = processes.memory_of(m.status()["pid"])
    faulty.list = lambda request, bucket, query: request.answer(200, page, {"Content-Type": "application/xml"})
    outcomes = []

    def read(number):
        try:
            os.listdir(m.path / f"d{number}")
        except OSError as error:
            outcomes.append(error.errno)
    readers = [threading.Thread(target=read, args=(number,)) for number in range(32)]
    for reader in readers:
        reader.start()
    most = 0
    while any(reader.is_alive() for reader in readers):
        most = max(most, processes.memory_of(m.status()["pid"]))
        time.sleep(0.05)
    assert len(outcomes) == 32 and set(outcomes) <= {errno.EIO, errno.ETIMEDOUT, errno.E2BIG, errno.EFBIG}, outcomes
    assert (most - before) / 2**20 < 100 * processes.SLOWNESS, "2 GB before there was a bound"

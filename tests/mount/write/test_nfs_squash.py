"""Root mounts an export of a server that takes root for nobody, as most do: users write and read what is theirs."""

import errno
import os
import subprocess
import sys

import pytest

from harness import data, processes
from test_write import error_of

USER, GROUP = 1234, 4321


def by_user(script, cwd, uid=USER, gid=USER, groups=()):
    """Runs Python as a user of the server, in a folder of the mount."""
    done = subprocess.run([sys.executable, "-c", f"import os, stat\nos.chdir({str(cwd)!r})\n{script}"], check=False,
                          user=uid, group=gid, extra_groups=list(groups), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def squashed(exported, mount):  # pylint: disable=redefined-outer-name
    """What root mounts, of a server that takes root for nobody."""
    def start(options=None):
        os.chmod(exported.path, 0o1777)  # as /scratch is
        return mount.prepare(exported.server.url(exported.name, export="squashed"),
                             {"rw": None, "allow_other": None, "metadata.ttl": "1h", **(options or {})}).start()
    return start


def test_users_where_root_is_nobody(exported, squashed):
    """What a user writes is there, and is his, whatever modes keep others out."""
    m = squashed()
    by_user("""
os.umask(0o077)
with open('file', 'w') as file:
    file.write('mine')
assert open('file').read() == 'mine'
os.mkdir('folder')
with open('folder/inner', 'wb', 0) as file:
    for number in range(50):
        file.write(bytes([number]) * 50_000)
assert os.listdir('folder') == ['inner']
os.chmod('file', 0o400)
assert open('file').read() == 'mine'
os.utime('file', (1, 2))
os.truncate('folder/inner', 1_000_000)
os.link('file', 'linked')
os.symlink('file', 'symbolic')
assert open('symbolic').read() == 'mine'
os.rename('file', 'renamed')
os.rename('renamed', 'folder/moved')
os.unlink('linked')
os.mkdir('empty')
os.rmdir('empty')
with open('folder/inner', 'r+b', 0) as file:
    os.unlink('folder/inner')
    file.write(b'w')
    assert os.pread(file.fileno(), 2, 0) == b'w\\0'
""", m.path)
    assert sorted(os.listdir(exported.path)) == ["folder", "symbolic"]
    assert (exported.path / "folder/moved").read_bytes() == b"mine"
    seen = os.stat(exported.path / "folder/moved")
    assert (seen.st_uid, seen.st_gid, seen.st_mode & 0o7777, seen.st_mtime) == (USER, USER, 0o400, 2)
    processes.wait_until(lambda: os.listdir(exported.path / "folder") == ["moved"], what="the hidden name is gone")
    status = m.status()
    assert status["writes"]["errors"] == 0


def test_shell_of_a_user_where_root_is_nobody(exported, squashed):
    """A shell does not look at what close(2) says: bytes must be there when its write said so."""
    m = squashed()
    for number in range(20):
        by_user(f"assert os.system('echo {number} >file{number} && echo more >>file{number}') == 0", m.path)
    for number in range(20):
        assert (exported.path / f"file{number}").read_text() == f"{number}\nmore\n"


def test_groups_where_root_is_nobody(exported, squashed):
    """The kernel has checked that the user is in the group of a directory or a file; the server is told so."""
    (exported.path / "shared").mkdir()
    os.chown(exported.path / "shared", 0, GROUP)
    os.chmod(exported.path / "shared", 0o2770)
    data.write(exported.path / "shared/roots", b"before")
    os.chown(exported.path / "shared/roots", 0, GROUP)
    os.chmod(exported.path / "shared/roots", 0o660)
    m = squashed()
    by_user("""
assert open('shared/roots').read() == 'before'
open('shared/roots', 'w').write('after')
open('shared/made', 'w').write('x')
os.rename('shared/made', 'shared/renamed')
open('shared/again', 'w').write('y')
os.unlink('shared/again')
""", m.path, groups=[GROUP])
    assert (exported.path / "shared/roots").read_bytes() == b"after"
    assert sorted(os.listdir(exported.path / "shared")) == ["renamed", "roots"]
    seen = os.stat(exported.path / "shared/renamed")
    assert (seen.st_uid, seen.st_gid) == (USER, GROUP)


def test_write_that_a_server_takes_from_nobody(exported, squashed):
    """The first write says so, not only close(2), which shells do not listen to."""
    data.write(exported.path / "roots", b"before")
    os.chmod(exported.path / "roots", 0o600)
    m = squashed()
    file = os.open(m.path / "roots", os.O_WRONLY)
    try:
        assert error_of(os.write, file, b"lost") == errno.EACCES
    finally:
        os.close(file)
    assert (exported.path / "roots").read_bytes() == b"before" and m.status()["writes"]["errors"] > 0


def test_owners_read_what_nobody_may_where_root_is_nobody(exported, mount):
    """Of read-only mounts, too, through the tiers."""
    files = data.make_files(exported.path, 20, 3000)
    for folder, _, names in os.walk(exported.path):
        os.chown(folder, USER, USER)
        os.chmod(folder, 0o700)
        for name in names:
            os.chown(os.path.join(folder, name), USER, USER)
            os.chmod(os.path.join(folder, name), 0o600)
    m = mount.prepare(exported.server.url(exported.name, export="squashed"), {"allow_other": None}).start()
    name, content = next(iter(files.items()))
    by_user(f"assert len(open({name!r}, 'rb').read()) == {len(content)}", m.path)
    data.expect_files(m.path, files)

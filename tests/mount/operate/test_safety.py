"""What a daemon that runs as root must not let happen."""

import errno
import os
import shutil

import pytest

from harness import daemon, data, processes

pytestmark = pytest.mark.release

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def test_mount_flags(origin, mount):
    m = mount(origin)
    info = daemon.mountinfo(m.path)
    assert {"ro", "nosuid", "nodev"} <= set(info["options"])
    assert "allow_other" not in info["super_options"]


def test_others_are_kept_out(origin, mount):
    data.write(origin / "file", b"x")
    m = mount(origin)
    assert processes.run([*NOBODY, "cat", m.path / "file"]).returncode != 0


def test_allow_other_checks_permissions(origin, mount):
    data.write(origin / "open", b"for all")
    data.write(origin / "closed", b"for root")
    os.chmod(origin / "open", 0o644)
    os.chmod(origin / "closed", 0o600)
    data.write(origin / "private/file", b"x")
    os.chmod(origin / "private/file", 0o644)
    os.chmod(origin / "private", 0o700)
    m = mount(origin, {"allow_other": None})
    info = daemon.mountinfo(m.path)
    assert {"allow_other", "default_permissions"} <= set(info["super_options"])
    assert processes.check([*NOBODY, "cat", m.path / "open"]).out == "for all"
    for name in ("closed", "private/file"):
        (m.path / name).read_bytes()  # in the cache as root read it: still closed for others
        assert processes.run([*NOBODY, "cat", m.path / name]).returncode != 0


def test_set_user_id_does_nothing(origin, mount):
    shutil.copy("/usr/bin/id", origin / "id")
    os.chmod(origin / "id", 0o4755)
    m = mount(origin, {"allow_other": None})
    assert processes.check([*NOBODY, m.path / "id", "-u"]).out.strip() == "65534"


def test_symlink_that_appears_is_not_followed(origin, mount, folder):
    """A name that was a directory becomes a link to somewhere outside: the daemon, which is root, must not go there."""
    data.write(folder / "outside/secret", b"secret")
    data.write(folder / "outside/file", b"secret")
    data.write(origin / "d/file", b"inside")
    m = mount(origin, {"metadata.ttl": "1h"})
    assert os.path.isdir(m.path / "d")
    os.rename(origin / "d", origin / "elsewhere")
    (origin / "d").symlink_to(folder / "outside")
    for name in ("secret", "file"):
        try:
            found = (m.path / "d" / name).read_bytes()
        except OSError as error:
            assert error.errno in (errno.ENOENT, errno.ESTALE, errno.ELOOP, errno.EACCES, errno.EXDEV, errno.ENOTDIR)
        else:
            assert found == b"inside", "the daemon followed a link out of the source"


def test_last_part_replaced_by_a_symlink(origin, mount, folder):
    data.write(folder / "outside", b"s" * 6)
    data.write(origin / "file", b"inside")
    m = mount(origin, {"metadata.ttl": "1h"})
    assert (m.path / "file").stat().st_size == 6
    os.unlink(origin / "file")
    (origin / "file").symlink_to(folder / "outside")
    try:
        assert (m.path / "file").read_bytes() == b"inside"
    except OSError as error:
        assert error.errno in (errno.ENOENT, errno.ESTALE, errno.ELOOP, errno.EIO)


def test_links_are_shown_as_links(origin, mount):
    (origin / "up").symlink_to("../../../etc/hostname")
    (origin / "loop").symlink_to("loop")
    m = mount(origin)
    assert os.readlink(m.path / "up") == "../../../etc/hostname"
    with pytest.raises(OSError) as error:
        (m.path / "loop").read_bytes()
    assert error.value.errno == errno.ELOOP


def test_mount_point_inside_the_source(origin, mount):
    (origin / "mnt").mkdir()
    said = mount.prepare(origin, mountpoint=origin / "mnt").refuse()
    assert str(origin / "mnt").lower() in said


def test_mount_point_on_the_source(origin, mount):
    mount.prepare(origin, mountpoint=origin).refuse()


def test_mount_point_inside_the_source_through_a_link(origin, mount, folder):
    (origin / "mnt").mkdir()
    (folder / "link").symlink_to(origin / "mnt")
    m = mount.prepare(origin, mountpoint=folder / "link")
    m.refuse()


def test_cache_inside_the_source(origin, mount):
    said = mount.prepare(origin, {"nvme.path": str(origin / "cache")}).refuse()
    assert str(origin / "cache").lower() in said
    assert os.listdir(origin) in ([], ["cache"])


def test_source_inside_the_cache_is_not_touched(folder, mount):
    data.write(folder / "cache/data/file", b"mine")
    m = mount.prepare(folder / "cache/data", {"nvme.path": str(folder / "cache"), "nvme.limit": "1M"})
    finished = m.attempt()
    if finished.returncode == 0:
        (m.path / "file").read_bytes()
        m.device = daemon.mountinfo(m.path)["device"]
        m.umount()
    assert (folder / "cache/data/file").read_bytes() == b"mine"


def test_control_socket_is_private(origin, mount):
    m = mount(origin)
    assert processes.run([*NOBODY, daemon.BINARY, "status", m.path, "--json"]).returncode != 0
    assert processes.run([*NOBODY, daemon.BINARY, "umount", m.path]).returncode != 0
    assert m.mounted()

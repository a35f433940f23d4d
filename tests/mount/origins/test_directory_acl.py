"""Extended attributes and access control lists of a directory that is mounted read-only: shown, and the lists enforced by the
kernel, as in the directory itself."""

import errno
import os
import struct
import time

import pytest

from harness import daemon, data, processes

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to ask as several users")

OWNER, GROUP, NAMED, OTHER, MEMBER = 11111, 22222, 33333, 44444, 55555
USER_OBJ, USER, GROUP_OBJ, GROUP_TAG, MASK, OTHERS = 1, 2, 4, 8, 16, 32
NOBODY_IN_PARTICULAR = 0xFFFFFFFF
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"


def acl(*entries):
    """(tag, permissions, id): the value that acl(5) has in an extended attribute."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, permissions, who) for tag, permissions, who in entries)


def for_user(who, permissions=4, group=0, mask=6):
    return acl((USER_OBJ, 6, NOBODY_IN_PARTICULAR), (USER, permissions, who), (GROUP_OBJ, group, NOBODY_IN_PARTICULAR),
               (MASK, mask, NOBODY_IN_PARTICULAR), (OTHERS, 0, NOBODY_IN_PARTICULAR))


def read_as(user, path, group=None):
    """Empty: it could be read; else what cat said."""
    done = processes.run(["setpriv", f"--reuid={user}", f"--regid={group or user}", "--clear-groups", "cat", path])
    return done.err if done.returncode else ""


@pytest.fixture
def source(xfs):
    """A file of OWNER and GROUP that NAMED may read by a list, below a directory that has one."""
    path = xfs.path / "source"
    path.mkdir()
    data.write(path / "listed", b"listed")
    data.write(path / "plain", b"plain")
    for name in ("listed", "plain"):
        os.chown(path / name, OWNER, GROUP)
        os.chmod(path / name, 0o640)
    os.setxattr(path / "listed", ACCESS, for_user(NAMED))
    os.setxattr(path, DEFAULT, acl((USER_OBJ, 7, NOBODY_IN_PARTICULAR), (USER, 5, NAMED), (GROUP_OBJ, 5, NOBODY_IN_PARTICULAR),
                                   (MASK, 5, NOBODY_IN_PARTICULAR), (OTHERS, 5, NOBODY_IN_PARTICULAR)))
    return path


def expect_as_in(source, shown):
    """Who may read what, in the directory itself and on the mount."""
    for name in ("listed", "plain"):
        for user, group in ((OWNER, None), (NAMED, None), (OTHER, None), (MEMBER, GROUP)):
            native, found = (read_as(user, path / name, group) for path in (source, shown))
            assert bool(native) == bool(found), (name, user, native, found)
            assert not found or "Permission denied" in found, found


@pytest.mark.parametrize("how", ["fresh", "from the index", "another daemon", "reloaded"])
def test_lists_are_enforced(source, cache, mount, how):
    m = mount(source, {**cache, "allow_other": None})
    assert read_as(NAMED, source / "listed") == "" and read_as(NAMED, source / "plain") and read_as(MEMBER, source / "listed", GROUP)
    if how == "from the index":
        expect_as_in(source, m.path)
        m.umount()
        m = mount(source, {**cache, "allow_other": None})
    if how == "another daemon":
        m.take_over()
    if how == "reloaded":
        processes.check([daemon.BINARY, "reload", m.path], env=m.env, timeout=60)
    expect_as_in(source, m.path)
    assert os.getxattr(m.path / "listed", ACCESS) == os.getxattr(source / "listed", ACCESS)
    assert os.stat(m.path / "listed").st_mode == os.stat(source / "listed").st_mode, "with the mask, as in the directory"
    with pytest.raises(OSError) as caught:
        os.getxattr(m.path / "plain", ACCESS)
    assert caught.value.errno == errno.ENODATA
    assert DEFAULT in os.listxattr(m.path)


def test_directory_that_a_list_opens(source, mount):
    inner = source / "inner"
    inner.mkdir()
    os.removexattr(inner, DEFAULT)
    data.write(inner / "file", b"x")
    for path in (inner, inner / "file"):
        os.setxattr(path, ACCESS, for_user(NAMED, permissions=5, mask=7))
    os.chmod(inner / "file", 0o644)
    m = mount(source, {"allow_other": None})
    assert read_as(NAMED, m.path / "inner/file") == ""
    assert "Permission denied" in read_as(OTHER, m.path / "inner/file")


def test_change_of_a_list_is_seen(source, mount):
    m = mount(source, {"allow_other": None, "metadata.ttl": "1s"})
    assert read_as(NAMED, m.path / "listed") == ""
    os.setxattr(source / "listed", ACCESS, for_user(OTHER))
    processes.wait_until(lambda: read_as(NAMED, m.path / "listed") and not read_as(OTHER, m.path / "listed"), timeout=15,
                         what="the new list holds")
    os.removexattr(source / "listed", ACCESS)
    processes.wait_until(lambda: read_as(OTHER, m.path / "listed"), timeout=15, what="no list holds")


@pytest.mark.parametrize(("setting", "root_has_one", "checks"),
                         [("auto", True, True), ("auto", False, False), ("true", False, True), ("false", True, False)])
def test_setting(source, mount, setting, root_has_one, checks):
    if not root_has_one:
        os.removexattr(source, DEFAULT)
    m = mount(source, {"allow_other": None, "metadata.acl": setting})
    assert (read_as(NAMED, m.path / "listed") == "") == checks
    # Whoever checks the mode alone must not let the owning group in by the mask.
    assert "Permission denied" in read_as(MEMBER, m.path / "listed", GROUP)
    assert read_as(OWNER, m.path / "listed") == ""
    assert (ACCESS in os.listxattr(m.path / "listed")) == checks


def test_list_that_is_gone_does_not_let_the_group_in(source, mount):
    """The kernel has the mask for the group's permissions still."""
    m = mount(source, {"allow_other": None, "metadata.ttl": "1h"})
    assert os.stat(m.path / "listed").st_mode & 0o777 == 0o660
    os.removexattr(source / "listed", ACCESS)
    os.chmod(source / "listed", 0o600)
    for _ in range(3):
        assert read_as(MEMBER, m.path / "listed", GROUP)
    assert os.stat(m.path / "listed").st_mode & 0o777 == 0o600, "it was asked afresh"


def test_list_goes_on_while_nobody_can_be_asked(source, mount):
    m = mount(source, {"allow_other": None, "metadata.ttl": "1h"})
    assert read_as(NAMED, m.path / "listed") == ""
    before = m.status()["origin"]["requests"]
    for _ in range(5):
        assert read_as(NAMED, m.path / "listed") == ""
    after = m.status()["origin"]["requests"]
    assert after["other"] == before["other"], (before, after)


def test_attributes_are_shown(source, mount):
    os.setxattr(source / "plain", "user.comment", b"a\0b")
    os.setxattr(source / "plain", "user.large", b"x" * 30_000)
    os.setxattr(source / "plain", "trusted.secret", b"not shown")
    os.setxattr(source / "plain", "user.tierfs.tier", b"forged")
    m = mount(source)
    shown = m.path / "plain"
    assert sorted(os.listxattr(shown)) == ["user.comment", "user.large"]
    assert os.getxattr(shown, "user.comment") == b"a\0b" and os.getxattr(shown, "user.large") == b"x" * 30_000
    assert os.getxattr(shown, "user.tierfs.tier") != b"forged"
    for name in ("user.none", "trusted.secret", "security.selinux"):
        with pytest.raises(OSError) as caught:
            os.getxattr(shown, name)
        assert caught.value.errno == errno.ENODATA, name
    os.setxattr(source / "plain", "user.comment", b"other")
    assert os.getxattr(shown, "user.comment") == b"other", "asked of the directory each time"
    with pytest.raises(OSError) as caught:
        os.setxattr(shown, "user.comment", b"x")
    assert caught.value.errno == errno.EROFS


def test_files_without_a_list_ask_the_directory_nothing(source, mount):
    (source / "many").mkdir()
    os.removexattr(source / "many", DEFAULT)
    os.removexattr(source / "many", ACCESS)
    for number in range(200):
        data.write(source / f"many/f{number:03}", b"x")
    m = mount(source, {"allow_other": None})
    os.listdir(m.path / "many")
    before = m.status()["origin"]["requests"]
    done = processes.run(["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups", "sh", "-c", f"cat {m.path}/many/* | wc -c"])
    assert done.out.strip() == "200", done
    time.sleep(0.2)
    after = m.status()["origin"]["requests"]
    assert after["other"] - before["other"] <= 5, (before, after)

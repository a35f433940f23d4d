"""tierfs-stage run by root in a folder of a user, who has laid out links, FIFOs and second names for it: nothing outside the
folder is read or changed, and nothing waits."""

import os
import shutil

import pytest
from conftest import need_root
from harness import data

USER = 12345
BOOKS = ".tierfs-stage"
STATE = ".tierfs-stage-out"
SECRET = b"root's own"


@pytest.fixture
def home(xfs):
    """A user's folder."""
    need_root()
    path = xfs.path / "home"
    path.mkdir()
    os.chown(path, USER, USER)
    return path


@pytest.fixture
def roots(xfs):
    """A folder of root with a file, beside it: on the same file system, so that hard links reach it."""
    path = xfs.path / "roots"
    path.mkdir(mode=0o700)
    (path / "secret").write_bytes(SECRET)
    yield path
    assert sorted(os.listdir(path)) == ["secret"] and (path / "secret").read_bytes() == SECRET
    assert (path / "secret").stat().st_mode & 0o777 == 0o644


def users_link(target, path):
    os.symlink(target, path)
    os.lchown(path, USER, USER)


def lay(trap, path, roots):
    """Puts a trap in the place of a book; False: there is nothing to trap."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if trap == "fifo":
        os.mkfifo(path)
        os.chown(path, USER, USER)
    elif trap == "link":
        users_link(roots / "secret", path)
    elif trap == "dangling":
        users_link(roots / "made", path)
    elif trap == "second name":
        os.link(roots / "secret", path)


@pytest.mark.parametrize("trap", ["fifo", "link", "dangling", "second name"])
@pytest.mark.parametrize("book", ["manifest.jsonl", "journal.jsonl", "lock", "last-run.json", "last-used", "pin"])
def test_books_that_are_traps(stage, source, home, roots, book, trap):
    data.write(source / "a", b"1")
    dest = home / "dest"
    dest.mkdir()
    stage("in", source, dest)
    data.write(source / "b", b"2")
    for words in (("status", dest), ("verify", dest), ("verify", dest, "--full", "--remove-bad"), ("pin", dest),
                  ("in", source, dest), ("gc", home, "--free", "100%"), ("evict", dest, "--even-pinned")):
        if not (dest / BOOKS).exists():
            break
        lay(trap, dest / BOOKS / book, roots)
        found = stage(*words, expect=None, limit=20)
        assert SECRET.decode() not in found.out + found.err


@pytest.mark.parametrize("name", ["", "parts", "parts/3"])
def test_folders_of_books_that_are_links(stage, source, home, roots, name):
    for number in range(64):  # some in each folder of parts
        data.write(source / f"f{number:02}", b"1" * number)
    dest = home / "dest"
    dest.mkdir()
    stage("in", source, dest)
    data.write(source / "g", b"2")
    folder = dest / BOOKS / name
    for words in (("in", source, dest), ("status", dest), ("verify", dest), ("pin", dest), ("evict", dest)):
        if folder.is_symlink():
            folder.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.parent.exists():
            break
        users_link(roots, folder)
        stage(*words, expect=None, limit=20)


def test_a_destination_that_is_a_link(stage, source, home, roots):
    data.write(source / "a", b"1")
    users_link(roots, home / "dest")
    for words in (("in", source, home / "dest"), ("in", source, home / "dest/below"), ("out", home / "dest", home / "copy"),
                  ("in", source, home / "ok", "--farm", home / "dest/farm")):
        found = stage(*words, expect=1)
        assert "belongs to user 12345" in found.out + found.err, words
    assert not (home / "copy/secret").exists()
    own = home / "own"
    own.mkdir()
    os.chown(own, USER, USER)
    users_link(own, home / "link")
    stage("in", source, home / "link")
    assert (own / "a").read_bytes() == b"1"


@pytest.mark.parametrize("trap", ["fifo", "link", "dangling", "second name", "linked folder"])
def test_out_of_a_folder_with_traps(stage, home, roots, folder, trap):
    checkpoints = home / "checkpoints"
    data.write(checkpoints / "a", b"1")
    copy = folder / "copy"
    stage("out", checkpoints, copy)
    for book in os.listdir(checkpoints / STATE):
        data.write(checkpoints / "b", b"2")
        if trap == "linked folder":
            shutil.rmtree(checkpoints / STATE)
            users_link(roots, checkpoints / STATE)
        else:
            lay(trap, checkpoints / STATE / book, roots)
        for more in ((), ("--dry-run",)):
            found = stage("out", checkpoints, copy, *more, expect=None, limit=20)
            assert SECRET.decode() not in found.out + found.err
        if trap == "linked folder":
            assert "it is in the way: not a folder" in found.out + found.err
            break
        (checkpoints / STATE / book).unlink(missing_ok=True)
    assert not any(path.read_bytes() == SECRET for path in copy.rglob("*") if path.is_file())

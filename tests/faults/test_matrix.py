"""The matrix notices what it is there for: files in a plain folder stand in for a mount that serves something wrong."""

import os

import pytest
from matrix import cells, contents, faults, reader

ROW = faults.Row("a row", [], "bytes")


@pytest.fixture(name="root")
def make_root(tmp_path):
    for access in ("small", "stream", "list", "lookup"):
        for name, size in cells.files_of(ROW, access).items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(contents.whole(name, size))
    return tmp_path


def problem(access, root):
    result = cells.access_once(ROW, access, root)
    return cells.judge(ROW, access, result, cells.Result()), result


@pytest.mark.parametrize("access", ["small", "stream", "list", "lookup"])
def test_right_files_are_right(root, access):
    said, result = problem(access, root)
    assert said == "" and result.verified >= 1 and result.outcome() == "right bytes"


def change(path, act):
    path.write_bytes(act(path.read_bytes()))


@pytest.mark.parametrize("act", [
    lambda body: body[:-1] + bytes([body[-1] ^ 1]),  # a bit
    lambda body: body[:-1],  # too short
    lambda body: body + b"x",  # too long
    lambda body: contents.whole("another file", len(body)),
    lambda body: contents.whole("small", len(body), 1),  # another version
    lambda body: body[len(body) // 2:] + body[:len(body) // 2],  # blocks at wrong places
], ids=["bit", "short", "long", "file", "version", "swapped"])
@pytest.mark.parametrize("access", ["small", "stream"])
def test_wrong_bytes_are_noticed(root, access, act):
    change(root / list(cells.files_of(ROW, access))[0], act)
    said, result = problem(access, root)
    assert len(result.wrong) == 1 and said and result.outcome().startswith("WRONG")


def test_wrong_names_and_sizes_are_noticed(root):
    (root / list(cells.files_of(ROW, "list"))[0]).unlink()
    assert problem("list", root)[1].wrong
    change(root / list(cells.files_of(ROW, "lookup"))[0], lambda body: body[1:])
    assert problem("lookup", root)[1].wrong


def test_errors_are_judged_by_the_row(root):
    (root / list(cells.files_of(ROW, "small"))[0]).unlink()
    said, result = problem("small", root)
    assert result.errors == ["ENOENT"] and "ENOENT" in said
    failing = faults.Row("a row", [], ("ENOENT",), lasting=True)
    assert cells.judge(failing, "small", result, cells.Result()) == ""
    assert "no error" in cells.judge(failing, "small", cells.Result(verified=1), cells.Result())
    assert "right again" in cells.judge(failing, "small", result, cells.Result(errors=["not right again"]))
    assert "took" in cells.judge(ROW, "small", cells.Result(verified=1, seconds=1e6), cells.Result())


class Always:
    """A random.Random that chooses the first."""

    choice = staticmethod(lambda some: some[0])


def test_a_mixture_of_versions_is_noticed(tmp_path):
    name = list(reader.CHANGING)[0]
    (tmp_path / name).parent.mkdir(parents=True)
    readers = reader.Readers(os.fspath(tmp_path), 1, 0)

    def read(*pieces):
        (tmp_path / name).write_bytes(b"".join(pieces))
        return readers.change(Always)

    size = reader.changing_size(name, 3)
    assert read(contents.part(name, 3, 0, size)) >= 1
    for wrong in ([contents.part(name, 3, 0, 4000), contents.part(name, 4, 4000, size - 4000)],
                  [contents.part(name, 3, 0, size - 1)], [b"x" * size], []):
        with pytest.raises(reader.Wrong):
            read(*wrong)

"""O_DIRECT on read-only mounts: what could be read while a file was cold can be read once it is complete on NVMe."""

import errno
import mmap
import os

import pytest

from harness import data, daemon, processes
from test_passthrough import fill, files, on_xfs, passthrough  # noqa: F401
from test_profiles import Messages

MIB = 1 << 20


def read_direct(path, offset, length, shift=0):
    """By a buffer that begins `shift` bytes behind a page."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, length + 4096)
    view = memoryview(buffer)[shift:shift + length]
    try:
        return bytes(view[:os.preadv(handle, [view], offset)])
    finally:
        view.release()
        buffer.close()
        os.close(handle)


UNALIGNED = {"offset": (100, 4096, 0), "length": (4096, 1000, 0), "both": (3_333_333, 5000, 0),
             "buffer of a large read": (0, 3 * MIB, 16)}


@pytest.mark.release
@pytest.mark.parametrize("how", UNALIGNED)
@pytest.mark.parametrize("meanwhile", ["", "held open", "another daemon"])
def test_what_was_read_cold_is_read_again(mount, origin, files, on_xfs, how, meanwhile):  # noqa: F811
    m = mount(origin, on_xfs)
    offset, length, shift = UNALIGNED[how]
    expected = files["large0"][offset:offset + length]
    assert read_direct(m.path / "large0", offset, length, shift) == expected
    fill(m, files)
    if meanwhile == "another daemon":
        m.take_over()
        processes.wait_until(lambda: passthrough(m)["enabled"], what="passthrough after the takeover")
    held = os.open(m.path / "large0", os.O_RDONLY) if meanwhile == "held open" else None
    try:
        for name in ("large0", "large1"):
            assert read_direct(m.path / name, offset, length, shift) == files[name][offset:offset + length], name
        if held is not None:
            data.expect_same(os.pread(held, len(files["large0"]), 0), files["large0"], "passed through beside it")
    finally:
        if held is not None:
            os.close(held)
    data.expect_files(m.path, files)
    assert "direct.passthrough" in m.log.read_text()


def test_aligned_reads_are_the_kernels(mount, origin, files, on_xfs):  # noqa: F811
    m = mount(origin, on_xfs)
    assert read_direct(m.path / "large0", 4096, MIB) == files["large0"][4096:4096 + MIB]
    fill(m, files)
    with Messages(m) as sent:
        assert read_direct(m.path / "large0", 8192, MIB) == files["large0"][8192:8192 + MIB]
    assert sent.counts["READ"] == 0


@pytest.mark.parametrize("setting", ["true", "false"])
def test_setting(mount, origin, files, on_xfs, setting):  # noqa: F811
    m = mount(origin, {**on_xfs, "direct.passthrough": setting})
    assert read_direct(m.path / "large0", 100, 1000) == files["large0"][100:1100]
    fill(m, files)
    if setting == "false":
        assert read_direct(m.path / "large0", 100, 1000) == files["large0"][100:1100]
        return
    with pytest.raises(OSError) as caught:
        read_direct(m.path / "large0", 100, 1000)
    assert caught.value.errno == errno.EINVAL


def test_reload_keeps_what_was_seen(mount, origin, files, on_xfs):  # noqa: F811
    m = mount(origin, on_xfs)
    assert read_direct(m.path / "large0", 100, 1000) == files["large0"][100:1100]
    fill(m, files)
    processes.check([daemon.BINARY, "reload", m.path], env=m.env, timeout=60)
    assert read_direct(m.path / "large1", 100, 1000) == files["large1"][100:1100]

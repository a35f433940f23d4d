"""The suites seqrand and checkpoint from the command line."""

import os
import shutil
import signal
import subprocess
import time

import pytest

from conftest import IOBENCH, LIMIT, SLOWNESS


@pytest.fixture
def data(folder, iobench):
    iobench("gen", folder / "data", "--large", "big.bin:1M", "--large", "other/two.bin:300000", "--manifest",
            folder / "manifest")
    return folder / "data"


def test_lists_of_values_are_all_combined(folder, data, iobench):
    done = iobench("run", "--suite", "seqrand", "--path", data, "--runs", 1, "--block-sizes", "4K,64k", "--modes",
                   "buffered,mmap", "--threads", "1,2", "--file", "big.bin", "--file", "other/two.bin", "--verify",
                   folder / "manifest")
    for case in ("read-4k-buffered-pread", "randread-64k-mmap-t2", "read-64k-buffered-pread-t2", "randread-4k-mmap"):
        assert case in done.out


@pytest.mark.parametrize("words, reason", [
    (["--modes", "odirect"], "odirect"), (["--engines", "libaio"], "libaio"), (["--orders", "write"], "write"),
    (["--block-sizes", "4Q"], "--block-sizes"), (["--depths", "x"], "x"), (["--seconds", "0"], "0")])
def test_unknown_words_are_wrong_usage(data, iobench, words, reason):
    done = iobench("run", "--suite", "seqrand", "--path", data, *words, expect=2)
    assert reason in done.err + done.out


def test_wrong_content_ends_with_status_1_and_the_place(folder, data, iobench):
    with open(data / "big.bin", "r+b") as file:
        file.seek(700_000)
        byte = file.read(1)
        file.seek(700_000)
        file.write(bytes([byte[0] ^ 1]))
    done = iobench("run", "--suite", "seqrand", "--path", data, "--runs", 1, "--block-sizes", "4K", "--verify",
                   folder / "manifest", expect=1)
    assert "big.bin: its content is not what the manifest says, in the 4096 bytes from byte 696320" in done.err


def test_checkpoint_leaves_nothing(folder, iobench):
    done = iobench("run", "--suite", "checkpoint", "--path", folder, "--runs", 2, "--ranks", 2, "--checkpoint-size", "1M")
    assert "write_mb_per_s" in done.out
    assert not list(folder.iterdir())


def test_checkpoint_on_a_read_only_mount_says_so(folder):
    script = 'mount -t tmpfs -o ro none "$1" && exec "$2" run --suite checkpoint --path "$1"'
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("needs root and a mount namespace")
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", folder, IOBENCH], capture_output=True, text=True,
                          timeout=LIMIT * SLOWNESS, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "is mounted read-only" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_checkpoint_cleans_up_when_it_is_interrupted(folder, number):
    if shutil.disk_usage(folder).free < 2 << 30:
        pytest.skip("needs 2 GiB of room")
    process = subprocess.Popen([IOBENCH, "run", "--suite", "checkpoint", "--path", folder, "--runs", "1000",
                                "--checkpoint-ranks", "2", "--checkpoint-size", "64M"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60 * SLOWNESS
        while not list(folder.glob("iobench-scratch-*/rank_*")) and time.monotonic() < end:
            time.sleep(0.01)
        assert list(folder.glob("iobench-scratch-*")), "nothing was written that could stay behind"
        process.send_signal(number)
        _, err = process.communicate(timeout=LIMIT * SLOWNESS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 128 + number, err
    assert not list(folder.iterdir())

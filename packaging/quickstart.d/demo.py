#!/usr/bin/python3
"""The second half of packaging/quickstart: a dataset, a mount, two epochs, and what each of them cost.

Everything is below one temporary folder. It is unmounted and removed however this ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES, SIZE = 2000, 48 * 1024
TIERFS, IOBENCH = "/usr/local/bin/tierfs", "/usr/local/bin/iobench"
READER = Path(__file__).resolve().parent / "reader.py"
BEGUN = time.monotonic() - float(os.environ.get("QUICKSTART_SECONDS", "0"))

NEXT = """
What to try next, with a bucket of your own (keys from the environment, ~/.aws or the instance, as the AWS tools do):
    mkdir -p /mnt/data /var/cache/tierfs
    tierfs s3://BUCKET/PREFIX /mnt/data -o nvme.path=/var/cache/tierfs,nvme.limit=100G
    tierfs s3://BUCKET/PREFIX /mnt/data -o s3.endpoint=http://HOST:PORT,...     another S3 server
    tierfs status /mnt/data         where bytes came from
    tierfs umount /mnt/data
In /etc/fstab:
    s3://BUCKET/PREFIX  /mnt/data  fuse.tierfs  ro,_netdev,nvme.path=/var/cache/tierfs,nvme.limit=100G  0 0
All settings: tierfs --help, man tierfs"""


class Failed(Exception):
    """Something that makes the quickstart fail; the text says what."""


def step(text):
    print(f"[{time.monotonic() - BEGUN:3.0f} s] {text}", flush=True)


def run(*command, timeout=300, env=None):
    """Standard output of a command that must succeed. Its output goes through files: a daemon may keep them open."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            status = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                    timeout=timeout, env=env, check=False).returncode
        except subprocess.TimeoutExpired:
            raise Failed(f"no end after {timeout} s: {' '.join(map(str, command))}") from None
        out.seek(0)
        err.seek(0)
        text, errors = out.read().decode(errors="replace"), err.read().decode(errors="replace")
    if status:
        raise Failed(f"status {status} of {' '.join(map(str, command))}\n{text[-3000:]}{errors[-3000:]}")
    return text


def status(mountpoint):
    return json.loads(run(TIERFS, "status", mountpoint, "--json", timeout=30))


def megabytes(count):
    return f"{count / 1e6:.1f} MB"


def difference(before, after):
    """What an epoch cost: bytes by tier, origin requests, errors."""
    tiers = {name: after["reads"]["by_tier"][name] - before["reads"]["by_tier"][name]
             for name in after["reads"]["by_tier"]}
    requests = sum(after["origin"]["requests"].values()) - sum(before["origin"]["requests"].values())
    return tiers, requests, after["reads"]["errors"] - before["reads"]["errors"]


def drop_page_cache():
    """So that the second epoch is served by tierfs and not by the kernel; not allowed in some containers."""
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("1\n", encoding="ascii")
        return True
    except OSError:
        return False


def have_torch():
    probe = [sys.executable, "-c", "import torch.utils.data, PIL.Image"]
    return subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False).returncode == 0


def read_with_torch(mountpoint, number):
    told = json.loads(run(sys.executable, READER, mountpoint, number))
    if told["files"] != FILES:
        raise Failed(f"epoch {number}: the DataLoader gave {told['files']} of {FILES} files")
    return told["seconds"]


def read_with_iobench(mountpoint, number):
    begun = time.monotonic()
    run(IOBENCH, "run", "--suite", "epoch", "--path", mountpoint, "--runs", 1, "--warm-up", 0, "--seed", number,
        "--processes", 2, "--compute", 0)
    return time.monotonic() - begun


def epoch(number, mountpoint, torch):
    before = status(mountpoint)
    seconds = (read_with_torch if torch else read_with_iobench)(mountpoint, number)
    tiers, requests, errors = difference(before, status(mountpoint))
    shares = ", ".join(f"{name} {megabytes(count)}" for name, count in tiers.items() if count or name != "shared")
    step(f"epoch {number}: {FILES} files in {seconds:.1f} s, {FILES / seconds:.0f} files/s; "
         f"bytes by tier: {shares}; origin requests: {requests}")
    if errors:
        raise Failed(f"epoch {number}: {errors} reads failed")
    return requests


def unmount(mountpoint):
    """True when nothing is mounted there any more, by whatever means that took."""
    for command in ([TIERFS, "umount", str(mountpoint)], ["umount", str(mountpoint)], ["umount", "-l", str(mountpoint)]):
        if not mounted(mountpoint):
            return True
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            pass
    return not mounted(mountpoint)


def mounted(mountpoint):
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.split(" ")[4] == str(mountpoint) for line in lines)


def demonstrate(folder):
    origin, cache, mountpoint = folder / "origin", folder / "cache", folder / "mnt"
    for path in (origin, cache, mountpoint):
        path.mkdir()
    step(f"making {FILES} JPEG files of {SIZE // 1024} KiB")
    run(IOBENCH, "gen", "--kind", "jpeg", "--files", FILES, "--size", SIZE, "--seed", 1, origin)
    torch = have_torch()
    step("mounting through tierfs: a directory as origin, an NVMe tier, 256 MiB of memory")
    options = f"ro,memory.limit=256M,nvme.path={cache},nvme.limit=1G,metadata.ttl=1h,log.file={folder}/tierfs.log"
    run(TIERFS, origin, mountpoint, "-o", options, timeout=60)
    step("two shuffled epochs, " + ("PyTorch DataLoader with 2 workers" if torch else "iobench (torch cannot be imported)"))
    epoch(1, mountpoint, torch)
    if not drop_page_cache():
        step("cannot drop the page cache here: the kernel may serve some of the second epoch")
    requests = epoch(2, mountpoint, torch)
    if requests:
        raise Failed(f"the second epoch made {requests} requests to the origin; it should make none")
    step("unmounting")
    run(TIERFS, "umount", mountpoint, timeout=60)
    if mounted(mountpoint):
        raise Failed(f"'tierfs umount' returned 0 but {mountpoint} is still mounted")


def show_log(folder):
    log = folder / "tierfs.log"
    if log.exists():
        print(f"--- end of {log}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-30:]), file=sys.stderr)


def interrupted(signum, _frame):
    raise Failed(f"interrupted by signal {signum}")


def main():
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, interrupted)
    folder = Path(tempfile.mkdtemp(prefix="tierfs-quickstart-"))
    result = 0
    try:
        demonstrate(folder)
        print(NEXT, flush=True)
    except (Failed, OSError, KeyError, ValueError) as error:
        print(f"packaging/quickstart: {error}", file=sys.stderr)
        show_log(folder)
        result = 1
    finally:
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
        if unmount(folder / "mnt"):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"packaging/quickstart: could not unmount {folder / 'mnt'}", file=sys.stderr)
            result = 1
    return result


if __name__ == "__main__":
    sys.exit(main())

"""A container of the image, without any tool for containers: an overlay of the image's files, namespaces of mounts and of
processes, the capabilities that Docker leaves to containers and SYS_ADMIN; and a folder whose mounts both sides see."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import must, run

# https://docs.docker.com/engine/containers/run/ lists those that are there by default.
CAPABILITIES = ("chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot mknod "
                "audit_write setfcap sys_admin").split()

HOST = """
    set -e
    mount -t tmpfs none disk
    mkdir disk/changes disk/work
    mount -t overlay none root -o "lowerdir=$0,upperdir=disk/changes,workdir=disk/work"
    mount -t tmpfs none root/dev
    for name in null zero full random urandom fuse; do
        touch root/dev/$name
        mount --bind /dev/$name root/dev/$name
    done
    mkdir root/data
    mount --bind data root/data
    mount -t tmpfs none outside
    mount --make-shared outside
    mkdir outside/data
    mount --bind outside root/mnt
    echo ready
    exec sleep infinity
"""
FIRST = 'mount -t proc proc "$0/proc" && exec setpriv --bounding-set "$1" chroot "$0" /usr/bin/tierfs "${@:2}"'
PATIENCE = 20  # seconds


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE} s: {what}"
        time.sleep(0.05)


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Container:
    def __init__(self, image, folder):
        self.folder, self.process = folder, None
        for name in ("data", "disk", "outside", "root"):
            (folder / name).mkdir()
        (folder / "data/file").write_text("hello")
        self.host = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "bash", "-c", HOST, image], cwd=folder,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.host.stdout.readline() != "ready\n":
            pytest.skip(f"no namespaces or no overlay here: {self.host.communicate()[1].strip()}")
        self.root, self.outside = self.of_host(folder / "root"), self.of_host(folder / "outside")

    def of_host(self, path):
        return Path(f"/proc/{self.host.pid}/root{path}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            self.kill()
        self.host.kill()
        self.host.communicate()

    def start(self, *words):
        allowed = ",".join(["-all", *(f"+{name}" for name in CAPABILITIES)])
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                ["nsenter", f"--mount=/proc/{self.host.pid}/ns/mnt", "unshare", "--mount", "--propagation", "unchanged",
                 "--pid", "--fork", "--kill-child", "bash", "-c", FIRST, self.folder / "root", allowed, *words],
                env={"PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        def serves():
            assert self.process.poll() is None, self.log()
            return self.log().rstrip().endswith("serving /data on /mnt/data")
        wait_until(serves, "the mount")

    def first(self):
        """The process that is number 1 inside."""
        return children(self.process.pid)[0]

    def run(self, *words):
        return run("nsenter", "--target", self.first(), "--mount", "--pid", "--root", *words)

    def must(self, *words):
        return must("nsenter", "--target", self.first(), "--mount", "--pid", "--root", *words)

    def leave_an_orphan(self):
        """It becomes the first process's child, which has to reap it."""
        first = self.first()
        must("nsenter", "--target", first, "--pid", "bash", "-c", "sleep 1 >/dev/null 2>&1 &")
        assert len(children(first)) == 2
        wait_until(lambda: len(children(first)) == 1, "the orphan is reaped")

    def stop(self):
        os.kill(self.first(), signal.SIGTERM)
        return self.ended()

    def kill(self):
        """All at once: a daemon that saw its supervisor die would unmount."""
        if self.process.poll() is None:
            first = self.first()
            for pid in children(first):
                os.kill(pid, signal.SIGSTOP)
            os.kill(first, signal.SIGKILL)
        return self.ended()

    def ended(self):
        return self.process.wait(PATIENCE)

    def mounts(self):
        lines = Path(f"/proc/{self.host.pid}/mountinfo").read_text().splitlines()
        return [line for line in lines if " - fuse.tierfs " in line and f"{self.folder}/outside/" in line]

    def log(self):
        return (self.folder / "log").read_text()

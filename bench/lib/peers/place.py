"""What a peer is given to make a mount, and what most of them are: a program that stays in the foreground."""

import dataclasses
import pathlib
import time
import typing

from ..host import mounted_type, unmount
from ..process import Deadline, run, signals_held, start, stop, wait_for


@dataclasses.dataclass
class Place:
    """`folder` is empty, on the disk of the caches, and belongs to one mount alone."""

    endpoint: typing.Any  # has endpoint, access_key, secret_key
    mountpoint: pathlib.Path
    folder: pathlib.Path
    deadline: Deadline
    tierfs: pathlib.Path | None = None
    tierfs_options: dict = dataclasses.field(default_factory=dict)
    native: typing.Any = None  # a LoopXfs with the dataset's files


class Foreground:
    """A mount by a child of ours. A peer gives name, programs, packages and command(). `mount_s`: from the command's start
    until its mount was there and had answered a stat."""

    name, programs, packages = "", [], []

    def __init__(self, place):
        self.mountpoint = place.mountpoint
        self.mountpoint.mkdir(parents=True, exist_ok=True)
        place.folder.mkdir(parents=True, exist_ok=True)
        log = place.folder / "log"
        command, environment = self.command(place)
        began = time.monotonic()
        self.process = start(command, log, environment)
        try:
            wait_for(f"the mount by {self.name}", lambda: mounted_type(self.mountpoint), place.deadline, 30,
                     self.process, log)
            run(["stat", "--", self.mountpoint], place.deadline)
            self.mount_s = time.monotonic() - began
        except BaseException:
            with signals_held():
                self.close()
            raise

    def command(self, place):
        """The words of the command, and its environment."""
        raise NotImplementedError

    def pids(self):
        """The processes whose CPU time and memory the mount costs."""
        return [self.process.pid]

    def close(self):
        """In any state, also when it hangs."""
        try:
            unmount(self.mountpoint)
        finally:
            stop(self.process)

"""rclone mount, with its cache of files on and ordinary tuning."""

from ..datasets import BUCKET, rclone_environment
from ..process import run
from .place import Foreground

OPTIONS = ["--read-only", "--vfs-cache-mode", "full", "--use-server-modtime", "--dir-cache-time", "1h",
           "--attr-timeout", "10m", "--vfs-read-chunk-size", "8M", "--buffer-size", "16M", "--vfs-read-ahead", "32M"]


class Rclone(Foreground):
    name, programs, packages = "rclone", ["rclone"], ["rclone", "fuse3"]

    def command(self, place):
        return (["rclone", "mount", f"bench:{BUCKET}", place.mountpoint, "--cache-dir", place.folder / "cache", *OPTIONS],
                rclone_environment(place.endpoint))

    @staticmethod
    def version(place):
        return run(["rclone", "version"], place.deadline)[1].splitlines()[0]

    @staticmethod
    def options(_):
        return " ".join(OPTIONS)

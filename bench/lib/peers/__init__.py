"""The mounts that can be compared. Another one is a file here with a class like those, and a name in this list."""

from .native import Native
from .place import Place
from .rclone import Rclone
from .s3fs import S3fs
from .tierfs import Tierfs, TierfsPeer

PEERS = {peer.name: peer for peer in (TierfsPeer, Native, S3fs, Rclone)}

__all__ = ["PEERS", "Place", "Tierfs"]

"""s3fs, with its cache of files on and ordinary tuning."""

from ..datasets import BUCKET
from ..process import clean_environment, run
from .place import Foreground

OPTIONS = ("use_path_request_style,complement_stat,listobjectsv2,enable_noobj_cache,parallel_count=8,"
           "max_stat_cache_size=200000,stat_cache_expire=3600")


class S3fs(Foreground):
    name, programs, packages = "s3fs", ["s3fs"], ["s3fs"]
    access = "ro"

    def command(self, place):
        password = place.folder / "password"
        password.write_text(f"{place.endpoint.access_key}:{place.endpoint.secret_key}\n")
        password.chmod(0o600)
        options = (f"{self.options(place)},url={place.endpoint.endpoint},passwd_file={password},"
                   f"use_cache={place.folder / 'cache'}")
        return ["s3fs", BUCKET, place.mountpoint, "-f", "-o", options], clean_environment()

    @staticmethod
    def version(place):
        return run(["s3fs", "--version"], place.deadline)[1].splitlines()[0]

    @classmethod
    def options(cls, _):
        return f"{cls.access},{OPTIONS}"


class WritableS3fs(S3fs):
    """For benches that write."""

    access = "rw"

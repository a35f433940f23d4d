"""The writers that are timed. Run as a program; prints the seconds until what was written is where it belongs.

  file SOURCE PATH                      writes, fsync, close; the clock stops when close returns
  mount SOURCE PATH ENDPOINT KEY        the same on a mount of a bucket; the clock stops when a HEAD at ENDPOINT shows KEY whole
  ranks SOURCE FOLDER                   RANKS processes, of which each writes its share into FOLDER: write, fsync, close, rename; the
                                        clock stops when the last one is done
  epoch SOURCE FOLDER                   READERS processes read all files below FOLDER, shuffled, with the page cache dropped before
  multipart SOURCE ENDPOINT KEY         boto3's upload of a file in parallel parts, with its own settings; and the HEAD

KEY is /BUCKET/NAME; ACCESS_KEY and SECRET_KEY stand in the environment. SOURCE is in memory before the clock starts.
"""

import mmap
import os
import pathlib
import random
import sys
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib.s3 import object_size  # noqa: E402  pylint: disable=wrong-import-position

BLOCK = 1 << 20
RANKS, READERS = 8, 4


def in_memory(source):
    with open(source, "rb") as file:
        return mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ)


def write(content, path):
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with memoryview(content) as view:
        for at in range(0, len(view), BLOCK):
            rest = view[at:at + BLOCK]
            while rest:
                rest = rest[os.write(handle, rest):]
    os.fsync(handle)
    os.close(handle)


def write_ranks(content, folder):
    """In processes of their own, as the ranks of a job are."""
    share = len(content) // RANKS
    ranks = []
    for rank in range(RANKS):
        pid = os.fork()
        if pid == 0:
            path = f"{folder}/rank{rank}"
            write(memoryview(content)[rank * share:(rank + 1) * share], path + ".tmp")
            os.rename(path + ".tmp", path)
            os._exit(0)  # pylint: disable=protected-access
        ranks.append(pid)
    for pid in ranks:
        if os.waitpid(pid, 0)[1] != 0:
            sys.exit("a rank failed")


def read_epoch(folder):
    """In processes of their own, as the workers of a DataLoader are."""
    files = sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file())
    random.shuffle(files)
    workers = []
    for number in range(READERS):
        pid = os.fork()
        if pid == 0:
            for path in files[number::READERS]:
                path.read_bytes()
            os._exit(0)  # pylint: disable=protected-access
        workers.append(pid)
    for pid in workers:
        if os.waitpid(pid, 0)[1] != 0:
            sys.exit("a worker failed")


def drop_caches():
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("1", encoding="ascii")


def server_at(endpoint):
    return types.SimpleNamespace(endpoint=endpoint, access_key=os.environ["ACCESS_KEY"],
                                 secret_key=os.environ["SECRET_KEY"])


def wait_until_there(server, key, size):
    """Usually the first HEAD shows it."""
    while (found := object_size(server, key)) != size:
        if found is not None:
            sys.exit(f"{key}: {found} bytes instead of {size}")


def by_boto3(server, source, key):
    """What uploads; importing and connecting are no part of the time."""
    import boto3  # pylint: disable=import-outside-toplevel,import-error
    from boto3.s3.transfer import TransferConfig  # pylint: disable=import-outside-toplevel,import-error
    client = boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=server.access_key,
                          aws_secret_access_key=server.secret_key, region_name="us-east-1")
    client.list_buckets()
    bucket, name = key.lstrip("/").split("/", 1)
    return lambda: client.upload_file(source, bucket, name, Config=TransferConfig())


def main(kind, source, *rest):
    content = in_memory(source)
    if kind == "file":
        begun = time.monotonic()
        write(content, rest[0])
    elif kind == "ranks":
        begun = time.monotonic()
        write_ranks(content, rest[0])
    elif kind == "epoch":
        drop_caches()
        begun = time.monotonic()
        read_epoch(rest[0])
    elif kind == "mount":
        server = server_at(rest[1])
        begun = time.monotonic()
        write(content, rest[0])
        wait_until_there(server, rest[2], len(content))
    elif kind == "multipart":
        server = server_at(rest[0])
        upload = by_boto3(server, source, rest[1])
        begun = time.monotonic()
        upload()
        wait_until_there(server, rest[1], len(content))
    else:
        sys.exit(f"{kind}: unknown; {__doc__}")
    print(time.monotonic() - begun)


if __name__ == "__main__":
    main(*sys.argv[1:])

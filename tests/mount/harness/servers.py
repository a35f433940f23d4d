"""Real servers for the mount tests: nginx that looks like S3, and Ceph's S3 gateway behind nginx's counting proxy."""

import concurrent.futures
import random
import shutil
import socket
import threading
import urllib.request
from pathlib import Path

from . import data, processes

SCRIPTS = Path(__file__).resolve().parents[2] / "servers"
ACCESS_KEY, SECRET_KEY = "tierfskey", "tierfssecret"
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback never goes through a proxy


BLOCK = 64  # ports that one process of tests has for itself
_blocks, _unused, _port_lock = [], [], threading.Lock()


def _take_block():
    """Other processes of tests look for ports at the same time, and what is found free is used a moment later: a name
    that only one process can bind (unix(7), abstract sockets: gone with it) stands for each block."""
    for _ in range(2000):
        base = random.randrange(12000 // BLOCK, 30000 // BLOCK) * BLOCK
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0tierfs-test-ports-{base}")
        except OSError:
            claim.close()
            continue
        _blocks.append(claim)
        return list(range(base, base + BLOCK))
    raise AssertionError("no free ports")


def _is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count=1):
    """The first of `count` neighbouring ports of 127.0.0.1 that nobody listens on nor gets from here, below the range
    that the kernel hands out to others. None comes twice."""
    global _unused  # pylint: disable=global-statement
    with _port_lock:
        for _ in range(200):
            if len(_unused) < count:
                _unused = _take_block()
            found, _unused = _unused[:count], _unused[count:]
            if all(map(_is_free, found)):
                return found[0]
    raise AssertionError(f"no {count} neighbouring free ports")


class Shaped:
    """The settings and counters behind /_ctl of nginx_s3.sh."""

    def __init__(self, port):
        self.port = port
        self.endpoint = f"http://127.0.0.1:{port}"

    def control(self, **settings):
        """Changes settings (see nginx_s3.sh); returns settings and counters as a dict."""
        query = "&".join(f"{key}={value}" for key, value in settings.items())
        with DIRECT.open(f"{self.endpoint}/_ctl?{query}", timeout=20) as answer:
            return {key: int(value) for key, value in
                    (line.split("=") for line in answer.read().decode().split())}

    def calm(self):
        """No delay, no limit, no faults; counters at zero."""
        self.control(ttfb_ms=0, jitter_ms=0, rate_bps=0, fail_every=0, fail_next=0, fail_changes=0, tail_every=0, tail_ms=0, requests=0,
                     get=0, head=0, list=0, put=0, delete=0, other=0, failed=0, tailed=0, bytes=0)


class NginxS3(Shaped):
    """Objects are files below .data/BUCKET. ETags change with the size or the second of the change, not sooner."""

    name = "nginx"

    def __init__(self, folder):
        super().__init__(free_ports(2))
        self.folder = Path(folder)
        self.data = self.folder / "data"
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "FILE_CACHE": "off"}
        processes.check([SCRIPTS / "nginx_s3.sh", "start", self.folder, self.port], env=env)

    def make_bucket(self, bucket):
        (self.data / bucket).mkdir(parents=True, exist_ok=True)

    def put(self, bucket, key, body):
        data.write(self.data / bucket / key, body)
        self.control(rescan=1)

    def put_all(self, bucket, objects):
        for key, body in objects.items():
            data.write(self.data / bucket / key, body)
        self.control(rescan=1)

    def delete(self, bucket, key):
        (self.data / bucket / key).unlink()
        self.control(rescan=1)

    def drop_bucket(self, bucket):
        shutil.rmtree(self.data / bucket, ignore_errors=True)
        self.control(rescan=1)

    def stop(self):
        processes.check([SCRIPTS / "nginx_s3.sh", "stop", self.folder])


class Rgw(Shaped):
    """Ceph RGW. Requests of tierfs go through nginx (.endpoint), which counts and shapes; ours go straight there."""

    name = "rgw"

    def __init__(self, folder):
        import boto3  # pylint: disable=import-outside-toplevel
        from botocore.client import Config  # pylint: disable=import-outside-toplevel

        self.folder = Path(folder)
        base = free_ports(41)
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "ACCESS_KEY": ACCESS_KEY, "SECRET_KEY": SECRET_KEY,
               "UPSTREAM": f"127.0.0.1:{base}"}
        try:
            processes.check([SCRIPTS / "rgw.sh", "start", self.folder / "ceph", base], timeout=240, env=env)
            front = free_ports(2)
            super().__init__(front + 1)
            processes.check([SCRIPTS / "nginx_s3.sh", "start", self.folder / "nginx", front], env=env)
        except BaseException:
            self.stop()
            raise
        self.client = boto3.client(
            "s3", endpoint_url=f"http://127.0.0.1:{base}", aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY, region_name="us-east-1",
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}, proxies={},
                          connect_timeout=10, read_timeout=60))

    def make_bucket(self, bucket):
        self.client.create_bucket(Bucket=bucket)

    def put(self, bucket, key, body):
        self.client.put_object(Bucket=bucket, Key=key, Body=body)

    def put_all(self, bucket, objects):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: self.put(bucket, key, objects[key]), objects))

    def delete(self, bucket, key):
        self.client.delete_object(Bucket=bucket, Key=key)

    def drop_bucket(self, bucket):
        """With what it holds, uploads that nobody completes included."""
        for upload in self.client.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
            self.client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            keys = [{"Key": entry["Key"]} for entry in page.get("Contents", [])]
            if keys:
                self.client.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
        self.client.delete_bucket(Bucket=bucket)

    def stop(self):
        processes.run([SCRIPTS / "nginx_s3.sh", "stop", self.folder / "nginx"])
        processes.check([SCRIPTS / "rgw.sh", "stop", self.folder / "ceph"], timeout=90)


def missing_for_rgw():
    """What Ceph lacks here, or an empty text."""
    lacking = [name for name in ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph") if not shutil.which(name)]
    try:
        import boto3  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        lacking.append("python3-boto3")
    return ", ".join(lacking)

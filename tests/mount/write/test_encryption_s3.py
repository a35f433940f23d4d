"""A bucket whose objects the server encrypts: by a key of the client's (SSE-C) what the mount writes only the key reads, and ETags
are no digests."""

import base64
import errno
import hashlib
import os
import urllib.parse
from xml.sax.saxutils import escape

import pytest

from harness import data, faults, processes
from test_write_s3 import body, error_of, keys

KEY = bytes(range(32))
SIZES = {"empty": 0, "small": 70_001, "parts": 21 << 20}


@pytest.fixture
def encrypted(rgw_bucket, mount, folder):
    """encrypted(key, **options): the bucket, mounted with that key, writable."""
    def start(key=KEY, **options):
        path = folder / f"key-{hashlib.md5(key).hexdigest()}"
        path.write_bytes(base64.b64encode(key) + b"\n")
        path.chmod(0o600)
        return mount(rgw_bucket.source(), rgw_bucket.options({"rw": None, "metadata.ttl": "1s", "s3.customer_key": str(path), **options}),
                     env=rgw_bucket.env)
    return start


def by_key(bucket, name, key=KEY):
    """What the key reads of the object, without a mount."""
    return bucket.server.client.get_object(Bucket=bucket.name, Key=name, SSECustomerAlgorithm="AES256", SSECustomerKey=key)["Body"].read()


def test_only_the_key_reads_what_was_written(rgw_bucket, encrypted):
    m = encrypted()
    files = {name: data.content(name, size) for name, size in SIZES.items()}
    for name, content in files.items():
        (m.path / name).write_bytes(content)
    for name, content in files.items():
        data.expect_same(by_key(rgw_bucket, name), content, name)
        if content:
            with pytest.raises(Exception, match="encryption|InvalidRequest|400"):
                body(rgw_bucket, name)
    m.umount()
    m = encrypted()
    for name, content in files.items():
        data.expect_same((m.path / name).read_bytes(), content, name)


def test_files_are_changed(encrypted):
    m = encrypted()
    content = bytearray(data.content("file", 12 << 20))
    (m.path / "file").write_bytes(content)
    with open(m.path / "file", "r+b") as handle:
        handle.seek(5 << 20)
        handle.write(b"changed")
        handle.flush()
        os.fsync(handle.fileno())
    content[5 << 20:(5 << 20) + 7] = b"changed"
    with open(m.path / "file", "ab") as handle:
        handle.write(b"more")
    content += b"more"
    os.symlink("file", m.path / "way")
    (m.path / "folder").mkdir()
    m.umount()
    m = encrypted()
    for name in ("file", "way"):
        data.expect_same((m.path / name).read_bytes(), bytes(content), name)
    assert sorted(os.listdir(m.path)) == ["file", "folder", "way"]


def test_copies_are_made_or_refused(rgw_bucket, encrypted):
    """Ceph's gateway does not copy such objects (501), which renames and changes of modes are."""
    m = encrypted()
    (m.path / "file").write_bytes(b"content")
    for change in (lambda: os.rename(m.path / "file", m.path / "moved"), lambda: os.chmod(m.path / "moved", 0o600)):
        try:
            change()
        except OSError as problem:
            assert problem.errno == errno.EOPNOTSUPP
            assert keys(rgw_bucket) == ["file"]
            assert (m.path / "file").read_bytes() == b"content" == by_key(rgw_bucket, "file")
            return
    assert (m.path / "moved").read_bytes() == b"content" == by_key(rgw_bucket, "moved")


def test_another_key_reads_nothing(encrypted):
    m = encrypted()
    (m.path / "file").write_bytes(b"secret")
    other = encrypted(KEY[::-1])
    assert error_of((other.path / "file").read_bytes) in (errno.EACCES, errno.EIO)
    processes.wait_until(lambda: "/file at http" in other.log.read_text(), what="the server's words stand in the log")


def test_mount_without_a_good_key(rgw_bucket, mount, folder):
    (folder / "key").write_bytes(KEY)
    (folder / "key").chmod(0o644)
    options = rgw_bucket.options({"s3.customer_key": str(folder / "key")})
    said = mount.prepare(rgw_bucket.source(), options, env=rgw_bucket.env).refuse()
    assert "chmod 600" in said
    (folder / "key").chmod(0o600)
    (folder / "key").write_bytes(KEY[:-1])
    assert "no key of 32 bytes" in mount.prepare(rgw_bucket.source(), options, env=rgw_bucket.env).refuse()


class Sealing(faults.FaultyS3):
    """Encrypts by a key of KMS: the ETag of each object it makes, copies too, is no digest of the bytes."""

    def __init__(self):
        self.tags = {}
        super().__init__()

    def etag(self, key):
        return self.tags[key]

    def object(self, request, key, fault):
        if request.command not in ("PUT", "DELETE"):
            return super().object(request, key, fault)
        if request.command == "DELETE":
            self.objects.pop(key, None)
            return request.answer(204)
        source, content = request.headers.get("x-amz-copy-source"), request.rfile.read(int(request.headers.get("Content-Length", 0)))
        if source:
            source = urllib.parse.unquote(source).lstrip("/").partition("/")[2]
            if request.headers.get("x-amz-copy-source-if-match", self.etag(source)) != self.etag(source):
                return request.refuse(412, "PreconditionFailed")
            content = self.objects[source]
        sealed = {"x-amz-server-side-encryption": "aws:kms"}
        self.objects[key], self.tags[key] = content, f'"{os.urandom(16).hex()}"'
        self.metadata[key] = sealed | {name: value for name, value in request.headers.items() if name.lower().startswith("x-amz-meta-")}
        text = f"<CopyObjectResult><ETag>{escape(self.etag(key))}</ETag></CopyObjectResult>" if source else ""
        return request.answer(200, text.encode(), {"ETag": self.etag(key), **sealed})


def test_etags_that_are_no_digests(mount, faulty):
    with Sealing() as server:
        options = {"s3.endpoint": server.endpoint, "s3.region": "us-east-1", "s3.encryption": "aws:kms", "s3.kms_key": "alias/data"}
        m = mount("s3://bucket", {**options, "rw": None, "metadata.ttl": "1s"}, env=faulty.env)
        file = m.path / "file"
        file.write_bytes(b"content")
        for mode in (0o600, 0o640, 0o644):
            file.chmod(mode)
            assert file.stat().st_mode & 0o777 == mode
        with open(file, "rb") as handle:
            os.chmod(file, 0o600)
            os.fchmod(handle.fileno(), 0o604)
            os.utime(file, (1, 2))
            assert handle.read() == b"content"
        assert (file.stat().st_mode & 0o777, file.stat().st_mtime, file.read_bytes()) == (0o604, 2, b"content")
        os.rename(file, m.path / "moved")
        assert (m.path / "moved").read_bytes() == b"content"
        makes = [headers for method, _, headers in server.seen if method == "PUT"]
        assert makes and all(headers["x-amz-server-side-encryption"] == "aws:kms" for headers in makes)
        assert all(headers["x-amz-server-side-encryption-aws-kms-key-id"] == "alias/data" for headers in makes)
        m.umount()

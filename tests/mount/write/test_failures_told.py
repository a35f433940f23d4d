"""What a writable mount answers by the fault of its source stands in the log, in status and in doctor's report."""

import errno
import json
import os
import time

import pytest

from harness import daemon, processes


@pytest.fixture
def show(rgw_bucket, mount):
    def start(**options):
        return mount(rgw_bucket.source(), rgw_bucket.options({"rw": None, "metadata.ttl": "0s", **options}),
                     env=rgw_bucket.env)
    return start


def error_of(call, *arguments):
    with pytest.raises(OSError) as caught:
        call(*arguments)
    return caught.value.errno


def deny(bucket, *actions):
    """The bucket's policy refuses these from now on, within some seconds."""
    name = bucket.name
    bucket.server.client.put_bucket_policy(Bucket=name, Policy=json.dumps({
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Deny", "Principal": "*", "Action": list(actions),
                       "Resource": [f"arn:aws:s3:::{name}/*", f"arn:aws:s3:::{name}"]}]}))


def told(m, operation, path):
    """The last line of the log about it."""
    lines = [line for line in m.log.read_text().splitlines() if f"{operation} of {path} failed: " in line]
    assert lines, m.log_tail()
    return lines[-1]


def test_refused_writes_are_told(rgw_bucket, show):
    m = show()
    (m.path / "folder").mkdir()
    deny(rgw_bucket, "s3:PutObject")
    deadline = time.monotonic() + 60
    while True:
        descriptor = os.open(m.path / "folder/file", os.O_CREAT | os.O_WRONLY, 0o644)
        os.write(descriptor, b"x")
        try:
            os.fsync(descriptor)
        except OSError as error:
            assert error.errno == errno.EACCES
            break
        finally:
            if descriptor is not None:
                try:
                    os.close(descriptor)
                except OSError as error:
                    assert error.errno == errno.EACCES
        assert time.monotonic() < deadline, "the policy has no effect"
        time.sleep(0.2)
    line = told(m, "FSYNC", "folder/file")
    assert "AccessDenied" in line and "(EACCES)" in line and " error " in line
    assert "(EACCES)" in told(m, "FLUSH", "folder/file")
    assert error_of(os.mkdir, m.path / "other") == errno.EACCES
    assert "AccessDenied" in told(m, "MKDIR", "other")
    writes = m.status()["writes"]
    assert writes["failures"] >= 3 and "MKDIR of other failed" in writes["last_failure"]
    assert writes["last_failure_age_s"] < 60
    report = processes.run([daemon.BINARY, "doctor", m.path, "--json", "--seconds", 1], env=m.env, timeout=60)
    found = [one for one in json.loads(report.out)["findings"] if one["id"] == "failures"]
    assert found and "MKDIR of other failed" in found[0]["evidence"], report.out
    shown = processes.run([daemon.BINARY, "status", m.path], env=m.env, timeout=60).out
    assert "MKDIR of other failed" in shown


def test_refused_reads_are_told(rgw_bucket, show):
    rgw_bucket.put("folder/file", b"content")
    m = show()
    assert os.listdir(m.path / "folder") == ["file"]
    deny(rgw_bucket, "s3:GetObject", "s3:ListBucket")
    deadline = time.monotonic() + 60
    while True:
        try:
            os.stat(m.path / "folder/file")
            os.listdir(m.path / "folder")
        except OSError as error:
            assert error.errno == errno.EACCES
            break
        assert time.monotonic() < deadline, "the policy has no effect"
        time.sleep(0.2)
    lines = [line for line in m.log.read_text().splitlines() if "failed: " in line and "(EACCES)" in line]
    assert lines and "folder" in lines[-1], m.log_tail()


def test_answers_to_the_caller_are_no_failures(rgw_bucket, show):
    m = show()
    (m.path / "file").write_bytes(b"x")
    assert error_of(os.stat, m.path / "absent") == errno.ENOENT
    assert error_of(os.mkdir, m.path / "file") == errno.EEXIST
    assert error_of(os.rmdir, m.path / "file") == errno.ENOTDIR
    assert error_of(os.mkfifo, m.path / "fifo") == errno.EPERM
    assert error_of(os.getxattr, m.path / "file", "user.none") == errno.ENODATA
    writes = m.status()["writes"]
    assert writes["failures"] == 0 and writes["last_failure"] == ""

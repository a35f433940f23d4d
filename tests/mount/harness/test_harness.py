"""The stand-ins themselves, checked with a client that everybody trusts: a stand-in that lies makes tests that lie."""

import os
from pathlib import Path

import pytest

from harness import data, daemon, disks, faults, processes, servers

boto3 = pytest.importorskip("boto3", reason="python3-boto3 is not installed (packaging/dependencies --test)")
ClientError = pytest.importorskip("botocore.exceptions", reason="comes with python3-boto3").ClientError


def client(endpoint, **more):
    from botocore.client import Config  # pylint: disable=import-outside-toplevel

    return boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=servers.ACCESS_KEY, region_name="us-east-1",
                        aws_secret_access_key=servers.SECRET_KEY,
                        config=Config(s3={"addressing_style": "path"}, proxies={}, retries={"max_attempts": 0}), **more)


def behaves_like_s3(s3, bucket, objects):
    keys, groups = [], []
    for page in s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Delimiter="/", PaginationConfig={"PageSize": 3}):
        keys += [entry["Key"] for entry in page.get("Contents", [])]
        groups += [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
    assert keys == sorted(key for key in objects if "/" not in key)
    assert groups == sorted({key.partition("/")[0] + "/" for key in objects if "/" in key})
    listed = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        listed.update({entry["Key"]: entry for entry in page.get("Contents", [])})
    assert sorted(listed) == sorted(objects)
    for key, body in objects.items():
        assert listed[key]["Size"] == len(body)
        answer = s3.get_object(Bucket=bucket, Key=key, IfMatch=listed[key]["ETag"])
        assert answer["Body"].read() == body and answer["ETag"] == listed[key]["ETag"]
        if len(body) > 10:
            part = s3.get_object(Bucket=bucket, Key=key, Range="bytes=3-7")
            assert part["Body"].read() == body[3:8] and part["ContentRange"] == f"bytes 3-7/{len(body)}"
        # By a client of its own: nginx says keep-alive with a 412 and closes the connection, and who sends the next
        # request on it meets a reset.
        with pytest.raises(ClientError, match="412|PreconditionFailed"):
            client(s3.meta.endpoint_url).get_object(Bucket=bucket, Key=key, IfMatch='"0123"')
    with pytest.raises(s3.exceptions.ClientError, match="404|NoSuchKey"):
        s3.get_object(Bucket=bucket, Key="none")


OBJECTS = {"a": b"1", "sp ace+%41": b"odd characters", "d/x": b"x" * 5000, "d/y": b"", "d-e": b"-", "e/f/g": b"deep",
           "z": b"last of them", "uni-é": b"u", "h/1": b"", "h/2": b"", "i/1": b""}


def test_faulty_s3():
    with faults.FaultyS3(OBJECTS) as server:
        behaves_like_s3(client(server.endpoint), "b", OBJECTS)


def test_nginx(nginx_bucket):
    nginx_bucket.put_all(OBJECTS)
    behaves_like_s3(client(nginx_bucket.server.endpoint), nginx_bucket.name, OBJECTS)


def test_rgw(rgw_bucket):
    rgw_bucket.put_all(OBJECTS)
    behaves_like_s3(client(rgw_bucket.server.endpoint), rgw_bucket.name, OBJECTS)
    assert rgw_bucket.server.control()["get"] > 0, "requests through the proxy are counted"


def test_scripted_faults():
    with faults.FaultyS3({"k": b"0123456789"}) as server:
        s3 = client(server.endpoint)
        server.fault = lambda method, key, number: [(503, "SlowDown"), "reset", "short", "flip", None][number]
        with pytest.raises(s3.exceptions.ClientError, match="SlowDown"):
            s3.get_object(Bucket="b", Key="k")
        for _ in range(2):
            with pytest.raises(Exception):
                s3.get_object(Bucket="b", Key="k")["Body"].read()
        assert s3.get_object(Bucket="b", Key="k")["Body"].read() == b"1123456789"
        assert s3.get_object(Bucket="b", Key="k")["Body"].read() == b"0123456789"


def test_tls_port(folder):
    with faults.TlsPort(folder, {"k": b"v"}) as server:
        assert client(server.endpoint, verify=str(server.certificate)).get_object(Bucket="b", Key="k")["Body"].read() == b"v"


def test_credential_services(monkeypatch):
    from botocore import utils  # pylint: disable=import-outside-toplevel

    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED", raising=False)  # of whoever runs the tests
    with faults.Credentials() as service:
        fetcher = utils.InstanceMetadataFetcher(base_url=service.endpoint + "/")
        assert fetcher.retrieve_iam_role_credentials()["access_key"] == "ASIATEMPORARY"
        document = utils.ContainerMetadataFetcher().retrieve_full_uri(f"{service.endpoint}/container")
        assert document["Token"] == "session-token"


def test_shaping(nginx_bucket):
    nginx_bucket.put("k", b"x" * 100)
    nginx_bucket.server.control(fail_next=2)
    s3 = client(nginx_bucket.server.endpoint)
    for _ in range(2):
        with pytest.raises(s3.exceptions.ClientError, match="SlowDown"):
            s3.get_object(Bucket=nginx_bucket.name, Key="k")
    assert s3.get_object(Bucket=nginx_bucket.name, Key="k")["Body"].read() == b"x" * 100
    assert nginx_bucket.server.control()["failed"] == 2


def test_disks(folder):
    with disks.Xfs(folder / "one") as disk:
        loop, image = Path("/sys/block") / Path(disk.loop).name / "loop/backing_file", folder / "one/disk.img"
        assert loop.read_text().strip() == str(image)
        data.write(disk.path / "file", b"x")
        disk.shut_down()
        with pytest.raises(OSError):
            data.write(disk.path / "other", b"x")
    assert not loop.exists() or loop.read_text().strip() != str(image)  # another one may have the number
    with disks.Tmpfs(folder / "two", "8M") as disk:
        disk.remount("ro")
        with pytest.raises(OSError):
            data.write(disk.path / "file", b"x")
    assert daemon.mountinfo(disk.path) is None


def test_limits_of_commands(folder):
    with pytest.raises(AssertionError, match="wchan"):
        processes.run(["sleep", "1000"], timeout=0.2)
    assert not processes.with_marker(f"nothing-has-this-{os.getpid()}")


def test_no_test_hangs(folder):
    """One that waits for what the death of its daemons does not bring is interrupted, and the next one runs."""
    (folder / "test_hanging.py").write_text(
        "import threading\n\ndef test_forever():\n    threading.Event().wait()\n\ndef test_next():\n    pass\n")
    here = Path(__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": str(here), "TIERFS_TEST_LIMIT": "1", "TIERFS_TEST_SLOWNESS": "1"}
    ended = processes.run(["/usr/bin/python3", "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-c", "/dev/null",
                           "--rootdir", folder, folder], env=env, cwd=folder, timeout=60)
    assert ended.returncode == 1, ended.out + ended.err
    assert "1 failed, 1 passed" in ended.out or "1 passed, 1 failed" in ended.out, ended.out
    assert "interrupted, for there was no end" in ended.out

"""Origins that fail: refused, silent, broken, archived, and the services that hand out credentials. Whatever they do,
a read ends: with the right bytes, or with an error, within origin.deadline."""

import errno
import os
import threading
import time

import pytest

from harness import data, faults, processes

pytestmark = pytest.mark.release

DEADLINE = 3  # seconds
# A failed read-ahead is sent once more by the kernel as a single read, which fails at once.
LONGEST = DEADLINE + 4


def show(server, mount, **options):
    return mount("s3://bucket", {**server.options, "metadata.ttl": "1h", "origin.deadline": f"{DEADLINE}s", **options},
                 env=server.env)


def error_of(act):
    """(errno, seconds) of an action that must fail."""
    begun = time.monotonic()
    with pytest.raises(OSError) as error:
        act()
    return error.value.errno, time.monotonic() - begun


# -- at the start: an error that says what to do, soon --------------------------------------------------------------


def refused(mount, endpoint, env=None, **options):
    options = {"s3.endpoint": endpoint, "s3.region": "us-east-1", "origin.deadline": f"{DEADLINE}s", **options}
    env = env or {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    begun = time.monotonic()
    said = mount.prepare("s3://bucket", options, env=env).refuse()
    assert time.monotonic() - begun < (DEADLINE + 10) * processes.SLOWNESS
    return said


def test_endpoint_unreachable(mount):
    port = faults.closed_port()
    said = refused(mount, f"http://127.0.0.1:{port}")
    assert f"127.0.0.1:{port}" in said and ("connect" in said or "refused" in said or "reach" in said)


def test_unknown_host(mount):
    assert "no-such-host.invalid" in refused(mount, "http://no-such-host.invalid")


def test_silent_endpoint(mount):
    with faults.SilentPort() as server:
        said = refused(mount, server.endpoint)
        assert f"127.0.0.1:{server.port}" in said and any(word in said for word in ("time", "answer", "deadline"))


def test_tls_to_a_plain_port(mount, faulty):
    said = refused(mount, faulty.endpoint.replace("http:", "https:"))
    assert "tls" in said or "ssl" in said or "https" in said


def test_plain_to_a_tls_port(mount, folder):
    with faults.TlsPort(folder) as server:
        refused(mount, server.endpoint.replace("https:", "http:"))


def test_untrusted_certificate_is_refused(mount, folder):
    with faults.TlsPort(folder, {"file": b"x"}) as server:
        assert "certificate" in refused(mount, server.endpoint)


def test_tls_with_our_certificate(mount, folder):
    body = data.content("tls", 300_000)
    with faults.TlsPort(folder, {"file": body}) as server:
        m = mount("s3://bucket", {"s3.endpoint": server.endpoint, "s3.ca_bundle": server.certificate},
                  env={"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"})
        data.expect_same(data.read_cold(m.path / "file"), body, "file")
        m.umount()


def test_no_credentials(mount, faulty):
    said = refused(mount, faulty.endpoint, env={"HOME": "/nonexistent"})
    assert "credential" in said


# -- while mounted --------------------------------------------------------------------------------------------------


@pytest.mark.tsan
@pytest.mark.parametrize("fault", [(500, "InternalError"), (503, "SlowDown"), "reset", "short"])
def test_passing_faults_are_retried(mount, faulty, fault):
    faulty.objects = {f"f{n}": data.content(n, 50_000) for n in range(10)}
    faulty.objects["large"] = data.content("large", 5 << 20)
    m = show(faulty, mount, **{"origin.deadline": "30s"})
    os.listdir(m.path)
    faulty.fault = lambda method, key, number: fault if key and method == "GET" and number < 2 else None
    data.expect_files(m.path, faulty.objects, cold=False)
    status = m.status()
    assert status["reads"]["errors"] == 0 and status["origin"]["retries"] >= 10


def test_listing_faults_are_retried(mount, faulty):
    faulty.objects = {f"d/f{n:04}": b"x" for n in range(1500)}
    m = show(faulty, mount, **{"origin.deadline": "30s"})
    faulty.fault = lambda method, key, number: (503, "SlowDown") if not key and number % 2 else None
    assert len(os.listdir(m.path / "d")) == 1500


@pytest.mark.tsan
def test_stalled_reads_time_out(mount, faulty):
    faulty.objects = {"file": data.content("stall", 200_000), "good": b"good"}
    m = show(faulty, mount)
    assert (m.path / "good").read_bytes() == b"good"
    faulty.fault = lambda method, key, number: "stall" if key == "file" else None
    number, seconds = error_of((m.path / "file").read_bytes)
    assert number == errno.ETIMEDOUT
    assert DEADLINE * 0.5 < seconds < LONGEST * processes.SLOWNESS
    assert (m.path / "good").read_bytes() == b"good", "others are served meanwhile"
    faulty.fault = lambda method, key, number: None
    time.sleep(0.5)
    assert data.read_cold(m.path / "file") == faulty.objects["file"], "the error is remembered for a moment alone"


def test_one_stalled_file_does_not_stop_the_others(mount, faulty):
    faulty.objects = {f"f{n}": data.content(n, 10_000) for n in range(40)}
    m = show(faulty, mount)
    faulty.fault = lambda method, key, number: "stall" if key == "f0" else None
    failed = []
    reader = threading.Thread(target=lambda: failed.append(error_of((m.path / "f0").read_bytes)))
    reader.start()
    begun = time.monotonic()
    data.expect_files(m.path, {key: faulty.objects[key] for key in list(faulty.objects)[1:]}, cold=False)
    elapsed = time.monotonic() - begun
    reader.join(60 * processes.SLOWNESS)
    assert elapsed < DEADLINE * processes.SLOWNESS, "the others waited for the stalled one"
    assert failed and failed[0][0] == errno.ETIMEDOUT


def test_many_stalled_listings_end(mount, faulty):
    faulty.objects = {f"d{n}/f": b"x" for n in range(8)}
    m = show(faulty, mount)
    os.listdir(m.path)
    faulty.fault = lambda method, key, number: "stall"
    number, seconds = error_of(lambda: os.listdir(m.path / "d0"))
    assert number == errno.ETIMEDOUT and seconds < LONGEST * processes.SLOWNESS
    faulty.fault = lambda method, key, number: None
    assert os.listdir(m.path / "d0") == ["f"]


def test_lasting_failure_is_an_error_not_a_hang(mount, faulty):
    faulty.objects = {"file": data.content("dead", 100_000)}
    m = show(faulty, mount)
    os.listdir(m.path)
    faulty.fault = lambda method, key, number: (500, "InternalError") if key else None
    number, seconds = error_of((m.path / "file").read_bytes)
    assert number in (errno.EIO, errno.ETIMEDOUT) and seconds < LONGEST * processes.SLOWNESS
    assert m.status()["reads"]["errors"] >= 1


def test_origin_gone_while_mounted(mount):
    with faults.FaultyS3({"file": data.content("gone", 100_000), "kept": b"kept" * 1000}) as server:
        server.options, server.env = {"s3.endpoint": server.endpoint}, {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
        m = show(server, mount)
        assert (m.path / "kept").read_bytes() == b"kept" * 1000
        assert (m.path / "file").stat().st_size == 100_000
    number, seconds = error_of((m.path / "file").read_bytes)
    assert number in (errno.EIO, errno.ETIMEDOUT, errno.ECONNREFUSED, errno.EHOSTUNREACH)
    assert seconds < LONGEST * processes.SLOWNESS
    assert data.read_cold(m.path / "kept") == b"kept" * 1000, "what is in a tier is served without the origin"


def test_forbidden_object(mount, faulty):
    faulty.objects = {"secret": b"x" * 1000, "open": b"y"}
    m = show(faulty, mount)
    os.listdir(m.path)
    faulty.fault = lambda method, key, number: (403, "AccessDenied") if key == "secret" else None
    number, seconds = error_of((m.path / "secret").read_bytes)
    assert number in (errno.EACCES, errno.EPERM) and seconds < LONGEST * processes.SLOWNESS
    assert (m.path / "open").read_bytes() == b"y"


def test_a_weakened_etag_is_told(mount, faulty):
    """A proxy that compresses, say: its bodies are not the object's."""
    faulty.objects = {"file": data.content("weak", 5000)}
    m = show(faulty, mount)
    os.listdir(m.path)
    faulty.metadata["file"] = {"ETag": "W/" + faulty.etag("file")}
    number, _ = error_of((m.path / "file").read_bytes)
    assert number == errno.EIO
    assert "changes bodies" in m.log.read_text()


def test_archived_object(mount, faulty):
    faulty.objects = {"cold": data.content("cold", 5000), "warm": b"warm"}
    faulty.storage_class = {"cold": "DEEP_ARCHIVE"}
    m = show(faulty, mount)
    assert sorted(os.listdir(m.path)) == ["cold", "warm"] and (m.path / "cold").stat().st_size == 5000
    number, seconds = error_of((m.path / "cold").read_bytes)
    assert number != errno.ETIMEDOUT and seconds < DEADLINE * processes.SLOWNESS, "an archived object is not retried"
    assert (m.path / "warm").read_bytes() == b"warm"


def test_object_deleted_behind_the_listing(mount, faulty):
    faulty.objects = {"goes": b"x" * 1000}
    m = show(faulty, mount)
    assert os.listdir(m.path) == ["goes"]
    del faulty.objects["goes"]
    number, _ = error_of((m.path / "goes").read_bytes)
    assert number in (errno.ENOENT, errno.ESTALE)


def test_version_is_pinned(mount, faulty):
    """Each fetch of a large object names the version it belongs to."""
    faulty.objects = {"large": data.content("pinned", 9 << 20)}
    m = show(faulty, mount)
    data.expect_files(m.path, faulty.objects)
    gets = [headers for method, path, headers in faulty.seen if method == "GET" and "large" in path.split("?")[0]]
    assert gets and all(headers.get("If-Match") == faulty.etag("large") for headers in gets)


def test_nonsense_listing(mount, faulty):
    """A server that is no S3 server: an error at the start, not a crash."""
    faulty.list = lambda request, bucket, query: request.answer(200, b"<html>hello</html>", {"Content-Type": "text/html"})
    m = mount.prepare("s3://bucket", {**faulty.options, "origin.deadline": "3s"}, env=faulty.env)
    finished = m.attempt()
    if finished.returncode == 0:
        with pytest.raises(OSError):
            os.listdir(m.path)
    else:
        assert finished.returncode == 1 and finished.err.strip()


# -- credentials ----------------------------------------------------------------------------------------------------


def key_used(server):
    """The access key and the session token of the last request."""
    headers = {name.lower(): value for name, value in server.seen[-1][2].items()}
    credential = headers["authorization"].partition("Credential=")[2].partition("/")[0]
    return credential, headers.get("x-amz-security-token")


def read_with(mount, faulty, env, **options):
    faulty.objects = {"file": b"content"}
    m = mount("s3://bucket", {**faulty.options, **options}, env=env)
    assert (m.path / "file").read_bytes() == b"content"
    return key_used(faulty)


def test_credentials_from_the_environment(mount, faulty):
    env = {"AWS_ACCESS_KEY_ID": "ENVKEY", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "envtoken"}
    assert read_with(mount, faulty, env) == ("ENVKEY", "envtoken")


def test_credentials_from_a_profile(mount, faulty, folder):
    path = folder / "credentials"
    data.write(path, b"[default]\naws_access_key_id = DEFAULTKEY\naws_secret_access_key = s\n\n"
                     b"[training]\naws_access_key_id=TRAININGKEY\naws_secret_access_key=s\n")
    env = {"AWS_SHARED_CREDENTIALS_FILE": str(path)}
    assert read_with(mount, faulty, env) == ("DEFAULTKEY", None)
    assert read_with(mount, faulty, env, **{"s3.profile": "training"}) == ("TRAININGKEY", None)
    assert read_with(mount, faulty, {**env, "AWS_PROFILE": "training"}) == ("TRAININGKEY", None)


def test_credentials_from_a_container(mount, faulty):
    with faults.Credentials() as service:
        env = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{service.endpoint}/container"}
        assert read_with(mount, faulty, env) == ("ASIATEMPORARY", "session-token")


def test_credentials_from_instance_metadata(mount, faulty):
    with faults.Credentials() as service:
        env = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": service.endpoint, "AWS_EC2_METADATA_DISABLED": "false"}
        assert read_with(mount, faulty, env) == ("ASIATEMPORARY", "session-token")
        assert service.seen[0][0] == "PUT", "the metadata service is asked for its session token first"


def test_credentials_from_a_web_identity(mount, faulty, folder):
    data.write(folder / "token", b"web-identity-token")
    with faults.Credentials() as service:
        env = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "token"), "AWS_ROLE_ARN": "arn:aws:iam::1:role/r",
               "AWS_ENDPOINT_URL_STS": service.endpoint}
        assert read_with(mount, faulty, env) == ("ASIATEMPORARY", "session-token")


# -- what a server says and we repeat ---------------------------------------------------------------------------------


class HostileListing(faults.FaultyS3):
    """Versions in its listings that are requests, where they are taken for a header's value."""

    listing = threading.local()

    def list(self, request, bucket, query):
        self.listing.is_under_way = True
        try:
            super().list(request, bucket, query)
        finally:
            self.listing.is_under_way = False

    def etag(self, key):
        if getattr(self.listing, "is_under_way", False):
            return '"x"\n\nDELETE /bucket/precious HTTP/1.1\nHost: s3\nContent-Length: 0\n\n'
        return super().etag(key)


@pytest.mark.parametrize("way", ["ro", "rw"])
def test_version_that_is_a_request_is_not_sent(mount, way):
    with HostileListing({"d/file": b"content", "precious": b"x"}) as server:
        m = mount("s3://bucket", {"s3.endpoint": server.endpoint, "s3.region": "us-east-1", way: None},
                  env={"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"})
        assert sorted(os.listdir(m.path)) == ["d", "precious"] and os.listdir(m.path / "d") == ["file"]
        assert (m.path / "d/file").read_bytes() == b"content"
        assert {command for command, _, _ in server.seen} <= {"GET", "HEAD"}

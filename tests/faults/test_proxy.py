"""Each fault of the proxy does what it says, seen by a client that knows nothing but sockets."""

import json
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from email.utils import formatdate
from pathlib import Path

import pytest
from harness import data, faults
from proxy import Proxy, Rule, Script, ScriptError
from proxy.certificates import Certificates

LIMIT = 20  # seconds; only ends a hang
BODY = data.content("proxy", 100_000)


class Client:
    """One connection. ask() sends a request and reads the reply as HTTP/1.1 says, and no further."""

    def __init__(self, proxy, tls=None, name="127.0.0.1"):
        self.socket = socket.create_connection(("127.0.0.1", proxy.port), LIMIT)
        if tls:
            self.socket = ssl.create_default_context(cafile=tls).wrap_socket(self.socket, server_hostname=name)
        self.file = self.socket.makefile("rb")

    def send(self, path="/bucket/object", method="GET", body=b"", **headers):
        lines = [f"{method} {path} HTTP/1.1", "Host: h", f"Content-Length: {len(body)}" if body else "X-Nothing: 1"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.socket.sendall("\r\n".join(lines + ["", ""]).encode() + body)

    def head(self):
        line = self.file.readline()
        if not line:
            raise EOFError("no reply")
        status, headers = int(line.split()[1]), {}
        while (line := self.file.readline().strip()):
            name, _, value = line.partition(b":")
            headers[name.decode().lower()] = value.strip().decode()
        return status, headers

    def ask(self, path="/bucket/object", method="GET", body=b"", **headers):
        self.send(path, method, body, **headers)
        status, headers = self.head()
        return status, headers, b"" if method == "HEAD" else self.body(headers)

    def body(self, headers):
        if headers.get("transfer-encoding") != "chunked":
            return self.file.read(int(headers["content-length"]))
        pieces = []
        while size := int(self.file.readline(), 16):
            pieces.append(self.file.read(size))
            self.file.readline()
        self.file.readline()
        return b"".join(pieces)

    def ended(self):
        """Whether the proxy ended the connection in order."""
        return self.file.read(1) == b""

    def quiet(self, seconds=0.3):
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1) is None
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(LIMIT)

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@pytest.fixture(name="server")
def make_server():
    with faults.FaultyS3({"object": BODY, "other": b"other"}) as server:
        yield server


@pytest.fixture(name="proxy")
def make_proxy(server):
    with Proxy(("127.0.0.1", server.port)) as proxy:
        yield proxy


def rule(proxy, *described, **match):
    return proxy.set_rules([{"match": match, "faults": list(described)}])[0]


# -- without faults -------------------------------------------------------------------------------------------------


def test_passes_on_one_connection(proxy, server):
    with Client(proxy) as client:
        for _ in range(3):
            assert client.ask()[2] == BODY
            status, headers, body = client.ask(Range="bytes=10-19")
            assert (status, headers["content-range"], body) == (206, f"bytes 10-19/{len(BODY)}", BODY[10:20])
            assert client.ask(method="HEAD")[1]["content-length"] == str(len(BODY))
            assert b"<Key>object</Key>" in client.ask("/bucket?list-type=2")[2]
            assert client.ask("/bucket/none")[0] == 404
    counted = proxy.count()
    assert counted["connections"] == 1
    assert counted["requests"] == {"whole": 6, "ranged": 3, "head": 3, "list": 3}
    assert counted["bytes"]["ranged"] == 30 and counted["faults"] == {}
    assert len(server.seen) == 15 and len(proxy.log("/bucket/none")) == 3


class Scripted(faults.Web):
    """An upstream that says what a test wants."""

    def serve(self, request):
        self.act(request)


def test_passes_chunks_bodies_and_hundred_continue():
    def act(request):
        length = int(request.headers.get("Content-Length", 0))
        sent = request.rfile.read(length)
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        for piece in (b"a" * 70_000, sent, b"end"):
            if piece:
                request.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        request.wfile.write(b"0\r\n\r\n")

    with Scripted() as server, Proxy(("127.0.0.1", server.port)) as proxy, Client(proxy) as client:
        server.act = act
        for sent in (b"", BODY):
            assert client.ask("/bucket/x", "PUT" if sent else "GET", sent)[2] == b"a" * 70_000 + sent + b"end"
        rule(proxy, {"do": "truncate", "share": 0.5})
        status, headers = client.send("/bucket/x") or client.head()
        assert status == 200 and headers["content-length"] == "70003"
        assert client.file.read() == b"a" * 35_001


def test_reply_without_length_ends_with_the_connection():
    def act(request):
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b"x" * 1000)
        request.close_connection = True

    with Scripted() as server, Proxy(("127.0.0.1", server.port)) as proxy, Client(proxy) as client:
        server.act = act
        client.send()
        client.head()
        assert client.file.read() == b"x" * 1000


def test_server_that_closes_kept_connections(proxy, server):
    """The proxy asks again where a kept connection was closed meanwhile, and does not hide a server that is gone."""
    with Client(proxy) as client:
        assert client.ask("/bucket/other")[2] == b"other"
        server.fault = lambda method, key, number: "reset"
        with pytest.raises((EOFError, ConnectionError)):
            client.ask("/bucket/other")
    server.fault = lambda method, key, number: None
    with Client(proxy) as client:
        assert client.ask("/bucket/other")[2] == b"other"


# -- which requests are hit -----------------------------------------------------------------------------------------


def statuses(client, count, path="/bucket/other", **headers):
    return [client.ask(path, **headers)[0] for _ in range(count)]


def test_matches(proxy):
    refuse = {"do": "reply", "status": 503, "code": "SlowDown"}
    with Client(proxy) as client:
        rule(proxy, refuse, nth=2)
        assert statuses(client, 3) == [200, 503, 200]
        rule(proxy, refuse, nth=[1, 3])
        assert statuses(client, 4) == [503, 200, 503, 200]
        rule(proxy, refuse, every=3)
        assert statuses(client, 7) == [200, 200, 503, 200, 200, 503, 200]
        hit = rule(proxy, refuse, times=2)
        assert statuses(client, 3) == [503, 503, 200] and (hit.hits, hit.seen) == (2, 3)
        rule(proxy, refuse, each=True, nth=1)
        assert statuses(client, 2) + statuses(client, 2, "/bucket/object") == [503, 200, 503, 200]
        rule(proxy, refuse, kind="ranged")
        assert statuses(client, 1) + statuses(client, 1, Range="bytes=0-1") == [200, 503]
        rule(proxy, refuse, kind="get")
        assert statuses(client, 1) + statuses(client, 1, Range="bytes=0-1") == [503, 503]
        assert statuses(client, 1, "/bucket?list-type=2") == [200]
        rule(proxy, refuse, path="^/bucket/ob")
        assert statuses(client, 1) + statuses(client, 1, "/bucket/object") == [200, 503]
        rule(proxy, refuse, header={"Authorization": "OLD"})
        assert statuses(client, 1, Authorization="x OLD y") + statuses(client, 1, Authorization="NEW") == [503, 200]
        rule(proxy, refuse, method="HEAD")
        assert client.ask(method="HEAD")[0] == 503 and statuses(client, 1) == [200]
        rule(proxy, refuse, seconds=0)
        assert statuses(client, 1) == [200]


def test_probability_is_repeatable(proxy):
    found = []
    with Client(proxy) as client:
        for seed in (1, 1, 2):
            rule(proxy, {"do": "reply", "status": 503}, probability=0.3, seed=seed)
            found.append(statuses(client, 60))
    assert found[0] == found[1] != found[2] and 0 < found[0].count(503) < 60


def test_rules_are_put_together(proxy):
    proxy.set_rules([{"name": "a", "faults": [{"do": "header", "name": "ETag", "value": '"changed"'}]},
                     {"name": "b", "faults": [{"do": "header", "name": "ETag", "value": "late"}, {"do": "flip", "at": 0}]}])
    with Client(proxy) as client:
        _, headers, body = client.ask()
    assert headers["etag"] == '"changed"' and body == bytes([BODY[0] ^ 1]) + BODY[1:]
    assert proxy.log()[0][3] == ["a", "b"] and proxy.count()["faults"] == {"header": 1, "flip": 1}


def test_wrong_scripts_are_refused(tmp_path):
    for wrong in ({"faults": [{"do": "explode"}]}, {"faults": [{"do": "latency", "s": 1}]}, {"fault": []},
                  {"match": {"kind": "fetch"}}, {"match": {"nr": 1}}):
        with pytest.raises(ScriptError):
            Rule(wrong)
    (tmp_path / "script").write_text("[1]")
    with pytest.raises(ScriptError):
        Script.load(tmp_path / "script")


# -- what happens to them -------------------------------------------------------------------------------------------


def test_latency_and_its_tail(proxy):
    with Client(proxy) as client:
        rule(proxy, {"do": "latency", "ms": 200})
        begun = time.monotonic()
        assert client.ask()[2] == BODY
        assert time.monotonic() - begun >= 0.2
        rule(proxy, {"do": "latency", "ms": 0, "tail_p": 1, "tail_ms": 200})
        begun = time.monotonic()
        assert client.ask()[2] == BODY
        assert time.monotonic() - begun >= 0.2


def test_bandwidth(proxy):
    rule(proxy, {"do": "bandwidth", "bytes_per_s": 200_000})
    begun = time.monotonic()
    with Client(proxy) as client:
        assert client.ask()[2] == BODY
    assert time.monotonic() - begun >= 0.45


def test_silence(proxy):
    rule(proxy, {"do": "silent"})
    with Client(proxy) as client:
        client.send()
        assert client.quiet()


def test_stall_in_the_body(proxy):
    rule(proxy, {"do": "stall", "after": 1000})
    with Client(proxy) as client:
        client.send()
        assert client.head()[1]["content-length"] == str(len(BODY))
        assert client.file.read(1000) == BODY[:1000] and client.quiet()
    rule(proxy, {"do": "stall", "after": 1000, "seconds": 0.2})
    with Client(proxy) as client:
        begun = time.monotonic()
        assert client.ask()[2] == BODY and time.monotonic() - begun >= 0.2
        assert client.ask()[2] == BODY


def test_reset_before_and_within_the_reply(proxy):
    rule(proxy, {"do": "reset"})
    with Client(proxy) as client, pytest.raises(ConnectionResetError):
        client.ask()
    rule(proxy, {"do": "reset", "after": 1000})
    with Client(proxy) as client:
        client.send()
        client.head()
        with pytest.raises(ConnectionResetError):
            client.file.read(len(BODY))


def test_truncated_body(proxy):
    rule(proxy, {"do": "truncate", "after": 1234})
    with Client(proxy) as client:
        _, headers, body = client.ask()
        assert headers["content-length"] == str(len(BODY)) and body == BODY[:1234] and client.ended()
    rule(proxy, {"do": "truncate"})
    with Client(proxy) as client:
        assert client.ask()[2] == BODY[:len(BODY) // 2] and client.ended()


def test_wrong_lengths(proxy):
    rule(proxy, {"do": "length", "by": 10})
    with Client(proxy) as client:
        _, headers, body = client.ask()
        assert headers["content-length"] == str(len(BODY) + 10) and body == BODY and client.ended()
    rule(proxy, {"do": "length", "by": -10})
    with Client(proxy) as client:
        _, headers, body = client.ask()
        assert headers["content-length"] == str(len(BODY) - 10) and body == BODY[:-10]
        assert client.file.read(10) == BODY[-10:]


def test_wrong_ranges(proxy):
    with Client(proxy) as client:
        for fault, expected in (({"by": 5}, f"bytes 15-24/{len(BODY)}"), ({"text": "bytes x"}, "bytes x"),
                                ({"text": ""}, None)):
            rule(proxy, {"do": "range", **fault})
            status, headers, body = client.ask(Range="bytes=10-19")
            assert (status, headers.get("content-range"), body) == (206, expected, BODY[10:20])
        rule(proxy, {"do": "ignore_range"})
        status, headers, body = client.ask(Range="bytes=10-19")
        assert status == 200 and body == BODY


def test_flipped_bits(proxy):
    found = []
    with Client(proxy) as client:
        for _ in range(2):
            proxy.forget()
            rule(proxy, {"do": "flip", "seed": 3, "bits": 4})
            found += [client.ask()[2], client.ask()[2]]
    differing = [[at for at in range(len(BODY)) if body[at] != BODY[at]] for body in found]
    assert differing[0] == differing[2] != differing[1] == differing[3] and len(differing[0]) == 4


@pytest.mark.parametrize("status, code", [(403, "ExpiredToken"), (404, "NoSuchKey"), (412, "PreconditionFailed"),
                                          (416, "InvalidRange"), (500, "InternalError"), (503, "SlowDown")])
def test_canned_replies(proxy, server, status, code):
    rule(proxy, {"do": "reply", "status": status, "code": code, "headers": {"Retry-After": "1"}})
    with Client(proxy) as client:
        for _ in range(2):
            found, headers, body = client.ask()
            assert found == status and f"<Code>{code}</Code>".encode() in body and headers["retry-after"] == "1"
        assert client.ask(method="HEAD")[:1] == (status,)
        proxy.set_rules([])
        assert client.ask()[2] == BODY
    assert len(server.seen) == 1


def test_redirects(proxy):
    with Client(proxy) as client:
        rule(proxy, {"do": "redirect"})
        status, headers, _ = client.ask("/bucket/object?x=1")
        assert (status, headers["location"]) == (307, proxy.endpoint + "/bucket/object?x=1")
        rule(proxy, {"do": "redirect", "status": 301, "to": "http://elsewhere.invalid/", "region": "eu-west-1"})
        status, headers, body = client.ask()
        assert (status, headers["location"]) == (301, "http://elsewhere.invalid/")
        assert headers["x-amz-bucket-region"] == "eu-west-1" and b"<Region>eu-west-1</Region>" in body


def test_skewed_clock(proxy):
    rule(proxy, {"do": "skew", "seconds": 7200})
    with Client(proxy) as client:
        for ahead, expected in ((0, 403), (7200, 200), (7200 + 800, 200), (7200 + 1000, 403)):
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + ahead))
            status, headers, body = client.ask(X_Amz_Date=stamp)
            assert status == expected
            if status == 403:
                assert b"RequestTimeTooSkewed" in body
                assert headers["date"][:13] == formatdate(time.time() + 7200, usegmt=True)[:13]


def test_other_bodies(proxy):
    with Client(proxy) as client:
        rule(proxy, {"do": "body", "of": "garbage", "size": 500, "seed": 1})
        assert len(client.ask("/bucket?list-type=2")[2]) == 500
        rule(proxy, {"do": "body", "of": "text", "text": "<html/>"})
        assert client.ask("/bucket?list-type=2")[2] == b"<html/>"
        rule(proxy, {"do": "body", "of": "bomb"})
        assert client.ask("/bucket?list-type=2")[2].count(b"<!ENTITY") == 10
        rule(proxy, {"do": "body", "of": "endless"})
        client.send("/bucket?list-type=2")
        client.head()
        assert len(client.file.read(5 << 20)) == 5 << 20


def test_refused_and_dropped_connections(proxy):
    with Client(proxy) as client:
        client.ask()
        proxy.drop_connections()
        assert client.ended()
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        Client(proxy)
    proxy.refuse(False)
    with Client(proxy) as client:
        assert client.ask()[2] == BODY


def test_faults_of_connections(proxy):
    proxy.set_rules([{"match": {"kind": "connection", "nth": 1}, "faults": [{"do": "reset"}]},
                     {"match": {"kind": "connection", "nth": 2}, "faults": [{"do": "silent"}]}])
    with pytest.raises(ConnectionResetError), Client(proxy) as client:
        client.ask()
    with Client(proxy) as client:
        client.send()
        assert client.quiet()
    with Client(proxy) as client:
        assert client.ask()[2] == BODY


def test_bytes_without_http(server):
    with Proxy(("127.0.0.1", server.port), tcp=True) as proxy:
        with Client(proxy) as client:
            assert client.ask()[2] == BODY and client.ask("/bucket/other")[2] == b"other"
        rule(proxy, {"do": "flip", "at": 9}, times=1)  # HTTP/1.1 200: the first digit of the status
        with Client(proxy) as client:
            assert client.ask()[0] == 300
        rule(proxy, {"do": "truncate", "after": 5})
        with Client(proxy) as client:
            client.send()
            assert client.file.read() == b"HTTP/"
        assert proxy.count()["requests"] == {"connection": 3}


# -- TLS ------------------------------------------------------------------------------------------------------------


@pytest.fixture(name="certificates", scope="module")
def make_certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("tls"))


def test_tls(server, certificates):
    with Proxy(("127.0.0.1", server.port), tls=certificates) as proxy:
        with Client(proxy, certificates.authority) as client:
            assert client.ask()[2] == BODY and client.ask()[2] == BODY
        for mode, reason in (("expired", "expired"), ("wrong_name", "mismatch"), ("unknown_ca", "self-signed|unable to"),
                             ("garbage", "WRONG_VERSION|version"), ("cut", "EOF|eof")):
            proxy.tls_mode = mode
            with pytest.raises(ssl.SSLError, match=reason):
                Client(proxy, certificates.authority)
        proxy.tls_mode = "good"
        with Client(proxy, certificates.authority) as client:
            assert client.ask("/bucket/other")[2] == b"other"
        rule(proxy, {"do": "tls", "mode": "expired"}, kind="connection", times=1)
        with pytest.raises(ssl.SSLError, match="expired"):
            Client(proxy, certificates.authority)
        Client(proxy, certificates.authority).close()


# -- by hand --------------------------------------------------------------------------------------------------------


def test_program_and_its_control_port(server, tmp_path):
    script = tmp_path / "faults.json"
    script.write_text(json.dumps([{"name": "none", "match": {"kind": "get"}, "faults": [{"do": "reply", "status": 404}]}]))
    program = [sys.executable, str(Path(__file__).with_name("proxy.py")), "--listen", "127.0.0.1:0", "--upstream",
               f"127.0.0.1:{server.port}", "--script", str(script)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as running:
        try:
            _, endpoint, _, control = running.stdout.readline().split()
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

            def act(method, path, sent=None):
                request = urllib.request.Request(control + path, method=method, data=sent and json.dumps(sent).encode())
                with opener.open(request, timeout=LIMIT) as answer:
                    return json.load(answer)

            class At:
                port = int(endpoint.rpartition(":")[2])

            with Client(At) as client:
                assert client.ask()[0] == 404
                act("PUT", "/rules", [{"faults": [{"do": "reply", "status": 500}]}])
                assert client.ask()[0] == 500
                act("POST", "/rules", {"name": "more", "faults": [{"do": "latency", "ms": 1}]})
                with pytest.raises(urllib.error.HTTPError):
                    act("PUT", "/rules", [{"faults": [{"do": "nothing"}]}])
                assert [one["name"] for one in act("GET", "/")["rules"]] == ["reply", "more"]
                act("DELETE", "/rules")
                assert client.ask()[2] == BODY
                counted = act("GET", "/")
            assert counted["requests"] == {"whole": 3} and counted["faults"] == {"reply": 2}
        finally:
            running.terminate()
            assert running.wait(LIMIT) == 0

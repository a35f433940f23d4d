"""Servers that misbehave on purpose: a small S3 whose faults are scripted, a TLS port, one that never answers, and the
services that hand out credentials."""

import datetime
import hashlib
import json
import socket
import ssl
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

from . import processes, servers


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=None, length=None):
        """length: what Content-Length claims, where that shall not be true."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code} here</Message></Error>'.encode()
        self.answer(status, body, {"Content-Type": "application/xml"})

    def do_GET(self):  # pylint: disable=invalid-name
        if self.server.owner.closing.is_set():  # a connection that was kept open ends with the server
            self.close_connection = True
            return
        self.server.owner.serve(self)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # a client that hangs up is part of the tests


class Web:
    """An HTTP server on a free loopback port, in threads of this process. Subclasses define serve(request)."""

    def __init__(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.owner = self
        self.port = self.server.server_address[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.seen = []  # (method, path with query, headers)
        self.closing = threading.Event()
        self.released = threading.Event()
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def serve(self, request):
        raise NotImplementedError

    def release(self):
        """Requests that were never to be answered end, with their connections; so do all that stall from now on."""
        self.released.set()

    def stop(self):
        self.closing.set()
        self.release()
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.stop()


class FaultyS3(Web):
    """Any bucket, one set of objects. `fault(method, key, number)` is asked for each request, where `number` counts the
    requests for this key from 0, and the key of a listing is ""; it returns None or one of:
      (status, code)  that error                     "stall"     never answers
      "reset"         the connection ends at once    "short"     half the body, then the end, with the whole length
      "flip"          the body with one byte changed """

    def __init__(self, objects=None):
        self.objects = dict(objects or {})
        self.storage_class = {}  # key -> GLACIER ...; a GET of it is refused as S3 does
        self.metadata = {}  # key -> headers that its answers have besides
        self.said_sizes = {}  # key -> what listings and HEADs say of its size; GETs tell the truth
        self.fault = lambda method, key, number: None
        self.numbers = {}
        self.lock = threading.Lock()
        super().__init__()

    def etag(self, key):
        return '"' + hashlib.md5(self.objects[key]).hexdigest() + '"'

    def count(self, method=None):
        return sum(1 for seen, path, _ in self.seen if method in (None, seen))

    def serve(self, request):
        path, _, query = request.path.partition("?")
        bucket, _, key = urllib.parse.unquote(path.lstrip("/")).partition("/")
        with self.lock:
            self.seen.append((request.command, request.path, dict(request.headers)))
            number = self.numbers[request.command, key] = self.numbers.get((request.command, key), -1) + 1
        fault = self.fault(request.command, key, number)
        if isinstance(fault, tuple):
            request.refuse(*fault)
        elif fault == "stall":
            self.released.wait()
            request.close_connection = True
        elif fault == "reset":
            request.close_connection = True
            request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            request.connection.close()
        elif key == "" and request.command == "GET":
            self.list(request, bucket, dict(urllib.parse.parse_qsl(query, keep_blank_values=True)))
        elif key == "":
            request.answer(200)
        else:
            self.object(request, key, fault)

    def list(self, request, bucket, query):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        encode = urllib.parse.quote if query.get("encoding-type") == "url" else (lambda text, safe=None: escape(text))
        limit = min(int(query.get("max-keys", "1000")), 1000)
        after = query.get("continuation-token", query.get("start-after", ""))
        rows, groups, last, more = [], [], "", False
        for key in sorted(self.objects, key=str.encode):
            if not key.startswith(prefix):
                continue
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            name = key if cut < 0 else key[:cut + len(delimiter)]
            if name.encode() <= after.encode() or name in groups:
                continue
            if len(rows) + len(groups) >= limit:
                more = True
                break
            last = name
            if cut >= 0:
                groups.append(name)
            else:
                rows.append(f"<Contents><Key>{encode(key)}</Key><LastModified>2024-05-06T07:08:09.000Z</LastModified>"
                            f"<ETag>{escape(self.etag(key))}</ETag><Size>{self.said_sizes.get(key, len(self.objects[key]))}</Size>"
                            f"<StorageClass>{self.storage_class.get(key, 'STANDARD')}</StorageClass></Contents>")
        token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if more else ""
        encoding = "<EncodingType>url</EncodingType>" if query.get("encoding-type") == "url" else ""
        body = (f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>{bucket}</Name>'
                f"<Prefix>{encode(prefix)}</Prefix><MaxKeys>{limit}</MaxKeys><KeyCount>{len(rows) + len(groups)}"
                f"</KeyCount>{encoding}<IsTruncated>{str(more).lower()}</IsTruncated>{token}{''.join(rows)}" +
                "".join(f"<CommonPrefixes><Prefix>{encode(group)}</Prefix></CommonPrefixes>" for group in groups) +
                "</ListBucketResult>")
        request.answer(200, body.encode(), {"Content-Type": "application/xml"})

    def object(self, request, key, fault):
        if key not in self.objects:
            return request.refuse(404, "NoSuchKey")
        archived = self.storage_class.get(key, "") in ("GLACIER", "DEEP_ARCHIVE")
        if archived and request.command == "GET":
            return request.refuse(403, "InvalidObjectState")
        body, etag = self.objects[key], self.etag(key)
        if request.headers.get("If-Match", etag) != etag:
            return request.refuse(412, "PreconditionFailed")
        headers = {"ETag": etag, "Last-Modified": "Mon, 06 May 2024 07:08:09 GMT", "Accept-Ranges": "bytes", **self.metadata.get(key, {})}
        if key in self.storage_class:
            headers["x-amz-storage-class"] = self.storage_class[key]
        status, span = 200, request.headers.get("Range", "")
        if span.startswith("bytes="):
            first, _, end = span[6:].partition("-")
            start = int(first) if first else max(len(body) - int(end), 0)
            stop = min(int(end) + 1 if first and end else len(body), len(body))
            if start >= len(body):
                return request.refuse(416, "InvalidRange")
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(body)}"
            status, body = 206, body[start:stop]
        if request.command == "HEAD":
            return request.answer(status, b"", headers, length=self.said_sizes.get(key, len(body)))
        if fault == "short":
            request.close_connection = True
            return request.answer(status, body[:len(body) // 2], headers, length=len(body))
        if fault == "flip" and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        return request.answer(status, body, headers)


class Credentials(Web):
    """Stands in for the services that hand out temporary keys: instance metadata (with its session token), container
    credentials, and STS for a web identity. `access_key` and so on are what they give."""

    def __init__(self, access_key="ASIATEMPORARY", secret_key="temporary-secret", token="session-token", minutes=60):
        self.access_key, self.secret_key, self.token, self.minutes = access_key, secret_key, token, minutes
        super().__init__()

    def expiry(self):
        when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=self.minutes)
        return when.strftime("%Y-%m-%dT%H:%M:%SZ")

    def serve(self, request):
        length = int(request.headers.get("Content-Length", 0))
        sent = request.rfile.read(length)
        self.seen.append((request.command, request.path, dict(request.headers)))
        base = "/latest/meta-data/iam/security-credentials/"
        document = {"Code": "Success", "AccessKeyId": self.access_key, "SecretAccessKey": self.secret_key,
                    "Token": self.token, "Expiration": self.expiry()}
        if request.path == "/latest/api/token" and request.command == "PUT":
            request.answer(200, b"metadata-token", {"X-aws-ec2-metadata-token-ttl-seconds": "21600"})
        elif request.path.startswith(base) and request.headers.get("X-aws-ec2-metadata-token") != "metadata-token":
            request.answer(401)
        elif request.path == base:
            request.answer(200, b"test-role")
        elif request.path == base + "test-role" or request.path.startswith("/container"):
            request.answer(200, json.dumps(document).encode(), {"Content-Type": "application/json"})
        elif b"AssumeRoleWithWebIdentity" in sent + request.path.encode():
            body = ("<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
                    "<AssumeRoleWithWebIdentityResult><Credentials>"
                    f"<AccessKeyId>{self.access_key}</AccessKeyId><SecretAccessKey>{self.secret_key}</SecretAccessKey>"
                    f"<SessionToken>{self.token}</SessionToken><Expiration>{self.expiry()}</Expiration>"
                    "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>")
            request.answer(200, body.encode(), {"Content-Type": "text/xml"})
        else:
            request.answer(404)


class TlsPort(FaultyS3):
    """FaultyS3 behind TLS with a certificate of its own for 127.0.0.1 (.certificate, a PEM file)."""

    def __init__(self, folder, objects=None):
        super().__init__(objects)
        self.certificate = folder / "certificate.pem"
        key = folder / "key.pem"
        processes.check(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                         "-nodes", "-keyout", key, "-out", self.certificate, "-days", "2", "-subj", "/CN=127.0.0.1",
                         "-addext", "subjectAltName=IP:127.0.0.1"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        # The handshake must happen in the connection's thread, not in accept().
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.endpoint = f"https://127.0.0.1:{self.port}"


class SilentPort:
    """Accepts connections and never says a word."""

    def __init__(self):
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(128)
        self.port = self.listener.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                self.connections.append(self.listener.accept()[0])
            except OSError:
                return

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.stop()


def closed_port():
    """A loopback port that refuses connections, and that nobody gets meanwhile."""
    return servers.free_ports()

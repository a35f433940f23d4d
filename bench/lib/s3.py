"""Just enough S3 for the bench: a signed request without a body of its own making (AWS Signature Version 4, path style)."""

import datetime
import hashlib
import hmac
import json
import urllib.error
import urllib.parse
import urllib.request

from .process import Failure


def _digest(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signed_request(server, method, path, query="", body=b""):
    """Status and body of the reply. `query` is in canonical form already: sorted, each name with '='."""
    status, _, text = _answer(server, method, path, query, body)
    return status, text


def object_size(server, path):
    """Bytes, by a HEAD; None: no such object."""
    status, headers, _ = _answer(server, "HEAD", path)
    if status not in (200, 404):
        raise Failure(f"HEAD {server.endpoint}{path}: HTTP {status}")
    return int(headers["Content-Length"]) if status == 200 else None


def remove_object(server, path):
    status, text = signed_request(server, "DELETE", path)
    if status not in (200, 204, 404):
        raise Failure(f"DELETE {server.endpoint}{path}: HTTP {status}: {text[:200]!r}")


def _answer(server, method, path, query="", body=b""):
    """Status, headers and body."""
    now = datetime.datetime.now(datetime.timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    host = urllib.parse.urlsplit(server.endpoint).netloc
    content = hashlib.sha256(body).hexdigest()
    names = "host;x-amz-content-sha256;x-amz-date"
    canonical = "\n".join([method, urllib.parse.quote(path), query, f"host:{host}", f"x-amz-content-sha256:{content}",
                           f"x-amz-date:{stamp}", "", names, content])
    scope = f"{day}/us-east-1/s3/aws4_request"
    to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{server.secret_key}".encode()
    for part in (day, "us-east-1", "s3", "aws4_request"):
        key = _digest(key, part)
    signature = _digest(key, to_sign).hex()
    url = server.endpoint + urllib.parse.quote(path) + (f"?{query}" if query else "")
    request = urllib.request.Request(url, data=body or None, method=method, headers={
        "x-amz-content-sha256": content, "x-amz-date": stamp,
        "Authorization": f"AWS4-HMAC-SHA256 Credential={server.access_key}/{scope}, SignedHeaders={names}, "
                         f"Signature={signature}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as reply:
            return reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()
    except OSError as error:
        raise Failure(f"{method} {url}: {error}") from None


def make_bucket(server, bucket):
    status, text = signed_request(server, "PUT", f"/{bucket}")
    if status not in (200, 409):
        raise Failure(f"bucket {bucket} cannot be made: HTTP {status}: {text[:200]!r}")


def allow_anonymous_reading(server, bucket):
    """So that curl reads without signing, which costs the server less than what tierfs asks of it."""
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject"],
                                                      "Resource": [f"arn:aws:s3:::{bucket}/*"]}]}
    status, text = signed_request(server, "PUT", f"/{bucket}", "policy=", json.dumps(policy).encode())
    if status not in (200, 204):
        raise Failure(f"policy of bucket {bucket} cannot be set: HTTP {status}: {text[:200]!r}")

"""HTTP/1.1 on the wire, as much as a proxy needs: heads, and where a body ends (RFC 9112, sections 2 to 7)."""

import asyncio

HEAD_LIMIT = 1 << 18
PIECE = 1 << 16


class Broken(Exception):
    """What came is not HTTP, or ended in the middle."""


class Head:
    """A start line and headers. headers: names in lower case; lines: as they came, for passing them on."""

    __slots__ = ("first", "headers", "lines")

    def __init__(self, raw):
        first, _, rest = raw[:-4].partition(b"\r\n")
        self.first = first.decode("latin-1")
        self.lines = rest.split(b"\r\n") if rest else []
        self.headers = {}
        for line in self.lines:
            name, colon, value = line.partition(b":")
            if not colon:
                raise Broken(f"not a header: {line[:80]!r}")
            self.headers[name.decode("latin-1").lower()] = value.strip().decode("latin-1")

    def set(self, name, value):
        """Changes, adds or (None) removes one header."""
        wanted = name.lower().encode() + b":"
        place = next((at for at, line in enumerate(self.lines) if line.lower().startswith(wanted)), None)
        self.lines = [line for line in self.lines if not line.lower().startswith(wanted)]
        self.headers.pop(name.lower(), None)
        if value is not None:
            self.lines.insert(len(self.lines) if place is None else place, f"{name}: {value}".encode("latin-1"))
            self.headers[name.lower()] = str(value)

    def raw(self):
        return b"\r\n".join([self.first.encode("latin-1"), *self.lines, b"", b""])

    def keeps_alive(self):
        return self.headers.get("connection", "").lower() != "close" and not self.first.startswith("HTTP/1.0")


class Request(Head):
    __slots__ = ("method", "path", "kind")

    def __init__(self, raw):
        super().__init__(raw)
        words = self.first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise Broken(f"not a request: {self.first[:80]!r}")
        self.method, self.path = words[0], words[1]
        self.kind = kind_of(self.method, self.path, "range" in self.headers)


class Connection:
    """Stands in for a request where a connection is all that is seen yet. alone: there will be no requests."""

    method, path, kind, headers = "", "", "connection", {}

    def __init__(self, alone):
        self.alone = alone


class Reply(Head):
    __slots__ = ("status",)

    def __init__(self, raw):
        super().__init__(raw)
        words = self.first.split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            raise Broken(f"not a reply: {self.first[:80]!r}")
        self.status = int(words[1])


def kind_of(method, path, ranged):
    """Path style: /BUCKET and /BUCKET/ are the bucket, and a GET of it is a listing."""
    if method == "GET":
        bucket, _, key = path.partition("?")[0].lstrip("/").partition("/")
        if bucket and not key:
            return "list"
        return "ranged" if ranged else "whole"
    return {"HEAD": "head", "PUT": "put"}.get(method, "other")


async def read_head(reader, kind):
    """The next head, or None when the peer has hung up in order."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise Broken("the peer hung up within a head") from error
        return None
    except asyncio.LimitOverrunError as error:
        raise Broken("a head without end") from error
    return kind(raw)


def body_pieces(reader, head, has_body=True):
    """The body in pieces as they come, ending where the head says now: it may be changed afterwards. Chunks are
    unpacked; extensions and trailers are dropped."""
    if has_body and "chunked" in head.headers.get("transfer-encoding", "").lower():
        return chunks(reader)
    if has_body and "content-length" in head.headers:
        return exactly(reader, int(head.headers["content-length"]))
    if has_body and isinstance(head, Reply):
        return to_the_end(reader)
    return exactly(reader, 0)


async def chunks(reader):
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        async for piece in exactly(reader, size):
            yield piece
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass


async def to_the_end(reader):
    while piece := await reader.read(PIECE):
        yield piece


async def exactly(reader, size):
    while size:
        piece = await reader.read(min(size, PIECE))
        if not piece:
            raise Broken("the peer hung up within a body")
        size -= len(piece)
        yield piece


def reply_has_body(method, status):
    return method != "HEAD" and status >= 200 and status not in (204, 304)

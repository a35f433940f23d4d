"""Replies: the ones that rules make up, and what rules do to those of the server on their way down."""

import asyncio
import random
import re
import socket
import time
from email.utils import formatdate
from xml.sax.saxutils import escape

from . import wire

GATHER = 16 << 20  # bytes of a chunked reply that are gathered where a fault needs its length
SKEW_ALLOWED = 900  # seconds; what S3 allows
REASONS = {200: "OK", 301: "Moved Permanently", 302: "Found", 307: "Temporary Redirect", 403: "Forbidden",
           404: "Not Found", 412: "Precondition Failed", 416: "Range Not Satisfiable", 503: "Slow Down"}
LISTING = b'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><IsTruncated>false</IsTruncated>'


class HungUp(Exception):
    """The connection has ended, or shall end now."""


def reset(writer):
    """Ends the connection with RST (SO_LINGER of 0 seconds)."""
    transport = writer.transport
    taken = transport.get_extra_info("socket")
    if taken is not None and not transport.is_closing():
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    transport.abort()
    raise HungUp


def error_document(code, message, more=""):
    return (f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{escape(code)}</Code>'
            f"<Message>{escape(message)}</Message>{more}</Error>").encode()


def make_reply(request, status, body, headers):
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}", f"Content-Length: {len(body)}",
             *(f"{name}: {value}" for name, value in headers.items())]
    if not any(name.lower() == "date" for name in headers):
        lines.append(f"Date: {formatdate(usegmt=True)}")
    head = wire.Reply("\r\n".join(lines + ["", ""]).encode("latin-1"))
    return head, b"" if request.method == "HEAD" else body


def canned(request, faults, endpoint):
    """(head, body) of a reply that a rule makes up, or None."""
    if fault := faults.get("reply"):
        text = fault.body.encode() if fault.body is not None else error_document(
            fault.code, fault.message or f"{fault.code} of the fault proxy") if fault.code else b""
        return make_reply(request, fault.status, text, {"Content-Type": "application/xml", **fault.headers})
    if fault := faults.get("redirect"):
        target = endpoint + request.path if fault.to == "self" else fault.to
        headers = {"Content-Type": "application/xml", "Location": target}
        more = f"<Endpoint>{escape(target)}</Endpoint>"
        if fault.region:
            headers["x-amz-bucket-region"] = fault.region
            more += f"<Region>{escape(fault.region)}</Region>"
        code = "PermanentRedirect" if fault.status == 301 else "TemporaryRedirect"
        return make_reply(request, fault.status, error_document(code, "elsewhere", more), headers)
    return None


def skewed(request, faults):
    """The refusal of a server whose clock differs from the one that the request was signed with, or None."""
    if "skew" not in faults:
        return None
    now = time.time() + faults["skew"].seconds
    signed = request.headers.get("x-amz-date", "")
    try:
        then = time.mktime(time.strptime(signed, "%Y%m%dT%H%M%SZ")) - time.timezone
    except ValueError:
        then = 0
    if abs(now - then) <= SKEW_ALLOWED:
        return None
    return make_reply(request, 403, error_document("RequestTimeTooSkewed", "The difference is too large."),
                      {"Content-Type": "application/xml", "Date": formatdate(now, usegmt=True)})


async def other_body(fault):
    """The pieces of fault "body"."""
    if fault.of == "text":
        yield fault.text.encode()
    elif fault.of == "garbage":
        yield random.Random(fault.seed).randbytes(fault.size)
    elif fault.of == "bomb":  # 10^9 times "lol", were entities expanded
        names = [f"l{number}" for number in range(10)]
        entities = ['<!ENTITY l0 "lol">'] + [f'<!ENTITY {name} "{f"&{before};" * 10}">'
                                             for before, name in zip(names, names[1:])]
        yield (f'<?xml version="1.0"?><!DOCTYPE b [{"".join(entities)}]><ListBucketResult><Contents><Key>&l9;</Key>'
               "<Size>1</Size></Contents><IsTruncated>false</IsTruncated></ListBucketResult>").encode()
    else:  # endless
        yield LISTING
        number = 0
        while True:
            yield b"".join(b"<Contents><Key>k%012d</Key><Size>1</Size></Contents>" % (number + one)
                           for one in range(1000))
            number += 1000


def flip_places(fault, number, length):
    """Seeded: other places in each reply, the same in each run."""
    if fault.at is not None:
        return {fault.at: 1}
    chance = random.Random(f"{fault.seed} {number}")
    return {chance.randrange(max(length, 1)): 1 << chance.randrange(8) for _ in range(fault.bits)}


class Sender:
    """One request's way down to the client, with the faults that hit it. took_all: the server's reply was read to its
    end; may_go_on: the client's connection still makes sense."""

    def __init__(self, proxy, request, reader, writer, faults):
        self.proxy, self.request, self.reader, self.writer, self.faults = proxy, request, reader, writer, faults
        self.took_all, self.may_go_on, self.sent = False, True, 0
        self.cuts = {}

    async def delay(self):
        """What happens before the server is asked."""
        if fault := self.faults.get("latency"):
            slow = fault.tail_p and random.random() < fault.tail_p
            await self.rest((fault.tail_ms if slow else fault.ms) / 1000)
        if fault := self.faults.get("silent"):
            await self.rest(fault.seconds)
        if "reset" in self.faults and self.faults["reset"].after is None:
            reset(self.writer)

    async def rest(self, seconds):
        """Waits, for ever without a number; ends early when the client hangs up."""
        if self.request.kind not in ("list", "head", "ranged", "whole"):  # what comes belongs to somebody else
            await asyncio.sleep(1e9 if seconds is None else seconds)
            return
        try:
            data = await asyncio.wait_for(self.reader.read(1), seconds)
        except asyncio.TimeoutError:
            return
        raise HungUp if not data else wire.Broken("more came before the reply")

    def send_small(self, head, body):
        self.took_all = True
        self.writer.write(head.raw() + body)
        self.count(len(body))

    def count(self, size):
        self.sent += size
        counters = self.proxy.counters
        counters.bytes[self.request.kind] += size
        for name in self.faults:
            counters.fault_bytes[name] += size

    async def send(self, head, pieces):
        """Head and body, with what the rules do to them."""
        body = self.faults.get("body")
        if body and wire.reply_has_body(self.request.method, head.status):
            head, pieces = await self.replace(head, body)
        elif self.needs_length(head):
            pieces = await self.gather(head, pieces)
        length = int(head.headers["content-length"]) if "content-length" in head.headers else None
        self.change_head(head, length)
        self.writer.write(head.raw())
        if self.request.method == "HEAD":
            self.took_all = True
            await self.writer.drain()
            return
        await self.send_body(pieces, length, "chunked" in head.headers.get("transfer-encoding", ""))

    async def replace(self, head, fault):
        """Another body. What the server sends is not read: its connection is not used again."""
        if fault.of != "endless":
            text = b"".join([piece async for piece in other_body(fault)])
            head.set("Transfer-Encoding", None)
            head.set("Content-Length", len(text))
            return head, self.proxy._one(text)  # pylint: disable=protected-access
        head.set("Content-Length", None)
        head.set("Transfer-Encoding", "chunked")
        return head, other_body(fault)

    def needs_length(self, head):
        if "content-length" in head.headers or self.request.method == "HEAD":
            return False
        return any(name in self.faults for name in ("length", "truncate", "flip"))

    async def gather(self, head, pieces):
        gathered = []
        async for piece in pieces:
            gathered.append(piece)
            if sum(map(len, gathered)) > GATHER:
                raise wire.Broken("a reply that is too long to be gathered")
        text = b"".join(gathered)
        head.set("Transfer-Encoding", None)
        head.set("Content-Length", len(text))
        return self.proxy._one(text)  # pylint: disable=protected-access

    def change_head(self, head, length):
        if (fault := self.faults.get("length")) and length is not None:
            head.set("Content-Length", max(length + fault.by, 0))
        if (fault := self.faults.get("range")) and "content-range" in head.headers:
            shifted = re.sub(r"(\d+)-(\d+)(?=/)", lambda found: "-".join(
                str(int(number) + fault.by) for number in found.groups()), head.headers["content-range"])
            head.set("Content-Range", (fault.text or None) if fault.text is not None else shifted)
        if fault := self.faults.get("header"):
            head.set(fault.name, fault.value)

    def plan_cuts(self, length):
        """{byte of the body: what happens there}."""
        if (fault := self.faults.get("reset")) and fault.after is not None:
            self.cuts[fault.after] = fault
        if fault := self.faults.get("stall"):
            self.cuts.setdefault(fault.after, fault)
        if fault := self.faults.get("truncate"):
            self.cuts.setdefault(int((length or 0) * fault.share) if fault.after is None else fault.after, fault)
        return sorted(self.cuts)

    async def send_body(self, pieces, length, chunked=False):
        cuts = self.plan_cuts(length)
        fault = self.faults.get("flip")
        flips = flip_places(fault, self.proxy.counters.faults["flip"], length or 4096) if fault else {}
        rate = self.faults["bandwidth"].bytes_per_s if "bandwidth" in self.faults else 0
        if cuts and cuts[0] == 0:
            await self.cut(cuts.pop(0))
        async for piece in pieces:
            while piece:
                take = min(len(piece), max(rate // 20, 1)) if rate else len(piece)
                if cuts:
                    take = min(take, cuts[0] - self.sent)
                part, piece = piece[:take], piece[take:]
                if flips:
                    part = self.flipped(part, flips)
                await self.write(part, chunked)
                if rate:
                    await self.rest(take / rate)
                if cuts and self.sent >= cuts[0]:
                    await self.cut(cuts.pop(0))
        self.took_all = "body" not in self.faults
        if chunked:
            self.writer.write(b"0\r\n\r\n")
        for place in cuts:  # a body shorter than where it should have been cut is cut at its end
            await self.cut(place)
        await self.writer.drain()
        if (fault := self.faults.get("length")) and fault.by > 0:
            await self.end()
        if length is None and not chunked:
            await self.end()

    async def write(self, part, chunked):
        self.writer.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
        self.count(len(part))
        await self.writer.drain()

    def flipped(self, part, flips):
        here = [place for place in flips if self.sent <= place < self.sent + len(part)]
        if not here:
            return part
        part = bytearray(part)
        for place in here:
            part[place - self.sent] ^= flips[place]
        return bytes(part)

    async def cut(self, place):
        fault = self.cuts[place]
        await self.writer.drain()
        if fault.do == "stall":
            await self.rest(fault.seconds)
            return
        if fault.do == "reset":
            await asyncio.sleep(0.02)  # RST takes away what has not arrived yet
            reset(self.writer)
        await self.end()

    async def end(self):
        """Ends the connection in order: what was written arrives before the end."""
        self.may_go_on = False
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            pass
        raise HungUp

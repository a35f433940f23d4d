"""The rows of the matrix: what goes wrong, and what a reader may see of it.

A fault's `rules` get the match of a cell: only the cell's own requests are hit. `expect` is "bytes", or names of errors
that tierfs(8) documents for it, for all accesses or by access. `world` says what stands between tierfs and the server
(worlds.py). What only origin.deadline ends runs with a short one; the rest with a long one, for its requests have to be
answered, or repeated, in time even on a slow machine."""

import dataclasses

READS = ("small", "stream", "random")
ACCESSES = READS + ("list", "lookup")


@dataclasses.dataclass
class Row:
    name: str
    faults: list
    expect: object
    match: dict = dataclasses.field(default_factory=dict)
    world: str = "plain"
    lasting: bool = False
    alone: bool = False  # each cell on a mount of its own
    forged: bool = False  # only with a server that checks neither signatures nor its own name
    accesses: tuple = ACCESSES

    def expected(self, access):
        return self.expect.get(access, self.expect["else"]) if isinstance(self.expect, dict) else self.expect

    @property
    def short(self):
        """Whether only the deadline ends it."""
        return self.lasting and any("ETIMEDOUT" in self.expected(access) for access in self.accesses)

    def begin(self, world, token):
        # A read that fails makes tierfs ask for the name again: that is another access than the cell's.
        kind = {"kind": "get"} if token.rpartition(".")[2] in READS else {}
        world.proxy.set_rules([{"name": self.name, "match": {"path": token, **kind, **self.match}, "faults": self.faults}])

    def end(self, world):
        world.proxy.set_rules([])


class Handshakes(Row):
    """Rules about new connections: what is kept open is ended, at the begin and at the end."""

    def begin(self, world, token):
        world.proxy.set_rules([{"name": self.name, "match": {"kind": "connection", **self.match}, "faults": self.faults}])
        world.proxy.drop_connections()

    def end(self, world):
        super().end(world)
        world.proxy.drop_connections()


class Refusing(Row):
    def begin(self, world, token):
        world.proxy.refuse()

    def end(self, world):
        world.proxy.refuse(False)


class NameGone(Row):
    def begin(self, world, token):
        world.say_name(None)
        world.proxy.refuse()

    def end(self, world):
        world.proxy.refuse(False)
        world.say_name("127.0.0.1")


class NameMoved(Row):
    """The server moves to another address, and nobody listens at the old one."""

    def begin(self, world, token):
        world.say_name("127.0.0.2")
        world.proxy.refuse()

    def end(self, world):
        world.proxy.refuse(False)
        world.say_name("127.0.0.1")


class Expired(Row):
    """The keys expire: what is signed with them is refused. The service has new ones. It is asked once in half a minute,
    so each cell has a mount of its own."""

    def begin(self, world, token):
        old = world.renew()
        world.proxy.set_rules([{"name": self.name, "match": {"header": {"authorization": f"Credential={old}/"}},
                                "faults": self.faults}])


class WireFlip(Row):
    """Bits beneath TLS, in a place that is ciphertext."""

    def begin(self, world, token):
        world.wire.set_rules([{"name": self.name, "match": {"kind": "connection", "times": 2},
                               "faults": self.faults}])
        world.wire.drop_connections()

    def end(self, world):
        world.wire.set_rules([])
        world.wire.drop_connections()


ONCE = {"each": True, "nth": 1}
FIRST = {"nth": 1}
NOT_IN_TIME = ("ETIMEDOUT",)
BROKEN = ("EIO",)
# A reply that is broken is asked for again some times; where requests pile up time may be up before.
REPEATED = ("EIO", "ETIMEDOUT")


def reply(status, code="", **more):
    return [{"do": "reply", "status": status, "code": code, **more}]


def passing():
    yield Row("latency of 100 ms", [{"do": "latency", "ms": 100}], "bytes")
    yield Row("latency with a heavy tail", [{"do": "latency", "ms": 5, "tail_p": 0.1, "tail_ms": 1500}], "bytes")
    yield Row("slow link", [{"do": "bandwidth", "bytes_per_s": 3_000_000}], "bytes")
    yield Row("reset before each first reply", [{"do": "reset"}], "bytes", ONCE)
    yield Row("reset within each first body", [{"do": "reset", "after": 300}], "bytes", ONCE)
    yield Row("each first body truncated", [{"do": "truncate"}], "bytes", ONCE)
    yield Row("each first length too long", [{"do": "length", "by": 100}], "bytes", ONCE, accesses=READS + ("list",))
    yield Row("each first length too short", [{"do": "length", "by": -100}], "bytes", ONCE, accesses=READS)
    yield Row("each first range shifted", [{"do": "range", "by": 4096}], "bytes", ONCE, accesses=READS)
    yield Row("each first range missing", [{"do": "range", "text": ""}], "bytes", ONCE, accesses=READS)
    yield Row("each first reply 500", reply(500, "InternalError"), "bytes", ONCE)
    yield Row("each first reply 503", reply(503, "SlowDown"), "bytes", ONCE)
    yield Row("503 for a second", reply(503, "SlowDown"), "bytes", {"seconds": 1})
    yield Row("503 to eight requests", reply(503, "SlowDown"), "bytes", {"times": 8})
    yield Row("three in ten fail", reply(500, "InternalError"), "bytes", {"probability": 0.3, "seed": 5})
    yield Row("the first never answers", [{"do": "silent"}], "bytes", FIRST)
    yield Row("the first stalls in its body", [{"do": "stall", "after": 200}], "bytes", FIRST)
    yield Row("clock an hour ahead", [{"do": "skew", "seconds": 3600}], "bytes", forged=True)
    yield Row("clock an hour behind", [{"do": "skew", "seconds": -3600}], "bytes", forged=True)
    yield Expired("expired keys, new ones", reply(403, "ExpiredToken"), "bytes", world="credentials", alone=True,
                  forged=True)
    yield Handshakes("two handshakes cut", [{"do": "tls", "mode": "cut"}], "bytes", {"times": 2}, world="tls")
    yield Handshakes("two connections reset", [{"do": "reset"}], "bytes", {"times": 2})
    yield WireFlip("bits flipped beneath TLS", [{"do": "flip", "at": 3000}], "bytes", world="wire", accesses=READS)
    yield NameMoved("name moves to another address", [], "bytes", world="names", alone=True, forged=True)
    yield Row("second page of a listing fails once", reply(503, "SlowDown"), "bytes",
              {"path": "continuation-token", "times": 1}, accesses=("pages",))


def lasting():
    def row(name, faults, expect, kind=Row, **more):
        return kind(name, faults, expect, lasting=True, **more)

    yield row("never answers", [{"do": "silent"}], NOT_IN_TIME)
    yield row("stalls in the body", [{"do": "stall", "after": 100}], NOT_IN_TIME)
    yield row("a byte at a time", [{"do": "bandwidth", "bytes_per_s": 40}], NOT_IN_TIME)
    yield row("reset before the reply", [{"do": "reset"}], NOT_IN_TIME)
    yield row("reset within the body", [{"do": "reset", "after": 300}], NOT_IN_TIME)
    yield row("body truncated", [{"do": "truncate"}], NOT_IN_TIME)
    yield row("length too long", [{"do": "length", "by": 100}], NOT_IN_TIME, accesses=READS + ("list",))
    yield row("length too short", [{"do": "length", "by": -100}], REPEATED, accesses=READS + ("list",))
    yield row("range shifted", [{"do": "range", "by": 4096}], REPEATED, accesses=READS)
    yield row("range is no range", [{"do": "range", "text": "bytes 9-3/x"}], REPEATED, accesses=READS)
    yield row("range missing", [{"do": "range", "text": ""}], REPEATED, accesses=READS)
    yield row("range ignored", [{"do": "ignore_range"}], {"else": BROKEN, "small": "bytes"}, accesses=READS,
              forged=True)
    yield row("another ETag", [{"do": "header", "name": "ETag", "value": '"other"'}], ("ESTALE",), accesses=READS)
    yield row("400", reply(400, "InvalidRequest"), BROKEN)
    yield row("403 AccessDenied", reply(403, "AccessDenied"), ("EACCES",))
    yield row("403 ExpiredToken", reply(403, "ExpiredToken"), ("EACCES",))
    yield row("403 RequestTimeTooSkewed", reply(403, "RequestTimeTooSkewed"), ("EACCES",))
    yield row("404 NoSuchKey", reply(404, "NoSuchKey"), {"else": ("ESTALE",), "list": BROKEN, "lookup": BROKEN})
    yield row("412", reply(412, "PreconditionFailed"), ("ESTALE",), accesses=READS)
    yield row("416", reply(416, "InvalidRange"), ("ESTALE",), accesses=READS)
    yield row("500", reply(500, "InternalError"), NOT_IN_TIME)
    yield row("501", reply(501, "NotImplemented"), BROKEN)
    yield row("503 SlowDown", reply(503, "SlowDown"), NOT_IN_TIME)
    yield row("503, Retry-After an hour", reply(503, "SlowDown", headers={"Retry-After": "3600"}), NOT_IN_TIME)
    yield row("307 to itself", [{"do": "redirect"}], BROKEN)
    yield row("301 elsewhere", [{"do": "redirect", "status": 301, "to": "http://127.0.0.1:1/"}], BROKEN)
    yield row("301 to other regions", [{"do": "redirect", "status": 301, "region": "eu-west-1"}], BROKEN)
    yield row("body of garbage", [{"do": "body", "size": 700}], REPEATED, accesses=READS + ("list",))
    yield row("body of HTML", [{"do": "body", "of": "text", "text": "<html>Sign in</html>"}], REPEATED,
              accesses=READS + ("list",))
    yield row("body without end", [{"do": "body", "of": "endless"}], BROKEN, accesses=READS + ("list",))
    yield row("bomb of entities", [{"do": "body", "of": "bomb"}], BROKEN, accesses=("list",))
    yield row("half a listing, whole for HTTP", [{"do": "body", "of": "text", "text":
              "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>half/a</Key><Si"}], BROKEN,
              accesses=("list",))
    yield row("connections refused", [], ("ETIMEDOUT",), Refusing)
    yield row("connections reset", [{"do": "reset"}], NOT_IN_TIME, Handshakes)
    for mode, expect in (("expired", BROKEN), ("wrong_name", BROKEN), ("unknown_ca", BROKEN), ("garbage", BROKEN),
                         ("cut", NOT_IN_TIME), ("silent", NOT_IN_TIME)):
        yield row(f"TLS: {mode.replace('_', ' ')}", [{"do": "tls", "mode": mode}], expect, Handshakes, world="tls")
    yield row("name is gone", [], NOT_IN_TIME, NameGone, world="names", forged=True)
    yield row("second page of a listing fails", reply(503, "SlowDown"), NOT_IN_TIME,
              match={"path": "continuation-token"}, accesses=("pages",))


def rows():
    return list(passing()) + list(lasting())



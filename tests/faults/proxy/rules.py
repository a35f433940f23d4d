"""The script of the proxy: an ordered list of rules. A rule says which requests it is about and what happens to them.

    [{"name": "one in ten",
      "match": {"kind": "get", "path": "^/bucket/train/", "probability": 0.1, "seed": 7},
      "faults": [{"do": "latency", "ms": 200}, {"do": "reset", "after": 1000}]}]

A match, where all of these that are there must hold:
    method       "GET"                       path        regular expression, searched in path and query as sent
    kind         list, head, get (any GET of an object), ranged, whole, put, other, connection
    header       {"authorization": "regular expression"}
  and of the requests for which they hold, counted from 1:
    nth          a number, or a list of them              every         each Nth
    each         true: nth, every and times count for each method, path and range apart
    probability  with "seed": the same requests in the same order are hit again
    times        at most so many hits                     seconds       for so long after the rule was added

The faults of all rules that hit a request are put together; of two of the same name the first counts. Each fault is
{"do": NAME, ...}; ALLOWED below has the names and their parameters."""

import json
import random
import re
import time

KINDS = ("list", "head", "get", "ranged", "whole", "put", "other", "connection")

ALLOWED = {
    # before the reply
    "latency": {"ms": 0, "tail_p": 0, "tail_ms": 0},  # tail_ms instead of ms with probability tail_p
    "silent": {"seconds": None},  # never answers (or so much later)
    "reply": {"status": 500, "code": "", "message": "", "headers": {}, "body": None},  # an error document of S3
    "redirect": {"status": 307, "to": "self", "region": ""},  # to: self, or a URL; region: as AWS names it
    "skew": {"seconds": 0},  # a server whose clock is ahead: what is not signed with its time is refused
    "ignore_range": {},  # a server that knows no Range: 200 and the whole object
    # for the kind connection: latency, silent, reset (without after) and
    "tls": {"mode": "good"},  # what happens to the handshake: certificates.MODES
    # the reply
    "length": {"by": 0},  # Content-Length is wrong by so much; the connection ends after the body if it is too long
    "range": {"by": 0, "text": None},  # Content-Range is shifted; or has this text ("" takes it away)
    "header": {"name": "", "value": None},  # another value; None takes it away
    "bandwidth": {"bytes_per_s": 0},
    "reset": {"after": None},  # RST before the reply; or after so many bytes of the body
    "stall": {"after": 0, "seconds": None},  # no further byte after so many of the body, for so long or for ever
    "truncate": {"after": None, "share": 0.5},  # the connection ends early, in order
    "flip": {"at": None, "seed": 0, "bits": 1},  # bits of the body; at: a byte, else seeded places
    "body": {"of": "garbage", "size": 1000, "seed": 0, "text": None},  # another body: garbage, endless, bomb, text
}


class ScriptError(ValueError):
    """A script that is not understood."""


class Fault:
    """One thing that happens. Parameters are attributes."""

    def __init__(self, described):
        described = dict(described)
        self.do = described.pop("do", None)
        if self.do not in ALLOWED:
            raise ScriptError(f"no fault {self.do!r}: there are {', '.join(ALLOWED)}")
        wrong = set(described) - set(ALLOWED[self.do])
        if wrong:
            raise ScriptError(f"{self.do} has no {', '.join(sorted(wrong))}; it has {', '.join(ALLOWED[self.do])}")
        self.__dict__.update(ALLOWED[self.do], **described)


class Rule:
    """One rule; see above. hits and seen are for tests to look at."""

    MATCH = ("method", "path", "kind", "header", "nth", "every", "each", "probability", "seed", "times", "seconds")

    def __init__(self, described):
        described = dict(described)
        match = dict(described.pop("match", {}))
        faults = described.pop("faults", [])
        self.name = described.pop("name", "") or "+".join(str(one.get("do")) for one in faults)
        wrong = list(described) + [name for name in match if name not in self.MATCH]
        if wrong:
            raise ScriptError(f"rule {self.name!r}: not known: {', '.join(sorted(wrong))}")
        if match.get("kind", "get") not in KINDS:
            raise ScriptError(f"rule {self.name!r}: no kind {match['kind']!r}: there are {', '.join(KINDS)}")
        self.faults = [Fault(one) for one in faults]
        self.method, self.kind, self.each = match.get("method"), match.get("kind"), match.get("each", False)
        self.path = re.compile(match["path"]) if match.get("path") else None
        self.header = {name.lower(): re.compile(text) for name, text in match.get("header", {}).items()}
        nth = match.get("nth")
        self.nth = frozenset(nth if isinstance(nth, list) else [nth]) if nth is not None else None
        self.every, self.times = match.get("every"), match.get("times")
        self.probability, self.random = match.get("probability"), random.Random(match.get("seed", 0))
        self.until = time.monotonic() + match["seconds"] if match.get("seconds") is not None else None
        self.counts, self.hits_of = {}, {}
        self.seen = self.hits = 0

    def is_about(self, request):
        if request.kind == "connection":
            return self.kind == "connection" or (self.kind is None and request.alone)
        if self.kind and self.kind != request.kind and not (self.kind == "get" and request.kind in ("ranged", "whole")):
            return False
        if self.method and self.method != request.method:
            return False
        if self.path and not self.path.search(request.path):
            return False
        return all(pattern.search(request.headers.get(name, "")) for name, pattern in self.header.items())

    def hits_it(self, request):
        """Whether the rule hits this request; counts it."""
        if self.until is not None and time.monotonic() > self.until:
            return False
        if not self.is_about(request):
            return False
        self.seen += 1
        which = (request.method, request.path, request.headers.get("range")) if self.each else None
        number = self.counts[which] = self.counts.get(which, 0) + 1
        if self.nth is not None and number not in self.nth:
            return False
        if self.every is not None and number % self.every:
            return False
        if self.probability is not None and self.random.random() >= self.probability:
            return False
        if self.times is not None and self.hits_of.get(which, 0) >= self.times:
            return False
        self.hits_of[which] = self.hits_of.get(which, 0) + 1
        self.hits += 1
        return True


class Script:
    """The rules in force. Not thread-safe: belongs to the proxy's event loop, which Proxy takes care of."""

    def __init__(self, rules=()):
        self.rules = [Rule(one) for one in rules]

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as file:
            try:
                return cls(json.load(file))
            except (json.JSONDecodeError, TypeError, AttributeError) as error:
                raise ScriptError(f"{path}: {error}") from error

    def faults_for(self, request):
        """{name of the fault: Fault}, and the names of the rules."""
        found, names = {}, []
        for rule in self.rules:
            if rule.hits_it(request):
                names.append(rule.name)
                for fault in rule.faults:
                    found.setdefault(fault.do, fault)
        return found, names

    def describe(self):
        return [{"name": rule.name, "seen": rule.seen, "hits": rule.hits} for rule in self.rules]

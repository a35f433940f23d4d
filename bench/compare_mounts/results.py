"""The result files: one for each latency, in iobench's format 1, and the page that iobench makes of them."""

import json
import os
import re
import sys
import time

from lib import host
from lib.process import Failure, run

from .session import case_of
from .steps import PARTS, part_of

OWN_PROGRAMS = {"radosgw", "ceph-osd", "ceph-mon", "nginx", "tierfs", "s3fs", "rclone"}


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def file_name(latency_ms, part):
    return f"compare-mounts-{latency_ms:g}ms-{part}.json"


def is_from_elsewhere(what):
    """Not the work of the server, the proxies and the mounts, which iobench cannot tell from that of strangers."""
    busiest = re.search(r"most of it by (\S+)", what)
    return busiest is None or busiest.group(1) not in OWN_PROGRAMS


class Results:
    """What of all sessions belongs to one latency. Written again after every session, so that an end at any moment leaves
    what was measured."""

    def __init__(self, world, line, figures, started, version):
        self.world, self.line, self.figures, self.started, self.version = world, line, figures, started, version
        self.warnings, self.disturbances, self.targets, self.host = [], [], {}, None

    def take(self, session):
        """What iobench said about machine, target and disturbances."""
        self.warnings += session.warnings
        if session.target and session.peer not in self.targets:
            self.targets[session.peer] = session.target
        for step, document in session.documents:
            self.host = self.host or document["host"]
            for warning in document["warnings"]:
                if warning not in self.warnings and "load average" not in warning:  # that of the comparison itself
                    self.warnings.append(warning)
            self.disturbances += [dict(one, target=session.peer, case=case_of(step, one["case"]), run=session.number + 1)
                                  for one in document["disturbances"] if is_from_elsewhere(one["what"])]

    def document(self, part, complete):
        options, dataset = self.world.options, self.world.dataset
        figures, dropped = self.figures.documents(options.peers, lambda case: part_of(case) == part)
        return {
            "format": "iobench", "version": 1, "tierfs": self.version, "command": ["bench/compare-mounts", *sys.argv[1:]],
            "started": self.started, "ended": now(), "complete": complete,
            "suite": f"{part}, latency {self.line.latency_ms:g} ms", "preset": None,
            "parameters": {
                "server": options.server, "latency_ms": self.line.latency_ms, "first_byte_ms": self.line.first_byte_ms,
                "rate_bytes_per_s_of_a_connection": self.line.rate, "scale": options.scale, "rounds": options.runs,
                "dataset": dataset.identity(), "files_of_each_sample": self.world.size.samples,
                "sequential_bytes": self.world.size.sequential, "random_reads": self.world.size.reads,
                "peers": self.world.facts},
            "dataset_rule": "each round on a fresh mount with an empty cache, page cache, dentries and inodes dropped; "
                            "warm: the same files again, nothing dropped; warm-disk: again, page cache dropped",
            "host": self.host or host.facts(),
            "targets": [self.targets[name] for name in options.peers if name in self.targets],
            "figures": figures,
            "ratios": [one for one in self.figures.ratios() if part_of(one["case"]) == part],
            "disturbances": [one for one in self.disturbances if part_of(one["case"]) == part],
            "warnings": self.warnings + dropped}

    def write(self, complete):
        """Files of parts of which nothing was measured are not written; the paths of the others."""
        paths = []
        for part in PARTS:
            document = self.document(part, complete)
            if document["figures"]:
                paths.append(self.world.options.out / file_name(self.line.latency_ms, part))
                write_json(paths[-1], document)
        return paths


def readable(document):
    """JSON with a line for each member, and for each entry of a list: short, and good to compare line by line."""
    lines = []
    for key, value in document.items():
        text = json.dumps(value)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n  " + ",\n  ".join(json.dumps(one) for one in value) + "]"
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "}\n"


def write_json(path, document):
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(readable(document), encoding="utf-8")
    os.replace(temporary, path)


def write_page(options, files, deadline):
    """The path of the page, or None when iobench could not make it."""
    page = options.out / "compare-mounts.html"
    try:
        # In its folder: the page names its files without the path of this machine.
        run([options.iobench.resolve(), "report", *(file.name for file in files), "--html", page.name], deadline,
            folder=options.out)
    except Failure as error:
        print(f"compare-mounts: no page: {error}", file=sys.stderr)
        return None
    return page

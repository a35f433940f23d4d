"""The result files: one for each latency, in iobench's format 1, and the page that iobench makes of them."""

import json
import os
import sys
import time

from lib import host
from lib.process import Failure, run


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def file_name(latency_ms):
    return f"compare-mounts-{latency_ms:g}ms.json"


class Results:
    """What of all sessions belongs to one latency. Written again after every session, so that an end at any moment leaves
    what was measured."""

    def __init__(self, world, line, figures, started, version):
        self.world, self.line, self.figures, self.started, self.version = world, line, figures, started, version
        self.path = world.options.out / file_name(line.latency_ms)
        self.warnings, self.disturbances, self.targets, self.host = [], [], {}, None

    def take(self, session):
        """What iobench said about machine, target and disturbances."""
        self.warnings += session.warnings
        for document in session.documents:
            self.host = self.host or document["host"]
            for target in document["targets"]:
                self.targets.setdefault(session.peer, dict(target, name=session.peer))
            for warning in document["warnings"]:
                if warning not in self.warnings:
                    self.warnings.append(warning)
            self.disturbances += [dict(one, target=session.peer, run=session.number + 1)
                                  for one in document["disturbances"]]

    def document(self, complete):
        options, dataset = self.world.options, self.world.dataset
        return {
            "format": "iobench", "version": 1, "tierfs": self.version, "command": ["bench/compare-mounts", *sys.argv[1:]],
            "started": self.started, "ended": now(), "complete": complete,
            "suite": f"compare-mounts-{self.line.latency_ms:g}ms", "preset": None,
            "parameters": {
                "server": options.server, "latency_ms": self.line.latency_ms, "first_byte_ms": self.line.first_byte_ms,
                "rate_bytes_per_s_of_a_connection": self.line.rate, "scale": options.scale, "rounds": options.runs,
                "dataset": dataset.identity(), "files_of_each_sample": self.world.size.samples,
                "sequential_bytes": self.world.size.sequential, "random_reads": self.world.size.reads,
                "peers": self.world.facts},
            "dataset_rule": "each round on a fresh mount with an empty cache, page cache, dentries and inodes dropped; warm: "
                            "the same files again, nothing dropped; warm-disk: again, page cache dropped",
            "host": self.host or host.facts(), "targets": list(self.targets.values()),
            "figures": self.figures.documents(), "ratios": self.figures.ratios(),
            "disturbances": self.disturbances, "warnings": self.warnings}

    def write(self, complete):
        write_json(self.path, self.document(complete))


def write_json(path, document):
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    os.replace(temporary, path)


def write_page(options, files, deadline):
    """The path of the page, or None when iobench could not make it."""
    page = options.out / "compare-mounts.html"
    try:
        run([options.iobench, "report", *files, "--html", page], deadline)
    except Failure as error:
        print(f"compare-mounts: no page: {error}", file=sys.stderr)
        return None
    return page

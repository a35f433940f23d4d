"""Small mount sessions that between them reach every fault point, and what they saw."""

import collections
import contextlib
import errno
import os
import time
from pathlib import Path

from harness import daemon, data, processes
from harness.servers import ACCESS_KEY, SECRET_KEY

DEADLINE = 3  # seconds, origin.deadline of the sessions
GRACE = 15  # what a call may take beyond it on a loaded machine, and for the calls that wait for several requests
SMALL, SMALL_SIZE = 80, 20_000
LARGE, LARGE_SIZE = 3, 6 << 20  # with the small ones more than nvme.limit
LIMIT = 16 << 20

# What a reader may be told. ENOENT is not among them: a file that is there must not seem to be gone.
HONEST = {errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.ECONNABORTED, errno.ENODEV, errno.ENOMEM,
          errno.ENOSPC, errno.EACCES, errno.EAGAIN, errno.EMFILE}
KINDS = ("directory", "s3", "plain", "damaged")


def program_output(folder, rules):
    """(status, what it said) of the program with these rules."""
    env = daemon.environment(folder, "", {"TIERFS_TEST_FAULTS": rules})
    finished = processes.run([daemon.BINARY, "--version"], env=env)
    return finished.returncode, finished.out + finished.err


def all_points(folder):
    """Names of all fault points of the program; empty when it has none."""
    listed = Path(folder) / "points"
    processes.check([daemon.BINARY, "--version"],
                    env=daemon.environment(folder, "", {"TIERFS_TEST_FAULT_LIST": str(listed)}))
    if not listed.exists():
        return []
    return [line.split()[1] for line in listed.read_text().splitlines() if line.startswith("point ")]


class Dataset:
    """The files of all sessions: in a folder, and as objects below a bucket."""

    def __init__(self, origin):
        self.origin = Path(origin)
        self.files = data.make_files(origin, SMALL, SMALL_SIZE, fan=4)
        for number in range(LARGE):
            name = f"large/{number}"
            self.files[name] = data.write(self.origin / name, data.content(name, LARGE_SIZE + number))
        self.names = sorted({os.fsencode(name) for name in self.files} |
                            {os.path.dirname(os.fsencode(name)) for name in self.files})
        self.link = "link"
        self.attributes = {"user.comment": b"x"}
        try:
            os.setxattr(self.origin / "d00/f00000.bin", "user.comment", b"x")
        except OSError:
            self.attributes = {}  # none on this file system


class Session:
    """One mount after the other on one cache. kind: see KINDS. `failures` has the calls that failed honestly, `fired`
    the faults that were injected; what is wrong (bytes, names, time, words) raises AssertionError."""

    def __init__(self, kind, dataset, folder, server=None, bucket=None):
        self.kind, self.dataset, self.folder = kind, dataset, Path(folder)
        self.server, self.bucket = server, bucket
        self.cache = self.folder / "cache"
        self.list_file = self.folder / "faults"
        self.failures, self.notes = [], []
        self.slow = 0  # calls that failed after a while
        self.mounts, self.registry = [], []
        self.cache.mkdir(parents=True, mode=0o700)
        self.config = self.folder / "tierfs.yaml"
        self.config.write_text(f"origin.deadline: {DEADLINE}s\n")
        self.source = str(dataset.origin) if kind != "s3" else f"s3://{bucket}"

    # -- how it is mounted ----------------------------------------------------------------------------------------

    def options(self):
        options = {"config": str(self.config), "memory.limit": "128M", "log.level": "info"}
        if self.kind != "plain":
            options["nvme.path"] = str(self.cache)
            options["class"] = "hot"  # so that there is eviction
            if self.kind != "damaged":  # its limit comes from the disk
                options["nvme.limit"] = str(LIMIT)
        if self.kind == "damaged":
            options["metadata.ttl"] = "1s"
        if self.kind == "s3":
            options.update({"s3.endpoint": self.server.endpoint, "s3.region": "us-east-1"})
        return options

    def environment(self, rules):
        env = {"TIERFS_TEST_FAULT_LIST": str(self.list_file)}
        if rules:
            env["TIERFS_TEST_FAULTS"] = rules
        if self.kind == "s3":
            helper = self.folder / "credentials"
            helper.write_text("#!/bin/sh\necho '{\"Version\": 1, \"AccessKeyId\": \"" + ACCESS_KEY +
                              "\", \"SecretAccessKey\": \"" + SECRET_KEY + "\"}'\n")
            helper.chmod(0o700)
            profile = self.folder / "aws"
            profile.write_text(f"[default]\ncredential_process = {helper}\n")
            env.update({"AWS_CONFIG_FILE": str(profile), "AWS_SHARED_CREDENTIALS_FILE": str(profile)})
        return env

    def mount(self, rules):
        """A Mount, or None when mounting failed, which it must say in words."""
        made = daemon.Mount(self.source, self.options(), folder=self.folder / f"mount{len(self.mounts)}",
                            env=self.environment(rules))
        self.mounts.append(made)
        self.registry.append(made)
        finished = made.attempt()
        if finished.returncode == 0:
            info = daemon.mountinfo(made.place)
            # With a fault in the daemon the mount may have ended by now.
            if info and info["type"] == "fuse.tierfs":
                made.device = info["device"]
                return made
            assert rules, f"returned 0 but is not mounted\n{made.log_tail()}"
        assert rules, f"did not mount without faults: {finished}\n{made.log_tail()}"
        if finished.returncode != 0:
            assert finished.returncode in (1, 2), f"mounting crashed: {finished}\n{made.log_tail()}"
            assert finished.err.strip(), f"failed without a word: {finished}"
            self.failures.append(("mount", finished.err.strip().splitlines()[-1][:80]))
        may_stay = rules.startswith(("fuse.umount", "mountinfo"))  # then nobody could take it away
        assert may_stay or not made.mounted(), f"failed, but left a mount\n{made.log_tail()}"
        return None

    def end(self, made, rules):
        """Unmounts; with faults the command may fail, and then without them it must not."""
        if made is None:
            self.mounts[-1].env.pop("TIERFS_TEST_FAULTS", None)
            self.mounts[-1].expect_gone()
            self.mounts[-1].close()
            return
        finished = processes.run([daemon.BINARY, "umount", made.path], timeout=daemon.STOP_LIMIT, env=made.env,
                                 suspects=made.processes)
        if finished.returncode != 0:
            assert rules, finished
            assert finished.returncode == 1 and finished.err.strip(), f"umount: {finished}"
            self.failures.append(("umount", finished.err.strip().splitlines()[-1][:80]))
            made.env.pop("TIERFS_TEST_FAULTS", None)
            if made.mounted():
                made.umount()
        made.expect_gone()
        made.close()

    # -- what is done with it -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def honest(self, what, made):
        """The call inside succeeds or fails with an errno that tells the truth, within the deadline. ENOENT tells it
        when the mount has ended."""
        started = time.monotonic()
        try:
            yield
        except OSError as error:
            ended = error.errno == errno.ENOENT and not made.mounted()
            assert ended or error.errno in HONEST, f"{what}: {error!r}"
            self.failures.append((what, errno.errorcode[error.errno]))
            self.slow += time.monotonic() - started > 1
        seconds = time.monotonic() - started
        assert seconds < DEADLINE + GRACE * processes.SLOWNESS, f"{what} took {seconds:.1f} s"

    def read(self, made, name, cold=True):
        with self.honest(f"read {name}", made):
            found = data.read_cold(made.path / name) if cold else (made.path / name).read_bytes()
            data.expect_same(found, self.dataset.files[name], name)

    def list(self, made):
        with self.honest("list", made):
            found = [name for name in data.names(made.path) if name != os.fsencode(self.dataset.link)]
            if not found and not made.mounted():
                raise OSError(errno.ENOTCONN, "the mount has ended")
            assert found == self.dataset.names, "the listing differs"

    def look(self, made, rules):
        """`tierfs status`, which may fail with words when there are faults."""
        finished = processes.run([daemon.BINARY, "status", made.path, "--json"], env=made.env, suspects=made.processes)
        if finished.returncode != 0:
            assert rules and finished.returncode == 1 and finished.err.strip(), f"status: {finished}"
            self.failures.append(("status", finished.err.strip().splitlines()[-1][:80]))
            return
        import json  # pylint: disable=import-outside-toplevel
        status = json.loads(finished.out)
        self.notes += [f"{name} {value}" for name, value in (
            ("reads.errors", status["reads"]["errors"]), ("checksum_errors", status["reads"]["checksum_errors"]),
            ("origin.errors", status["origin"]["errors"]), ("origin.retries", status["origin"]["retries"])) if value]
        nvme = next(tier for tier in status["tiers"] if tier["name"] == "nvme")
        if nvme["state"] not in ("normal", "off"):
            self.notes.append(f"nvme {nvme['state']}")
        if not rules:
            assert not self.notes, f"without faults: {self.notes}\n{made.log_tail()}"

    def use(self, made, rules):
        """Names first without a listing, then all bytes, which evicts."""
        files = list(self.dataset.files)
        self.read(made, files[0])
        self.list(made)
        if self.kind != "s3":
            with self.honest("readlink", made):
                assert os.readlink(made.path / self.dataset.link) == "d00/f00000.bin"
            with self.honest("listxattr", made):
                assert os.listxattr(made.path / "d00/f00000.bin") == list(self.dataset.attributes)
            with self.honest("getxattr", made):
                for name, value in self.dataset.attributes.items():
                    assert os.getxattr(made.path / "d00/f00000.bin", name) == value
        for name in files:
            self.read(made, name)
            if self.slow > 3:  # each is retried until the deadline: the others would be too
                break
        self.look(made, rules)

    def run(self, rules=""):
        """Mount, use, unmount, and once more on what that left in the cache."""
        for epoch in range(2):
            made = self.mount(rules)
            if made:
                self.use(made, rules)
                if self.kind == "damaged" and epoch == 1:
                    self.change(made)
            self.end(made, rules)
            self.between()

    def change(self, made):
        """The kernel is told of a file that has changed."""
        path = self.dataset.origin / "d00/changing"
        data.write(path, b"x" * 5000)
        os.utime(path, ns=(time.time_ns(), time.time_ns()))
        with self.honest("stat of a new file", made):
            end = time.monotonic() + 2.5
            while time.monotonic() < end:
                with contextlib.suppress(FileNotFoundError):
                    os.stat(made.path / "d00/changing")
                    data.read_cold(made.path / "d00/changing")
                    data.write(path, b"y" * (5000 + time.time_ns() % 100))
                os.listdir(made.path / "d00")
                time.sleep(0.2)
        path.unlink()

    def between(self):
        """What a crash or a disk leaves behind."""
        for source in self.cache.glob("*/files"):
            half = source / "ab" / ("ab" * 16 + ".sums")
            half.parent.mkdir(exist_ok=True, mode=0o700)
            half.write_bytes(b"half of a backing file")
        if self.kind == "damaged":
            for current in self.cache.glob("*/index/CURRENT"):
                current.write_text("MANIFEST-nonsense\n")

    # -- what it left ---------------------------------------------------------------------------------------------

    def fired(self):
        return self.lines("fired")

    def hits(self):
        return {line.split()[1] for line in self.lines("hit")}

    def lines(self, kind):
        try:
            text = self.list_file.read_text()
        except FileNotFoundError:
            return []
        return [line for line in text.splitlines() if line.startswith(kind + " ")]

    def complaints(self):
        """Lines of the logs above "info"."""
        found = []
        for made in self.mounts:
            with contextlib.suppress(OSError):
                found += [line for line in made.log.read_text(errors="replace").splitlines()
                          if " warning [" in line or " error [" in line]
        return found

    def counts(self):
        """Times that each point was hit, by what a rule for all of them wrote down; the most in one process."""
        counts = collections.Counter(tuple(line.split()[i] for i in (1, 3)) for line in self.fired())
        most = collections.Counter()
        for (point, _), count in counts.items():
            most[point] = max(most[point], count)
        return most

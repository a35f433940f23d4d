"""tierfs: a daemon that its own command starts and ends."""

import json
import os
import threading
import time

from ..datasets import BUCKET
from ..host import mounted_type, unmount
from ..process import Deadline, Failure, alive, clean_environment, run, signals_held, stop_pid, tail, wait_for

MEMORY_LIMIT = 256 << 20
NVME_LIMIT = 6 << 30


def resident_bytes(pid):
    """RssAnon + RssShmem + HugetlbPages: memory that only this process has; 0 when it is gone."""
    wanted, total = ("RssAnon:", "RssShmem:", "HugetlbPages:"), 0
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(wanted):
                    total += int(line.split()[1]) << 10
    except (FileNotFoundError, ProcessLookupError):
        pass
    return total


class MemoryPeak:
    """The most memory that a process was seen to have, sampled every 50 ms."""

    def __init__(self, pid):
        self.pid, self.bytes = pid, 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self):
        while not self._end.wait(0.05):
            self.bytes = max(self.bytes, resident_bytes(self.pid))

    def close(self):
        self._end.set()
        self._thread.join(timeout=5)
        return self.bytes


class Tierfs:
    """One tierfs mount: of the bucket at `endpoint`, or of `source` where that is none. `cache`: for nvme.path, where
    `options` do not say otherwise; those that are None are left out. `peaks` collects the memory peaks of all mounts of the
    run; `mount_s` is what mount command and one stat took."""

    def __init__(self, program, endpoint, mountpoint, cache, options, peaks, deadline, source=None):
        self.program, self.mountpoint, self.peaks = program, mountpoint, peaks
        self.sampler = self.daemon = self.supervisor = None
        mountpoint.mkdir(parents=True, exist_ok=True)
        cache.mkdir(parents=True, exist_ok=True)
        settings, environment = {"nvme.path": cache}, clean_environment()
        if endpoint:
            settings["s3.endpoint"] = endpoint.endpoint
            environment = clean_environment(AWS_ACCESS_KEY_ID=endpoint.access_key, AWS_REGION="us-east-1",
                                            AWS_SECRET_ACCESS_KEY=endpoint.secret_key, AWS_EC2_METADATA_DISABLED="true")
        settings.update(options)
        began = time.monotonic()
        try:
            words = ",".join(f"{k}={v}" for k, v in settings.items() if v is not None)
            run([program, source or f"s3://{BUCKET}", mountpoint, "-o", words], deadline, environment, limit=60,
                log=cache.parent / "mount.log")
            run(["stat", "--", mountpoint], deadline)
            self.mount_s = time.monotonic() - began
            status = self.status()
            self.daemon, self.supervisor = status["pid"], status.get("supervisor_pid")
            self.sampler = MemoryPeak(self.daemon)
        except BaseException:
            with signals_held():
                self.close()
            raise

    def status(self):
        text = run([self.program, "status", self.mountpoint, "--json"], Deadline(20))[1]
        try:
            return json.loads(text)
        except ValueError:
            raise Failure(f"tierfs status {self.mountpoint} --json: not JSON: {tail(text)}") from None

    def unmount(self, deadline):
        """As a user does it; Failure when it does not go."""
        self._take_peak(True)
        run([self.program, "umount", self.mountpoint], deadline, limit=60)
        wait_for(f"unmounting {self.mountpoint}", lambda: not mounted_type(self.mountpoint), deadline, 30)
        wait_for("the daemon's end after umount", lambda: not alive(self.daemon), deadline, 60)

    def kill(self, deadline):
        """kill -9 of the daemon, and before it of its supervisor, which would start another one that reads on."""
        killed = [pid for pid in (self.supervisor, self.daemon) if pid]
        for pid in killed:
            os.kill(pid, 9)
        self._take_peak(False)
        wait_for("the daemon's end after kill -9", lambda: not any(map(alive, killed)), deadline, 20)
        unmount(self.mountpoint)

    def _take_peak(self, ask):
        if self.sampler is None:
            return
        peak = {"sampled_bytes": self.sampler.close(), "reported_bytes": 0, "limit_bytes": 0}
        if ask:
            memory = self.status()["memory"]
            peak.update(reported_bytes=memory["peak_bytes"], limit_bytes=memory["limit_bytes"])
        self.peaks.append(peak)
        self.sampler = None

    def close(self):
        """In any state, also when it hangs."""
        if self.sampler is not None:
            self.peaks.append({"sampled_bytes": self.sampler.close(), "reported_bytes": 0, "limit_bytes": 0})
            self.sampler = None
        if mounted_type(self.mountpoint):
            try:
                run([self.program, "umount", self.mountpoint], Deadline(30), check=False)
            except Failure:
                pass
        for pid in (self.daemon, self.supervisor):
            if pid and alive(pid):
                stop_pid(pid)
        unmount(self.mountpoint)


class TierfsPeer(Tierfs):
    """tierfs as one of the mounts that are compared: --tierfs-option changes or adds options."""

    name, programs, packages = "tierfs", ["fusermount3"], ["fuse3"]

    def __init__(self, place):
        options = {"memory.limit": MEMORY_LIMIT, "nvme.limit": NVME_LIMIT, **place.tierfs_options}
        super().__init__(place.tierfs, place.endpoint, place.mountpoint, place.folder / "tierfs", options, [],
                         place.deadline)

    def pids(self):
        return [pid for pid in (self.daemon, self.supervisor) if pid]

    @staticmethod
    def version(place):
        return run([place.tierfs, "--version"], place.deadline)[1].strip()

    @staticmethod
    def options(place):
        settings = {"memory.limit": MEMORY_LIMIT, "nvme.limit": NVME_LIMIT, **place.tierfs_options}
        return ",".join(f"{key}={value}" for key, value in settings.items())

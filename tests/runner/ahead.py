"""Builds what later suites need while earlier ones wait for their servers, deadlines and disks."""

import shlex
import signal
import subprocess

import command
from kinds import TOP, build_environment


class Ahead:
    """The builds to come, one after the other: they give way to what is tested. What becomes of them does not count: each build's own suite runs all the same,
    and finds most of it done. Puts itself away as a context manager."""

    def __init__(self, builds):
        self.builds, self.process = list(builds), None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pause()

    def go_on(self, after):
        """Begins the builds that come after `after`."""
        self.builds = self.builds[self.builds.index(after) + 1:]
        steps = [shlex.join(["cmake", "--preset", build.preset]) + " && " +
                 shlex.join(["ninja", "-C", f"build/{build.preset}", f"-j{build.jobs}", *build.targets])
                 for build in self.builds]
        if not steps:
            return
        self.process = subprocess.Popen(["sh", "-c", " && ".join(steps)], cwd=TOP, env=build_environment(),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        start_new_session=True)
        command.give_way(self.process)

    def pause(self):
        """Nothing of it runs any more; what is half compiled is begun anew by whoever builds next."""
        if self.process is None:
            return
        command.stop(self.process, 60)
        command.signal_group(self.process, signal.SIGKILL)
        self.process = None

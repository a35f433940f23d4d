"""What stands between tierfs and the server: a proxy, and by the kind of world TLS, names or credentials."""

import subprocess
import sys
from pathlib import Path

from harness import daemon, servers
from harness.faults import Credentials
from proxy import Proxy
from proxy.certificates import Certificates

BUCKET = "matrix"
NAME = "tierfs-origin.test"
OWN_HOSTS = Path(__file__).with_name("own_hosts.py")


class World:
    """One mount through one proxy. Deadline: seconds."""

    def __init__(self, kind, folder, upstream, deadline, options=None):
        self.kind, self.folder = kind, Path(folder)
        self.folder.mkdir(parents=True)
        self.closing = []
        self.deadline = deadline
        self.proxy = Proxy(upstream, tls=Certificates(self.folder / "tls") if kind in ("tls", "wire") else None)
        self.options = {"s3.region": "us-east-1", "origin.deadline": f"{deadline:.0f}s", "metadata.ttl": "1h",
                        "log.level": "info", **(options or {})}
        self.env = {"AWS_ACCESS_KEY_ID": servers.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": servers.SECRET_KEY}

    def __enter__(self):
        try:
            self.proxy.start()
            self.closing.append(self.proxy.stop)
            self.options["s3.endpoint"] = self.proxy.endpoint
            getattr(self, f"_prepare_{self.kind}", lambda: None)()
            self.mount = daemon.Mount(f"s3://{BUCKET}", self.options, folder=self.folder / "m", env=self.env)
            self.closing.append(self.mount.close)
            self.mount.start(self._command())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind, error, trace):
        self.close()

    def close(self):
        problems = []
        for close in reversed(self.closing):
            try:
                close()
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                problems.append(str(error))
        self.closing = []
        if problems:
            raise AssertionError("\n".join(problems))

    def _command(self):
        return None

    def retries(self, token):
        """How many requests of a cell the server's side had seen before."""
        proxies = [self.proxy] + ([self.second] if self.kind == "names" else [])
        seen = [one[:3] for proxy in proxies for one in proxy.log(token)]
        return len(seen) - len(set(seen))

    def _prepare_tls(self):
        self.options["s3.ca_bundle"] = self.proxy.tls.authority

    def _prepare_wire(self):
        """tierfs - bytes that may be changed - TLS - server"""
        self._prepare_tls()
        self.wire = Proxy(("127.0.0.1", self.proxy.port), tcp=True).start()
        self.closing.append(self.wire.stop)
        self.options["s3.endpoint"] = f"https://127.0.0.1:{self.wire.port}"

    def _prepare_credentials(self):
        self.service = Credentials(access_key="ASIA0000")
        self.closing.append(self.service.stop)
        self.env = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.service.endpoint}/container"}

    def renew(self):
        """The service has other keys from now on; returns the id of the old ones."""
        old = self.service.access_key
        self.service.access_key = f"ASIA{int(old[4:]) + 1:04}"
        return old

    def _prepare_names(self):
        """The daemon gets an /etc/hosts of its own in a mount namespace of its own. The folder stays shared with this
        namespace, so that its mount is seen here."""
        self.hosts = self.folder / "hosts"
        self.say_name("127.0.0.1")
        subprocess.run(["mount", "--bind", self.folder, self.folder], check=True, timeout=20)
        self.closing.append(lambda: subprocess.run(["umount", self.folder], check=True, timeout=20))
        subprocess.run(["mount", "--make-shared", self.folder], check=True, timeout=20)
        self.second = Proxy(self.proxy.upstream, listen=("127.0.0.2", self.proxy.port)).start()
        self.closing.append(self.second.stop)
        self.options["s3.endpoint"] = f"http://{NAME}:{self.proxy.port}"

    def say_name(self, address):
        text = "127.0.0.1 localhost\n" + (f"{address} {NAME}\n" if address else "")
        self.hosts.write_text(text, encoding="ascii")  # in place: the file itself is bound


class Names(World):
    def _command(self):
        return ["unshare", "--mount", "--propagation", "unchanged", sys.executable, OWN_HOSTS, self.hosts, self.folder,
                *self.mount.command()]


def make(kind, *arguments, **more):
    return (Names if kind == "names" else World)(kind, *arguments, **more)



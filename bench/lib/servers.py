"""The object store, and the proxy in front of it that counts and delays. All on 127.0.0.1, ports 7700 to 7799 unless told
otherwise."""

import dataclasses
import os
import pathlib
import shutil
import statistics
import time
import urllib.parse
import urllib.request

from .host import FIRST_PORT
from .process import Deadline, Failure, run, start, stop, stop_pid, wait_for

PROXY_PORT, SERVER_PORT = 1, 10  # above the first port


class Server:
    """A store started by a script with the commands start, stop DATADIR PORT."""

    access_key, secret_key = "tierfskey", "tierfssecret"

    def __init__(self, kind, script, folder, deadline, first_port=FIRST_PORT, environment=None):
        if not script.exists():
            raise Failure(f"{script}: not there; name the script that starts the server by --server-script")
        self.kind, self.script, self.folder = kind, script, folder
        self.port = first_port + SERVER_PORT
        self.endpoint = f"http://127.0.0.1:{self.port}"
        environment = dict(os.environ, ACCESS_KEY=self.access_key, SECRET_KEY=self.secret_key,
                           **(environment or {}))
        folder.mkdir(parents=True, exist_ok=True)
        try:
            run([script, "start", folder, self.port], deadline, environment, log=folder / "start.log")
        except BaseException:
            self.close()
            raise

    def close(self):
        run([self.script, "stop", self.folder, self.port], Deadline(120), dict(os.environ), check=False,
            log=self.folder / "stop.log")


@dataclasses.dataclass
class Counted:
    """Requests that ended, as the proxy saw them. Bytes are those of bodies that went to the client."""

    objects: int = 0
    object_bytes: int = 0
    lists: int = 0
    heads: int = 0
    others: int = 0
    errors: int = 0
    bytes: int = 0  # of all bodies
    cancelled: int = 0  # by the client; counted as what they were, too

    @property
    def requests(self):
        return self.objects + self.lists + self.heads + self.others

    def add(self, line, prefix):
        """Counts one line of the log when its path begins with `prefix`."""
        _, method, status, size, uri = line.split("\t")
        path, _, query = uri.partition("?")
        if not path.startswith(prefix):
            return
        self.bytes += int(size)
        names = urllib.parse.parse_qs(query, keep_blank_values=True)
        is_list = "list-type" in names or "delimiter" in names or "prefix" in names or path.count("/") < 2
        # 499: nginx says that the client closed, as tierfs does with whichever of two hedged reads is slower.
        self.cancelled += int(status) == 499
        self.errors += int(status) >= 400 and int(status) not in (404, 416, 499)
        if method == "HEAD":
            self.heads += 1
        elif method == "GET" and is_list:
            self.lists += 1
        elif method == "GET":
            self.objects += 1
            self.object_bytes += int(size)
        else:
            self.others += 1


CONFIGURATION = """{modules}
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
user root;
events {{ worker_connections 4096; }}
http {{
  log_format counted '$msec\\t$request_method\\t$status\\t$body_bytes_sent\\t$request_uri';
  access_log {folder}/requests.log counted;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  client_max_body_size 0;
  tcp_nodelay on; keepalive_timeout 300; keepalive_requests 10000000;
  upstream store {{ server 127.0.0.1:{server}; keepalive 256; keepalive_requests 10000000; }}
  {lua}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      {shaping}
      proxy_pass http://store;
      proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_request_buffering off; proxy_buffering on; proxy_buffers 16 64k; proxy_buffer_size 64k;
      proxy_busy_buffers_size 128k; proxy_max_temp_file_size 0; proxy_next_upstream off;
      proxy_read_timeout 600s; proxy_send_timeout 600s;
    }}
  }}
}}
"""


MODULES = "".join(f"load_module /usr/lib/nginx/modules/{name}.so;\n" for name in ("ndk_http_module", "ngx_http_lua_module"))
LUA_PATH = 'lua_package_path "/usr/share/lua/5.1/?.lua;;";'


def shaping(latency_ms, rate):
    """What nginx does with each request: wait, then answer so many bytes a second on a connection (0: all it can)."""
    wait = f"access_by_lua_block {{ ngx.sleep({latency_ms / 1000:g}) }}" if latency_ms else ""
    return wait + (f" limit_rate {rate};" if rate else "")


class CountingProxy:
    """nginx in front of the store; each request that ends is a line of its log. With a latency (needs the Lua module) it
    waits before each request, with a rate it sends so many bytes a second on each connection."""

    def __init__(self, folder, server, deadline, port=None, latency_ms=0, rate=0):
        self.folder, self.server = folder, server
        port = port or server.port - SERVER_PORT + PROXY_PORT
        self.endpoint = f"http://127.0.0.1:{port}"
        self.access_key, self.secret_key = server.access_key, server.secret_key
        self._stop_old()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.log = folder / "requests.log"
        (folder / "nginx.conf").write_text(CONFIGURATION.format(
            folder=folder, server=server.port, port=port, shaping=shaping(latency_ms, rate),
            modules=MODULES if latency_ms else "", lua=LUA_PATH if latency_ms else ""))
        self.process = start(["nginx", "-p", folder, "-e", folder / "error.log", "-c", folder / "nginx.conf"],
                             folder / "out")
        try:
            wait_for("the counting proxy", self.log.exists, deadline, 10, self.process, folder / "out")
            wait_for("the counting proxy", self._answers, deadline, 10, self.process, folder / "out")
        except BaseException:
            self.close()
            raise

    def _stop_old(self):
        """What a run that was killed has left here."""
        try:
            pid = int((self.folder / "nginx.pid").read_text())
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return
        if str(self.folder).encode() in command:
            stop_pid(pid)

    def _answers(self):
        return run(["curl", "-s", "-o", "/dev/null", self.endpoint + "/"], Deadline(5), check=False)[0] == 0

    def first_byte_ms(self, path):
        """What a client waits for the first byte: the median of five HEADs, signed or not."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        times = []
        for _ in range(5):
            began = time.monotonic()
            try:
                opener.open(urllib.request.Request(self.endpoint + path, method="HEAD"), timeout=20).close()
            except OSError as error:
                raise Failure(f"{self.endpoint}{path}: {error}") from None
            times.append((time.monotonic() - began) * 1000)
        return statistics.median(times)

    def mark(self, patience=0.2):
        """A place in the log: what ended before it is not counted. Waits so many seconds for lines on their way."""
        time.sleep(patience)
        return self.end()

    def end(self):
        """The same place, now."""
        return self.log.stat().st_size

    def since(self, mark, until=None, prefix="/"):
        if until is None:
            until = self.mark()
        counted = Counted()
        with open(self.log, "rb") as file:
            file.seek(mark)
            for line in file.read(until - mark).decode(errors="replace").splitlines():
                counted.add(line, prefix)
        return counted

    def close(self):
        stop(self.process)

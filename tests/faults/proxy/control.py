"""The control port: HTTP with JSON.

    GET  /          counters and rules          PUT  /rules     replaces the rules (JSON as in a script)
    POST /rules     adds rules at the end       DELETE /rules   takes all away
    PUT  /tls       a mode of TLS as JSON text  POST /drop      ends the clients' connections
    PUT  /refuse    true: listens no more       POST /forget    counters at zero"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .certificates import MODES
from .rules import ScriptError


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):  # pylint: disable=invalid-name
        try:
            text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, answer = 200, self.act(self.command, self.path, json.loads(text) if text.strip() else None)
        except (ScriptError, ValueError, TypeError, AttributeError) as error:
            status, answer = 400, {"error": str(error)}
        body = json.dumps(answer, indent=2).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_POST = do_DELETE = do_GET

    def act(self, method, path, sent):
        proxy = self.server.proxy
        if (method, path) == ("PUT", "/rules"):
            proxy.set_rules(sent)
        elif (method, path) == ("POST", "/rules"):
            for one in sent if isinstance(sent, list) else [sent]:
                proxy.add_rule(one)
        elif (method, path) == ("DELETE", "/rules"):
            proxy.set_rules([])
        elif (method, path) == ("PUT", "/tls"):
            if sent not in MODES or not proxy.tls:
                raise ValueError(f"modes of a proxy with TLS: {', '.join(MODES)}")
            proxy.tls_mode = sent
        elif (method, path) == ("PUT", "/refuse"):
            proxy.refuse(bool(sent))
        elif (method, path) == ("POST", "/drop"):
            proxy.drop_connections()
        elif (method, path) == ("POST", "/forget"):
            proxy.forget()
        elif (method, path) != ("GET", "/"):
            raise ValueError(f"no {method} {path}")
        return proxy.count()


class Control(ThreadingHTTPServer):
    """Serves a Proxy's control port in the thread that calls serve_forever()."""

    daemon_threads = True

    def __init__(self, proxy, address=("127.0.0.1", 0)):
        self.proxy = proxy
        super().__init__(address, Handler)

#!/usr/bin/python3
"""Runs the fault proxy by hand:

    tests/faults/proxy.py --listen 127.0.0.1:9000 --upstream 127.0.0.1:7700 --script faults.json --control 127.0.0.1:9001
    curl 127.0.0.1:9001/                                                 counters and rules
    curl -X PUT -d '[{"faults": [{"do": "latency", "ms": 50}]}]' 127.0.0.1:9001/rules

proxy/rules.py says what a script is, proxy/control.py what the control port does. Ends with SIGINT or SIGTERM."""

import argparse
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from proxy import Proxy, Script, ScriptError  # noqa: E402  pylint: disable=wrong-import-position
from proxy.certificates import MODES, Certificates  # noqa: E402  pylint: disable=wrong-import-position
from proxy.control import Control  # noqa: E402  pylint: disable=wrong-import-position


def address(text):
    host, _, port = text.rpartition(":")
    return host or "127.0.0.1", int(port)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", type=address, default=("127.0.0.1", 0), metavar="HOST:PORT")
    parser.add_argument("--upstream", type=address, required=True, metavar="HOST:PORT")
    parser.add_argument("--control", type=address, default=("127.0.0.1", 0), metavar="HOST:PORT")
    parser.add_argument("--script", metavar="FILE", help="rules, JSON")
    parser.add_argument("--tcp", action="store_true", help="pass bytes, do not look for HTTP in them")
    parser.add_argument("--tls", metavar="FOLDER", help="speak TLS; certificates are made in this folder")
    parser.add_argument("--tls-mode", choices=MODES, default="good")
    options = parser.parse_args()
    proxy = Proxy(options.upstream, listen=options.listen, tcp=options.tcp,
                  tls=Certificates(options.tls) if options.tls else None)
    proxy.tls_mode = options.tls_mode
    try:
        if options.script:
            proxy.script = Script.load(options.script)
        proxy.start()
    except (ScriptError, OSError) as error:
        sys.exit(f"proxy.py: {error}")
    control = Control(proxy, options.control)
    threading.Thread(target=control.serve_forever, daemon=True).start()
    print(f"listening {proxy.endpoint} control http://{control.server_address[0]}:{control.server_address[1]}", flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    control.shutdown()
    proxy.stop()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()

"""TLS for the proxy: an authority, certificates that are right or wrong, and handshakes that go wrong."""

import asyncio
import os
import ssl
import subprocess
from pathlib import Path

# What a client meets: a certificate that is right, has expired, names another host, comes from an authority that the
# client does not know; bytes that are no TLS; a connection that ends within the handshake; one on which nothing comes.
MODES = ("good", "expired", "wrong_name", "unknown_ca", "garbage", "cut", "silent")


def openssl(*words):
    done = subprocess.run(["openssl", *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                          check=False)
    if done.returncode:
        raise RuntimeError(f"openssl {words[0]}: {done.stderr.decode(errors='replace')}")


class Certificates:
    """Made in `folder` with openssl. authority: the PEM file that a client has to trust. names: subjectAltName of the
    good certificate."""

    def __init__(self, folder, names="IP:127.0.0.1,DNS:localhost"):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.authority = self._make_authority("authority")
        self._make_authority("stranger")
        self.contexts = {
            "good": self._make("good", "authority", names, 2),
            "expired": self._make("expired", "authority", names, -1),
            "wrong_name": self._make("wrong_name", "authority", "DNS:elsewhere.invalid", 2),
            "unknown_ca": self._make("unknown_ca", "stranger", names, 2),
        }

    def _key(self, name):
        path = self.folder / f"{name}.key"
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", path)
        return path

    def _make_authority(self, name):
        path = self.folder / f"{name}.pem"
        openssl("req", "-x509", "-new", "-key", self._key(name), "-out", path, "-days", 2, "-subj", f"/CN=test {name}")
        return path

    def _make(self, name, authority, names, days):
        key, path, request = self._key(name), self.folder / f"{name}.pem", self.folder / f"{name}.csr"
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\n", encoding="utf-8")
        openssl("req", "-new", "-key", key, "-out", request, "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", request, "-CA", self.folder / f"{authority}.pem", "-CAkey",
                self.folder / f"{authority}.key", "-CAcreateserial", "-days", days, "-extfile", extensions, "-out", path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path, key)
        return context


async def handshake(loop, taken, certificates, mode):
    """The context for the handshake of a connection; or plays the fault, and ends with an exception."""
    if mode in certificates.contexts:
        return certificates.contexts[mode]
    taken.setblocking(False)
    if mode == "silent":
        await asyncio.sleep(1e9)
    await loop.sock_recv(taken, 65536)  # the client's hello
    if mode == "garbage":
        await loop.sock_sendall(taken, os.urandom(300))
    else:  # cut: the first bytes of a server's hello, whose record says that more follows
        await loop.sock_sendall(taken, bytes.fromhex("160303007a020000760303") + os.urandom(20))
    await asyncio.sleep(0.05)  # closing at once could take away what has not been read
    raise EOFError

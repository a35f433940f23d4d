"""The proxy: connections, what goes up and comes down, and what the rules make of it (reply.py does that part)."""

import asyncio
import collections
import socket
import threading

from . import wire
from .certificates import handshake
from .reply import HungUp, Sender, canned, skewed
from .rules import Rule, Script

LOG = 200_000  # requests that are remembered


class Counters:
    """What the server's side saw. bytes: of reply bodies sent to the client, by kind and by fault."""

    def __init__(self):
        self.requests, self.bytes = collections.Counter(), collections.Counter()
        self.faults, self.fault_bytes = collections.Counter(), collections.Counter()
        self.connections = self.broken = 0
        self.log = collections.deque(maxlen=LOG)  # (method, path, range, names of rules that hit it)

    def describe(self):
        return {"connections": self.connections, "broken": self.broken, "requests": dict(self.requests),
                "bytes": dict(self.bytes), "faults": dict(self.faults), "fault_bytes": dict(self.fault_bytes)}


class Proxy:
    """Stands at `listen` before `upstream`, both (host, port). Runs in a thread of its own from start() to stop(); every
    method may be called from any thread. tls: a certificates.Certificates, and then `tls_mode` says what a client meets:
    see certificates.handshake. tcp: passes bytes without looking at them (rules of the kind "connection" are asked)."""

    def __init__(self, upstream, rules=(), listen=("127.0.0.1", 0), tls=None, tcp=False):
        self.upstream, self.listen, self.tls, self.tcp = upstream, listen, tls, tcp
        self.script, self.counters, self.tls_mode = Script(rules), Counters(), "good"
        self.idle, self.tasks, self.loop, self.listener = [], set(), None, None
        self.accepting = None

    # -- from any thread ----------------------------------------------------------------------------------------------

    @property
    def port(self):
        return self.listen[1]

    @property
    def endpoint(self):
        return f"{'https' if self.tls else 'http'}://{self.listen[0]}:{self.port}"

    def start(self):
        ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self.thread.start()
        ready.wait()
        try:
            self.call(self._listen)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self):
        if self.loop and self.loop.is_running():
            asyncio.run_coroutine_threadsafe(self._close(), self.loop).result(20)
            self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(20)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, error, trace):
        self.stop()

    def call(self, what, *arguments):
        """Runs a function in the proxy's thread and returns its result."""
        async def inside():
            return what(*arguments)
        return asyncio.run_coroutine_threadsafe(inside(), self.loop).result(20)

    def set_rules(self, rules):
        script = Script(rules)
        self.call(setattr, self, "script", script)
        return script.rules

    def add_rule(self, described):
        rule = Rule(described)
        self.call(self.script.rules.append, rule)
        return rule

    def remove_rule(self, rule):
        self.call(self.script.rules.remove, rule)

    def count(self):
        """Counters and rules as a dict."""
        return self.call(lambda: {**self.counters.describe(), "rules": self.script.describe()})

    def log(self, path=""):
        """Requests with this in their path: (method, path, range, names of rules)."""
        return self.call(lambda: [one for one in self.counters.log if path in one[1]])

    def forget(self):
        """Counters at zero."""
        self.call(setattr, self, "counters", Counters())

    def drop_connections(self):
        """Ends what clients keep open, so that the next request needs a new connection."""
        self.call(self._drop)

    def refuse(self, refusing=True):
        """Nobody listens any more; or again, on the same port."""
        if refusing:
            self.call(self._deafen)
            self.drop_connections()
        else:
            self.call(self._listen)

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _run(self, ready):
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(ready.set)
        self.loop.run_forever()
        self.loop.close()

    def _listen(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(self.listen)
        self.listener.listen(1024)
        self.listener.setblocking(False)
        self.listen = self.listener.getsockname()
        self.accepting = self.loop.create_task(self._accept(self.listener))

    def _deafen(self):
        if self.accepting:
            self.accepting.cancel()
            self.accepting = None
            self.loop.remove_reader(self.listener)
            self.listener.close()

    def _drop(self):
        for task in self.tasks:
            task.cancel()

    async def _close(self):
        self._deafen()
        self._drop()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for _, writer in self.idle:
            writer.transport.abort()
        await asyncio.sleep(0)  # what was aborted is closed in the next turn

    async def _accept(self, listener):
        while True:
            taken, _ = await self.loop.sock_accept(listener)
            task = self.loop.create_task(self._connection(taken))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _connection(self, taken):
        self.counters.connections += 1
        writer = None
        try:
            taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            context = await self._greet(taken)
            reader = asyncio.StreamReader(limit=wire.HEAD_LIMIT)
            protocol = asyncio.StreamReaderProtocol(reader)
            transport, _ = await self.loop.connect_accepted_socket(lambda: protocol, taken, ssl=context)
            writer = asyncio.StreamWriter(transport, protocol, reader, self.loop)
            await (self._pass_bytes(reader, writer) if self.tcp else self._requests(reader, writer))
        except (OSError, EOFError, wire.Broken, HungUp, asyncio.IncompleteReadError, asyncio.CancelledError):
            self.counters.broken += 1  # by a fault, by the peer, or by drop_connections()
            if writer:
                writer.transport.abort()
        finally:
            if writer:
                writer.close()
            else:
                taken.close()

    async def _greet(self, taken):
        """Rules about connections, and the context for TLS."""
        faults, mode = {}, self.tls_mode
        if not self.tcp:
            faults, _ = self.script.faults_for(wire.Connection(False))
            for name in faults:
                self.counters.faults[name] += 1
        if "latency" in faults:
            await asyncio.sleep(faults["latency"].ms / 1000)
        if "silent" in faults:
            await asyncio.sleep(1e9 if faults["silent"].seconds is None else faults["silent"].seconds)
        if "reset" in faults:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            raise HungUp
        if "tls" in faults:
            mode = faults["tls"].mode
        return await handshake(self.loop, taken, self.tls, mode) if self.tls else None

    async def _requests(self, reader, writer):
        while request := await wire.read_head(reader, wire.Request):
            self.counters.requests[request.kind] += 1
            faults, names = self.script.faults_for(request)
            self.counters.log.append((request.method, request.path, request.headers.get("range"), names))
            for name in faults:
                self.counters.faults[name] += 1
            sender = Sender(self, request, reader, writer, faults)
            if faults and await self._instead(sender):
                if not request.keeps_alive():
                    return
                continue
            if not await self._relay(sender) or not request.keeps_alive():
                return

    async def _instead(self, sender):
        """Whether the rules answered without the server."""
        faults, request = sender.faults, sender.request
        await sender.delay()
        reply = canned(request, faults, self.endpoint) or skewed(request, faults)
        if reply is None:
            return False
        async for _ in wire.body_pieces(sender.reader, request):
            pass
        head, body = reply
        await sender.send(head, self._one(body))
        return True

    @staticmethod
    async def _one(body):
        if body:
            yield body

    async def _relay(self, sender):
        """Passes one request up and its reply down; whether the client's connection may go on."""
        request = sender.request
        if "ignore_range" in sender.faults:
            request.set("Range", None)
        for last in (False, True):
            upstream, fresh = await self._connect(anew=last)
            try:
                head = await self._ask(upstream, sender)
                break
            except (OSError, EOFError, wire.Broken):
                upstream[1].transport.abort()
                # The server may have closed what we kept open.
                if fresh or last or request.method not in ("GET", "HEAD"):
                    raise
        whole = False
        try:
            has_body = wire.reply_has_body(request.method, head.status)
            small = int(head.headers.get("content-length", wire.PIECE)) < wire.PIECE and not sender.faults
            if small and has_body:  # the usual case, in one piece
                sender.send_small(head, await upstream[0].readexactly(int(head.headers["content-length"])))
                await sender.writer.drain()
            else:
                await sender.send(head, wire.body_pieces(upstream[0], head, has_body))
            delimited = "content-length" in head.headers or "transfer-encoding" in head.headers or not has_body
            whole = sender.took_all and delimited
        finally:
            if whole and head.keeps_alive() and len(self.idle) < 256:
                self.idle.append(upstream)
            else:
                upstream[1].transport.abort()
        return sender.may_go_on

    async def _connect(self, anew=False):
        """((reader, writer), whether it is a new connection)."""
        while self.idle and not anew:
            kept = self.idle.pop()
            if not kept[0].at_eof() and not kept[1].is_closing():
                return kept, False
        return await asyncio.open_connection(*self.upstream, limit=wire.HEAD_LIMIT), True

    async def _ask(self, upstream, sender):
        reader, writer = upstream
        request = sender.request
        writer.write(request.raw())
        if request.method not in ("GET", "HEAD"):
            await self._pass_body(sender, writer)
        while True:
            head = await wire.read_head(reader, wire.Reply)
            if head is None:
                raise wire.Broken("the server hung up")
            if head.status >= 200:
                return head
            sender.writer.write(head.raw())  # 100: go on

    async def _pass_body(self, sender, writer):
        chunked = "transfer-encoding" in sender.request.headers
        async for piece in wire.body_pieces(sender.reader, sender.request):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            await writer.drain()
        if chunked:
            writer.write(b"0\r\n\r\n")

    async def _pass_bytes(self, reader, writer):
        """A connection of which only the bytes that come down are changed."""
        request = wire.Connection(True)
        self.counters.requests[request.kind] += 1
        faults, _ = self.script.faults_for(request)
        for name in faults:
            self.counters.faults[name] += 1
        sender = Sender(self, request, reader, writer, faults)
        await sender.delay()
        up_reader, up_writer = await asyncio.open_connection(*self.upstream, limit=wire.HEAD_LIMIT)
        going_up = self.loop.create_task(self._pump(reader, up_writer))
        try:
            await sender.send_body(wire.to_the_end(up_reader), None)
        finally:
            going_up.cancel()
            up_writer.transport.abort()

    @staticmethod
    async def _pump(reader, writer):
        try:
            while piece := await reader.read(wire.PIECE):
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
        except OSError:
            pass

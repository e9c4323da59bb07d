"""A real worker: the PyPI client under uvicorn, hosting counters.

It is configured by environment variables (class Settings), serves one class
under one or more namespaces, and appends what only the worker can know to an
activation log: the start of every activation, the end of every close, every
lease it was granted. checker.py reads that log. It runs unchanged under every
client release from 0.9.0 on.
"""

import asyncio
import importlib.metadata
import inspect
import json
import logging
import os
import signal
import socket
import time
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Request, WebSocket
from pinned import PinnedAPI, PinnedHost, PinnedWorker, attestation, route
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.websockets import WebSocketDisconnect


class Settings:
    """Everything the harness may choose, read once from the environment."""

    def __init__(self, env):
        self.name = env.get("WORKER_NAME", "worker")
        self.port = int(env.get("WORKER_PORT", "0"))
        self.log = env.get("WORKER_LOG")
        self.identity_file = env.get("WORKER_IDENTITY_FILE")
        self.namespaces = env.get("WORKER_NAMESPACES", "/counters").split(",")
        self.pinboard_url = env["PINBOARD_URL"]
        self.token = env["PINBOARD_TOKEN"]
        self.heartbeat = float(env.get("WORKER_HEARTBEAT", "3"))
        self.buffer = float(env.get("WORKER_LEASE_BUFFER", "5"))
        self.idle_timeout = float(env.get("WORKER_IDLE_TIMEOUT", "300"))
        self.sweep = float(env.get("WORKER_SWEEP", "0.2"))
        self.drain_deadline = float(env.get("WORKER_DRAIN_DEADLINE", "30"))
        self.close_seconds = float(env.get("WORKER_CLOSE_SECONDS", "0"))
        self.listen_early = env.get("WORKER_LISTEN_EARLY") == "1"
        self.headroom = int(env.get("WORKER_HEADROOM", "1000"))
        self.hostname = env.get("WORKER_HOSTNAME")
        self.env = env.get("WORKER_ENV")
        self.takeover = env.get("WORKER_TAKEOVER")
        self.epoch = int(env.get("WORKER_BINDING_EPOCH", "0"))


SETTINGS = Settings(os.environ)


class ActivationLog:
    """One JSON object per line, each written by a single append, so that
    several processes share a file and a SIGKILL loses no line that was
    written. `mono` is CLOCK_MONOTONIC, which all processes of one machine
    share: lines of different workers compare by it."""

    def __init__(self, path):
        self._fd = os.open(path or os.devnull, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.process = f"{SETTINGS.name}/{os.getpid()}"

    def write(self, event, **fields):
        line = {
            "event": event,
            "process": self.process,
            "mono": time.monotonic(),
            "wall": time.time(),
            "env": SETTINGS.env or "*",
            **fields,
        }
        os.write(self._fd, (json.dumps(line) + "\n").encode())


LOG = ActivationLog(SETTINGS.log)
_activations = iter(range(1, 1 << 62))


class Counter(PinnedAPI):
    """An object with memory, so that a lost or doubled instance shows."""

    namespace = ""
    epoch = None
    activation = None
    count = 0

    async def authorize(self, conn):
        """Runs for every request and before the lifespan of a cold instance:
        the one place that sees every epoch this instance is addressed with."""
        epoch = conn.headers.get("pinboard-epoch")
        if epoch is not None and (self.epoch is None or int(epoch) > self.epoch):
            self.epoch = int(epoch)
            if self.activation is not None:
                self._log("epoch")

    async def lifespan(self):
        self.activation = next(_activations)
        self._log("start")
        try:
            yield
            self._log("closing")
            await asyncio.sleep(SETTINGS.close_seconds)
        finally:
            self._log("end")

    def stats(self):
        return {"count": self.count}

    def _log(self, event):
        LOG.write(
            event,
            ns=self.namespace,
            id=self.id,
            activation=self.activation,
            epoch=None if self.epoch is None else str(self.epoch),
        )

    def _state(self):
        return {
            "worker": SETTINGS.name,
            "process": LOG.process,
            "ns": self.namespace,
            "id": self.id,
            "count": self.count,
            "activation": self.activation,
            "epoch": str(self.epoch),
        }

    @route.get("/value")
    async def value(self):
        return self._state()

    @route.post("/increment")
    async def increment(self):
        self.count += 1
        return self._state()

    @route.post("/echo")
    async def echo(self, request: Request):
        """The body as it came."""
        return Response(await request.body(), media_type=request.headers.get("content-type"))

    @route.get("/request")
    async def request(self, request: Request):
        """What reached the worker: target and header fields, byte for byte."""
        return {
            "target": request.scope["raw_path"].decode("latin-1")
            + ("?" if request.scope["query_string"] else "")
            + request.scope["query_string"].decode("latin-1"),
            "headers": [[k.decode("latin-1"), v.decode("latin-1")] for k, v in request.headers.raw],
        }

    @route.get("/slow")
    async def slow(self, seconds: float):
        self.count += 1
        await asyncio.sleep(seconds)
        return self._state()

    @route.get("/fail")
    async def fail(self):
        return JSONResponse({"detail": "as the app says"}, status_code=418)

    @route.get("/events")
    async def events(self, n: int = 5, every: float = 0.05):
        async def stream():
            for i in range(n):
                yield f"id: {i}\ndata: {json.dumps({**self._state(), 'sent': time.time()})}\n\n"
                await asyncio.sleep(every)

        return StreamingResponse(stream(), media_type="text/event-stream")

    @route.websocket("/socket")
    async def socket(self, websocket: WebSocket):
        await websocket.accept()
        try:
            while True:
                text = await websocket.receive_text()
                self.count += 1
                await websocket.send_text(json.dumps({**self._state(), "echo": text}))
        except WebSocketDisconnect:
            pass

    @route.post("/chain")
    async def chain(self, request: Request):
        """Calls the first path of the body's list, which calls the rest, and
        returns what each hop knew of its caller."""
        path, *rest = (await request.json()) or [None]
        caller = attestation(request)
        hop = {
            **self._state(),
            "caller": None if caller is None else f"{caller.ns}/{caller.id}",
            "depth": 0 if caller is None else caller.depth,
        }
        if path is None:
            return [hop]
        reply = await self.cluster.post(f"{path}/chain", json=rest, timeout=20)
        if reply.status_code != 200:
            return JSONResponse(
                [hop, {"status": reply.status_code, "body": reply.text}],
                status_code=reply.status_code,
            )
        return [hop, *reply.json()]


class Worker(PinnedWorker):
    """The client's worker, with its lease and its duplicates written down."""

    def watch_lease(self):
        renewed = self.lease.renewed

        def logged(ttl, *, anchor=None):
            renewed(ttl, anchor=anchor)
            LOG.write(
                "lease",
                deadline=self.lease.expires_at_monotonic,
                session=self.registration.session_id,
            )

        self.lease.renewed = logged

    def _abort_instance(self, ns, id):
        LOG.write("duplicate", ns=ns, id=id)
        super()._abort_instance(ns, id)


def accepted(call, **options):
    """The options this client release knows."""
    known = inspect.signature(call).parameters
    return {name: value for name, value in options.items() if name in known}


def build(advertise_url):
    """The app and its worker."""
    worker = Worker(
        pinboard_url=SETTINGS.pinboard_url,
        token=SETTINGS.token,
        advertise_url=advertise_url,
        hostname=SETTINGS.hostname,
        env=SETTINGS.env,
        takeover=SETTINGS.takeover,
        epoch=SETTINGS.epoch,
        heartbeat_interval=SETTINGS.heartbeat,
        **accepted(PinnedWorker.__init__, headroom=lambda: SETTINGS.headroom),
    )
    worker.lease.configure(buffer=SETTINGS.buffer)
    worker.watch_lease()

    @asynccontextmanager
    async def lifespan(app):
        # The drain takes SIGTERM over and hands it to the handler it found.
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, app.state.stop)
        worker.install_sigterm_drain(SETTINGS.drain_deadline)
        yield

    app = FastAPI(lifespan=lifespan)
    app.include_router(worker)
    for namespace in SETTINGS.namespaces:
        cls = type("Counter", (Counter,), {"namespace": namespace})
        app.include_router(
            PinnedHost(
                cls,
                worker=worker,
                namespace=namespace,
                idle_timeout=SETTINGS.idle_timeout,
                sweep_interval=SETTINGS.sweep,
            )
        )
    return app, worker


def write_identity(worker, port):
    """Tells the harness where this worker listens and who it is."""
    if SETTINGS.identity_file is None:
        return
    registration = worker.registration
    partial = SETTINGS.identity_file + ".part"
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(
            {
                "port": port,
                "process": LOG.process,
                "clientId": registration.client_id,
                "secret": registration.secret,
                "release": importlib.metadata.version("pinned"),
            },
            file,
        )
    os.rename(partial, SETTINGS.identity_file)


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", SETTINGS.port))
    if SETTINGS.listen_early:
        # The first challenge waits in the backlog. Otherwise it is refused,
        # since uvicorn listens only after the registration has begun.
        listener.listen(128)
    port = listener.getsockname()[1]
    app, worker = build(f"http://127.0.0.1:{port}")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=3))

    def stop():
        server.should_exit = True

    app.state.stop = stop
    write_identity(worker, port)
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()

"""A real worker: the PyPI client under uvicorn, hosting counters.

It serves one class under one or more namespaces and writes to the activation
log: the start of every activation, the end of every close, every lease it was
granted. It runs unchanged under every client release from 0.9.0 on.
"""

import asyncio
import inspect
import json
import time
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, WebSocket
from pinned import PinnedAPI, PinnedHost, PinnedWorker, attestation, route
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.websockets import WebSocketDisconnect

from workerkit import (
    LOG,
    SETTINGS,
    drain_on_sigterm,
    listen,
    log_lease,
    serve,
    write_identity,
)

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
    """The client's worker, with its duplicates written down."""

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
    log_lease(worker.lease, worker.registration)

    @asynccontextmanager
    async def lifespan(app):
        drain_on_sigterm(app, worker)
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


def main():
    listener, port = listen()
    app, worker = build(f"http://127.0.0.1:{port}")
    write_identity(worker.registration, port)
    serve(app, listener)


if __name__ == "__main__":
    main()

"""Counters that live in memory: one live instance per id, wherever it is."""

import asyncio
import logging
import os
import socket

import uvicorn
from fastapi import FastAPI, Request, WebSocket
from pinned import PinnedAPI, PinnedHost, PinnedWorker, route
from starlette.responses import StreamingResponse
from starlette.websockets import WebSocketDisconnect

NAME = os.environ.get("WORKER_NAME", "worker")


class Counter(PinnedAPI):
    """The object. Pinboard sees to it that an id has one of them."""

    async def lifespan(self):
        self.count = 0
        yield

    @route.get("/value")
    async def value(self, request: Request):
        return {
            "worker": NAME,
            "count": self.count,
            "epoch": request.headers.get("pinboard-epoch"),
        }

    @route.post("/increment")
    async def increment(self, request: Request):
        self.count += 1
        return await self.value(request)

    @route.get("/events")
    async def events(self, n: int = 4, every: float = 0.25):
        async def ticks():
            for _ in range(n):
                self.count += 1
                yield f"data: {NAME} counts {self.count}\n\n"
                await asyncio.sleep(every)

        return StreamingResponse(ticks(), media_type="text/event-stream")

    @route.websocket("/socket")
    async def talk(self, websocket: WebSocket):
        await websocket.accept()
        try:
            while True:
                text = await websocket.receive_text()
                self.count += 1
                await websocket.send_text(f"{NAME} heard {text}, counts {self.count}")
        except WebSocketDisconnect:
            pass


def main():
    logging.basicConfig(level=logging.INFO)
    # With protocol 0, the default, asyncio does not set TCP_NODELAY.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", int(os.environ.get("WORKER_PORT", "0"))))
    listener.listen()
    worker = PinnedWorker(
        pinboard_url=os.environ["PINBOARD_URL"],
        token=os.environ["PINBOARD_TOKEN"],
        advertise_url=f"http://127.0.0.1:{listener.getsockname()[1]}",
        # A third and a fifteenth of the usual: the demo runs leases of 8 s.
        lease_buffer=2.0,
        heartbeat_interval=1.0,
        headroom=lambda: 1000,
    )
    app = FastAPI()
    app.include_router(worker)
    app.include_router(PinnedHost(Counter, worker=worker, namespace="/counters"))
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()

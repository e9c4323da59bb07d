"""The very first release of the client, 0.1.0: no challenge, no attestation,
no epoch. Pinboard pushes orders to it, and forwards without the namespace."""

from contextlib import asynccontextmanager

from fastapi import FastAPI
from pinned import PinnedAPI, PinnedHost, route

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
    """As in worker.py, as far as this release can."""

    async def lifespan(self):
        self.count = 0
        self.activation = next(_activations)
        self._log("start")
        try:
            yield
        finally:
            self._log("end")

    def _log(self, event):
        LOG.write(
            event,
            ns=SETTINGS.namespaces[0],
            id=self.id,
            activation=self.activation,
            epoch=None,
        )

    def _state(self):
        return {
            "worker": SETTINGS.name,
            "process": LOG.process,
            "id": self.id,
            "count": self.count,
            "activation": self.activation,
            "epoch": "0",
        }

    @route.get("/value")
    async def value(self):
        return self._state()

    @route.post("/increment")
    async def increment(self):
        self.count += 1
        return self._state()


def main():
    listener, port = listen()
    (namespace,) = SETTINGS.namespaces
    host = PinnedHost(
        Counter,
        pinboard_url=SETTINGS.pinboard_url,
        advertise_url=f"http://127.0.0.1:{port}{namespace}",
        namespace=namespace,
        token=SETTINGS.token,
        idle_timeout=SETTINGS.idle_timeout,
        sweep_interval=SETTINGS.sweep,
        heartbeat_interval=SETTINGS.heartbeat,
    )
    host.lease.configure(buffer=SETTINGS.buffer)
    log_lease(host.lease, host.registration)

    @asynccontextmanager
    async def lifespan(app):
        drain_on_sigterm(app, host)
        yield

    app = FastAPI(lifespan=lifespan)
    app.include_router(host, prefix=namespace)
    write_identity(host.registration, port)
    serve(app, listener)


if __name__ == "__main__":
    main()

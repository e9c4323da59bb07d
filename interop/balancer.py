"""A round-robin balancer of connections that asks /readyz now and then."""

import asyncio
import threading

import httpx


class Balancer:
    """Listens on a port of its own and spreads new connections over the nodes
    that were ready when it last asked. What runs through it is not looked at."""

    def __init__(self, nodes, every=1.0):
        self._nodes = nodes
        self._every = every
        self._ready = list(nodes)
        self._turn = 0
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self._thread.start()
        assert self._started.wait(10), "the balancer does not listen"
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(5)

    async def _run(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with await asyncio.start_server(self._connection, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            probe = asyncio.create_task(self._probe())
            self._started.set()
            await self._over.wait()
            probe.cancel()

    async def _probe(self):
        async with httpx.AsyncClient(timeout=1) as http:
            while True:
                ready = []
                for node in self._nodes:
                    try:
                        if (await http.get(f"{node}/readyz")).status_code == 200:
                            ready.append(node)
                    except httpx.TransportError:
                        pass
                self._ready = ready
                await asyncio.sleep(self._every)

    async def _connection(self, reader, writer):
        ready = self._ready
        self._turn += 1
        node = httpx.URL(ready[self._turn % len(ready)])
        try:
            upstream = await asyncio.open_connection(node.host, node.port)
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(_pump(reader, upstream[1]), _pump(upstream[0], writer))
        except asyncio.CancelledError:
            pass  # the balancer is over
        finally:
            for end in (writer, upstream[1]):
                end.close()


async def _pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()

"""The side of the user: HTTP, SSE and WebSocket through a node.

Refusals of Pinboard's own are part of normal life (a cold start, a lapse); a
client repeats what is retryable. `ok` does that and remembers what it saw.
"""

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import websockets.sync.client

from constants import TOKEN


@dataclass
class Refusal:
    """An answer that was not the worker's."""

    mono: float
    status: int
    code: str | None
    text: str
    retry_after: str | None


@dataclass
class Served:
    """The worker's answer, and the refusals on the way to it."""

    state: dict
    mono: float
    refusals: list = field(default_factory=list)

    def __getattr__(self, name):
        try:
            return self.state[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def epoch(self):
        return int(self.state["epoch"])

    @property
    def owner(self):
        """What must stay the same while an instance lives."""
        return self.process, self.activation, self.epoch


class Client:
    """Requests through the nodes of a cluster; `node` picks one of them."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._http = httpx.Client(timeout=30)

    def close(self):
        self._http.close()

    def request(self, method, path, node=0, host=None, **options):
        headers = dict(options.pop("headers", {}))
        if host is not None:
            headers["Host"] = host
        url = self._cluster.nodes[node].url + path
        return self._http.request(method, url, headers=headers, **options)

    def registry(self, method, path, node=0, **options):
        """A call of the operator."""
        return self.request(
            method, path, node, headers={"Authorization": f"Bearer {TOKEN}"}, **options
        )

    def ok(self, method, path, node=0, timeout=30.0, every=0.05, repeat=(502, 503), **options):
        """Repeats until the worker answers 200; other answers than those to
        repeat on are wrong."""
        end = time.monotonic() + timeout
        refusals = []
        while True:
            try:
                reply = self.request(method, path, node, **options)
            except httpx.TransportError as error:
                refusals.append(Refusal(time.monotonic(), 0, None, repr(error), None))
            else:
                if reply.status_code == 200:
                    return Served(reply.json(), time.monotonic(), refusals)
                refusals.append(refusal(reply))
                assert reply.status_code in repeat, (method, path, refusals[-1])
            assert time.monotonic() < end, (
                f"{method} {path} refused for {timeout} s: {refusals[-3:]}"
            )
            time.sleep(every)

    def get(self, address, **options):
        """The state of the instance at `address` (`/counters/a`)."""
        return self.ok("GET", f"{address}/value", **options)

    def increment(self, address, **options):
        return self.ok("POST", f"{address}/increment", **options)

    @contextmanager
    def events(self, address, n=5, every=0.05, node=0, host=None):
        """An open SSE stream: yields an iterator over (received, data)."""
        headers = {} if host is None else {"Host": host}
        url = f"{self._cluster.nodes[node].url}{address}/events?n={n}&every={every}"
        with self._http.stream("GET", url, headers=headers, timeout=30) as reply:
            assert reply.status_code == 200, reply.read()
            assert reply.headers["content-type"].startswith("text/event-stream")
            yield (
                (time.time(), json.loads(line.removeprefix("data: ")))
                for line in reply.iter_lines()
                if line.startswith("data: ")
            )

    def socket(self, address, node=0):
        """An open WebSocket."""
        return connect(self._cluster.nodes[node].url + address)


def connect(url):
    """An open WebSocket to the instance at a URL."""
    return websockets.sync.client.connect(f"{url.replace('http:', 'ws:', 1)}/socket", proxy=None)


def say(socket, text):
    """Sends one message and decodes the worker's answer."""
    socket.send(text)
    return json.loads(socket.recv(timeout=10))


def refusal(reply):
    """An answer that is not a 200, as Pinboard and workers phrase them."""
    try:
        body = reply.json()
        text = body.get("error") or str(body.get("detail"))
    except (ValueError, AttributeError):
        text = reply.text
    return Refusal(
        time.monotonic(),
        reply.status_code,
        reply.headers.get("Pinboard-Error"),
        text,
        reply.headers.get("Retry-After"),
    )

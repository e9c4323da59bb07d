"""Steady traffic on a set of ids, and what became of it."""

import threading
import time

import httpx
import websockets.exceptions

from client import connect, refusal, say


class Load:
    """Finite requests at a fixed rate over kept connections, server-sent
    events and WebSockets, until stopped. Every answer is kept."""

    def __init__(
        self, cluster, addresses, rate=200, requesters=8, streams=20, sockets=20, url=None
    ):
        self._cluster = cluster
        self._url = url  # of a balancer; without one, every node by turns
        self._addresses = addresses
        self._stop = threading.Event()
        self.served = 0
        self.refused = []
        self.broken = []
        self.streams_ended = 0
        self.sockets_ended = 0
        jobs = [(self._request, requesters / rate)] * requesters
        jobs += [(self._stream, 0.2)] * streams + [(self._socket, 0.2)] * sockets
        self._threads = [
            threading.Thread(target=self._repeat, args=(job, pause, number), daemon=True)
            for number, (job, pause) in enumerate(jobs)
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(10)

    def _repeat(self, job, pause, number):
        turn = number
        with httpx.Client(timeout=15) as http:
            while not self._stop.wait(pause):
                turn += 7
                nodes = self._cluster.nodes
                base = self._url or nodes[turn % len(nodes)].url
                job(http, base + self._addresses[turn % len(self._addresses)])

    def _request(self, http, address):
        try:
            reply = http.post(f"{address}/increment")
        except httpx.TransportError as error:
            self.broken.append((time.monotonic(), address, repr(error)))
            return
        if reply.status_code == 200:
            self.served += 1
        else:
            self.refused.append(refusal(reply))

    def _stream(self, http, address):
        try:
            with http.stream("GET", f"{address}/events?n=100000&every=0.5") as reply:
                if reply.status_code != 200:
                    return
                for _ in reply.iter_raw():
                    if self._stop.is_set():
                        return
        except httpx.TransportError:
            pass
        self.streams_ended += 1

    def _socket(self, _http, address):
        try:
            with connect(address) as socket:
                while not self._stop.wait(0.2):
                    say(socket, "ping")
                return
        except websockets.exceptions.InvalidHandshake:
            return
        except (websockets.exceptions.ConnectionClosed, OSError, TimeoutError):
            self.sockets_ended += 1

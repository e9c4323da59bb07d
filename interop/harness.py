"""A cluster as one object: nodes over one store, workers, one activation log."""

import json
import signal
import threading
from pathlib import Path

import checker
from client import Client
from constants import TOKEN
from processes import Node, Redis, Worker, wait_for
from releases import CURRENT


class Cluster:
    """Nodes over one store, workers registered with them, one activation log.

    The fixtures stop everything and check the log: a test whose assertions
    hold fails all the same if an id had two live owners.
    """

    def __init__(self, directory):
        self.directory = Path(directory)
        self.log = self.directory / "activations.jsonl"
        self.log.touch()
        self.redis = None
        self.nodes = []
        self.workers = {}
        self._processes = []
        self.client = Client(self)

    def start(self, store="memory:", nodes=1, workers=("w1", "w2"), **settings):
        """The usual cluster: ready nodes, registered workers, warm buckets."""
        if store == "redis":
            self.redis = self._own(Redis(self.directory))
            store = self.redis.url
        for _ in range(nodes):
            self.node(store, **settings)
        for node in self.nodes:
            node.wait_ready()
        for name in workers:
            self.worker(name)
        self.wait_registered(*workers)
        self.settle(set(workers))
        return self

    def settle(self, workers):
        """Until every node places ids on every worker: buckets are warm, and
        nodes look at the list of workers about once a second."""
        numbers = iter(range(1000))
        for node in range(len(self.nodes) if workers else 0):
            seen = set()
            while not workers <= seen:
                served = self.client.get(f"/counters/settle-{node}-{next(numbers)}", node=node)
                seen.add(served.worker)

    def _own(self, process):
        self._processes.append(process)
        return process

    def node(self, store, **settings):
        node = Node(f"node{len(self.nodes) + 1}", self.directory, store, **settings)
        self.nodes.append(self._own(node))
        return node

    def restart_redis(self):
        """An empty Redis at the same port, after the old one was killed."""
        self.redis = self._own(Redis(self.directory, self.redis.port))

    def restart_node(self, index=0, wait=True, **settings):
        """The node again, after it was killed or terminated."""
        self.nodes[index] = self._own(self.nodes[index].again(**settings))
        if wait:
            self.nodes[index].wait_ready()

    def worker(self, name, node=None, pinboard=None, release=CURRENT, **settings):
        """Starts a worker; by default they spread over the nodes. `pinboard`
        is the URL of a balancer before them."""
        index = len(self.workers) % len(self.nodes) if node is None else node
        url = pinboard or self.nodes[index].url
        worker = Worker(name, self.directory, self.log, url, release=release, **settings)
        self.workers[name] = self._own(worker)
        return worker

    def registered(self, node=0):
        """The workers that hold a lease by the word of a node, by client id."""
        reply = self.client.registry("GET", "/registry/workers", node=node)
        assert reply.status_code == 200, reply.text
        rows = reply.json()["workers"]
        return {row["clientId"]: row for row in rows if row["state"] == "live"}

    def wait_registered(self, *names):
        wanted = {self.workers[name].client_id for name in names}
        for index in range(len(self.nodes)):
            wait_for(
                lambda index=index: wanted <= set(self.registered(index)),
                f"{names} to register with node {index}",
                timeout=60,
            )

    def events(self, *kinds, **fields):
        """The lines of the activation log so far, filtered."""
        return [
            line
            for line in checker.read(self.log)
            if (not kinds or line["event"] in kinds)
            and all(line.get(name) == value for name, value in fields.items())
        ]

    def lease_deadline(self, process):
        """Where the lease of a worker process ends, by its own log."""
        return self.events("lease", process=process)[-1]["deadline"]

    def place(self, count=8, prefix="id"):
        """Places ids and returns what answered, by address."""
        addresses = [f"/counters/{prefix}-{i}" for i in range(count)]
        return {address: self.client.increment(address) for address in addresses}

    def hold(self, address, seconds, node=0):
        """Keeps an instance busy with a request. Returns, once the handler
        runs, a function that waits for the answer and gives its status."""
        before = self.client.get(address, node=node).count
        status = []

        def request():
            path = f"{address}/slow?seconds={seconds}"
            status.append(self.client.request("GET", path, node=node, timeout=90).status_code)

        thread = threading.Thread(target=request, daemon=True)
        thread.start()
        wait_for(lambda: self.client.get(address, node=node).count > before, "the handler to run")

        def wait():
            thread.join()
            return status[0]

        return wait

    def stop(self):
        for process in self._processes:
            process.resume()
            process.signal(signal.SIGTERM)
        for process in self._processes:
            process.close()
        self.client.close()

    def check(self):
        violations = checker.check(checker.read(self.log))
        assert not violations, "\n".join(map(str, violations))
        self.check_secrets()

    def check_secrets(self):
        """No node said a secret: not the token, not one of a worker."""
        secrets = {TOKEN}
        for worker in self.workers.values():
            identity = getattr(worker, "identity_file", None)
            if identity and identity.exists():
                secrets.add(json.loads(identity.read_text())["secret"])
        for node in self.nodes:
            said = node.output()
            leaked = [secret for secret in secrets if secret in said]
            assert not leaked, f"{node.name} logged {len(leaked)} of {len(secrets)} secrets"

    def outputs(self):
        """The tails of all logs, for the report of a failed test."""
        return {process.log: process.output()[-6000:] for process in self._processes}


def on(placed, worker):
    """The addresses that a worker owns."""
    return [address for address, served in placed.items() if served.worker == worker]

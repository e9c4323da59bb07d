"""What the workers of these tests share: settings from the environment, the
log that checker.py reads, and a uvicorn around the app."""

import asyncio
import importlib.metadata
import json
import logging
import os
import signal
import socket
import time

import uvicorn


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


def write_identity(registration, port):
    """Tells the harness where this worker listens and who it is."""
    if SETTINGS.identity_file is None:
        return
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


def log_lease(lease, registration):
    """Writes down every lease the client is granted, as it reckons it."""
    renewed = lease.renewed

    def logged(ttl, *, anchor=None):
        renewed(ttl, anchor=anchor)
        LOG.write("lease", deadline=lease.expires_at_monotonic, session=registration.session_id)

    lease.renewed = logged


def listen():
    """The listening socket and its port."""
    # With protocol 0, the default, asyncio does not set TCP_NODELAY.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", SETTINGS.port))
    if SETTINGS.listen_early:
        # The first challenge waits in the backlog. Otherwise it is refused,
        # since uvicorn listens only after the registration has begun.
        listener.listen(128)
    return listener, listener.getsockname()[1]


def drain_on_sigterm(app, worker):
    """The client takes SIGTERM over, drains, and hands it to what it found."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.state.stop)
    worker.install_sigterm_drain(SETTINGS.drain_deadline)


def serve(app, listener):
    """Runs the app until it is told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=3))

    def stop():
        server.should_exit = True

    app.state.stop = stop
    server.run(sockets=[listener])

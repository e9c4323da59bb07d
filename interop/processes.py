"""The processes a test runs: Redis, Pinboard nodes, workers.

Every one is a child of the test, known by its pid alone, logs to a file of its
own and is gone when it is closed. Ports are ephemeral.
"""

import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from constants import BUFFER, HEARTBEAT, LEASE, TOKEN
from releases import CURRENT

HERE = Path(__file__).parent
ROOT = HERE.parent
# Below the range from which systems take the ports of outgoing connections: a
# port stays free until its process listens, and also while it is restarted.
PORTS = range(12000, 32000)


def free_port():
    """A port that nobody listened on a moment ago."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def wait_for(condition, what, timeout=30.0, every=0.02):
    """The first truthy value of condition(), or an AssertionError."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"timed out after {timeout} s waiting for {what}"
        time.sleep(every)


class Process:
    """One child process with its log file."""

    def __init__(self, name, command, env, log):
        self.name = name
        self.log = Path(log)
        self._file = open(log, "ab")
        self._child = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=self._file, stderr=self._file
        )

    @property
    def pid(self):
        return self._child.pid

    @property
    def alive(self):
        return self._child.poll() is None

    def signal(self, number):
        if self.alive:
            os.kill(self.pid, number)

    def pause(self):
        """SIGSTOP, and every thread has stopped: kill(2) does not wait for it."""
        self.signal(signal.SIGSTOP)
        end = time.monotonic() + 10
        while self.alive and not self._stopped():
            assert time.monotonic() < end, f"process {self.pid} still runs"
            time.sleep(0.001)

    def _stopped(self):
        stats = list(Path(f"/proc/{self.pid}/task").glob("*/stat"))
        try:
            return all(s.read_text().rpartition(")")[2].split()[0] == "T" for s in stats)
        except OSError:
            return False

    def resume(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        """SIGKILL: nothing is released, nothing is said."""
        self.signal(signal.SIGKILL)
        return self.wait()

    def terminate(self, timeout=40.0):
        """SIGTERM, and the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def wait(self, timeout=40.0):
        status = self._child.wait(timeout)
        self._file.close()
        return status

    def close(self):
        """Gone in any case, also when stopped or stuck."""
        self.resume()
        self.signal(signal.SIGTERM)
        try:
            self.wait(2.0)
        except subprocess.TimeoutExpired:
            self.kill()

    def output(self):
        return self.log.read_text(errors="replace")


class Redis(Process):
    """A redis-server without persistence on a port of its own."""

    def __init__(self, directory, port=None):
        self.port = port or free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        super().__init__(
            "redis",
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no", "--maxmemory-policy", "noeviction", "--dir", str(directory)],
            os.environ,
            directory / "redis.log",
        )  # fmt: skip
        wait_for(lambda: self._answers("PING"), "redis")

    def _answers(self, *words):
        try:
            return self.command(*words)
        except OSError:
            return None

    def command(self, *words):
        """The first line of the reply to one command."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as s:
            parts = [f"*{len(words)}\r\n", *(f"${len(w)}\r\n{w}\r\n" for w in words)]
            s.sendall("".join(parts).encode())
            reply = s.makefile("rb").readline().decode().strip()
        assert not reply.startswith("-"), reply
        return reply


class Node(Process):
    """A Pinboard node: the binary built from this tree."""

    def __init__(self, name, directory, store, port=None, **settings):
        self.port = port or free_port()
        self.store = store
        self.settings = settings
        self.directory = directory
        self.url = f"http://127.0.0.1:{self.port}"
        env = {
            "PATH": os.environ["PATH"],
            "PORT": str(self.port),
            "REDIS_URL": store,
            "PINBOARD_TOKEN": TOKEN,
            "PINBOARD_LEASE_TTL_MS": str(int(LEASE * 1000)),
            "PINBOARD_AFFINITY": "none",
            "PINBOARD_SHUTDOWN_NOTICE_MS": "200",
            "PINBOARD_SHUTDOWN_BUDGET_MS": "3000",
            "LOG_LEVEL": "debug",
            **settings,
        }
        super().__init__(name, [binary(), "serve"], env, directory / f"{name}.log")

    def wait_ready(self):
        def ready():
            assert self.alive, f"{self.name} exited:\n{self.output()[-2000:]}"
            try:
                return httpx.get(self.url + "/readyz", timeout=2).status_code == 200
            except httpx.TransportError:
                return False

        wait_for(ready, f"{self.name} to be ready")
        return self

    def again(self, **settings):
        """A new process of this node at the same port over the same store."""
        settings = {**self.settings, **settings}
        return Node(self.name, self.directory, self.store, self.port, **settings)


class Worker(Process):
    """A process of the real client, see worker.py and worker_first.py."""

    def __init__(self, name, directory, log, pinboard, release=CURRENT, **settings):
        self.identity_file = directory / f"{name}.identity"
        self.identity_file.unlink(missing_ok=True)
        self.release = release
        env = {
            "PATH": os.environ["PATH"],
            **release.environment(),
            "PYTHONUNBUFFERED": "1",
            "WORKER_NAME": name,
            "WORKER_LOG": str(log),
            "WORKER_IDENTITY_FILE": str(self.identity_file),
            "WORKER_HEARTBEAT": str(HEARTBEAT),
            "WORKER_LEASE_BUFFER": str(BUFFER),
            "WORKER_LISTEN_EARLY": "1",
            "PINBOARD_URL": pinboard,
            "PINBOARD_TOKEN": TOKEN,
            **{f"WORKER_{key.upper()}": str(value) for key, value in settings.items()},
        }
        super().__init__(
            name, [sys.executable, str(HERE / release.program)], env, directory / f"{name}.log"
        )

    @property
    def identity(self):
        """port, process, clientId, secret and client release of the process."""

        def read():
            if self.identity_file.exists():
                return True
            assert self.alive, f"{self.name} exited:\n{self.output()[-2000:]}"
            return False

        wait_for(read, f"{self.name} to say who it is", timeout=60)
        return json.loads(self.identity_file.read_text())

    @property
    def client_id(self):
        return self.identity["clientId"]


def binary():
    """The pinboard binary the nodes run."""
    return os.environ.get("PINBOARD_BINARY", str(ROOT / "bin" / "pinboard"))


def build():
    """Builds the binary from this tree, unless one was handed in. Test
    processes running side by side build one after the other."""
    if "PINBOARD_BINARY" in os.environ:
        return
    go = shutil.which("go")
    assert go, "the Go toolchain is needed to build ./cmd/pinboard"
    (ROOT / ".cache").mkdir(exist_ok=True)
    with open(ROOT / ".cache" / "build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        part = f"{binary()}.{os.getpid()}"
        built = subprocess.run(
            [go, "build", "-o", part, "./cmd/pinboard"], cwd=ROOT, capture_output=True, text=True
        )
        assert built.returncode == 0, built.stderr
        os.replace(part, binary())

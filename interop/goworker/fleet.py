"""Our Go SDK in the place of the real client.

As a plugin it runs the trials of the real client with Go workers only:
    PYTHONPATH=interop .cache/venv/bin/python -m pytest interop -p goworker.fleet -n 2
"""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import releases

ROOT = Path(__file__).parents[2]

# What says nothing about a Go worker, and where it differs on purpose.
ELSEWHERE = {
    "test_releases.py": "older releases of the real client",
    "test_push.py": "the first release of the real client",
    "test_reference.py": "the real client's own tests",
    "test_checker.py": "histories made by hand",
    "test_goworker.py": "mixed fleets",
    "test_an_ejected_worker_loses_its_session_at_the_end_of_its_lease": "it gives ids back earlier",
    "test_a_lower_binding_epoch_is_not_accepted": "reads the real client's log",
}


class Go:
    """The Go worker as a release of the client."""

    version = "go"
    program = "goworker/launch.py"

    def environment(self):
        return {"GOWORKER": str(build())}


def build():
    """The worker, built from this tree; test processes build one by one."""
    go = shutil.which("go")
    assert go, "the Go toolchain is needed to build ./interop/goworker"
    (ROOT / ".cache").mkdir(exist_ok=True)
    target = ROOT / ".cache" / "goworker"
    with open(ROOT / ".cache" / "build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        part = f"{target}.{os.getpid()}"
        built = subprocess.run(
            [go, "build", "-o", part, "./interop/goworker"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert built.returncode == 0, built.stderr
        os.replace(part, target)
    return target


def pytest_configure():
    """Before the harness is imported and binds its default."""
    releases.CURRENT = Go()


def pytest_collection_modifyitems(items):
    for item in items:
        for name, why in ELSEWHERE.items():
            if name in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=why))

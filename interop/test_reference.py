"""The client's own integration tests, as its source archive ships them, with
this tree's binary in the place of the pinboard they were written for."""

import os
import re
import subprocess
import sys
import tarfile

import pytest

from releases import CACHE, CURRENT_VERSION

REFERENCE = CACHE.parent / "reference"

# They start `node main.js` with PORT, REDIS_URL, PINBOARD_PASSPORT and
# PINBOARD_LEASE_TTL_MS; this stands in for `node`.
SHIM = """#!/bin/sh
PINBOARD_SHUTDOWN_NOTICE_MS=0 exec {binary} serve
"""


def pip(*arguments):
    subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
        check=True,
    )


def sources():
    """The source archive, and a folder with what only its tests need."""
    archive = REFERENCE / f"pinned-{CURRENT_VERSION}.tar.gz"
    site = REFERENCE / "site"
    if not archive.exists():
        pip("download", "--no-deps", "--no-binary", "pinned", "--dest", str(REFERENCE),
            f"pinned=={CURRENT_VERSION}")  # fmt: skip
    if not site.exists():
        pip("install", "--root-user-action=ignore", "--no-deps", "--target", str(site),
            "pytest-asyncio", "psycopg", "psycopg-binary")  # fmt: skip
    return archive, site


@pytest.mark.nightly
@pytest.mark.parametrize("file, tests", [("test_pinboard_integration.py", 1), ("test_cluster.py", 15)])
def test_the_clients_own_integration_tests(tmp_path, binary, file, tests):
    archive, site = sources()
    # The tests look for main.js from four folders above their own.
    python = tmp_path / "some" / "where"
    main = tmp_path / "packages" / "pinned" / "pinboard" / "dist" / "node" / "main.js"
    shim = tmp_path / "bin" / "node"
    for folder in (python, main.parent, shim.parent):
        folder.mkdir(parents=True)
    main.touch()
    shim.write_text(SHIM.format(binary=binary))
    shim.chmod(0o755)
    with tarfile.open(archive) as tar:
        tar.extractall(python, filter="data")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider",
         "-p", "no:xdist", file],
        cwd=python / f"pinned-{CURRENT_VERSION}" / "tests",
        env={
            **{name: value for name, value in os.environ.items() if "PYTEST" not in name},
            "PATH": f"{shim.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(site),
        },
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert re.search(rf"^{tests} passed in", run.stdout, re.M), run.stdout[-500:]

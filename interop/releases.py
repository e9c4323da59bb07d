"""Releases of the client, laid over the current one.

The virtual environment holds the current release. An older one is installed
without its dependencies into a folder of its own, made on demand and kept, and
put in front of the import path; what it needs besides (an older `statepatch`)
goes into the same folder.
"""

import email.parser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

CACHE = Path(__file__).parent.parent / ".cache" / "releases"

CURRENT_VERSION = "0.16.0"

# One release per generation of the wire, then every release since 0.9.
GENERATIONS = ["0.9.1", "0.10.0", "0.13.1", "0.14.8", "0.15.0", "0.15.5", "0.16.0"]
ALL = [
    "0.9.0", "0.9.1", "0.10.0", "0.11.0", "0.11.1", "0.12.0", "0.13.0", "0.13.1",
    "0.14.0", "0.14.1", "0.14.2", "0.14.3", "0.14.4", "0.14.5", "0.14.6", "0.14.7", "0.14.8",
    "0.15.0", "0.15.1", "0.15.2", "0.15.3", "0.15.4", "0.15.5", "0.16.0",
]  # fmt: skip


# As published, 0.14.3 asks for a statepatch it cannot be imported with.
MISDECLARED = {"0.14.3": "statepatch<0.3,>=0.2.0"}


class Release:
    """One release of the client."""

    def __init__(self, version):
        self.version = version

    @property
    def program(self):
        """The worker program that runs under this release."""
        return "worker_first.py" if self.version == "0.1.0" else "worker.py"

    def environment(self):
        """What a process needs in its environment to import this release."""
        if self.version == CURRENT_VERSION:
            return {}
        return {"PYTHONPATH": str(self._folder())}

    def _folder(self):
        folder = CACHE / self.version
        if not folder.exists():
            # Made aside and renamed: an interrupted or a second run never
            # sees half a release.
            part = CACHE / f"{self.version}.{os.getpid()}"
            shutil.rmtree(part, ignore_errors=True)
            _install(part, f"pinned=={self.version}")
            extra = MISDECLARED.get(self.version) or _statepatch(part)
            if extra:
                _install(part, extra)
            try:
                part.rename(folder)
            except OSError:
                shutil.rmtree(part)
        return folder


CURRENT = Release(CURRENT_VERSION)
FIRST = Release("0.1.0")


def _install(folder, requirement):
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--root-user-action=ignore",
         "--no-deps", "--target", str(folder), requirement],
        check=True,
    )  # fmt: skip


def _statepatch(folder):
    """The one requirement whose range differs between releases, or None."""
    metadata = next(folder.glob("pinned-*.dist-info")) / "METADATA"
    fields = email.parser.HeaderParser().parsestr(metadata.read_text())
    for requirement in fields.get_all("Requires-Dist", []):
        if re.match(r"statepatch\b", requirement):
            return requirement
    return None

"""Becomes the Go worker: the harness starts workers as Python programs."""

import os

os.execv(os.environ["GOWORKER"], [os.environ["GOWORKER"]])

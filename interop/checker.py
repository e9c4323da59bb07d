"""Finds two live owners of one id in an activation log.

An instance is live from the start of its activation until its close has ended
(lifespan closed, writes flushed), or until its worker's own lease deadline if
that comes first. A lease granted after a lapse brings back what the worker
still holds, except what the register answer told it to quit.

Log lines (JSON objects, one per line, see worker.ActivationLog):
  lease      process, mono, deadline          the lease now runs until deadline
  start      process, mono, env, ns, id, activation, epoch
  epoch      the same fields                  the instance was addressed with a higher epoch
  duplicate  process, mono, ns, id            the register answer quits this id
  closing    as start                         informative
  end        as start                         the close has ended
Lines of one process are in its order; mono compares across processes.
"""

import json
import math
import sys
from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class Span:
    """One uninterrupted time in which an instance was live."""

    key: tuple
    process: str
    activation: int
    start: float
    end: float


@dataclass
class Activation:
    """One instance of one id in one process, from construction to close."""

    key: tuple
    process: str
    number: int
    start: float
    end: float = math.inf
    quit: float = math.inf  # when a register answer ordered it to close
    epochs: list = field(default_factory=list)


@dataclass
class Window:
    """A time without gap in which a process held a lease."""

    start: float
    end: float


@dataclass
class Violation:
    kind: str
    key: tuple
    text: str

    def __str__(self):
        env, ns, id = self.key
        return f"{self.kind}: env {env} {ns}/{id}: {self.text}"


class History:
    """The activations and leases of every process of a log."""

    def __init__(self, lines):
        self.windows = defaultdict(list)
        self.activations = {}
        self._open = {}
        for line in lines:
            getattr(self, "_" + line["event"], self._other)(line)

    def _other(self, line):
        """Events this checker does not judge."""

    def _lease(self, line):
        windows, now, deadline = self.windows[line["process"]], line["mono"], line["deadline"]
        if deadline is None:
            deadline = math.inf
        if windows and now <= windows[-1].end:
            # A cap (a drain deadline) may shorten a lease, never into the past.
            windows[-1].end = max(deadline, now)
        elif deadline > now:
            windows.append(Window(now, deadline))

    def _start(self, line):
        activation = Activation(
            (line["env"], line["ns"], line["id"]), line["process"], line["activation"], line["mono"]
        )
        self.activations[line["process"], line["activation"]] = activation
        self._open[line["process"], line["ns"], line["id"]] = activation
        self._epoch(line)

    def _epoch(self, line):
        if line["epoch"] is not None:
            activation = self.activations[line["process"], line["activation"]]
            activation.epochs.append((int(line["epoch"]), line["mono"]))

    def _duplicate(self, line):
        activation = self._open.get((line["process"], line["ns"], line["id"]))
        if activation is not None:
            activation.quit = min(activation.quit, line["mono"])

    def _end(self, line):
        self.activations[line["process"], line["activation"]].end = line["mono"]
        self._open.pop((line["process"], line["ns"], line["id"]), None)

    def spans(self):
        """Every time in which an instance was live, by key and start."""
        spans = defaultdict(list)
        for activation in self.activations.values():
            for window in self.windows[activation.process]:
                if window.start >= activation.quit:
                    break
                start, end = max(activation.start, window.start), min(activation.end, window.end)
                if start < end:
                    spans[activation.key].append(
                        Span(activation.key, activation.process, activation.number, start, end)
                    )
        for of_key in spans.values():
            of_key.sort(key=lambda span: span.start)
        return spans


def two_owners(history):
    """Promise 1: no two live instances of one id at any time."""
    for key, spans in history.spans().items():
        latest = spans[0]
        for span in spans[1:]:
            if span.start < latest.end and (span.process, span.activation) != (
                latest.process,
                latest.activation,
            ):
                yield Violation(
                    "two live owners",
                    key,
                    f"{latest.process} #{latest.activation} live "
                    f"[{latest.start:.6f}, {latest.end:.6f}], {span.process} "
                    f"#{span.activation} live from {span.start:.6f} "
                    f"({latest.end - span.start:.3f} s together)",
                )
            if span.end > latest.end:
                latest = span


def epochs(history):
    """An epoch belongs to one process, a later activation has a higher one,
    and no instance is adopted at an epoch above one that another process
    held in between."""
    by_key = defaultdict(list)
    for activation in history.activations.values():
        if activation.epochs:
            by_key[activation.key].append(activation)
    for key, activations in by_key.items():
        activations.sort(key=lambda a: a.start)
        highest = None
        for activation in activations:
            first = activation.epochs[0][0]
            if highest is not None and first <= highest:
                yield Violation(
                    "epoch not above",
                    key,
                    f"{activation.process} #{activation.number} began at epoch {first}, "
                    f"an activation before it had {highest}",
                )
            # Only what was seen before the next activation began can be
            # compared with it; two_owners judges what overlaps.
            later = [a.start for a in activations if a.start > activation.start]
            until = min(later, default=math.inf)
            seen = max([epoch for epoch, mono in activation.epochs if mono <= until], default=first)
            highest = seen if highest is None else max(highest, seen)
        yield from _adoptions(key, activations)


def _adoptions(key, activations):
    for activation in activations:
        low, high = activation.epochs[0][0], activation.epochs[-1][0]
        for other in activations:
            if other.process == activation.process:
                continue
            between = [epoch for epoch, _ in other.epochs if low < epoch < high]
            if between:
                yield Violation(
                    "old memory adopted",
                    key,
                    f"{activation.process} #{activation.number} went from epoch {low} to {high} "
                    f"although {other.process} owned the id at {between[0]}",
                )


def check(lines):
    """All violations of a log, given as decoded lines."""
    history = History(lines)
    return [*two_owners(history), *epochs(history)]


def read(path):
    """The decoded lines of a log file. A last line cut short by a kill counts
    for nothing: what it would have said had not been said."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    complete = text[: text.rfind("\n") + 1]
    return [json.loads(line) for line in complete.splitlines()]


def main(paths):
    found = 0
    for path in paths:
        lines = read(path)
        violations = check(lines)
        starts = sum(line["event"] == "start" for line in lines)
        print(f"{path}: {starts} activations, {len(violations)} violations")
        for violation in violations:
            print(f"  {violation}")
        found += len(violations)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A rolling restart of the workers under load: a planned event, and dull."""

import signal
import statistics
import time
from collections import Counter

import pytest

from balancer import Balancer
from load import Load


# One after the other: both keep a small machine busy. Leases are long, since
# nothing here is about their end.
pytestmark = pytest.mark.xdist_group("rolling")
LONG = {"PINBOARD_LEASE_TTL_MS": "8000"}


def expected(r):
    return r.text == "instance aborted" or r.status == 503 and r.retry_after is not None


def gone(r, leaving):
    """An id placed anew on a worker that has closed its listener and whose
    drain no beat has told yet: nothing was delivered, the placement is free
    again (docs/guarantees.md, "Delivery")."""
    return r.code == "worker_unreachable" and any(a <= r.mono <= b for a, b in leaving)


def test_a_rolling_restart_of_the_workers_fails_no_request(cluster, record_property):
    cluster.start("redis", nodes=2, workers=("w1", "w2", "w3"), **LONG)
    placed = cluster.place(40)
    leaving = []
    with Load(cluster, list(placed)) as load:
        time.sleep(1)
        for name in ("w1", "w2", "w3"):
            before = time.monotonic()
            cluster.workers[name].signal(signal.SIGTERM)
            assert cluster.workers[name].wait() == 0
            leaving.append((before, time.monotonic()))
            cluster.worker(f"{name}-new")
            cluster.wait_registered(f"{name}-new")
            time.sleep(max(0, before + 3 - time.monotonic()))
    for address in placed:
        cluster.client.get(address)

    assert not load.broken, load.broken[:5]
    wrong = [r for r in load.refused if not (expected(r) or gone(r, leaving))]
    assert not wrong, wrong[:5]
    # A few a worker at most, or nobody hears of a drain in time.
    unreachable = [r for r in load.refused if gone(r, leaving)]
    assert len(unreachable) <= 3 * len(leaving), unreachable
    assert load.served > 300
    assert load.streams_ended >= 20
    assert load.sockets_ended >= 20
    away = sorted(absences(cluster))
    reasons = Counter(refusal.text for refusal in load.refused)
    record_property(
        "rolling restart",
        f"{load.served} served, {len(load.refused)} refused {dict(reasons)}, {len(away)} moves, an id was away "
        f"for {statistics.median(away) * 1000:.0f} ms (p50), "
        f"{away[int(len(away) * 0.99)] * 1000:.0f} ms (p99)",
    )


def test_a_rolling_restart_of_the_nodes_fails_no_request(cluster, record_property):
    """Behind a balancer that notices a node's going within the notice period,
    workers and clients come through it all."""
    notice, budget = 2.5, 5.0
    settings = {
        "PINBOARD_SHUTDOWN_NOTICE_MS": str(int(notice * 1000)),
        "PINBOARD_SHUTDOWN_BUDGET_MS": str(int(budget * 1000)),
        **LONG,
    }
    cluster.start("redis", nodes=2, workers=(), **settings)
    with Balancer([node.url for node in cluster.nodes]) as balancer:
        for name in ("w1", "w2"):
            cluster.worker(name, node=0, pinboard=balancer.url)
        cluster.wait_registered("w1", "w2")
        cluster.settle({"w1", "w2"})
        placed = cluster.place(20)
        with Load(cluster, list(placed), url=balancer.url) as load:
            time.sleep(1)
            for index in range(2):
                began = time.monotonic()
                assert cluster.nodes[index].terminate() == 0
                took = time.monotonic() - began
                assert notice <= took <= budget + 3
                cluster.restart_node(index)
                time.sleep(2)
        for address, before in placed.items():
            assert cluster.client.get(address).owner == before.owner
    assert not load.broken, load.broken[:5]
    assert not load.refused, load.refused[:5]
    assert load.served > 300
    record_property("rolling restart of nodes", f"{load.served} served, none failed")


def absences(cluster):
    """How long each id had no instance between two of them."""
    ended = {}
    for line in cluster.events("start", "end"):
        if line["event"] == "end":
            ended[line["id"]] = line["mono"]
        elif line["id"] in ended:
            yield line["mono"] - ended.pop(line["id"])

"""Processes that stand still and go on later, as if nothing had happened."""

import threading
import time

from constants import HEARTBEAT, LEASE
from harness import on
from processes import wait_for


def test_a_heartbeat_that_a_frozen_node_held_back_revives_nothing(cluster):
    """The node of w1 stands still with its beats in the socket; w1's lease
    ends and its ids move by way of the other node. When the first node goes
    on, the old beats are worth nothing."""
    cluster.start("redis", nodes=2, workers=())
    cluster.worker("w1", node=0)
    cluster.worker("w2", node=1)
    cluster.wait_registered("w1", "w2")
    cluster.settle({"w1", "w2"})
    placed = cluster.place(6)
    cluster.nodes[0].pause()
    moved = on(placed, "w1")
    for address in moved:
        after = wait_for(
            lambda address=address: elsewhere(cluster, address, "w1"), "the id to move", 30
        )
        assert after.epoch > placed[address].epoch
    cluster.nodes[0].resume()
    for _ in range(10):
        for address in moved:
            for node in (0, 1):
                served = cluster.client.get(address, node=node)
                assert served.worker == "w2"
        time.sleep(HEARTBEAT / 2)
    cluster.wait_registered("w1")


def elsewhere(cluster, address, away):
    served = cluster.client.get(address, node=1, timeout=30)
    return served if served.worker != away else None


def test_requests_in_a_frozen_node_meet_the_present_when_it_goes_on(cluster):
    cluster.start("redis", nodes=2, workers=())
    for name in ("w1", "w2"):
        cluster.worker(name, node=1)
    cluster.wait_registered("w1", "w2")
    cluster.settle({"w1", "w2"})
    placed = cluster.place(4)
    address = on(placed, "w1")[0]
    cluster.nodes[0].pause()
    answers = []
    waiting = threading.Thread(
        target=lambda: answers.append(cluster.client.ok("GET", f"{address}/value", timeout=30)),
        daemon=True,
    )
    waiting.start()
    cluster.workers["w1"].kill()
    moved = cluster.client.increment(address, node=1, timeout=30)
    assert moved.worker == "w2"
    cluster.nodes[0].resume()
    waiting.join()
    assert answers[0].owner == moved.owner


def test_a_store_that_stands_still_for_longer_than_a_lease(cluster):
    """All leases end. Nothing sent meanwhile is carried out later, and the
    workers, which still hold everything, take it back."""
    cluster.start("redis", nodes=2)
    placed = cluster.place()
    cluster.redis.pause()
    time.sleep(LEASE * 1.5)
    for node in (0, 1):
        began = time.monotonic()
        reply = cluster.client.request("GET", f"{next(iter(placed))}/value", node=node)
        assert (reply.status_code, "Retry-After" in reply.headers) == (503, True)
        assert time.monotonic() - began < 5, "it should fail fast"
        assert cluster.client.request("GET", "/healthz", node=node).status_code == 200
    cluster.redis.resume()
    for address, before in placed.items():
        after = cluster.client.increment(address, timeout=5 + 2 * LEASE)
        if after.process == before.process and after.activation == before.activation:
            assert after.count == 2
        else:
            assert after.epoch > before.epoch

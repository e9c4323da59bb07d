"""Orders pushed to workers that register without a challenge: the real 0.1.0."""

import pytest

from constants import LEASE
from harness import on
from processes import wait_for
from releases import FIRST


@pytest.fixture
def fleet(cluster):
    cluster.start(workers=())
    for name in ("w1", "w2"):
        cluster.worker(name, release=FIRST)
    cluster.wait_registered("w1", "w2")
    cluster.settle({"w1", "w2"})
    return cluster


def push(cluster, type, **body):
    reply = cluster.client.registry("POST", "/registry/push", json={"type": type, **body})
    assert reply.status_code == 200, reply.text


def ended(cluster, address):
    return cluster.events("end", id=address.rsplit("/")[-1])


def test_the_first_release_is_served(fleet):
    for address, before in fleet.place().items():
        after = fleet.client.increment(address)
        assert (after.process, after.activation, after.count) == (
            before.process,
            before.activation,
            2,
        )


def test_an_evicted_id_waits_one_lease_and_comes_back(fleet):
    """Its release carries no epoch: a late forward may still activate there,
    so for one lease the id is placed nowhere."""
    before = fleet.client.increment("/counters/evicted")
    push(
        fleet, "evict", clientId=fleet.workers["w1"].client_id, namespace="/counters", id="evicted"
    )
    push(
        fleet, "evict", clientId=fleet.workers["w2"].client_id, namespace="/counters", id="evicted"
    )
    closed = wait_for(lambda: ended(fleet, "/counters/evicted"), "the instance to close")
    # A forward that crosses the release opens it again: this client has no
    # fence.
    owner = fleet.workers[before.worker]
    wait_for(lambda: "/registry/release" in owner.output(), "the release")
    after = fleet.client.increment("/counters/evicted")
    assert after.count == 1
    assert after.mono >= closed[0]["mono"] + LEASE * 0.9
    assert {refusal.code for refusal in after.refusals} == {"winding_down"}


def test_a_drained_worker_of_the_first_release_gets_no_ids_until_resumed(fleet):
    placed = fleet.place(6)
    client_id = fleet.workers["w1"].client_id
    push(fleet, "drain", clientId=client_id)
    wait_for(
        lambda: all(ended(fleet, address) for address in on(placed, "w1")),
        "its idle instances to close",
    )
    assert {s.worker for s in fleet.place(4, prefix="drained").values()} == {"w2"}
    push(fleet, "resume", clientId=client_id)
    numbers = iter(range(100))
    wait_for(
        lambda: on(fleet.place(4, prefix=f"resumed{next(numbers)}"), "w1"),
        "the worker to get ids again",
    )

"""Go workers and the real client in one fleet: ids move between them both
ways, and neither Pinboard nor a client can tell them apart."""

import signal

import pytest

from constants import LEASE
from goworker.fleet import Go
from harness import on
from processes import wait_for

GO, REAL = "w1", "w2"


@pytest.fixture
def fleet(cluster):
    """One worker of each kind; each beats at a node of its own."""
    cluster.start("redis", nodes=2, workers=())
    cluster.worker(GO, release=Go())
    cluster.worker(REAL)
    cluster.wait_registered(GO, REAL)
    cluster.settle({GO, REAL})
    return cluster


def test_ids_have_one_owner_of_either_kind(fleet):
    placed = fleet.place(12)
    assert on(placed, GO) and on(placed, REAL)
    for node in range(len(fleet.nodes)):
        for address, before in placed.items():
            after = fleet.client.get(address, node=node)
            assert (after.owner, after.epoch, after.count) == (before.owner, before.epoch, 1)


@pytest.mark.parametrize(("leaving", "staying"), [(GO, REAL), (REAL, GO)])
def test_ids_of_a_worker_that_leaves_go_to_the_other_kind_at_once(fleet, leaving, staying):
    placed = fleet.place()
    fleet.workers[leaving].signal(signal.SIGTERM)
    assert fleet.workers[leaving].wait() == 0
    for address in on(placed, leaving):
        after = fleet.client.increment(address, timeout=LEASE)
        assert (after.worker, after.count) == (staying, 1)
        assert after.epoch > placed[address].epoch


@pytest.mark.parametrize(("killed", "staying"), [(GO, REAL), (REAL, GO)])
def test_ids_of_a_killed_worker_go_to_the_other_kind_after_its_lease(fleet, killed, staying):
    placed = fleet.place()
    process = fleet.workers[killed].identity["process"]
    fleet.workers[killed].kill()
    deadline = fleet.lease_deadline(process)
    for address in on(placed, killed):
        after = fleet.client.increment(address)
        assert (after.worker, after.count) == (staying, 1)
        assert after.mono >= deadline


def test_calls_go_from_either_kind_to_the_other(fleet):
    placed = fleet.place()
    a, b = on(placed, GO)[0], on(placed, REAL)[0]
    for first, second in ((a, b), (b, a)):
        reply = fleet.client.request("POST", f"{first}/chain", json=[second, first])
        assert reply.status_code == 200, reply.text
        hops = reply.json()
        assert [(hop["caller"], hop["depth"]) for hop in hops] == [
            (None, 0),
            (first, 1),
            (second, 2),
        ]


def test_both_kinds_live_through_the_restart_of_a_node(fleet):
    placed = fleet.place()
    for node in range(len(fleet.nodes)):
        fleet.nodes[node].kill()
        fleet.restart_node(node)
    fleet.wait_registered(GO, REAL)
    for address, before in placed.items():
        after = fleet.client.increment(address, timeout=LEASE)
        assert (after.owner, after.count) == (before.owner, 2)


def test_both_kinds_come_back_from_a_node_that_forgot_everything(cluster):
    cluster.start(workers=())
    cluster.worker(GO, release=Go())
    cluster.worker(REAL)
    cluster.wait_registered(GO, REAL)
    placed = cluster.place()
    cluster.nodes[0].kill()
    cluster.restart_node()
    cluster.wait_registered(GO, REAL)
    for address, before in placed.items():
        after = cluster.client.increment(address, timeout=30)
        assert after.count == 1
        assert after.epoch > before.epoch
    wait_for(
        lambda: len(cluster.events("end")) >= len(placed),
        "what was held before to be closed",
    )

"""Unplanned ends: killed and frozen workers, killed nodes, a wiped store."""

import time

import pytest

from constants import LEASE
from harness import on
from processes import wait_for


def placed_starts(cluster):
    """The activations of what the test placed."""
    return [line for line in cluster.events("start") if line["id"].startswith("id-")]


def test_ids_of_a_killed_worker_move_after_its_lease_and_never_before(cluster, store):
    cluster.start(store)
    placed = cluster.place()
    moved = on(placed, "w1")
    process = cluster.workers["w1"].identity["process"]
    cluster.workers["w1"].kill()
    deadline = cluster.lease_deadline(process)
    for address in moved:
        again = cluster.client.get(address)
        assert again.worker == "w2"
        assert again.epoch > placed[address].epoch
    starts = [
        line
        for line in cluster.events("start")
        if f"/counters/{line['id']}" in moved and line["process"] != process
    ]
    assert len(starts) == len(moved)
    first = min(line["mono"] for line in starts)
    assert first >= deadline, f"{deadline - first:.3f} s before the lease had ended"
    assert first <= deadline + 2 * LEASE
    for address in on(placed, "w2"):
        assert cluster.client.get(address).owner == placed[address].owner


def test_a_frozen_worker_loses_its_ids_and_comes_back_without_them(cluster, store):
    cluster.start(store)
    placed = cluster.place()
    frozen = on(placed, "w1")
    process = cluster.workers["w1"].identity["process"]
    cluster.workers["w1"].pause()
    for address in frozen:
        again = cluster.client.increment(address, timeout=30)
        assert (again.worker, again.count) == ("w2", 1)
    cluster.workers["w1"].resume()
    wait_for(
        lambda: (
            {f"/counters/{line['id']}" for line in cluster.events("end", process=process)}
            >= set(frozen)
        ),
        "the thawed worker to quit what it lost",
    )
    cluster.wait_registered("w1")
    for address in frozen:
        assert cluster.client.increment(address).worker == "w2"
    fresh = wait_for(
        lambda: on(cluster.place(6, prefix=f"fresh{time.monotonic_ns()}"), "w1"),
        "the thawed worker to get new ids",
    )
    assert fresh


def test_a_wiped_store_closes_every_instance_once(cluster):
    """FLUSHALL with instances held: what is in memory closes, nothing is
    placed for one lease, epochs go on above what they were."""
    cluster.start("redis", nodes=2)
    placed = cluster.place()
    wiped = time.monotonic()
    cluster.redis.command("FLUSHALL")
    for address, before in placed.items():
        again = cluster.client.increment(address, timeout=30)
        assert again.epoch > before.epoch
        assert again.count == 1
    starts = placed_starts(cluster)
    assert len(starts) == 2 * len(placed)
    assert min(line["mono"] for line in starts[len(placed) :]) >= wiped + LEASE


def test_a_restarted_store_without_memory_is_like_a_wiped_one(cluster):
    cluster.start("redis", nodes=2)
    placed = cluster.place()
    cluster.redis.kill()
    cluster.restart_redis()
    for address, before in placed.items():
        again = cluster.client.increment(address, timeout=30)
        assert again.epoch > before.epoch
        assert again.count == 1


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_a_node_restart_on_redis_loses_no_id(cluster, end):
    cluster.start("redis")
    placed = cluster.place()
    getattr(cluster.nodes[0], end)()
    cluster.restart_node()
    for address, before in placed.items():
        after = cluster.client.increment(address, timeout=LEASE)
        assert (after.owner, after.count) == (before.owner, 2)
    assert len(placed_starts(cluster)) == len(placed)


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_after_a_node_restart_on_memory_workers_come_back_by_themselves(cluster, end):
    cluster.start()
    placed = cluster.place()
    getattr(cluster.nodes[0], end)()
    cluster.restart_node()
    cluster.wait_registered("w1", "w2")
    for address, before in placed.items():
        after = cluster.client.increment(address, timeout=30)
        assert after.count == 1
        assert after.epoch > before.epoch


def test_a_node_that_dies_takes_nothing_along(cluster):
    """The worker beats at the second node, clients come by the first; the
    first dies and the second serves on, without a refusal."""
    cluster.start("redis", nodes=2, workers=())
    cluster.worker("w1", node=1)
    cluster.wait_registered("w1")
    placed = cluster.place(4)
    cluster.nodes[0].kill()
    for address, before in placed.items():
        after = cluster.client.get(address, node=1)
        assert after.owner == before.owner
        assert after.refusals == []


def test_a_paused_store_is_survived(cluster):
    """Redis stands still for less than a lease: clients see retryable answers
    at once, and then everything is as before."""
    cluster.start("redis")
    placed = cluster.place(4)
    cluster.redis.pause()
    began = time.monotonic()
    reply = cluster.client.request("GET", "/counters/new-while-away/value")
    assert time.monotonic() - began < 5, "it should fail fast"
    assert reply.status_code == 503
    assert "Retry-After" in reply.headers
    cluster.redis.resume()
    for address, before in placed.items():
        assert cluster.client.get(address).owner == before.owner

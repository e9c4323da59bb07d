"""Orders of the operator, carried out by real workers.

Over Redis the operator talks to one node and the workers beat at the other.
"""

import time

import pytest

from constants import LEASE
from harness import on
from processes import wait_for
from releases import Release


@pytest.fixture
def fleet(cluster, store):
    """Two workers beating at the first node; the operator uses the last."""
    cluster.start(store, nodes=2 if store == "redis" else 1, workers=())
    for name in ("w1", "w2"):
        cluster.worker(name, node=0)
    cluster.wait_registered("w1", "w2")
    cluster.settle({"w1", "w2"})
    return cluster


def order(cluster, what, **body):
    reply = cluster.client.registry(
        "POST", f"/registry/{what}", node=len(cluster.nodes) - 1, json=body
    )
    assert reply.status_code == 200, reply.text
    return reply.json()


def wind_down(cluster, id, deadline):
    assert order(cluster, "wind_down", namespace="/counters", id=id, deadline=deadline) == {
        "queued": True
    }


def ended(cluster, id):
    return cluster.events("end", id=id)


def test_wind_down_closes_an_idle_instance_and_its_id_comes_back(fleet):
    before = fleet.client.increment("/counters/winds")
    wind_down(fleet, "winds", 0)
    wait_for(lambda: ended(fleet, "winds"), "the instance to close")
    after = fleet.client.increment("/counters/winds")
    assert after.count == 1
    assert after.epoch > before.epoch


def test_wind_down_ends_a_busy_instance_at_its_deadline(fleet):
    """The floor of one lease holds; until then requests are forwarded."""
    before = fleet.client.increment("/counters/busy")
    ordered = time.monotonic()
    with fleet.client.events("/counters/busy", n=1000, every=0.05) as events:
        next(events)
        # A tracked handler keeps the instance; a stream alone would not.
        wait = fleet.hold("/counters/busy", seconds=60)
        wind_down(fleet, "busy", 0)
        time.sleep(LEASE / 2)
        assert fleet.client.get("/counters/busy").owner == before.owner
        for _ in events:
            pass
    wait()
    closed = wait_for(lambda: ended(fleet, "busy"), "the instance to close")[0]["mono"]
    assert ordered + LEASE * 0.8 <= closed <= ordered + 3 * LEASE
    after = fleet.client.increment("/counters/busy")
    assert (after.count, after.epoch > before.epoch) == (1, True)


def test_a_revoked_wind_down_changes_nothing(fleet):
    before = fleet.client.increment("/counters/kept")
    wait = fleet.hold("/counters/kept", seconds=2 * LEASE)
    wind_down(fleet, "kept", LEASE * 1.2)
    time.sleep(2.5 * 0.5)
    wind_down(fleet, "kept", None)
    wait()
    after = fleet.client.increment("/counters/kept")
    assert after.owner == before.owner
    assert not ended(fleet, "kept")


def test_drain_moves_a_worker_out_and_undrain_brings_it_back(fleet):
    placed = fleet.place()
    client_id = fleet.workers["w1"].client_id
    order(fleet, "drain", clientId=client_id)
    wait_for(
        lambda: all(ended(fleet, address.rsplit("/")[-1]) for address in on(placed, "w1")),
        "the idle instances to close",
    )
    for address in on(placed, "w1"):
        assert fleet.client.get(address, timeout=LEASE).worker == "w2"
    for address in on(placed, "w2"):
        assert fleet.client.get(address).owner == placed[address].owner
    assert {s.worker for s in fleet.place(4, prefix="drained").values()} == {"w2"}
    assert fleet.registered()[client_id]["draining"] is True
    order(fleet, "undrain", clientId=client_id)
    wait_for(
        lambda: on(fleet.place(4, prefix=f"undrained{time.monotonic_ns()}"), "w1"),
        "the worker to get ids again",
    )
    assert fleet.registered()[client_id]["draining"] is False


def test_drain_with_a_deadline_aborts_what_is_left(fleet):
    placed = fleet.place(4)
    busy = on(placed, "w1")[0]
    wait = fleet.hold(busy, seconds=60)
    began = time.monotonic()
    order(fleet, "drain", clientId=fleet.workers["w1"].client_id, deadline=2)
    status = wait()
    assert 1.5 <= time.monotonic() - began <= 2 + LEASE
    assert status == 503
    after = fleet.client.get(busy)
    assert after.worker == "w2"
    assert after.epoch > placed[busy].epoch


def test_an_order_outlives_the_node_that_took_it(cluster):
    """Accepted at one node, which dies before the worker beats; delivered by
    the other."""
    cluster.start("redis", nodes=2, workers=())
    cluster.worker("w1", node=0)
    cluster.wait_registered("w1")
    before = cluster.client.increment("/counters/ordered")
    wind_down(cluster, "ordered", 0)
    cluster.nodes[1].kill()
    wait_for(lambda: ended(cluster, "ordered"), "the instance to close")
    after = cluster.client.increment("/counters/ordered")
    assert (after.count, after.epoch > before.epoch) == (1, True)


def test_wind_down_of_a_frozen_workers_id_ends_with_its_lease(fleet):
    before = fleet.client.increment("/counters/frozen")
    frozen = fleet.workers[before.worker]
    frozen.pause()
    wind_down(fleet, "frozen", 0)
    after = fleet.client.increment("/counters/frozen", timeout=30)
    assert after.worker != before.worker
    assert (after.count, after.epoch > before.epoch) == (1, True)
    frozen.resume()


def test_a_release_that_never_acks_is_wound_down_all_the_same(cluster, store):
    """Up to 0.14.8 workers confirm nothing, and a repeated order puts the
    end of a busy instance off: it is delivered twice at most."""
    cluster.start(store, workers=())
    worker = cluster.worker("w1", release=Release("0.14.8"))
    cluster.wait_registered("w1")
    cluster.client.increment("/counters/busy")
    wait = cluster.hold("/counters/busy", seconds=60)
    ordered = time.monotonic()
    wind_down(cluster, "busy", 0)
    assert wait() == 503
    closed = wait_for(lambda: ended(cluster, "busy"), "the instance to close")[0]["mono"]
    assert closed <= ordered + 4 * LEASE
    assert worker.output().count("winding down instance 'busy'") <= 2 * 2
    after = cluster.client.increment("/counters/busy")
    assert after.count == 1


def test_an_ejected_worker_loses_its_session_at_the_end_of_its_lease(fleet):
    """Its ids move to whoever is first: a request that places them elsewhere,
    or the worker itself, which may register again then and restate them."""
    placed = fleet.place(4)
    process = fleet.workers["w1"].identity["process"]
    assert order(fleet, "eject", clientId=fleet.workers["w1"].client_id) == {"ejected": 1}
    ejected = fleet.events("lease", process=process)[-1]
    wait_for(lambda: time.monotonic() > ejected["deadline"] + 1.5, "the end of the lease")
    for address in on(placed, "w1"):
        after = fleet.client.get(address)
        if after.worker == "w1":
            assert fleet.events("lease", process=process)[-1]["session"] != ejected["session"]
        else:
            assert after.epoch > placed[address].epoch
    renewed = [
        line
        for line in fleet.events("lease", process=process, session=ejected["session"])
        if line["deadline"] > ejected["deadline"]
    ]
    assert not renewed

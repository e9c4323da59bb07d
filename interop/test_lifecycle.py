"""Planned ends: idle instances, workers that leave, workers that come anew."""

import signal

from constants import LEASE
from harness import on
from processes import wait_for


def test_an_idle_instance_is_released_and_comes_back_at_a_higher_epoch(cluster, store):
    cluster.start(store, workers=())
    cluster.worker("w1", idle_timeout=0.5)
    cluster.wait_registered("w1")
    first = cluster.client.increment("/counters/idle")
    wait_for(lambda: cluster.events("end", id="idle"), "the idle instance to close")
    again = cluster.client.increment("/counters/idle", timeout=LEASE)
    assert again.count == 1
    assert again.epoch > first.epoch
    assert again.activation != first.activation


def test_a_worker_registers_although_it_listens_late(cluster):
    """uvicorn listens only after the first registration was sent: its
    challenge is refused, the worker defers and is accepted the next time."""
    cluster.start(workers=())
    cluster.worker("w1", listen_early=0)
    cluster.wait_registered("w1")
    assert cluster.client.increment("/counters/late").worker == "w1"


def test_sigterm_drains_and_nothing_waits_for_a_lease(cluster, store):
    cluster.start(store)
    placed = cluster.place()
    leaving = on(placed, "w1")
    busy, streaming, *_ = leaving
    wait = cluster.hold(busy, seconds=1)
    with cluster.client.events(streaming, n=1000, every=0.05) as events:
        next(events)
        cluster.workers["w1"].signal(signal.SIGTERM)
        received = sum(1 for _ in events)
    assert received < 900, "the stream should end with the drain"
    assert wait() == 200, "a request in progress is finished"
    assert cluster.workers["w1"].wait() == 0
    for address in leaving:
        again = cluster.client.get(address, timeout=LEASE)
        assert again.worker == "w2"
        assert again.epoch > placed[address].epoch
    for address in on(placed, "w2"):
        assert cluster.client.get(address).owner == placed[address].owner
    assert cluster.workers["w1"].identity["clientId"] not in cluster.registered()


def test_a_draining_worker_gets_no_new_ids(cluster, store):
    cluster.start(store)
    placed = cluster.place()
    wait = cluster.hold(on(placed, "w1")[0], seconds=2)
    cluster.workers["w1"].signal(signal.SIGTERM)
    client_id = cluster.workers["w1"].client_id
    wait_for(
        lambda: cluster.registered().get(client_id, {"draining": True})["draining"],
        "the drain to be known",
    )
    fresh = cluster.place(prefix="fresh")
    assert {served.worker for served in fresh.values()} == {"w2"}
    assert all(not served.refusals for served in fresh.values())
    assert wait() == 200


def test_a_worker_restarted_at_its_old_address_serves_again(cluster, store):
    """Crash and restart on one port: clients see retryable answers and then
    the new process, never the worker's own `invalid attestation`."""
    cluster.start(store, workers=())
    first = cluster.worker("w1")
    cluster.wait_registered("w1")
    placed = cluster.place(4)
    port = first.identity["port"]
    first.kill()
    cluster.worker("w1", port=port)
    for address, before in placed.items():
        after = cluster.client.increment(address)
        assert {refusal.status for refusal in after.refusals} <= {502, 503}
        assert not [r for r in after.refusals if "attestation" in r.text]
        assert after.count == 1
        assert after.epoch > before.epoch

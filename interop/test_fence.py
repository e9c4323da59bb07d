"""The worker's own fence, fed with the epochs that Pinboard minted."""

import time

import httpx
from pinned.pinboard.attestation import mint_attestation

from processes import wait_for


def forward(cluster, worker, address, epoch):
    """A forward as a node would send it, made by hand."""
    identity = cluster.workers[worker].identity
    session = cluster.events("lease", process=identity["process"])[-1]["session"]
    return httpx.get(
        f"http://127.0.0.1:{identity['port']}{address}/value",
        headers={
            "Pinboard-Attestation": mint_attestation(
                identity["secret"], aud=session, now=time.time()
            ),
            "Pinboard-Epoch": str(epoch),
        },
    )


def test_the_fence_holds_at_every_epoch_that_pinboard_minted(cluster, store):
    cluster.start(store, workers=())
    cluster.worker("w1", idle_timeout=2)
    cluster.wait_registered("w1")
    address = "/counters/fenced"
    first = cluster.client.increment(address)
    assert first.epoch < 2**63
    assert forward(cluster, "w1", address, first.epoch).status_code == 200
    stale = forward(cluster, "w1", address, first.epoch - 1)
    assert (stale.status_code, stale.json()["detail"]) == (503, "stale placement epoch; retry")
    wait_for(lambda: cluster.events("end", id="fenced"), "the idle instance to close")
    released = forward(cluster, "w1", address, first.epoch)
    assert released.status_code == 503
    assert released.json()["detail"] in (
        "released placement epoch; retry",
        "instance closing; retry",
    )
    again = cluster.client.increment(address)
    assert again.epoch > first.epoch
    late = forward(cluster, "w1", address, first.epoch)
    assert (late.status_code, late.json()["detail"]) == (503, "stale placement epoch; retry")


def test_without_an_attestation_a_worker_serves_nobody(cluster):
    cluster.start(workers=())
    cluster.worker("w1")
    cluster.wait_registered("w1")
    port = cluster.workers["w1"].identity["port"]
    reply = httpx.get(f"http://127.0.0.1:{port}/counters/a/value")
    assert (reply.status_code, reply.json()["detail"]) == (403, "invalid attestation")
    assert cluster.events("start") == []

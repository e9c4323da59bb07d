"""Every generation of the client since 0.9: the whole life of an id."""

import pytest

from client import say
from constants import LEASE
from harness import on
from processes import wait_for
from releases import ALL, GENERATIONS, Release


@pytest.mark.parametrize("version", GENERATIONS)
def test_one_release_of_each_generation(cluster, version):
    whole_life(cluster, version)


@pytest.mark.nightly
@pytest.mark.parametrize("version", [v for v in ALL if v not in GENERATIONS])
def test_every_other_release(cluster, version):
    whole_life(cluster, version)


def whole_life(cluster, version):
    release = Release(version)
    cluster.start(workers=())
    for name in ("w1", "w2"):
        cluster.worker(name, release=release, idle_timeout=3)
    cluster.wait_registered("w1", "w2")
    cluster.settle({"w1", "w2"})
    assert cluster.workers["w1"].identity["release"] == version

    placed = cluster.place(6)
    for address, before in placed.items():
        after = cluster.client.increment(address)
        assert (after.owner, after.count) == (before.owner, 2)
    address = on(placed, "w1")[0]
    with cluster.client.events(address, n=3, every=0.1) as events:
        assert len(list(events)) == 3
    with cluster.client.socket(address) as socket:
        assert say(socket, "hello")["echo"] == "hello"
    chain = cluster.client.request("POST", f"{address}/chain", json=[on(placed, "w2")[0]])
    assert chain.status_code == 200, chain.text
    assert chain.json()[1]["caller"] == address

    idle = address.rsplit("/")[-1]
    wait_for(lambda: cluster.events("end", id=idle), "the idle instance to close")
    again = cluster.client.increment(address, timeout=2 * LEASE)
    assert (again.count, again.epoch > placed[address].epoch) == (1, True)

    # SIGTERM at the worker that serves: its id goes to the other.
    assert cluster.workers[again.worker].terminate() == 0
    moved = cluster.client.increment(address, timeout=2 * LEASE)
    assert moved.worker != again.worker
    assert moved.epoch > again.epoch

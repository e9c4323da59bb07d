"""Hostname mode: several hostnames, one fleet, blue and green."""

import time

import pytest

from constants import LEASE
from processes import wait_for


@pytest.fixture
def fleet(cluster, store):
    cluster.start(store, workers=(), PINBOARD_HOSTNAME_AWARE="1")
    return cluster


def error(cluster, path, host):
    reply = cluster.client.request("GET", path, host=host)
    return reply.status_code, reply.json().get("error")


def test_hostnames_of_two_envs_are_two_worlds(fleet):
    fleet.worker("a", hostname="a.test", env="a")
    fleet.worker("b", hostname="b.test", env="b")
    fleet.wait_registered("a", "b")
    for host, worker in (("a.test", "a"), ("B.test:8443", "b")):
        served = fleet.client.increment("/counters/same", host=host)
        assert (served.worker, served.count) == (worker, 1)
    assert error(fleet, "/counters/same/value", "c.test") == (404, "unknown namespace")


def test_green_replaces_blue_for_good(fleet):
    blue = fleet.worker("blue", hostname="app.test", env="blue", binding_epoch=1)
    fleet.wait_registered("blue")
    before = fleet.client.increment("/counters/x", host="app.test")
    assert before.worker == "blue"
    green = fleet.worker("green", hostname="app.test", env="green", binding_epoch=2)
    # Blue is served until green has shown itself by a beat.
    wait_for(lambda: "/registry/heartbeat" in green.output(), "green's first beat")
    displaced = time.monotonic()
    served = fleet.client.increment("/counters/new", host="app.test")
    assert served.worker == "green"
    assert "binding_displaced" in {refusal.code for refusal in served.refusals}
    assert served.mono >= displaced + LEASE * 0.5
    # Another env has its own instances: the id begins anew there.
    after = fleet.client.increment("/counters/x", host="app.test")
    assert (after.worker, after.count) == ("green", 1)
    wait_for(lambda: "superseded this worker" in blue.output(), "blue to give up")
    wait_for(lambda: fleet.events("end", id="x", env="blue"), "blue to close what it held")
    beats = blue.output().count("/registry/heartbeat")
    time.sleep(3 * 0.5)
    assert blue.output().count("/registry/heartbeat") == beats, "superseded is for good"


def test_two_hostnames_of_one_env_hand_an_id_over(fleet):
    fleet.worker("a", hostname="a.test", env="both")
    fleet.worker("b", hostname="b.test", env="both")
    fleet.wait_registered("a", "b")
    before = fleet.client.increment("/counters/x", host="a.test")
    assert before.worker == "a"
    after = fleet.client.increment("/counters/x", host="b.test", timeout=30)
    assert "takeover_in_progress" in {refusal.code for refusal in after.refusals}
    assert (after.worker, after.count) == ("b", 1)
    assert after.epoch > before.epoch


def test_deny_keeps_an_id_where_it_is(fleet):
    fleet.worker("a", hostname="a.test", env="both", takeover="deny")
    fleet.worker("b", hostname="b.test", env="both", takeover="deny")
    fleet.wait_registered("a", "b")
    before = fleet.client.increment("/counters/x", host="a.test")
    time.sleep(LEASE * 1.1)
    assert error(fleet, "/counters/x/value", "b.test") == (
        503,
        "placement held by another hostname",
    )
    assert fleet.client.get("/counters/x", host="a.test").owner == before.owner


def test_a_lower_binding_epoch_is_not_accepted(fleet):
    fleet.worker("new", hostname="app.test", env="green", binding_epoch=2)
    fleet.wait_registered("new")
    old = fleet.worker("old", hostname="app.test", env="blue", binding_epoch=1)
    wait_for(lambda: "register rejected: 409" in old.output(), "the old worker to be refused")
    assert fleet.client.increment("/counters/x", host="app.test").worker == "new"

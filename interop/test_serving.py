"""Ordinary life: ids are placed, stay where they are, and are served."""

import asyncio
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from client import say


def every_node(cluster):
    return range(len(cluster.nodes))


def test_the_first_request_places_an_id_and_it_stays_there(shared):
    for i in range(10):
        address = f"/counters/stays-{i}"
        first = shared.client.increment(address)
        for node in every_node(shared):
            assert shared.client.get(address, node=node).owner == first.owner
            shared.client.increment(address, node=node)
        assert shared.client.get(address).count == 1 + len(shared.nodes)


def test_ids_spread_over_both_workers(shared):
    workers = Counter(shared.client.get(f"/counters/spread-{i}").worker for i in range(40))
    assert set(workers) == {"w1", "w2"}
    assert min(workers.values()) >= 10, workers


def test_forty_simultaneous_first_requests_make_one_owner(shared):
    with ThreadPoolExecutor(40) as pool:
        replies = list(
            pool.map(
                lambda i: shared.client.increment("/counters/rush", node=i % len(shared.nodes)),
                range(40),
            )
        )
    assert len({reply.owner for reply in replies}) == 1
    assert sorted(reply.count for reply in replies) == list(range(1, 41))


def test_five_hundred_first_requests_over_three_nodes_make_one_owner(cluster):
    cluster.start("redis", nodes=3)

    async def rush():
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(limits=limits, timeout=30) as http:
            urls = [f"{node.url}/counters/rush/increment" for node in cluster.nodes]
            return await asyncio.gather(*(http.post(urls[i % 3]) for i in range(500)))

    replies = asyncio.run(rush())
    served = [reply.json() for reply in replies if reply.status_code == 200]
    # The rest is what a worker says that has enough to do.
    assert {reply.status_code for reply in replies} <= {200, 503}
    assert len(served) >= 100
    assert len({(one["process"], one["activation"], one["epoch"]) for one in served}) == 1
    assert len(cluster.events("start", id="rush")) == 1


def test_a_body_comes_back_as_it_was_sent(shared):
    shared.client.get("/counters/echo")
    body = bytes(range(256)) * 4096
    for content in (body, iter([body[:1000], body[1000:]])):
        reply = shared.client.request(
            "POST", "/counters/echo/echo", content=content, headers={"Content-Type": "x/y"}
        )
        assert reply.status_code == 200
        assert reply.content == body
        assert reply.headers["content-type"] == "x/y"


def test_the_worker_sees_the_request_and_nothing_forged(shared):
    shared.client.get("/counters/seen")
    reply = shared.client.request(
        "GET",
        "/counters/seen/request?x=1&y=%2F",
        host="some.example",
        headers={
            "Pinboard-Epoch": "1",
            "Pinboard-Caller": "/counters/forged",
            "X-Pinned-Proxy-Secret": "guess",
            "X-Mine": "kept",
        },
    )
    assert reply.status_code == 200, reply.text
    seen = reply.json()
    assert seen["target"] == "/counters/seen/request?x=1&y=%2F"
    fields = Counter(name for name, _ in seen["headers"])
    values = dict(seen["headers"])
    assert fields["pinboard-epoch"] == fields["pinboard-attestation"] == 1
    assert values["pinboard-epoch"] == str(shared.client.get("/counters/seen").epoch)
    assert values["host"] == "some.example"
    assert values["x-mine"] == "kept"
    assert not {"pinboard-caller", "x-pinned-proxy-secret", "via"} & set(fields)


def test_events_arrive_while_the_stream_is_open(shared):
    shared.client.get("/counters/events")
    with shared.client.events("/counters/events", n=4, every=0.3) as events:
        received = list(events)
    assert len(received) == 4
    first_arrival, last_sent = received[0][0], received[-1][1]["sent"]
    assert first_arrival < last_sent, "the stream came in one piece"


def test_a_websocket_talks_to_the_same_instance_as_http(shared):
    owner = shared.client.increment("/counters/socket").owner
    with shared.client.socket("/counters/socket", node=len(shared.nodes) - 1) as socket:
        answer = say(socket, "one")
        assert (answer["echo"], answer["count"]) == ("one", 2)
        assert shared.client.increment("/counters/socket").count == 3
        assert say(socket, "x" * 100_000)["count"] == 4
    after = shared.client.get("/counters/socket")
    assert (after.owner, after.count) == (owner, 4)


def test_answers_of_the_app_are_its_own(shared):
    shared.client.get("/counters/errors")
    reply = shared.client.request("GET", "/counters/errors/fail")
    assert (reply.status_code, reply.json()) == (418, {"detail": "as the app says"})
    assert "Pinboard-Error" not in reply.headers
    reply = shared.client.request("GET", "/counters/errors/no-such-route")
    assert (reply.status_code, reply.json()) == (404, {"detail": "Not Found"})
    assert "Pinboard-Error" not in reply.headers


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/nobody/a/value", 404, "unknown namespace"),
        ("/counters/a%20b/value", 400, "invalid id"),
        ("/counters", 400, "invalid id"),
    ],
)
def test_refusals_of_addresses(shared, path, status, text):
    reply = shared.client.request("GET", path)
    assert (reply.status_code, reply.json()["error"]) == (status, text)
    assert reply.headers["Pinboard-Error"] == reply.json()["code"]


def test_operators_see_the_workers_and_no_secret(shared):
    reply = shared.client.registry("GET", "/registry/workers")
    rows = {row["clientId"]: row for row in reply.json()["workers"]}
    for worker in shared.workers.values():
        identity = worker.identity
        row = rows[identity["clientId"]]
        assert row["advertiseUrl"] == f"http://127.0.0.1:{identity['port']}"
        assert row["namespaces"] == ["/counters"]
        assert row["draining"] is False
        assert identity["secret"] not in reply.text
    assert shared.client.request("GET", "/registry/workers").status_code == 401


def test_a_lease_is_never_longer_at_the_worker_than_the_beats_allow(shared):
    """The worker's own deadline keeps moving as long as it beats."""
    for worker in shared.workers.values():
        process = worker.identity["process"]
        before = shared.lease_deadline(process)
        deadline = time.monotonic() + 5
        while shared.lease_deadline(process) == before:
            assert time.monotonic() < deadline, "no beat renewed the lease"
            time.sleep(0.05)

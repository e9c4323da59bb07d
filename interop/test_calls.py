"""Instances that call instances, across two worker processes."""

from harness import on


def test_calls_nested_three_deep_across_two_workers(cluster, store):
    cluster.start(store, nodes=2 if store == "redis" else 1)
    placed = cluster.place()
    a, c, *_ = on(placed, "w1")
    b, d, *_ = on(placed, "w2")
    reply = cluster.client.request("POST", f"{a}/chain", json=[b, c, d])
    assert reply.status_code == 200, reply.text
    hops = reply.json()
    assert [(hop["caller"], hop["depth"]) for hop in hops] == [(None, 0), (a, 1), (b, 2), (c, 3)]
    assert [hop["worker"] for hop in hops] == ["w1", "w2", "w1", "w2"]
    for hop, address in zip(hops, [a, b, c, d], strict=True):
        assert int(hop["epoch"]) == placed[address].epoch


def test_a_new_id_called_by_an_instance_joins_its_worker(cluster):
    cluster.start()
    for address, served in cluster.place(6).items():
        called = f"{address}-called"
        reply = cluster.client.request("POST", f"{address}/chain", json=[called])
        assert reply.status_code == 200, reply.text
        assert reply.json()[1]["worker"] == served.worker


def test_a_caller_is_believed_only_with_the_secret_of_its_owner(cluster):
    cluster.start()
    placed = cluster.place()
    caller, other, target = on(placed, "w1")[0], on(placed, "w2")[0], on(placed, "w2")[1]
    identity = cluster.workers["w1"].identity
    session = cluster.events("lease", process=identity["process"])[-1]["session"]
    proof = {
        "Pinboard-From": caller,
        "Pinboard-Session": session,
        "Pinboard-Session-Secret": identity["secret"],
        "Pinboard-Subrequest-Depth": "1",
    }

    def call(**changed):
        headers = {**proof, **{k.replace("_", "-"): v for k, v in changed.items()}}
        return cluster.client.request("POST", f"{target}/chain", json=[], headers=headers)

    good = call()
    assert good.status_code == 200, good.text
    assert (good.json()[0]["caller"], good.json()[0]["depth"]) == (caller, 1)
    for changed, status, text in (
        ({"Pinboard_Session_Secret": "0" * 64}, 403, "invalid session secret"),
        ({"Pinboard_Session": "unknown"}, 403, "invalid session secret"),
        ({"Pinboard_From": other}, 403, "caller placement mismatch"),
        ({"Pinboard_Subrequest_Depth": "51"}, 508, None),
        ({"Pinboard_Subrequest_Depth": "deep"}, 400, None),
    ):
        reply = call(**changed)
        assert reply.status_code == status, (changed, reply.text)
        assert text is None or reply.json() == {"error": text}

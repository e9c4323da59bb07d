"""Rows without an instance behind them do not stay for ever."""

import asyncio

import httpx

from constants import LEASE
from processes import wait_for


def rows(cluster):
    """How many ids are placed, by the node's own count."""
    reply = cluster.client.registry("GET", "/registry/overview")
    assert reply.status_code == 200, reply.text
    return sum(row["placed"] for row in reply.json()["placed"])


def test_ids_that_only_met_a_404_route_are_freed_by_a_restatement(cluster, store):
    """A scan of random ids activates nothing and the worker releases nothing;
    past a bound the worker is asked what it really holds."""
    cluster.start(store, workers=("w1",), PINBOARD_RESTATE_AFTER="300")
    real = cluster.place(5)
    before = rows(cluster)

    async def scan():
        async with httpx.AsyncClient(timeout=20) as http:
            for start in range(0, 900, 30):
                urls = [
                    f"{cluster.nodes[0].url}/counters/scan-{start + i}/no-such-route"
                    for i in range(30)
                ]
                for reply in await asyncio.gather(*map(http.get, urls)):
                    assert reply.status_code in (404, 503), reply.text

    asyncio.run(scan())
    wait_for(lambda: rows(cluster) <= before + 310, "the restatement", timeout=20 + 4 * LEASE)
    for address, placed in real.items():
        assert cluster.client.get(address).owner == placed.owner

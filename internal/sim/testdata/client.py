"""Plays scripts on the real pinned client under its own virtual time.

Reads a JSON list of scripts from standard input; a script is a list of steps.
Prints for each script the list of what the client did and answered. The Go
model of internal/sim plays the same scripts (crosscheck_test.go).
"""

import asyncio
import json
import logging
import sys

import httpx
from fastapi import HTTPException

from pinned import PinnedAPI, PinnedHost, PinnedWorker
from pinned.pinboard.wire import REFUSAL_HEADER
from pinned.sim import SimDomain

logging.disable(logging.CRITICAL)
NS = "/t"


def app(close):
    class App(PinnedAPI):
        async def lifespan(self):
            yield
            await self._ctx.domain.sleep(close)

        def stats(self):
            return {}

    return App


class Client:
    """Stands for httpx: every post is told, and answered from the script."""

    def __init__(self, play):
        self.play = play

    async def post(self, path, json):
        verb = path.rsplit("/", 1)[1]
        play = self.play
        if verb == "release":
            for i in sorted(json, key=lambda i: i["id"]):
                play.tell(f"release {i['id']}@{i.get('epoch', '-')} in {i['sessionId']}")
            return httpx.Response(200, json={"released": len(json)})
        if verb == "register":
            held = sorted(json.get("instances", {}).get(NS, []))
            play.tell(f"register prev={json.get('prevSessionId', '-')} draining={json['draining']} holds {' '.join(held)}".rstrip())
        else:
            play.tell(f"beat in {json['sessionId']} draining={json['draining']} acks {' '.join(json.get('acks', []))}".rstrip())
        answer = play.answers.pop(0) if play.answers else {"status": 0}
        await play.sim.sleep(answer.get("took", 0))
        if answer["status"] == 0:
            raise httpx.ConnectTimeout("no answer")
        return httpx.Response(answer["status"], json=answer.get("body", {}), headers=answer.get("headers", {}))


class Play:
    def __init__(self, sim, script):
        self.sim, self.script = sim, script
        self.told, self.answers = [], []
        self.worker = PinnedWorker(
            pinboard_url="http://pinboard", token="t", advertise_url="http://w",
            headroom=lambda: 1, domain=sim)
        self.host = PinnedHost(app(script["close"]), worker=self.worker, namespace=NS,
                               idle_timeout=1e6, detached_timeout=1e7, sweep_interval=1e6)
        self.client = self.worker.registration
        self.client._client = Client(self)
        self.dir = self.host.directory

    def tell(self, what):
        self.told.append(f"{self.sim.monotonic():.3f} {what}")

    async def request(self, step):
        if step["aud"] not in self.worker._audiences():
            return "invalid attestation"
        try:
            record = await self.dir.get(step["id"], epoch=step["epoch"])
            await self.dir.serve(record)
        except HTTPException as e:
            refusal = (e.headers or {}).get(REFUSAL_HEADER)
            return refusal or e.detail
        if step.get("hold"):
            self.dir._create_task(record, self.sim.sleep(step["hold"]))
        else:
            record.on_settled()
        return "ok"

    async def step(self, step):
        do = step["do"]
        if do == "wait":
            await self.sim.sleep(step["for"])
        elif do in ("register", "beat"):
            self.answers = list(step["answers"])
            if do == "register":
                if self.client.session_id is not None:
                    return
                await self.client._register()
            elif self.client.session_id is not None:
                await self.client._heartbeat()
        elif do == "request":
            self.tell(f"{step['id']}@{step['epoch']}: " + await self.request(step))
        elif do == "drain":
            self.worker._begin_drain(step["for"])
        elif do == "undrain":
            self.worker._revoke_drain()
        lease = self.worker.lease
        self.tell(f"healthy={lease.healthy} expired={lease.expired} session={self.client.session_id or '-'} holds {' '.join(sorted(self.dir.ids))}".rstrip())

    async def run(self):
        for step in self.script["steps"]:
            await self.step(step)


def main():
    out = []
    for i, script in enumerate(json.load(sys.stdin)):
        with SimDomain(seed=i) as sim:
            play = Play(sim, script)
            sim.run(play.run())
            out.append(play.told)
    json.dump(out, sys.stdout)


main()

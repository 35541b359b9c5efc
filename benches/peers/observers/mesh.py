"""Actors of monarch with its admin server, for monarch-tui: `mesh.py N` starts N that wait, in one process."""

import asyncio
import sys

from monarch._src.actor.host_mesh import _spawn_admin
from monarch.actor import Actor, endpoint, this_host

AT_ONCE = 100


class Waiting(Actor):
    @endpoint
    async def answer(self) -> None:
        pass


async def main(count):
    host = this_host()
    url, _admin = await _spawn_admin([host], "127.0.0.1:0")
    procs = host.spawn_procs(per_host={"replica": 1})
    alive = []
    for number in range(count):
        alive.append(procs.spawn(f"waiting_{number}", Waiting))
        if number % AT_ONCE == AT_ONCE - 1:
            await alive[-1].answer.call()
    print("ready", url, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main(int(sys.argv[1])))

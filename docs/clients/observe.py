#!/usr/bin/env python3
"""Attaches to a node, runs a scenario, switches the profile, and prints what the node says. Nothing of it is rusm's code.

    python3 -m venv venv && venv/bin/pip install websockets
    rusm node --listen 127.0.0.1:4000 &
    venv/bin/python observe.py 4000 ~/.../rusm/tcp-4000.token [scenario]

The node prints the path of the token file when it starts.
"""
import asyncio
import json
import sys

import websockets


async def main(port, token_file, scenario="spawn-storm"):
    token = open(token_file).read().strip()
    url, headers = f"ws://127.0.0.1:{port}/", {"Authorization": f"Bearer {token}"}
    # Browsers send an Origin, and the node refuses whoever does; this library sends none unless it is told to.
    async with websockets.connect(url, subprotocols=["rusm.v1"], additional_headers=headers) as node:
        hello = json.loads(await node.recv())
        print("hello:", [scenario["id"] for scenario in hello["scenarios"]], [p["id"] for p in hello["profiles"]])
        await node.send(json.dumps({"type": "set_observer_detail", "enabled": True}))
        for profile in [profile["id"] for profile in hello["profiles"]]:
            await node.send(json.dumps({"type": "set_resource_profile", "profile": profile}))
            await node.send(json.dumps({"type": "run", "scenario": scenario}))
            await watch(node, profile, seconds=3)
        await node.send(json.dumps({"type": "stop"}))
        await watch(node, "stopped", seconds=1)


async def watch(node, what, seconds):
    ticks, frame, until = 0, None, asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until:
        message = json.loads(await node.recv())
        if message["type"] == "error":
            sys.exit(message["message"])
        if message["type"] == "tick":
            ticks, frame = ticks + 1, message["frame"]
    latency, observer = frame["latency"], frame["observer"]
    print(f"{what:9} {frame['scenario']}  {frame['profile']}  {ticks} ticks  {frame['ops_per_sec']:,.0f} ops/s  "
          f"p50 {latency['p50_ns']} ns  p99 {latency['p99_ns']} ns  {observer['process_count']} processes  "
          f"load {[round(load, 2) for load in observer['scheduler_load']]}  {len(observer['processes'])} rows")


if len(sys.argv) < 3:
    sys.exit(__doc__.strip())
asyncio.run(main(*sys.argv[1:]))

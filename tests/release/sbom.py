#!/usr/bin/env python3
"""Prints the components of the binaries as CycloneDX 1.5: each package with version, licence, origin and checksum."""

import json
import subprocess
import tomllib

PLATFORM = ("--filter-platform", "x86_64-unknown-linux-gnu")
ROOTS = ("rusm-node", "rusm-tui")

metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--format-version", "1", "--locked", "--offline", *PLATFORM]))
with open("Cargo.lock", "rb") as lock:
    checksums = {(p["name"], p["version"]): p.get("checksum") for p in tomllib.load(lock)["package"]}
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}


def normal(node):
    """Ids of the dependencies that are part of the program, without those of tests."""
    return [dep["pkg"] for dep in node["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]


def reference(id):
    return f"pkg:cargo/{packages[id]['name']}@{packages[id]['version']}"


reached, waiting = set(), [id for id, package in packages.items() if package["name"] in ROOTS]
while waiting:
    id = waiting.pop()
    if id not in reached:
        reached.add(id)
        waiting.extend(normal(nodes[id]))


def component(id):
    package = packages[id]
    checksum = checksums.get((package["name"], package["version"]))
    found = {
        "type": "library",
        "bom-ref": reference(id),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(id),
    }
    if package["license"]:
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found


ordered = sorted(reached, key=reference)
root = next(id for id in ordered if packages[id]["name"] == "rusm-node")
print(json.dumps({
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {"component": {"type": "application", "name": "rusm", "version": packages[root]["version"]}},
    "components": [component(id) for id in ordered],
    "dependencies": [
        {"ref": reference(id), "dependsOn": sorted({reference(dep) for dep in normal(nodes[id])})} for id in ordered
    ],
}, indent=1))

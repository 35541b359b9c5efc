#!/usr/bin/env python3
"""Prints the components of the binaries as CycloneDX 1.5: each package with version, licence, origin and checksum."""

import json
import re
import subprocess
import tomllib

# Keep the packages and features the same as in the build of release.sh. `cargo metadata` cannot replace `cargo tree`: it
# resolves the features of the whole workspace, and lists packages that these binaries do not contain.
TREE = (
    "cargo", "tree", "--package", "rusm-node", "--package", "rusm-tui", "--edges", "normal,build", "--locked", "--offline",
    "--color", "never", "--prefix", "depth", "--format", " {p}\t{l}",
)
# The end "(*)" marks a package whose dependencies are listed further up.
LINE = re.compile(r"(?P<depth>\d+) (?P<name>\S+) v(?P<version>\S+).*\t(?P<licence>.*?)(?: \(\*\))?")

with open("Cargo.lock", "rb") as lock:
    checksums = {(p["name"], p["version"]): p.get("checksum") for p in tomllib.load(lock)["package"]}


def component(reference, name, version, licence):
    found = {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference}
    if licence:
        found["licenses"] = [{"expression": licence.replace("/", " OR ")}]
    if checksum := checksums[name, version]:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found


components, dependencies, path = {}, {}, []
# An empty line separates the trees of the packages.
for line in filter(None, subprocess.check_output(TREE, text=True).splitlines()):
    depth, name, version, licence = LINE.fullmatch(line).groups()
    reference = f"pkg:cargo/{name}@{version}"
    components[reference] = component(reference, name, version, licence)
    dependencies.setdefault(reference, set())
    path[int(depth):] = [reference]
    if len(path) > 1:
        dependencies[path[-2]].add(reference)

root = next(found for found in components.values() if found["name"] == "rusm-node")
print(json.dumps({
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {"component": {"type": "application", "name": "rusm", "version": root["version"]}},
    "components": [components[reference] for reference in sorted(components)],
    "dependencies": [{"ref": reference, "dependsOn": sorted(dependencies[reference])} for reference in sorted(dependencies)],
}, indent=1))

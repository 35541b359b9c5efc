#!/usr/bin/env python3
"""Attacks `rusm store` and nodes that reopen a store. Usage: repair.py [PERCENT] [SEED] [AREA] (RUSM=target/debug/rusm)

Each area has a number of cases; PERCENT of them are tried (100 unless given). The folder of a failed case is kept.
"""

import random
import shutil
import sys
import tempfile
import time

from store_files import files, limits, lib, names

AREAS = {"names": names, "files": files, "limits": limits}


def main():
    percent = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    stores = lib.Stores(random.Random(seed))
    tried = passed = 0
    for area, module in AREAS.items():
        for case, count in module.CASES:
            if only not in f"{area}.{case.__name__}":
                continue
            good, began = 0, time.monotonic()
            count = max(1, count * percent // 100)
            for number in range(count):
                folder = tempfile.mkdtemp(prefix="rusm-case-")
                try:
                    case(stores, random.Random(f"{seed}/{case.__name__}/{number}"), folder)
                    good += 1
                    shutil.rmtree(folder)
                except Exception as failed:  # a fault of the script fails the case, too
                    print(f"  {area}.{case.__name__} {number} of seed {seed}: {failed or type(failed)}; see {folder}", flush=True)
            tried, passed = tried + count, passed + good
            word = "ok" if good == count else "FAILED"
            print(f"{word:7} {area}.{case.__name__}: {good} of {count}, {time.monotonic() - began:.0f} s", flush=True)
    stores.remove()
    shutil.rmtree(lib.sockets())
    print(f"tried {tried}, passed {passed}")
    return 0 if tried == passed else 1


sys.exit(main())

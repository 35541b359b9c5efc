// A process that allocates memory until it reaches its limit. The limit ends this process and no other.

import { actor, label } from "rusm";

/** Default size of an allocation in KiB; the first argument overrides it. */
const STEP_KIB = "1024";

export const run = actor(([argument = STEP_KIB]) => {
  if (!/^[1-9]\d*$/.test(argument)) throw `${JSON.stringify(argument)} is no number of KiB`;
  const stepKib = Number(argument);
  const kept: Uint8Array[] = [];
  for (;;) {
    // Write to the memory: untouched pages are never allocated.
    kept.push(new Uint8Array(stepKib * 1024).fill(0xa5));
    label(`${kept.length * stepKib} KiB taken`);
  }
});

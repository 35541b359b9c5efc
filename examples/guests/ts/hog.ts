// A process that takes memory until it may not: its end is the limit's, and nobody else's.

import { actor, label } from "./rusm";

/** How many KiB it takes at a time, unless the first argument says otherwise. */
const STEP_KIB = "1024";

export const run = actor(([argument = STEP_KIB]) => {
  if (!/^[1-9]\d*$/.test(argument)) throw `${JSON.stringify(argument)} is no number of KiB`;
  const stepKib = Number(argument);
  const kept: Uint8Array[] = [];
  for (;;) {
    // Written, and not only asked for: memory that nobody touches costs nothing.
    kept.push(new Uint8Array(stepKib * 1024).fill(0xa5));
    label(`${kept.length * stepKib} KiB taken`);
  }
});

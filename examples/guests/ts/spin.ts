// A process that never gives way, and cannot keep others from running: the node interrupts it.

import { actor, label } from "./rusm";

export const run = actor(() => {
  label("spinning");
  for (let turns = 0; ; turns++) continue;
});

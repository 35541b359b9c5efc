// A process that never yields. The node interrupts it, so that other processes can run.

import { actor, label } from "rusm";

export const run = actor(() => {
  label("spinning");
  for (let turns = 0; ; turns++) continue;
});

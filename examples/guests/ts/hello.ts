// The smallest guest: a process that logs a greeting of the name in its first argument and exits.

import { actor, self } from "rusm";

export const run = actor(([whom = "world"]) => {
  console.log(`hello, ${whom}: I am process ${self()}`);
});

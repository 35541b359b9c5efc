// A process that says hello and ends: the smallest guest. Its first argument is whom to greet.

import { actor, self } from "./rusm";

export const run = actor(([whom = "world"]) => {
  console.log(`hello, ${whom}: I am process ${self()}`);
});

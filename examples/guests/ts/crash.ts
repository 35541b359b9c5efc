// A process that ends in the way that it is asked to: by its first argument at once, or by a message.

import { actor, exit, messages, self } from "./rusm";

const ways: Record<string, () => unknown> = {
  return: () => undefined,
  // A mistake that the process has noticed itself: the words are its exit reason.
  error: () => {
    throw "no more coins";
  },
  exit: () => exit(self(), { tag: "shutdown-with", val: "closing time" }),
  // Mistakes that the language notices: the words are the exit reason, where they were made is in the log.
  panic: () => {
    throw new Error("asked to panic");
  },
  bounds: () => new Uint8Array(-1),
  recurse: function deeper(): number {
    return 1 + Number(deeper());
  },
};

export const run = actor(([way]) => {
  if (way !== undefined) return end(way);
  for (const message of messages()) return end(message.text());
});

function end(way: string): void {
  const known = Object.keys(ways);
  if (!known.includes(way)) throw `${JSON.stringify(way)} is none of ${known.join(", ")}`;
  ways[way]!();
}

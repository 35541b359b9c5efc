// A process that ends in a requested way, given as its first argument or else in a message.

import { actor, exit, messages, self } from "rusm";

const ways: Record<string, () => unknown> = {
  return: () => undefined,
  // An error that the process detected itself: the text is its exit reason.
  error: () => {
    throw "no more coins";
  },
  exit: () => exit(self(), { tag: "shutdown-with", val: "closing time" }),
  // Errors that JavaScript detects: the message is the exit reason, and the stack trace is in the log.
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

// What is thrown where something was not done.

import type { WorldError } from "rusm:runtime/types@0.1.0";
import { describe, type ExitReason } from "./words";

/** Why something was not done: `kind` is for programs, `message` for people. */
export class RusmError extends Error {
  readonly kind: WorldError["tag"];
  /** Why the callee ended, with `callee-exited`. */
  readonly reason: ExitReason | undefined;

  constructor(error: WorldError) {
    super(words(error));
    this.name = "RusmError";
    this.kind = error.tag;
    this.reason = error.tag === "callee-exited" ? error.val : undefined;
  }

  override toString(): string {
    return this.message;
  }
}

function words(error: WorldError): string {
  switch (error.tag) {
    case "denied":
      return `denied: this process lacks the capability ${error.val}`;
    case "no-process":
      return "no such process";
    case "mailbox-full":
      return "the receiver's mailbox is full";
    case "timed-out":
      return "no answer in time";
    case "callee-exited":
      return `the callee ended: ${describe(error.val)}`;
    case "no-such":
      return `no such: ${error.val}`;
    default:
      return `${error.tag}: ${error.val}`;
  }
}

/** Calls the node; what it answers as an error becomes a `RusmError`. */
export function trying<T>(call: () => T): T {
  try {
    return call();
  } catch (thrown) {
    throw failure(thrown);
  }
}

/** What is to be thrown on for what a call into the node threw. */
export function failure(thrown: unknown): unknown {
  // componentize-qjs wraps the error of a `result` in an Error of its own.
  const error = (thrown as { payload?: WorldError } | null)?.payload;
  return error === undefined ? thrown : new RusmError(error);
}

// Errors of calls into the node.

import type { WorldError } from "rusm:runtime/types@0.1.0";
import { describe, type ExitReason } from "./words";

/** Error of a call into the node: `kind` is for programs, `message` for people. */
export class RusmError extends Error {
  readonly kind: WorldError["tag"];
  /** Reason why the callee ended, set for `callee-exited`. */
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

/** Calls the node and converts an error into a `RusmError`. */
export function trying<T>(call: () => T): T {
  try {
    return call();
  } catch (thrown) {
    throw failure(thrown);
  }
}

/** Converts a value thrown by a call into the node into the value to throw. */
export function failure(thrown: unknown): unknown {
  // componentize-qjs wraps the error of a `result` in its own Error.
  const error = (thrown as { payload?: WorldError } | null)?.payload;
  return error === undefined ? thrown : new RusmError(error);
}

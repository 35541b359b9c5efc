// Types that all modules of the SDK share: pids and exit reasons. `rusm.ts` exports them to guests.

import type * as world from "rusm:runtime/types@0.1.0";

/** Reason why a process ended: `tag` is its kind, `val` its text if it has one. */
export type ExitReason = world.ExitReason;

/** Returns an exit reason as text, for example `killed` or `panic: …`. */
export function describe(reason: ExitReason): string {
  switch (reason.tag) {
    case "shutdown-with":
      return `shutdown: ${reason.val}`;
    case "panic":
      return `panic: ${reason.val}`;
    case "other":
      return reason.val;
    default:
      return reason.tag.replace("-", " ");
  }
}

/** Address of a process, printed as `<node.slot.generation>`. */
export class Pid {
  constructor(
    readonly node: number,
    readonly slot: number,
    readonly generation: number,
  ) {}

  static of(pid: world.Pid): Pid {
    return new Pid(pid.node, pid.slot, pid.generation);
  }

  /** Parses the format of `toString`; returns undefined for any other text. */
  static parse(text: string): Pid | undefined {
    const parts = /^<?(\d{1,10})\.(\d{1,10})\.(\d{1,10})>?$/.exec(text)?.slice(1).map(Number);
    if (parts === undefined || parts.some((part) => part > 0xffff_ffff)) return undefined;
    return new Pid(parts[0]!, parts[1]!, parts[2]!);
  }

  /** Decodes the pid in the first twelve bytes, in the format of all SDKs; returns undefined if there are fewer. */
  static fromBytes(bytes: Uint8Array): Pid | undefined {
    if (bytes.length < 12) return undefined;
    const view = new DataView(bytes.buffer, bytes.byteOffset, 12);
    return new Pid(view.getUint32(0, true), view.getUint32(4, true), view.getUint32(8, true));
  }

  toBytes(): Uint8Array {
    const bytes = new Uint8Array(12);
    const view = new DataView(bytes.buffer);
    view.setUint32(0, this.node, true);
    view.setUint32(4, this.slot, true);
    view.setUint32(8, this.generation, true);
    return bytes;
  }

  equals(other: Pid): boolean {
    return this.node === other.node && this.slot === other.slot && this.generation === other.generation;
  }

  toString(): string {
    return `<${this.node}.${this.slot}.${this.generation}>`;
  }
}

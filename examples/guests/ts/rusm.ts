// What a guest in TypeScript needs to be a process of a rusm node.
//
//   import { actor, self } from "./rusm";
//
//   export const run = actor((args) => {
//     console.log(`hello from ${self()} with ${args}`);
//   });
//
// Everything that waits suspends this process and nothing else, so there is no `await`: `receive` returns what it has
// received. What is refused or fails is thrown as a `RusmError`. The words are those of crates/runtime/wit/rusm.wit.

import clock from "rusm:runtime/clock@0.1.0";
import groups from "rusm:runtime/groups@0.1.0";
import names from "rusm:runtime/names@0.1.0";
import process, { type SpawnOptions } from "rusm:runtime/process@0.1.0";
import supervisor from "rusm:runtime/supervisor@0.1.0";
import timers from "rusm:runtime/timers@0.1.0";
import type * as world from "rusm:runtime/types@0.1.0";
import { describe, Pid, type ExitReason } from "./words";
import { RusmError, trying } from "./error";
import { bytes, utf8 } from "./web";

export { digest, hmac, randomBytes } from "./web";
export { describe, Pid, RusmError, type ExitReason };

// ---- From a function to a process ----

/** What a process does, from its first instruction to its last. What it throws becomes its exit reason. */
export type Body = (args: string[]) => void;

/** The arguments that lead a new process of this module to the body that runs now. */
let way: string[] = [];

/** Makes a function the process that this module is: `export const run = actor(…)`. */
export function actor(body: Body): Body {
  return (args) => {
    try {
      const result: unknown = body(args);
      if (result instanceof Promise) throw "a process has no await: its function must not be async";
    } catch (thrown) {
      // The stack tells where; only words fit into an exit reason.
      if (thrown instanceof Error && !(thrown instanceof RusmError)) console.error(`${thrown}\n${thrown.stack}`);
      throw String(thrown);
    }
  };
}

/** Several processes in one module: the first argument says which, as in `rusm run guests.wasm counter`. */
export function roles(bodies: Record<string, Body>): Body {
  return ([role = "", ...args]) => {
    const known = Object.keys(bodies);
    if (!known.includes(role)) throw `the first argument ${JSON.stringify(role)} is none of ${known.join(", ")}`;
    way = [role];
    bodies[role]!(args);
  };
}

// ---- Messages ----

/** What a message may be made of; text travels as UTF-8. */
export type Data = string | Uint8Array;

/** What one process sent to another. */
export class Message {
  readonly kind = "message";
  readonly tag: number;
  readonly body: Uint8Array;
  private readonly replyTo: number | null;

  constructor(message: world.Message) {
    this.tag = message.tag;
    this.body = message.body;
    this.replyTo = message.replyTo;
  }

  /** The body as text; what is no UTF-8 shows as `�`. */
  text(): string {
    return utf8(this.body);
  }

  /** Whether the sender waits in `call`. */
  get isCall(): boolean {
    return this.replyTo !== null;
  }

  /** Answers the caller; false where nobody waits, or no longer. The first reply counts. */
  reply(body: Data): boolean {
    return this.replyTo !== null && process.reply(this.replyTo, bytes(body));
  }
}

/** The next thing in a mailbox. */
export type Received =
  | Message
  | { kind: "exit"; from: Pid; reason: ExitReason }
  | { kind: "down"; monitor: number; pid: Pid; reason: ExitReason }
  | { kind: "group"; monitor: number; group: string; pid: Pid; joined: boolean }
  /** A native process sent a value that is not bytes; the name of its type. */
  | { kind: "opaque"; type: string };

function received(next: world.Received): Received {
  switch (next.tag) {
    case "message":
      return new Message(next.val);
    case "exit":
      return { kind: "exit", from: Pid.of(next.val.from), reason: next.val.reason };
    case "down":
      return { kind: "down", monitor: next.val.monitor, pid: Pid.of(next.val.pid), reason: next.val.reason };
    case "group":
      return { kind: "group", ...next.val, pid: Pid.of(next.val.pid) };
    case "opaque":
      return { kind: "opaque", type: next.val };
  }
}

/** The next thing in the mailbox, oldest first; with a timeout, undefined after so many milliseconds, 0 only looks. */
export function receive(): Received;
export function receive(timeoutMs: number): Received | undefined;
export function receive(timeoutMs?: number): Received | undefined {
  const next = process.receive(timeoutMs ?? null);
  return next === null ? undefined : received(next);
}

/** The oldest message with this tag; all else stays where it is, in its order. */
export function receiveTagged(tag: number): Message;
export function receiveTagged(tag: number, timeoutMs: number): Message | undefined;
export function receiveTagged(tag: number, timeoutMs?: number): Message | undefined {
  const message = process.receiveTagged(tag, timeoutMs ?? null);
  return message === null ? undefined : new Message(message);
}

/** The messages of a server, for ever: everything else in the mailbox is left out. */
export function* messages(): Generator<Message, never> {
  for (;;) {
    const next = receive();
    if (next.kind === "message") yield next;
  }
}

/** Sends, and waits while the receiver's mailbox is full. To a process that is gone it does nothing. */
export function send(to: Pid, body: Data, tag = 0): void {
  trying(() => process.send(to, tag, bytes(body)));
}

/** Sends, or throws at once why not: `mailbox-full`, `no-process`. */
export function trySend(to: Pid, body: Data, tag = 0): void {
  trying(() => process.trySend(to, tag, bytes(body)));
}

/** Sends a request and waits for its reply; throws `timed-out`, `no-process` or `callee-exited`. */
export function call(to: Pid, body: Data, options: { tag?: number; timeoutMs?: number } = {}): Uint8Array {
  return trying(() => process.call(to, options.tag ?? 0, bytes(body), options.timeoutMs ?? 5000));
}

/** The same, with the reply as text. */
export function ask(to: Pid, body: Data, options: { tag?: number; timeoutMs?: number } = {}): string {
  return utf8(call(to, body, options));
}

// ---- Processes ----

/** This process. */
export const self = (): Pid => Pid.of(process.self());

/** The process that started this one, where a process did. */
export function parent(): Pid | undefined {
  const pid = process.parent();
  return pid === null ? undefined : Pid.of(pid);
}

/** What the observer shows beside the pid. */
export const label = (text: string): void => process.label(text);

/** How a new process is to run. Everything left out is as in this one; nothing can be wider. */
export interface Spawn {
  /** A module that the node knows by this name or path; left out, the module of this process. */
  module?: string;
  /** What its `run` gets. */
  args?: string[];
  /** A name to register for it before its first instruction. */
  name?: string;
  /** A capability profile of the node, narrowed by ours. */
  profile?: string;
  memoryMaxBytes?: number;
}

function options(spawn: Spawn, ties: Partial<SpawnOptions["ties"]> = {}): SpawnOptions {
  const args = spawn.args ?? [];
  return {
    args: spawn.module === undefined ? [...way, ...args] : args,
    ties: { link: false, monitor: false, ...ties },
    name: spawn.name ?? null,
    profile: spawn.profile ?? null,
    memoryMaxBytes: spawn.memoryMaxBytes ?? null,
  };
}

/** Starts a process. */
export function spawn(what: Spawn): Pid {
  return Pid.of(trying(() => process.spawn(what.module ?? "", options(what))).pid);
}

/** The same, linked to this process before its first instruction. */
export function spawnLink(what: Spawn): Pid {
  return Pid.of(trying(() => process.spawn(what.module ?? "", options(what, { link: true }))).pid);
}

/** The same, monitored by this process before its first instruction. */
export function spawnMonitor(what: Spawn): { pid: Pid; monitor: number } {
  const spawned = trying(() => process.spawn(what.module ?? "", options(what, { monitor: true })));
  return { pid: Pid.of(spawned.pid), monitor: spawned.monitor as number };
}

/** Ties both fates: the abnormal end of one ends the other, or tells it while it traps exits. */
export const link = (other: Pid): void => process.link(other);

/** Unties them. */
export const unlink = (other: Pid): void => process.unlink(other);

/** Asks for one `down` when the process ends. */
export const monitor = (target: Pid): number => process.monitor(target);

/** Takes a monitor back, with its `down` if that has arrived already. */
export const demonitor = (monitor: number): boolean => process.demonitor(monitor);

/** Whether exit signals arrive as `exit` instead of ending this process; returns what held before. */
export const trapExits = (trap: boolean): boolean => process.trapExits(trap);

/** Sends an exit signal; `{ tag: "killed" }` cannot be trapped. */
export function exit(target: Pid, reason: ExitReason = { tag: "shutdown" }): void {
  trying(() => process.exit(target, reason));
}

/** Waits; messages queue up meanwhile. */
export const sleep = (ms: number): void => process.sleep(ms);

/** Lets others run. */
export const yieldNow = (): void => process.yield();

// ---- Names, groups, timers, time ----

/** Registers this process. */
export const register = (name: string): void => trying(() => names.register(name));

/** Gives up a name of this process. */
export const unregister = (name: string): void => trying(() => names.unregister(name));

/** Who has the name. */
export function whereis(name: string): Pid | undefined {
  const pid = names.whereis(name);
  return pid === null ? undefined : Pid.of(pid);
}

export const join = (group: string): void => trying(() => groups.join(group));
export const leave = (group: string): void => trying(() => groups.leave(group));
export const members = (group: string): Pid[] => groups.members(group).map(Pid.of);

/** Asks for a `group` at each change, and tells who is in it now. */
export function monitorGroup(group: string): { monitor: number; members: Pid[] } {
  const [monitor, members] = trying(() => groups.monitor(group));
  return { monitor, members: members.map(Pid.of) };
}

export const demonitorGroup = (monitor: number): boolean => groups.demonitor(monitor);

/** Sends a message later; the reference is for `cancel`. */
export function sendAfter(to: Pid, delayMs: number, body: Data, tag = 0): number {
  return trying(() => timers.sendAfter(to, delayMs, tag, bytes(body)));
}

/** Sends a message again and again. */
export function sendEvery(to: Pid, periodMs: number, body: Data, tag = 0): number {
  return trying(() => timers.sendEvery(to, periodMs, tag, bytes(body)));
}

/** The milliseconds that were left, or undefined where it had fired. */
export const cancel = (timer: number): number | undefined => timers.cancel(timer) ?? undefined;

/** Nanoseconds since the node started. */
export const nowNs = (): number => clock.nowNs();

/** Milliseconds since 1970-01-01T00:00:00Z. */
export const unixMs = (): number => clock.unixMs();

// ---- Supervisors ----

/** A child of a supervisor: permanent, with 5 seconds to stop, unless said otherwise. */
export interface Child extends Spawn {
  /** Unique among its siblings. */
  id: string;
  restart?: "permanent" | "transient" | "temporary";
  /** Zero kills at once; null waits for ever. */
  shutdownMs?: number | null;
}

/** Starts a supervisor that is linked to this process. More than `intensity` restarts within `periodMs` end it. */
export function supervise(
  children: Child[],
  how: { strategy?: "one-for-one" | "one-for-all" | "rest-for-one"; intensity?: number; periodMs?: number } = {},
): Pid {
  const specs = children.map((child) => ({
    id: child.id,
    module: child.module ?? "",
    options: options(child),
    restart: child.restart ?? ("permanent" as const),
    shutdownMs: child.shutdownMs === undefined ? 5000 : child.shutdownMs,
  }));
  const { strategy = "one-for-one", intensity = 1, periodMs = 5000 } = how;
  return Pid.of(trying(() => supervisor.start(strategy, intensity, periodMs, specs)));
}

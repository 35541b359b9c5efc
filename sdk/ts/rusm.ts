// SDK for guests in TypeScript: processes of a rusm node.
//
//   import { actor, self } from "rusm";
//
//   export const run = actor((args) => {
//     console.log(`hello from ${self()} with ${args}`);
//   });
//
// A call that waits suspends this process only, so it needs no `await`: `receive` returns the received item. A call
// that fails throws a `RusmError`. The functions are those of wit/runtime/rusm.wit. The function of a process may be
// async, for libraries that return promises.

/// <reference path="./world.d.ts" />

import clock from "rusm:runtime/clock@0.1.0";
import groups from "rusm:runtime/groups@0.1.0";
import names from "rusm:runtime/names@0.1.0";
import process, { type SpawnOptions } from "rusm:runtime/process@0.1.0";
import supervisor from "rusm:runtime/supervisor@0.1.0";
import timers from "rusm:runtime/timers@0.1.0";
import type * as world from "rusm:runtime/types@0.1.0";
import { describe, Pid, type ExitReason } from "./words";
import { RusmError, trying } from "./error";
import { settled } from "./promise";
import { bytes, utf8 } from "./web";

export { digest, hmac, randomBytes } from "./web";
export { describe, Pid, RusmError, type ExitReason };

// ---- From a function to a process ----

/** The function of a process, from its first instruction to its last. A thrown value becomes its exit reason. */
export type Body = (args: string[]) => void | PromiseLike<void>;

/** Arguments that select the current role in a new process of this module. */
let way: string[] = [];

/** Makes a function the body of this module's process: `export const run = actor(…)`. */
export function actor(body: Body): (args: string[]) => void {
  return (args) => {
    try {
      settled(body(args));
    } catch (thrown) {
      // An exit reason holds only text, so the stack trace goes to the log.
      if (thrown instanceof Error && !(thrown instanceof RusmError)) console.error(`${thrown}\n${thrown.stack}`);
      throw String(thrown);
    }
  };
}

/** Combines several processes in one module: the first argument selects one, as in `rusm run guests.wasm counter`. */
export function roles(bodies: Record<string, Body>): Body {
  return ([role = "", ...args]) => {
    const known = Object.keys(bodies);
    if (!known.includes(role)) throw `the first argument ${JSON.stringify(role)} is none of ${known.join(", ")}`;
    way = [role];
    bodies[role]!(args);
  };
}

// ---- Messages ----

/** Payload of a message; text is encoded as UTF-8. */
export type Data = string | Uint8Array;

/** A message from another process. */
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

  /** Returns the body as text; bytes that are not valid UTF-8 become `�`. */
  text(): string {
    return utf8(this.body);
  }

  /** True if the sender waits in `call`. */
  get isCall(): boolean {
    return this.replyTo !== null;
  }

  /** Answers the caller; returns false if no caller waits, or no longer waits. Only the first reply counts. */
  reply(body: Data): boolean {
    return this.replyTo !== null && process.reply(this.replyTo, bytes(body));
  }
}

/** The next item in the mailbox. */
export type Received =
  | Message
  | { kind: "exit"; from: Pid; reason: ExitReason }
  | { kind: "down"; monitor: number; pid: Pid; reason: ExitReason }
  | { kind: "group"; monitor: number; group: string; pid: Pid; joined: boolean }
  /** A value that is not bytes, sent by a native process; the name of its type. */
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

/** Returns the oldest item in the mailbox, or undefined after the timeout, if given; a timeout of 0 does not wait. */
export function receive(): Received;
export function receive(timeoutMs: number): Received | undefined;
export function receive(timeoutMs?: number): Received | undefined {
  const next = process.receive(timeoutMs ?? null);
  return next === null ? undefined : received(next);
}

/** Returns the oldest message with this tag. All other items stay in the mailbox, in their order. */
export function receiveTagged(tag: number): Message;
export function receiveTagged(tag: number, timeoutMs: number): Message | undefined;
export function receiveTagged(tag: number, timeoutMs?: number): Message | undefined {
  const message = process.receiveTagged(tag, timeoutMs ?? null);
  return message === null ? undefined : new Message(message);
}

/** Yields the messages of a server without end, and discards all other items in the mailbox. */
export function* messages(): Generator<Message, never> {
  for (;;) {
    const next = receive();
    if (next.kind === "message") yield next;
  }
}

/** Sends a message, and waits while the receiver's mailbox is full. Does nothing if the process has ended. */
export function send(to: Pid, body: Data, tag = 0): void {
  trying(() => process.send(to, tag, bytes(body)));
}

/** Sends a message without waiting; throws `mailbox-full` or `no-process` if that is not possible. */
export function trySend(to: Pid, body: Data, tag = 0): void {
  trying(() => process.trySend(to, tag, bytes(body)));
}

/** Sends a request and waits for its reply; throws `timed-out`, `no-process` or `callee-exited`. */
export function call(to: Pid, body: Data, options: { tag?: number; timeoutMs?: number } = {}): Uint8Array {
  return trying(() => process.call(to, options.tag ?? 0, bytes(body), options.timeoutMs ?? 5000));
}

/** Like `call`, but returns the reply as text. */
export function ask(to: Pid, body: Data, options: { tag?: number; timeoutMs?: number } = {}): string {
  return utf8(call(to, body, options));
}

// ---- Processes ----

/** Returns the pid of this process. */
export const self = (): Pid => Pid.of(process.self());

/** Returns the process that started this one, if a process did. */
export function parent(): Pid | undefined {
  const pid = process.parent();
  return pid === null ? undefined : Pid.of(pid);
}

/** Sets the label that the observer shows beside the pid. */
export const label = (text: string): void => process.label(text);

/** Options of a new process. A value left out is that of this process, and no value can exceed it. */
export interface Spawn {
  /** Name or path of the module; by default the module of this process. */
  module?: string;
  /** Arguments of its `run`. */
  args?: string[];
  /** Name to register for it before its first instruction. */
  name?: string;
  /** Capability profile of the node, narrowed to the capabilities of this process. */
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

/** Starts a process, linked to this process before its first instruction. */
export function spawnLink(what: Spawn): Pid {
  return Pid.of(trying(() => process.spawn(what.module ?? "", options(what, { link: true }))).pid);
}

/** Starts a process, monitored by this process before its first instruction. */
export function spawnMonitor(what: Spawn): { pid: Pid; monitor: number } {
  const spawned = trying(() => process.spawn(what.module ?? "", options(what, { monitor: true })));
  return { pid: Pid.of(spawned.pid), monitor: spawned.monitor as number };
}

/** Links two processes: the abnormal end of one ends the other, or sends it an exit signal if it traps exits. */
export const link = (other: Pid): void => process.link(other);

/** Removes the link. No exit signal of the other process arrives afterwards. */
export const unlink = (other: Pid): void => process.unlink(other);

/** Requests one `down` for when the process ends. */
export const monitor = (target: Pid): number => process.monitor(target);

/** Removes a monitor, and its `down` if that has already arrived; returns false if the monitor does not exist. */
export const demonitor = (monitor: number): boolean => process.demonitor(monitor);

/** If true, exit signals arrive as `exit` instead of ending this process. Returns the previous setting. */
export const trapExits = (trap: boolean): boolean => process.trapExits(trap);

/** Sends an exit signal; `{ tag: "killed" }` cannot be trapped. */
export function exit(target: Pid, reason: ExitReason = { tag: "shutdown" }): void {
  trying(() => process.exit(target, reason));
}

/** Waits for `ms` milliseconds; messages queue up meanwhile. */
export const sleep = (ms: number): void => process.sleep(ms);

/** Lets other processes run. */
export const yieldNow = (): void => process.yield();

// ---- Names, groups, timers, time ----

/** Registers a name for this process. */
export const register = (name: string): void => trying(() => names.register(name));

/** Unregisters a name of this process. */
export const unregister = (name: string): void => trying(() => names.unregister(name));

/** Returns the process with this name. */
export function whereis(name: string): Pid | undefined {
  const pid = names.whereis(name);
  return pid === null ? undefined : Pid.of(pid);
}

export const join = (group: string): void => trying(() => groups.join(group));
export const leave = (group: string): void => trying(() => groups.leave(group));
export const members = (group: string): Pid[] => groups.members(group).map(Pid.of);

/** Requests a `group` for each change of a group, and returns its current members. */
export function monitorGroup(group: string): { monitor: number; members: Pid[] } {
  const [monitor, members] = trying(() => groups.monitor(group));
  return { monitor, members: members.map(Pid.of) };
}

export const demonitorGroup = (monitor: number): boolean => groups.demonitor(monitor);

/** Sends a message after `delayMs` milliseconds; returns a reference for `cancel`. */
export function sendAfter(to: Pid, delayMs: number, body: Data, tag = 0): number {
  return trying(() => timers.sendAfter(to, delayMs, tag, bytes(body)));
}

/** Sends a message every `periodMs` milliseconds; returns a reference for `cancel`. */
export function sendEvery(to: Pid, periodMs: number, body: Data, tag = 0): number {
  return trying(() => timers.sendEvery(to, periodMs, tag, bytes(body)));
}

/** Cancels a timer; returns the milliseconds that were left, or undefined if it had fired. */
export const cancel = (timer: number): number | undefined => timers.cancel(timer) ?? undefined;

/** Returns the nanoseconds since the node started. */
export const nowNs = (): number => clock.nowNs();

/** Returns the milliseconds since 1970-01-01T00:00:00Z. */
export const unixMs = (): number => clock.unixMs();

// ---- Supervisors ----

/** A child of a supervisor. By default it is permanent and has 5 seconds to stop. */
export interface Child extends Spawn {
  /** Id, unique among the children of the supervisor. */
  id: string;
  restart?: "permanent" | "transient" | "temporary";
  /** Milliseconds that the child has to stop before it is killed: 0 kills immediately, null waits without a limit. */
  shutdownMs?: number | null;
}

/** Starts a supervisor linked to this process. More than `intensity` restarts within `periodMs` end the supervisor. */
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

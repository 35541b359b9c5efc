// The imports of the world `rusm:runtime/actor` and of the additional worlds, as componentize-qjs passes them to
// JavaScript. Guests use the wrappers in `rusm.ts`. A `result` returns its value or throws; an absent `option` is
// null; a u64 is a number below 2^53.

declare module "rusm:runtime/types@0.1.0" {
  export interface Pid {
    node: number;
    slot: number;
    generation: number;
  }
  export type ExitReason =
    | { tag: "normal" | "shutdown" | "killed" | "no-process" | "no-connection" }
    | { tag: "shutdown-with" | "panic" | "other"; val: string };
  export interface Message {
    tag: number;
    body: Uint8Array;
    replyTo: number | null;
  }
  export type Received =
    | { tag: "message"; val: Message }
    | { tag: "exit"; val: { from: Pid; reason: ExitReason } }
    | { tag: "down"; val: { monitor: number; pid: Pid; reason: ExitReason } }
    | { tag: "group"; val: { monitor: number; group: string; pid: Pid; joined: boolean } }
    | { tag: "opaque"; val: string };
  export type WorldError =
    | { tag: "no-process" | "mailbox-full" | "timed-out" }
    | { tag: "callee-exited"; val: ExitReason }
    | { tag: "denied" | "no-such" | "taken" | "limit" | "invalid"; val: string };
}

declare module "rusm:runtime/process@0.1.0" {
  import type { ExitReason, Message, Pid, Received } from "rusm:runtime/types@0.1.0";
  export interface SpawnOptions {
    args: string[];
    ties: { link: boolean; monitor: boolean };
    name: string | null;
    profile: string | null;
    memoryMaxBytes: number | null;
  }
  const process: {
    self(): Pid;
    parent(): Pid | null;
    label(text: string): void;
    spawn(module: string, options: SpawnOptions): { pid: Pid; monitor: number | null };
    send(to: Pid, tag: number, body: Uint8Array): void;
    trySend(to: Pid, tag: number, body: Uint8Array): void;
    receive(timeoutMs: number | null): Received | null;
    receiveTagged(tag: number, timeoutMs: number | null): Message | null;
    call(to: Pid, tag: number, body: Uint8Array, timeoutMs: number): Uint8Array;
    reply(to: number, body: Uint8Array): boolean;
    link(other: Pid): void;
    unlink(other: Pid): void;
    monitor(target: Pid): number;
    demonitor(monitor: number): boolean;
    trapExits(trap: boolean): boolean;
    exit(target: Pid, reason: ExitReason): void;
    sleep(ms: number): void;
    yield(): void;
  };
  export default process;
}

declare module "rusm:runtime/names@0.1.0" {
  import type { Pid } from "rusm:runtime/types@0.1.0";
  const names: {
    register(name: string): void;
    unregister(name: string): void;
    whereis(name: string): Pid | null;
  };
  export default names;
}

declare module "rusm:runtime/groups@0.1.0" {
  import type { Pid } from "rusm:runtime/types@0.1.0";
  const groups: {
    join(group: string): void;
    leave(group: string): void;
    members(group: string): Pid[];
    monitor(group: string): [number, Pid[]];
    demonitor(monitor: number): boolean;
  };
  export default groups;
}

declare module "rusm:runtime/timers@0.1.0" {
  import type { Pid } from "rusm:runtime/types@0.1.0";
  const timers: {
    sendAfter(to: Pid, delayMs: number, tag: number, body: Uint8Array): number;
    sendEvery(to: Pid, periodMs: number, tag: number, body: Uint8Array): number;
    cancel(timer: number): number | null;
  };
  export default timers;
}

declare module "rusm:runtime/supervisor@0.1.0" {
  import type { Pid } from "rusm:runtime/types@0.1.0";
  import type { SpawnOptions } from "rusm:runtime/process@0.1.0";
  const supervisor: {
    start(
      strategy: "one-for-one" | "one-for-all" | "rest-for-one",
      intensity: number,
      periodMs: number,
      children: {
        id: string;
        module: string;
        options: SpawnOptions;
        restart: "permanent" | "transient" | "temporary";
        shutdownMs: number | null;
      }[],
    ): Pid;
  };
  export default supervisor;
}

declare module "rusm:runtime/clock@0.1.0" {
  const clock: { nowNs(): number; unixMs(): number };
  export default clock;
}

declare module "rusm:runtime/log@0.1.0" {
  const log: { line(level: "error" | "warn" | "info" | "debug", text: string): void };
  export default log;
}

declare module "rusm:runtime/random@0.1.0" {
  const random: { bytes(count: number): Uint8Array; next(): number };
  export default random;
}

declare module "rusm:runtime/crypto@0.1.0" {
  export type Hash = "sha256" | "sha384" | "sha512";
  const crypto: {
    digest(hash: Hash, data: Uint8Array): Uint8Array;
    hmac(hash: Hash, key: Uint8Array, data: Uint8Array): Uint8Array;
  };
  export default crypto;
}

declare module "rusm:runtime/streams@0.1.0" {
  import type { Pid } from "rusm:runtime/types@0.1.0";
  const streams: {
    open(to: Pid, capacity: number): number;
    accept(): number | null;
    write(stream: number, bytes: Uint8Array): void;
    read(stream: number, most: number): Uint8Array;
    close(stream: number): boolean;
  };
  export default streams;
}

declare module "rusm:runtime/topics@0.1.0" {
  export interface TopicMessage {
    payload: Uint8Array;
    key: string | null;
    attributes: [string, string][];
  }
  export interface WorldLease {
    id: number;
    attempt: number;
    position: number;
    message: TopicMessage;
  }
  export interface WorldOptions {
    ordered: boolean;
    oldest: boolean;
    ackDeadlineMs: number | null;
    deadLetter: { topic: string; attemptsMax: number } | null;
  }
  export type WorldOverflow = { tag: "block" } | { tag: "drop-oldest" | "drop-newest" | "disconnect"; val: number };
  export type Settled = "done" | "already-acked" | "already-nacked" | "expired" | "revoked" | "unknown";
  const topics: {
    publish(topic: string, message: TopicMessage): void;
    tryPublish(topic: string, message: TopicMessage): void;
    publishAll(topic: string, messages: TopicMessage[]): void;
    subscribe(topic: string, subscription: string): number;
    subscribeWith(topic: string, subscription: string, options: WorldOptions): number;
    listen(topic: string, overflow: WorldOverflow): number;
    hear(listener: number, timeoutMs: number | null): TopicMessage | null;
    nextBatch(subscription: number, most: number, timeoutMs: number | null): WorldLease[];
    ackAll(subscription: number, ids: number[]): number;
    extend(subscription: number, id: number, byMs: number): Settled;
    next(subscription: number, timeoutMs: number | null): WorldLease | null;
    ack(subscription: number, id: number): Settled;
    nack(subscription: number, id: number): Settled;
    unsubscribe(subscription: number): boolean;
  };
  export default topics;
}

declare module "rusm:store/kv@0.1.0" {
  export type KvExpected = { bucket: string; key: Uint8Array; value: Uint8Array | null };
  export type KvChange = { bucket: string; key: Uint8Array; value: Uint8Array | null; expiresInMs: number | null };
  export type KvError = { tag: "denied" | "invalid" | "limit" | "failed"; val: string };
  const kv: {
    get(bucket: string, key: Uint8Array): Uint8Array | null;
    put(bucket: string, key: Uint8Array, value: Uint8Array, expiresInMs: number | null): void;
    delete(bucket: string, key: Uint8Array): boolean;
    compareAndSet(bucket: string, key: Uint8Array, expected: Uint8Array | null, value: Uint8Array | null): boolean;
    commit(expects: KvExpected[], changes: KvChange[]): boolean;
    scan(
      bucket: string,
      prefix: Uint8Array,
      after: Uint8Array,
      limit: number,
    ): { rows: { key: Uint8Array; value: Uint8Array }[]; next: Uint8Array | null };
  };
  export default kv;
}

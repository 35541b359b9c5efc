// The durable store of the node. Needs the capability `kv` and a grant of the bucket, on a node that has a store.
//
// A guest that imports this targets the world `rusm:store/storage` beside `actor` (keeper.wit does): a node without a store
// does not load it.

import world, { type KvChange, type KvError as Thrown, type KvExpected } from "rusm:store/kv@0.1.0";
import type { Data } from "./rusm";
import { bytes } from "./web";

/** A key and its value. */
export type Row = { key: Uint8Array; value: Uint8Array };

/** Why the store did nothing: `kind` is for programs, `message` for people. */
export class KvError extends Error {
  readonly kind: Thrown["tag"];

  constructor(error: Thrown) {
    super(`${error.tag}: ${error.val}`);
    this.name = "KvError";
    this.kind = error.tag;
  }
}

function trying<T>(call: () => T): T {
  try {
    return call();
  } catch (thrown) {
    const error = (thrown as { payload?: Thrown } | null)?.payload;
    throw error === undefined ? thrown : new KvError(error);
  }
}

const maybe = (data: Data | undefined): Uint8Array | null => (data === undefined ? null : bytes(data));

/** A bucket of the store; the node decides which of them this process may use. */
export class Bucket {
  constructor(readonly name: string) {}

  /** The value of a key. */
  get(key: Data): Uint8Array | undefined {
    return trying(() => world.get(this.name, bytes(key))) ?? undefined;
  }

  /** Gives a key a value, for so many milliseconds or for good. Returns when it is as durable as the node promises. */
  put(key: Data, value: Data, lifetimeMs?: number): void {
    trying(() => world.put(this.name, bytes(key), bytes(value), lifetimeMs ?? null));
  }

  /** Takes a key away; whether it was there. */
  delete(key: Data): boolean {
    return trying(() => world.delete(this.name, bytes(key)));
  }

  /** Gives a key a value, or takes it away for undefined, if it has the expected one, or none; whether it had. */
  compareAndSet(key: Data, expected: Data | undefined, value: Data | undefined): boolean {
    return trying(() => world.compareAndSet(this.name, bytes(key), maybe(expected), maybe(value)));
  }

  /** All rows whose keys begin with `prefix`, in their order, asked for as they are used. */
  *scan(prefix: Data = ""): Generator<Row> {
    const beginning = bytes(prefix);
    for (let after: Uint8Array | null = new Uint8Array(0); after !== null; ) {
      const from: Uint8Array = after;
      const page = trying(() => world.scan(this.name, beginning, from, 100));
      yield* page.rows;
      after = page.next;
    }
  }
}

/** What a key must have, and what changes, of several keys and buckets: all of it at one instant, or none. */
export class Commit {
  private readonly expects: KvExpected[] = [];
  private readonly changes: KvChange[] = [];

  /** Goes through only if the key has this value, or none for undefined. */
  expect(bucket: Bucket, key: Data, value: Data | undefined): this {
    this.expects.push({ bucket: bucket.name, key: bytes(key), value: maybe(value) });
    return this;
  }

  /** Gives a key a value, for so many milliseconds or for good. */
  put(bucket: Bucket, key: Data, value: Data, lifetimeMs?: number): this {
    this.changes.push({ bucket: bucket.name, key: bytes(key), value: bytes(value), expiresInMs: lifetimeMs ?? null });
    return this;
  }

  /** Takes a key away. */
  delete(bucket: Bucket, key: Data): this {
    this.changes.push({ bucket: bucket.name, key: bytes(key), value: null, expiresInMs: null });
    return this;
  }

  /** Does all of it, or nothing where something was not as expected; whether it did. */
  run(): boolean {
    return trying(() => world.commit(this.expects, this.changes));
  }
}

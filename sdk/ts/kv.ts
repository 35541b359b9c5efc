// The durable store of the node. Needs the capability `kv` and a grant of the bucket, on a node that has a store.
//
// A guest that imports this module must target the world `rusm:store/storage` besides `actor`, as
// examples/guests/ts/keeper.wit does. A node without a store does not load it.

import world, { type KvChange, type KvError as Thrown, type KvExpected } from "rusm:store/kv@0.1.0";
import type { Data } from "./rusm";
import { bytes } from "./web";

/** A key and its value. */
export type Row = { key: Uint8Array; value: Uint8Array };

/** Error of a call into the store: `kind` is for programs, `message` for people. */
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

/** A bucket of the store. The node decides which buckets this process may use. */
export class Bucket {
  constructor(readonly name: string) {}

  /** Returns the value of a key, or undefined if the key does not exist. */
  get(key: Data): Uint8Array | undefined {
    return trying(() => world.get(this.name, bytes(key))) ?? undefined;
  }

  /** Sets the value of a key, optionally with an expiry in milliseconds. Returns once it is as durable as the node is
   * configured to guarantee. */
  put(key: Data, value: Data, lifetimeMs?: number): void {
    trying(() => world.put(this.name, bytes(key), bytes(value), lifetimeMs ?? null));
  }

  /** Deletes a key; returns true if it existed. */
  delete(key: Data): boolean {
    return trying(() => world.delete(this.name, bytes(key)));
  }

  /** Sets a key, or deletes it if `value` is undefined, provided that it has the expected value, or does not exist if
   * `expected` is undefined. Returns true if it did so. */
  compareAndSet(key: Data, expected: Data | undefined, value: Data | undefined): boolean {
    return trying(() => world.compareAndSet(this.name, bytes(key), maybe(expected), maybe(value)));
  }

  /** Yields all rows whose keys begin with `prefix`, in the order of the keys. Reads them page by page. */
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

/** Expectations and changes of several keys and buckets, applied atomically or not at all. */
export class Commit {
  private readonly expects: KvExpected[] = [];
  private readonly changes: KvChange[] = [];

  /** Requires that the key has this value, or does not exist if `value` is undefined. */
  expect(bucket: Bucket, key: Data, value: Data | undefined): this {
    this.expects.push({ bucket: bucket.name, key: bytes(key), value: maybe(value) });
    return this;
  }

  /** Sets the value of a key, optionally with an expiry in milliseconds. */
  put(bucket: Bucket, key: Data, value: Data, lifetimeMs?: number): this {
    this.changes.push({ bucket: bucket.name, key: bytes(key), value: bytes(value), expiresInMs: lifetimeMs ?? null });
    return this;
  }

  /** Deletes a key. */
  delete(bucket: Bucket, key: Data): this {
    this.changes.push({ bucket: bucket.name, key: bytes(key), value: null, expiresInMs: null });
    return this;
  }

  /** Makes all changes if all expectations hold, otherwise none; returns true if it made them. */
  run(): boolean {
    return trying(() => world.commit(this.expects, this.changes));
  }
}

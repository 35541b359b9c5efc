// Topics of the node: what one publishes, many receive, each message until it is acknowledged. Needs the capability `topics`
// and a grant of the topic, on a node that gives its topics to guests. Guests make no topics; the node does.
//
// A guest that imports this targets the world `rusm:runtime/publishing` beside `actor` (courier.wit does): a node that gives no
// topics does not load it.

import world, { type TopicMessage, type WorldLease, type Settled } from "rusm:runtime/topics@0.1.0";
import { trying } from "./error";
import type { Data } from "./rusm";
import { bytes, utf8 } from "./web";

export type { Settled };

/** What may go along with a payload. */
export interface Envelope {
  /** Messages of the same key go out one after the other where the subscription keeps order. */
  key?: string | undefined;
  /** Names and values; a name may come more than once. */
  attributes?: [string, string][];
}

/** A message in the hands of this process, until it acknowledges it, gives it back, ends, or takes too long. */
export class Lease {
  /** What to acknowledge. */
  readonly id: number;
  /** How many times it was handed out, this one included. */
  readonly attempt: number;
  /** Its number in the topic. */
  readonly position: number;
  readonly payload: Uint8Array;
  readonly key: string | undefined;
  readonly attributes: [string, string][];

  constructor(lease: WorldLease) {
    this.id = lease.id;
    this.attempt = lease.attempt;
    this.position = lease.position;
    this.payload = lease.message.payload;
    this.key = lease.message.key ?? undefined;
    this.attributes = lease.message.attributes;
  }

  /** The payload as text; what is no UTF-8 shows as `�`. */
  text(): string {
    return utf8(this.payload);
  }
}

/** A topic of the node, which decides who may use it. */
export class Topic {
  constructor(readonly name: string) {}

  /** Publishes, and waits for room; on a topic that is kept on disk, until the message is there. */
  publish(payload: Data, envelope: Envelope = {}): void {
    trying(() => world.publish(this.name, message(payload, envelope)));
  }

  /** Publishes now, or throws `limit` with the numbers: the topic is full. */
  tryPublish(payload: Data, envelope: Envelope = {}): void {
    trying(() => world.tryPublish(this.name, message(payload, envelope)));
  }

  /** Takes a share in a subscription, which is made unless it is there, with what is published from now on. At most 64 at once. */
  subscribe(subscription: string): Share {
    return new Share(trying(() => world.subscribe(this.name, subscription)));
  }
}

/** This process's share in a subscription. */
export class Share {
  constructor(private readonly share: number) {}

  /** The next message; with a timeout, undefined after so many milliseconds, 0 only looks. Throws `no-such` when nothing will
   * ever come again. */
  next(): Lease;
  next(timeoutMs: number): Lease | undefined;
  next(timeoutMs?: number): Lease | undefined {
    const lease = trying(() => world.next(this.share, timeoutMs ?? null));
    return lease === null ? undefined : new Lease(lease);
  }

  /** Says that a message was dealt with; whatever is not `done` has changed nothing. */
  ack(lease: Lease): Settled {
    return trying(() => world.ack(this.share, lease.id));
  }

  /** Gives a message back, to be tried again. */
  nack(lease: Lease): Settled {
    return trying(() => world.nack(this.share, lease.id));
  }

  /** Gives up the share, and what this process still has of it, to the others; false where there was none. The subscription
   * stays. */
  unsubscribe(): boolean {
    return world.unsubscribe(this.share);
  }
}

function message(payload: Data, { key, attributes = [] }: Envelope): TopicMessage {
  return { payload: bytes(payload), key: key ?? null, attributes };
}

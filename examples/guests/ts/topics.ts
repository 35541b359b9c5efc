// Topics of the node: what one publishes, many receive, each message until it is acknowledged. Needs the capability `topics`
// and a grant of the topic, on a node that gives its topics to guests. Guests make no topics; the node does.
//
// A guest that imports this targets the world `rusm:runtime/publishing` beside `actor` (courier.wit does): a node that gives no
// topics does not load it.

import world, { type TopicMessage, type WorldLease, type WorldOverflow, type Settled } from "rusm:runtime/topics@0.1.0";
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

/** How a subscription is made. */
export interface SubscriptionOptions {
  /** Messages of the same key go out one batch after the other. */
  ordered?: boolean;
  /** It begins with the oldest message that the topic still has, and not with the next. */
  oldest?: boolean;
  /** Milliseconds to acknowledge; 10 s without. */
  ackDeadlineMs?: number;
  /** The topic for what was tried so many times. */
  deadLetter?: { topic: string; attemptsMax: number };
}

/** What becomes of messages that a listener is too slow for: publishers wait, or beyond so many something is lost. */
export type Overflow = WorldOverflow;

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

  /** Publishes messages in order, and waits for room as often as it must. If one is refused, those before it are published. */
  publishAll(messages: (Envelope & { payload: Data })[]): void {
    trying(() => world.publishAll(this.name, messages.map((one) => message(one.payload, one))));
  }

  /** Takes a share in a subscription, which is made as the options say unless it is there. */
  subscribeWith(subscription: string, options: SubscriptionOptions): Share {
    const { ordered = false, oldest = false, ackDeadlineMs = null, deadLetter = null } = options;
    const all = { ordered, oldest, ackDeadlineMs, deadLetter };
    return new Share(trying(() => world.subscribeWith(this.name, subscription, all)));
  }

  /** Listens to what is published from now on: each message once at most, without leases. */
  listen(overflow: Overflow = { tag: "block" }): Listener {
    return new Listener(trying(() => world.listen(this.name, overflow)));
  }

  /** Takes a share in a subscription, which is made unless it is there, with what is published from now on. At most 64 at once. */
  subscribe(subscription: string): Share {
    return new Share(trying(() => world.subscribe(this.name, subscription)));
  }
}

/** What a listener hears. */
export type Heard = { payload: Uint8Array; key: string | undefined; attributes: [string, string][] };

/** This process as a listener of a topic. */
export class Listener {
  constructor(private readonly listener: number) {}

  /** The next message; with a timeout, undefined after so many milliseconds, 0 only looks. Throws `no-such` when nothing will
   * ever come again. */
  hear(): Heard;
  hear(timeoutMs: number): Heard | undefined;
  hear(timeoutMs?: number): Heard | undefined {
    const heard = trying(() => world.hear(this.listener, timeoutMs ?? null));
    return heard === null ? undefined : { ...heard, key: heard.key ?? undefined };
  }

  /** Listens no more; false where it did not. */
  stop(): boolean {
    return world.unsubscribe(this.listener);
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

  /** As next, and what more is there already, at most so many, 1 to 1,000. */
  nextBatch(most: number): Lease[] {
    return trying(() => world.nextBatch(this.share, most, null)).map((lease) => new Lease(lease));
  }

  /** Says of several messages that they were dealt with; how many of them were leased. */
  ackAll(leases: Lease[]): number {
    return trying(() => world.ackAll(this.share, leases.map((lease) => lease.id)));
  }

  /** Takes so many milliseconds more for a message, at most an hour from now. */
  extend(lease: Lease, byMs: number): Settled {
    return trying(() => world.extend(this.share, lease.id, byMs));
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

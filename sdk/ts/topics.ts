// Topics of the node: each message is delivered to every subscription of its topic, until it is acknowledged there.
// Needs the capability `topics` and a grant of the topic, on a node that gives guests access to its topics. Guests
// cannot create topics.
//
// A guest that imports this module must target the world `rusm:runtime/publishing` besides `actor`, as
// examples/guests/ts/courier.wit does. A node that gives guests no access to topics does not load it.

import world, { type TopicMessage, type WorldLease, type WorldOverflow, type Settled } from "rusm:runtime/topics@0.1.0";
import { trying } from "./error";
import type { Data } from "./rusm";
import { bytes, utf8 } from "./web";

export type { Settled };

/** Optional parts of a message besides its payload. */
export interface Envelope {
  /** Ordering key: an ordered subscription delivers the messages of a key one batch after the other. */
  key?: string | undefined;
  /** Names and values; a name may occur more than once. */
  attributes?: [string, string][];
}

/** A message leased to this process, until it is acknowledged or returned, the process ends, or the deadline passes. */
export class Lease {
  /** Id of the lease. */
  readonly id: number;
  /** Number of deliveries, including this one. */
  readonly attempt: number;
  /** Position in the topic. */
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

  /** Returns the payload as text; bytes that are not valid UTF-8 become `�`. */
  text(): string {
    return utf8(this.payload);
  }
}

/** Options of a new subscription. They do not change a subscription that exists already. */
export interface SubscriptionOptions {
  /** Deliver the messages of a key one batch after the other. */
  ordered?: boolean;
  /** Begin with the oldest message that the topic still has, instead of the next one. */
  oldest?: boolean;
  /** Time for a consumer to acknowledge, in milliseconds; default 10 s. */
  ackDeadlineMs?: number;
  /** Destination of messages without attempts left; without it they are retried forever. */
  deadLetter?: { topic: string; attemptsMax: number };
}

/** Policy for messages that arrive faster than a listener reads them: publishers wait, or beyond a number of messages
 * the oldest or newest are dropped, or the listener is disconnected. */
export type Overflow = WorldOverflow;

/** A topic of the node, by its name. The node decides which topics this process may use. */
export class Topic {
  constructor(readonly name: string) {}

  /** Publishes a message, and waits for room. On a durable topic, waits until the message is stored. */
  publish(payload: Data, envelope: Envelope = {}): void {
    trying(() => world.publish(this.name, message(payload, envelope)));
  }

  /** Publishes a message without waiting; throws `limit`, with the numbers, if the topic is full. */
  tryPublish(payload: Data, envelope: Envelope = {}): void {
    trying(() => world.tryPublish(this.name, message(payload, envelope)));
  }

  /** Publishes messages in order, and waits for room as often as necessary. If a message is refused, only those before
   * it are published. */
  publishAll(messages: (Envelope & { payload: Data })[]): void {
    trying(() => world.publishAll(this.name, messages.map((one) => message(one.payload, one))));
  }

  /** Like `subscribe`, with options for a new subscription. */
  subscribeWith(subscription: string, options: SubscriptionOptions): Share {
    const { ordered = false, oldest = false, ackDeadlineMs = null, deadLetter = null } = options;
    const all = { ordered, oldest, ackDeadlineMs, deadLetter };
    return new Share(trying(() => world.subscribeWith(this.name, subscription, all)));
  }

  /** Adds a listener, which receives each message published from now on at most once, without leases. */
  listen(overflow: Overflow = { tag: "block" }): Listener {
    return new Listener(trying(() => world.listen(this.name, overflow)));
  }

  /** Adds a consumer to a subscription. Creates the subscription if it does not exist; it then begins with the next
   * message. A process may have at most 64 consumers and listeners. */
  subscribe(subscription: string): Share {
    return new Share(trying(() => world.subscribe(this.name, subscription)));
  }
}

/** A message received by a listener. */
export type Heard = { payload: Uint8Array; key: string | undefined; attributes: [string, string][] };

/** Listener of a topic. */
export class Listener {
  constructor(private readonly listener: number) {}

  /** Returns the next message, or undefined after the timeout in milliseconds, if given; 0 does not wait. Throws
   * `no-such` if there will be no more messages. */
  hear(): Heard;
  hear(timeoutMs: number): Heard | undefined;
  hear(timeoutMs?: number): Heard | undefined {
    const heard = trying(() => world.hear(this.listener, timeoutMs ?? null));
    return heard === null ? undefined : { ...heard, key: heard.key ?? undefined };
  }

  /** Removes the listener; returns false if it does not exist. */
  stop(): boolean {
    return world.unsubscribe(this.listener);
  }
}

/** Consumer of a subscription. */
export class Share {
  constructor(private readonly share: number) {}

  /** Returns the next message, or undefined after the timeout in milliseconds, if given; 0 does not wait. Throws
   * `no-such` if there will be no more messages. */
  next(): Lease;
  next(timeoutMs: number): Lease | undefined;
  next(timeoutMs?: number): Lease | undefined {
    const lease = trying(() => world.next(this.share, timeoutMs ?? null));
    return lease === null ? undefined : new Lease(lease);
  }

  /** Like `next`, but also returns further available messages, up to `most` in total, 1 to 1,000. */
  nextBatch(most: number): Lease[] {
    return trying(() => world.nextBatch(this.share, most, null)).map((lease) => new Lease(lease));
  }

  /** Acknowledges several messages; returns the number of them that were leased. */
  ackAll(leases: Lease[]): number {
    return trying(() => world.ackAll(this.share, leases.map((lease) => lease.id)));
  }

  /** Extends a lease by `byMs` milliseconds, to at most an hour from now. */
  extend(lease: Lease, byMs: number): Settled {
    return trying(() => world.extend(this.share, lease.id, byMs));
  }

  /** Acknowledges a message. Every result but `done` has changed nothing. */
  ack(lease: Lease): Settled {
    return trying(() => world.ack(this.share, lease.id));
  }

  /** Returns a message, which will be delivered again. */
  nack(lease: Lease): Settled {
    return trying(() => world.nack(this.share, lease.id));
  }

  /** Removes the consumer; other consumers get its leased messages. Returns false if it does not exist. The
   * subscription remains. */
  unsubscribe(): boolean {
    return world.unsubscribe(this.share);
  }
}

function message(payload: Data, { key, attributes = [] }: Envelope): TopicMessage {
  return { payload: bytes(payload), key: key ?? null, attributes };
}

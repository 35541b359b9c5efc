/* Topics of the node: each message is delivered to every subscription of its topic, until it is acknowledged there.
 * Needs the capability `topics` and a grant of the topic, on a node that gives guests access to its topics: other nodes
 * do not load a guest that imports them. Guests cannot create topics. Compile rusm_topics.c as well, and encode with
 * its world:
 *
 *   encode component mine.core.wasm mine.wasm wit/runtime actor wit/runtime publishing
 *
 * Data from the node is in the arena, as described in rusm.h. The functions are those of wit/runtime/topics.wit.
 */
#ifndef RUSM_TOPICS_H
#define RUSM_TOPICS_H

#include "rusm.h"

typedef struct {
    rusm_bytes name, value;
} rusm_attribute;

/* A message of a topic; {.payload = …} has neither key nor attributes. An ordered subscription delivers the messages of
 * a key one batch after the other. */
typedef struct {
    rusm_bytes payload;
    rusm_maybe_bytes key;
    struct {
        const rusm_attribute *at;
        uint32_t len;
    } attributes;
} rusm_topic_message;

/* A message leased to this process, until it is acknowledged or returned, the process ends, or the deadline passes. */
typedef struct {
    uint64_t id;       /* id to pass to ack, nack or extend */
    uint32_t attempt;  /* number of deliveries, including this one */
    uint64_t position; /* position in the topic */
    rusm_topic_message message;
} rusm_lease;

/* Result of ack, nack or extend. Every value but DONE has changed nothing. */
typedef enum : uint8_t {
    RUSM_SETTLED_DONE,
    RUSM_SETTLED_ALREADY_ACKED,
    RUSM_SETTLED_ALREADY_NACKED,
    RUSM_SETTLED_EXPIRED,
    RUSM_SETTLED_REVOKED,
    RUSM_SETTLED_UNKNOWN, /* the lease does not exist, or belongs to another process */
} rusm_settled;

/* Id of a consumer or listener, valid in this process only. */
typedef uint64_t rusm_share;

/* Options of a new subscription; {0} stands for the defaults of rusm_topic_subscribe. */
typedef struct {
    bool ordered;                   /* deliver the messages of a key one batch after the other */
    bool oldest;                    /* begin with the oldest message that the topic still has */
    rusm_maybe_u64 ack_deadline_ms; /* default 10 s */
    struct {
        bool some;
        rusm_bytes topic; /* destination of messages without attempts left */
        uint32_t attempts_max;
    } dead_letter;
} rusm_subscription_options;

/* Policy for messages that arrive faster than a listener reads them: publishers wait, or beyond `most` messages the
 * oldest or newest are dropped, or the listener is disconnected. */
typedef enum : uint32_t {
    RUSM_OVERFLOW_BLOCK,
    RUSM_OVERFLOW_DROP_OLDEST,
    RUSM_OVERFLOW_DROP_NEWEST,
    RUSM_OVERFLOW_DISCONNECT,
} rusm_overflow;

typedef struct {
    const rusm_lease *at;
    uint32_t len;
} rusm_leases;

/* Publishes a message, and waits for room. On a durable topic, waits until the message is stored. */
const rusm_error *rusm_topic_publish(rusm_bytes topic, const rusm_topic_message *message);
/* Publishes a message without waiting; RUSM_LIMIT, with the numbers, if the topic is full. */
const rusm_error *rusm_topic_try_publish(rusm_bytes topic, const rusm_topic_message *message);
/* Publishes messages in order, and waits for room as often as necessary. If a message is refused, only those before it
 * are published. */
const rusm_error *rusm_topic_publish_all(rusm_bytes topic, const rusm_topic_message *messages, uint32_t len);
/* Like rusm_topic_subscribe, with options for a new subscription. */
const rusm_error *rusm_topic_subscribe_with(rusm_bytes topic, rusm_bytes subscription, const rusm_subscription_options *options,
                                            rusm_share *share);
/* Adds a listener, which receives each message published from now on at most once, without leases. Remove it with
 * rusm_topic_unsubscribe. */
const rusm_error *rusm_topic_listen(rusm_bytes topic, rusm_overflow overflow, uint32_t most, rusm_share *listener);
/* Gets the next message of a listener; waits as rusm_topic_next does. */
const rusm_error *rusm_topic_hear(rusm_share listener, uint64_t timeout_ms, rusm_topic_message *message, bool *came);
/* Like rusm_topic_next, but also gets further available messages, up to `most` in total, 1 to 1,000; no messages after
 * a timeout. */
const rusm_error *rusm_topic_next_batch(rusm_share share, uint32_t most, uint64_t timeout_ms, rusm_leases *leases);
/* Acknowledges several messages; `acked` is the number of them that were leased. */
const rusm_error *rusm_topic_ack_all(rusm_share share, const uint64_t *leases, uint32_t len, uint32_t *acked);
/* Extends a lease by `by_ms` milliseconds, to at most an hour from now. */
const rusm_error *rusm_topic_extend(rusm_share share, uint64_t lease, uint64_t by_ms, rusm_settled *how);
/* Adds a consumer to a subscription. Creates the subscription if it does not exist; it then begins with the next
 * message. A process may have at most 64 consumers and listeners. */
const rusm_error *rusm_topic_subscribe(rusm_bytes topic, rusm_bytes subscription, rusm_share *share);
/* Gets the next message; `came` is false after the timeout. 0 does not wait. RUSM_NO_SUCH if there will be no more
 * messages. */
const rusm_error *rusm_topic_next(rusm_share share, uint64_t timeout_ms, rusm_lease *lease, bool *came);
/* Acknowledges a message. */
const rusm_error *rusm_topic_ack(rusm_share share, uint64_t lease, rusm_settled *how);
/* Returns a message, which will be delivered again. */
const rusm_error *rusm_topic_nack(rusm_share share, uint64_t lease, rusm_settled *how);
/* Removes a consumer or listener; other consumers get its leased messages. Returns false if it does not exist. The
 * subscription remains. */
bool rusm_topic_unsubscribe(rusm_share share);

#endif

/* Topics of the node: what one publishes, many receive, each message until it is acknowledged. Needs the capability `topics`
 * and a grant of the topic, on a node that gives its topics to guests: another one does not load a guest that asks for them.
 * Guests make no topics; the node does. Compile rusm_topics.c as well, and encode with its world:
 *
 *   encode component mine.core.wasm mine.wasm ../../../crates/runtime/wit actor ../../../crates/runtime/wit publishing
 *
 * What the node gives lies in the arena, as rusm.h says. The words are those of crates/runtime/wit/topics.wit.
 */
#ifndef RUSM_TOPICS_H
#define RUSM_TOPICS_H

#include "rusm.h"

typedef struct {
    rusm_bytes name, value;
} rusm_attribute;

/* What is published; {.payload = …} has neither key nor attributes. Messages of the same key go out one after the other where
 * the subscription keeps order. */
typedef struct {
    rusm_bytes payload;
    rusm_maybe_bytes key;
    struct {
        const rusm_attribute *at;
        uint32_t len;
    } attributes;
} rusm_topic_message;

/* A message in the hands of this process, until it acknowledges it, gives it back, ends, or takes too long. */
typedef struct {
    uint64_t id;       /* what to acknowledge */
    uint32_t attempt;  /* how many times it was handed out, this one included */
    uint64_t position; /* its number in the topic */
    rusm_topic_message message;
} rusm_lease;

/* What came of an acknowledgement or its like; all but DONE have changed nothing. */
typedef enum : uint8_t {
    RUSM_SETTLED_DONE,
    RUSM_SETTLED_ALREADY_ACKED,
    RUSM_SETTLED_ALREADY_NACKED,
    RUSM_SETTLED_EXPIRED,
    RUSM_SETTLED_REVOKED,
    RUSM_SETTLED_UNKNOWN, /* no such lease, or one of another process */
} rusm_settled;

/* A share in a subscription, of this process only. */
typedef uint64_t rusm_share;

/* How a subscription is made; all zero as rusm_topic_subscribe does it. */
typedef struct {
    bool ordered;                   /* messages of the same key go out one batch after the other */
    bool oldest;                    /* it begins with the oldest message that the topic still has */
    rusm_maybe_u64 ack_deadline_ms; /* 10 s without */
    struct {
        bool some;
        rusm_bytes topic; /* for what was tried so many times */
        uint32_t attempts_max;
    } dead_letter;
} rusm_subscription_options;

/* What becomes of messages that a listener is too slow for: publishers wait, or beyond so many something is lost. */
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

/* Publishes, and waits for room; on a topic that is kept on disk, until the message is there. */
const rusm_error *rusm_topic_publish(rusm_bytes topic, const rusm_topic_message *message);
/* Publishes now, or is RUSM_LIMIT with the numbers: the topic is full. */
const rusm_error *rusm_topic_try_publish(rusm_bytes topic, const rusm_topic_message *message);
/* Publishes messages in order, and waits for room as often as it must. If one is refused, those before it are published. */
const rusm_error *rusm_topic_publish_all(rusm_bytes topic, const rusm_topic_message *messages, uint32_t len);
/* Takes a share in a subscription, which is made as the options say unless it is there. */
const rusm_error *rusm_topic_subscribe_with(rusm_bytes topic, rusm_bytes subscription, const rusm_subscription_options *options,
                                            rusm_share *share);
/* Listens to what is published from now on: each message once at most, without leases. Ends with rusm_topic_unsubscribe. */
const rusm_error *rusm_topic_listen(rusm_bytes topic, rusm_overflow overflow, uint32_t most, rusm_share *listener);
/* The next message of a listener, as rusm_topic_next. */
const rusm_error *rusm_topic_hear(rusm_share listener, uint64_t timeout_ms, rusm_topic_message *message, bool *came);
/* As rusm_topic_next, and what more is there already, at most so many, 1 to 1,000; none if none came in time. */
const rusm_error *rusm_topic_next_batch(rusm_share share, uint32_t most, uint64_t timeout_ms, rusm_leases *leases);
/* Says of several messages that they were dealt with; how many of them were leased. */
const rusm_error *rusm_topic_ack_all(rusm_share share, const uint64_t *leases, uint32_t len, uint32_t *acked);
/* Takes so many milliseconds more for a message, at most an hour from now. */
const rusm_error *rusm_topic_extend(rusm_share share, uint64_t lease, uint64_t by_ms, rusm_settled *how);
/* Takes a share in a subscription, which is made unless it is there, with what is published from now on. At most 64 at once. */
const rusm_error *rusm_topic_subscribe(rusm_bytes topic, rusm_bytes subscription, rusm_share *share);
/* The next message within so many milliseconds, 0 only looks; `came` says whether there was one. RUSM_NO_SUCH when nothing
 * will ever come again. */
const rusm_error *rusm_topic_next(rusm_share share, uint64_t timeout_ms, rusm_lease *lease, bool *came);
/* Says that a message was dealt with. */
const rusm_error *rusm_topic_ack(rusm_share share, uint64_t lease, rusm_settled *how);
/* Gives a message back, to be tried again. */
const rusm_error *rusm_topic_nack(rusm_share share, uint64_t lease, rusm_settled *how);
/* Gives up the share, and what this process still has of it, to the others; false where there was none. The subscription
 * stays. */
bool rusm_topic_unsubscribe(rusm_share share);

#endif

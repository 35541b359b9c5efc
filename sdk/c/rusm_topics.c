/* Implements rusm_topics.h on the imports of the world `rusm:runtime/publishing`. */
#include "rusm_topics.h"

/* Result that the node writes at the end of a call. */
static struct {
    bool failed;
    union {
        rusm_error error;
        rusm_settled settled;
        uint32_t count;
        rusm_leases leases;
    };
} result;

static struct {
    bool failed;
    union {
        rusm_error error;
        rusm_share share;
    };
} subscribed;

static struct {
    bool failed;
    union {
        rusm_error error;
        struct {
            bool some;
            rusm_lease lease;
        } next;
    };
} received;

static struct {
    bool failed;
    union {
        rusm_error error;
        struct {
            bool some;
            rusm_topic_message message;
        } next;
    };
} heard;

_Static_assert(sizeof(heard) == 36 && offsetof(typeof(heard), next.message) == 8, "the layout of the canonical ABI");
_Static_assert(sizeof(rusm_topic_message) == 28 && offsetof(rusm_topic_message, attributes) == 20, "the layout of the canonical ABI");
_Static_assert(sizeof(rusm_lease) == 56 && offsetof(rusm_lease, message) == 24, "the layout of the canonical ABI");
_Static_assert(sizeof(result) == 20 && offsetof(typeof(result), settled) == 4, "the layout of the canonical ABI");
_Static_assert(sizeof(subscribed) == 24 && offsetof(typeof(subscribed), share) == 8, "the layout of the canonical ABI");
_Static_assert(sizeof(received) == 72 && offsetof(typeof(received), next.lease) == 16, "the layout of the canonical ABI");

#define FROM(name) __attribute__((import_module("rusm:runtime/topics@0.1.0"), import_name(name))) extern
#define BYTES const char *, uint32_t
#define MESSAGE BYTES, uint32_t keyed, BYTES, const rusm_attribute *, uint32_t
#define OF(bytes) (bytes).at, (bytes).len
#define OF_MESSAGE(m) OF((m)->payload), (m)->key.some, OF((m)->key.value), OF((m)->attributes)

FROM("publish") void topics_publish(BYTES, MESSAGE, void *);
FROM("try-publish") void topics_try_publish(BYTES, MESSAGE, void *);
FROM("subscribe") void topics_subscribe(BYTES, BYTES, void *);
FROM("publish-all") void topics_publish_all(BYTES, const rusm_topic_message *, uint32_t, void *);
FROM("subscribe-with") void topics_subscribe_with(BYTES, BYTES, uint32_t ordered, uint32_t oldest, uint32_t limited,
                                                  uint64_t ack_deadline_ms, uint32_t dead, BYTES, uint32_t attempts_max, void *);
FROM("listen") void topics_listen(BYTES, uint32_t overflow, uint32_t most, void *);
FROM("hear") void topics_hear(rusm_share, uint32_t limited, uint64_t timeout_ms, void *);
FROM("next-batch") void topics_next_batch(rusm_share, uint32_t most, uint32_t limited, uint64_t timeout_ms, void *);
FROM("ack-all") void topics_ack_all(rusm_share, const uint64_t *, uint32_t, void *);
FROM("extend") void topics_extend(rusm_share, uint64_t lease, uint64_t by_ms, void *);
FROM("next") void topics_next(rusm_share, uint32_t limited, uint64_t timeout_ms, void *);
FROM("ack") void topics_ack(rusm_share, uint64_t lease, void *);
FROM("nack") void topics_nack(rusm_share, uint64_t lease, void *);
FROM("unsubscribe") bool topics_unsubscribe(rusm_share);

static const rusm_error *error(void) { return result.failed ? &result.error : NULL; }

static const rusm_error *settled(rusm_settled *how) {
    if (!result.failed) *how = result.settled;
    return error();
}

const rusm_error *rusm_topic_publish(rusm_bytes topic, const rusm_topic_message *message) {
    topics_publish(OF(topic), OF_MESSAGE(message), &result);
    return error();
}

const rusm_error *rusm_topic_try_publish(rusm_bytes topic, const rusm_topic_message *message) {
    topics_try_publish(OF(topic), OF_MESSAGE(message), &result);
    return error();
}

const rusm_error *rusm_topic_publish_all(rusm_bytes topic, const rusm_topic_message *messages, uint32_t len) {
    topics_publish_all(OF(topic), messages, len, &result);
    return error();
}

static const rusm_error *shared(rusm_share *share) {
    if (subscribed.failed) return &subscribed.error;
    *share = subscribed.share;
    return NULL;
}

const rusm_error *rusm_topic_subscribe(rusm_bytes topic, rusm_bytes subscription, rusm_share *share) {
    topics_subscribe(OF(topic), OF(subscription), &subscribed);
    return shared(share);
}

const rusm_error *rusm_topic_subscribe_with(rusm_bytes topic, rusm_bytes subscription, const rusm_subscription_options *options,
                                            rusm_share *share) {
    topics_subscribe_with(OF(topic), OF(subscription), options->ordered, options->oldest, options->ack_deadline_ms.some,
                          options->ack_deadline_ms.value, options->dead_letter.some, OF(options->dead_letter.topic),
                          options->dead_letter.attempts_max, &subscribed);
    return shared(share);
}

const rusm_error *rusm_topic_listen(rusm_bytes topic, rusm_overflow overflow, uint32_t most, rusm_share *listener) {
    topics_listen(OF(topic), overflow, most, &subscribed);
    return shared(listener);
}

const rusm_error *rusm_topic_hear(rusm_share listener, uint64_t timeout_ms, rusm_topic_message *message, bool *came) {
    topics_hear(listener, timeout_ms != RUSM_FOREVER, timeout_ms, &heard);
    if (heard.failed) return &heard.error;
    *came = heard.next.some;
    if (*came) *message = heard.next.message;
    return NULL;
}

const rusm_error *rusm_topic_next_batch(rusm_share share, uint32_t most, uint64_t timeout_ms, rusm_leases *leases) {
    topics_next_batch(share, most, timeout_ms != RUSM_FOREVER, timeout_ms, &result);
    if (!result.failed) *leases = result.leases;
    return error();
}

const rusm_error *rusm_topic_ack_all(rusm_share share, const uint64_t *leases, uint32_t len, uint32_t *acked) {
    topics_ack_all(share, leases, len, &result);
    if (!result.failed) *acked = result.count;
    return error();
}

const rusm_error *rusm_topic_extend(rusm_share share, uint64_t lease, uint64_t by_ms, rusm_settled *how) {
    topics_extend(share, lease, by_ms, &result);
    return settled(how);
}

const rusm_error *rusm_topic_next(rusm_share share, uint64_t timeout_ms, rusm_lease *lease, bool *came) {
    topics_next(share, timeout_ms != RUSM_FOREVER, timeout_ms, &received);
    if (received.failed) return &received.error;
    *came = received.next.some;
    if (*came) *lease = received.next.lease;
    return NULL;
}

const rusm_error *rusm_topic_ack(rusm_share share, uint64_t lease, rusm_settled *how) {
    topics_ack(share, lease, &result);
    return settled(how);
}

const rusm_error *rusm_topic_nack(rusm_share share, uint64_t lease, rusm_settled *how) {
    topics_nack(share, lease, &result);
    return settled(how);
}

bool rusm_topic_unsubscribe(rusm_share share) { return topics_unsubscribe(share); }

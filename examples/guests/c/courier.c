/* Forwards messages from one topic of the node to another. A message is acknowledged in the first topic only after it
 * was published to the second, so another courier forwards what a courier had leased when it ended.
 *
 *   FROM --next--> courier --publish--> TO, with key and attributes, and its number as `carried`; then ack
 *     ^               +-- begins with `again`, first attempt --> nack
 *     +---------------+
 *                     +-- `bundle` --> forwards all waiting messages as one batch
 *                     +-- `hear` --> publishes `listening`, then the next message published to FROM, as `heard ...`
 *                     +-- `stop` --> ack, unsubscribe, and publish `N carried` as the last message
 *
 * Arguments: FROM and TO, by default `letters` and `delivered`. The profile must grant both topics.
 */
#include "rusm_topics.h"

/* Maximum number of attributes that are forwarded with a message; further ones are dropped. */
#define ATTRIBUTES_MAX 16

static rusm_bytes failure(const rusm_error *error) {
    static rusm_line line;
    rusm_put_error(&line, error);
    return rusm_text(&line);
}

/* Logs a message that this courier no longer had leased: another courier forwards it again. */
static void said(rusm_settled how) {
    if (how != RUSM_SETTLED_DONE) rusm_warn(RUSM("a letter was not settled"));
}

static const rusm_error *carry(rusm_bytes to, const rusm_topic_message *letter, uint64_t carried) {
    rusm_attribute attributes[ATTRIBUTES_MAX + 1];
    uint32_t brought = letter->attributes.len < ATTRIBUTES_MAX ? letter->attributes.len : ATTRIBUTES_MAX;
    rusm_line number = {0};
    for (uint32_t i = 0; i < brought; i++) attributes[i] = letter->attributes.at[i];
    rusm_put_number(&number, (int64_t)carried);
    attributes[brought] = (rusm_attribute){RUSM("carried"), rusm_text(&number)};
    rusm_topic_message message = *letter;
    message.attributes.at = attributes;
    message.attributes.len = brought + 1;
    return rusm_topic_publish(to, &message);
}

/* Maximum number of messages forwarded as one batch. */
#define BUNDLE_MAX 100

static const rusm_error *bundle(rusm_share letters, rusm_bytes to, uint64_t letter, uint64_t *carried) {
    static rusm_topic_message messages[BUNDLE_MAX];
    static uint64_t ids[BUNDLE_MAX];
    rusm_settled how;
    rusm_leases all;
    uint32_t acked;
    const rusm_error *error = rusm_topic_extend(letters, letter, 1000, &how);
    if (error) return error;
    said(how);
    if ((error = rusm_topic_next_batch(letters, BUNDLE_MAX, RUSM_FOREVER, &all))) return error;
    for (uint32_t i = 0; i < all.len; i++) {
        messages[i] = all.at[i].message;
        ids[i] = all.at[i].id;
    }
    *carried += all.len;
    if ((error = rusm_topic_publish_all(to, messages, all.len))) return error;
    return rusm_topic_ack_all(letters, ids, all.len, &acked);
}

static const rusm_error *hear(rusm_bytes from, rusm_bytes to) {
    rusm_share listener;
    rusm_topic_message heard;
    rusm_line line = {0};
    bool came = false;
    const rusm_error *error = rusm_topic_listen(from, RUSM_OVERFLOW_DROP_OLDEST, 8, &listener);
    if (error) return error;
    error = rusm_topic_publish(to, &(rusm_topic_message){.payload = RUSM("listening")});
    while (!error && !came) error = rusm_topic_hear(listener, RUSM_FOREVER, &heard, &came);
    rusm_topic_unsubscribe(listener);
    if (error) return error;
    rusm_put(&line, RUSM("heard "));
    rusm_put(&line, heard.payload);
    return rusm_topic_publish(to, &(rusm_topic_message){.payload = rusm_text(&line)});
}

static const rusm_error *stop(rusm_share letters, rusm_bytes to, uint64_t carried) {
    rusm_line last = {0};
    rusm_topic_unsubscribe(letters);
    rusm_put_number(&last, (int64_t)carried);
    rusm_put(&last, RUSM(" carried"));
    return rusm_topic_publish(to, &(rusm_topic_message){.payload = rusm_text(&last)});
}

rusm_bytes run(rusm_args args) {
    rusm_bytes from = args.len > 0 ? args.at[0] : RUSM("letters"), to = args.len > 1 ? args.at[1] : RUSM("delivered");
    rusm_share letters;
    rusm_settled how;
    uint64_t carried = 0;
    rusm_label(RUSM("courier"));
    /* Also forward messages published before the first courier started, and keep the order within a key. */
    rusm_subscription_options options = {.ordered = true, .oldest = true, .ack_deadline_ms = {true, 600000}};
    const rusm_error *error = rusm_topic_subscribe_with(from, RUSM("courier"), &options, &letters);
    while (!error) {
        rusm_mark mark = rusm_remember();
        rusm_lease letter;
        bool came;
        if ((error = rusm_topic_next(letters, RUSM_FOREVER, &letter, &came)) || !came) continue;
        if (rusm_equal(letter.message.payload, RUSM("stop"))) {
            if ((error = rusm_topic_ack(letters, letter.id, &how))) break;
            said(how);
            if ((error = stop(letters, to, carried))) break;
            return RUSM_NORMAL;
        }
        if (letter.attempt == 1 && rusm_starts_with(letter.message.payload, RUSM("again"))) {
            error = rusm_topic_nack(letters, letter.id, &how);
        } else if (rusm_equal(letter.message.payload, RUSM("bundle"))) {
            if ((error = bundle(letters, to, letter.id, &carried))) break;
            error = rusm_topic_ack(letters, letter.id, &how);
        } else if (rusm_equal(letter.message.payload, RUSM("hear"))) {
            if ((error = hear(from, to))) break;
            error = rusm_topic_ack(letters, letter.id, &how);
        } else {
            if ((error = carry(to, &letter.message, ++carried))) break;
            error = rusm_topic_ack(letters, letter.id, &how);
        }
        if (!error) said(how);
        rusm_forget(mark);
    }
    return failure(error);
}

/* Carries messages from one topic of the node to another. A message is off the first one only once it is in the second, so
 * one that a courier had when it ended is carried by the next.
 *
 *   FROM --next--> courier --publish--> TO, with key and attributes, and `carried`: how many it was; then ack
 *     ^               +-- `again` in front, at its first attempt --> nack
 *     +---------------+
 *                     +-- `stop` --> ack, give up the share, and `N carried` as the last message
 *
 * Arguments: FROM and TO, `letters` and `delivered` without them; its profile must grant both.
 */
#include "rusm_topics.h"

/* Attributes that a letter may bring along; others stay behind. */
#define ATTRIBUTES_MAX 16

static rusm_bytes failure(const rusm_error *error) {
    static rusm_line line;
    rusm_put_error(&line, error);
    return rusm_text(&line);
}

/* A letter that was taken away meanwhile is carried by somebody else too. */
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
    const rusm_error *error = rusm_topic_subscribe(from, RUSM("courier"), &letters);
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
        } else {
            if ((error = carry(to, &letter.message, ++carried))) break;
            error = rusm_topic_ack(letters, letter.id, &how);
        }
        if (!error) said(how);
        rusm_forget(mark);
    }
    return failure(error);
}

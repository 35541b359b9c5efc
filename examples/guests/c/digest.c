/* A service that computes SHA-2 digests; the node does the arithmetic.
 *
 *   call, tag 0 or 256    bytes --> their SHA-256
 *   call, tag 384, 512    bytes --> their SHA-384, SHA-512
 *   call, tag 1           n (four bytes, little-endian) --> SHA-256 applied n times to 32 zero bytes
 */
#include "rusm.h"

static rusm_line failure;

/* Computes a chain of digests, each of the previous one: much work for one message. */
static const rusm_error *chain(rusm_bytes length, rusm_bytes *reply) {
    static char link[32];
    rusm_mark mark = rusm_remember();
    uint32_t count;
    if (length.len != sizeof(count)) {
        *reply = RUSM("error: the length of a chain has four bytes");
        return NULL;
    }
    __builtin_memcpy(&count, length.at, sizeof(count));
    __builtin_memset(link, 0, sizeof(link));
    for (uint32_t i = 0; i < count; i++) {
        rusm_bytes next;
        const rusm_error *error = rusm_digest(RUSM_SHA256, (rusm_bytes){link, sizeof(link)}, &next);
        if (error) return error;
        __builtin_memcpy(link, next.at, sizeof(link));
        rusm_forget(mark);
    }
    *reply = (rusm_bytes){link, sizeof(link)};
    return NULL;
}

static const rusm_error *answer(const rusm_message *request, rusm_bytes *reply) {
    switch (request->tag) {
        case 0: case 256: return rusm_digest(RUSM_SHA256, request->body, reply);
        case 384: return rusm_digest(RUSM_SHA384, request->body, reply);
        case 512: return rusm_digest(RUSM_SHA512, request->body, reply);
        case 1: return chain(request->body, reply);
        default: *reply = RUSM("error: the tag is none of 0, 1, 256, 384, 512"); return NULL;
    }
}

rusm_bytes run(rusm_args args) {
    rusm_label(RUSM("digest service"));
    rusm_received next;
    for (;;) {
        rusm_receive(&next, RUSM_FOREVER);
        if (next.kind != RUSM_MESSAGE) continue;
        rusm_bytes reply;
        const rusm_error *error = answer(&next.message, &reply);
        if (error) {
            rusm_put_error(&failure, error);
            return rusm_text(&failure);
        }
        rusm_reply(&next.message, reply);
    }
}

/* A service that keeps values in the node's store; large values are sent and received through streams.
 *
 *   call, tag 1    key, 0, value    -->  `kept`
 *   call, tag 2    key              -->  the value
 *   call, tag 3    pid, key         -->  the number of bytes; a stream to that process carries the value
 *   call, tag 4    key, 0, new key  -->  `moved`, unless the key does not exist or the new one does
 *   the end of a stream             its bytes become the value of the key `stream`
 *
 * The values are in the bucket `keeper`, which the profile must grant.
 */
#include "rusm_kv.h"
#include "rusm_streams.h"

#define BUCKET RUSM("keeper")
/* Capacity of a stream in bytes. */
#define CAPACITY 4096
/* Maximum number of bytes of a value received through a stream; a longer value is cut off. */
#define VALUE_MAX 16384

static char streamed[VALUE_MAX];

static void answer_line(const rusm_message *request, rusm_line *line) { rusm_reply(request, rusm_text(line)); }

static void refuse(const rusm_message *request, const char *why, uint32_t len) {
    rusm_line line = {0};
    rusm_put(&line, RUSM("error: "));
    rusm_put(&line, (rusm_bytes){why, len});
    answer_line(request, &line);
}
#define REFUSE(request, why) refuse(request, why, sizeof(why) - 1)

/* Reports an error of the store to the caller; returns true if there was one. */
static bool failed(const rusm_message *request, const rusm_kv_error *error) {
    if (!error) return false;
    rusm_line line = {0};
    rusm_put(&line, RUSM("error: "));
    rusm_put_kv_error(&line, error);
    answer_line(request, &line);
    return true;
}

static bool halves(const rusm_message *request, rusm_bytes *first, rusm_bytes *second) {
    rusm_bytes both = request->body;
    uint32_t end = 0;
    while (end < both.len && both.at[end] != 0) end++;
    if (end == both.len) {
        REFUSE(request, "between key and value there is a byte 0");
        return false;
    }
    *first = (rusm_bytes){both.at, end};
    *second = (rusm_bytes){both.at + end + 1, both.len - end - 1};
    return true;
}

static void keep(const rusm_message *request) {
    rusm_bytes key, value;
    if (!halves(request, &key, &value)) return;
    if (!failed(request, rusm_kv_put(BUCKET, key, value, RUSM_FOREVER))) rusm_reply(request, RUSM("kept"));
}

static bool value_of(const rusm_message *request, rusm_bytes key, rusm_bytes *value) {
    rusm_maybe_bytes maybe;
    if (failed(request, rusm_kv_get(BUCKET, key, &maybe))) return false;
    if (!maybe.some) REFUSE(request, "no such key");
    *value = maybe.value;
    return maybe.some;
}

/* Moves a value atomically: no reader sees it under both keys, or under neither. */
static void move(const rusm_message *request) {
    rusm_bytes from, to, value;
    bool was_done;
    if (!halves(request, &from, &to) || !value_of(request, from, &value)) return;
    rusm_kv_expected expects[] = {{BUCKET, from, {true, value}}, {BUCKET, to, {false, {0}}}};
    rusm_kv_change changes[] = {{BUCKET, to, {true, value}, {false, 0}}, {BUCKET, from, {false, {0}}, {false, 0}}};
    if (failed(request, rusm_kv_commit(expects, 2, changes, 2, &was_done))) return;
    if (was_done) rusm_reply(request, RUSM("moved"));
    else REFUSE(request, "something has changed");
}

/* Replies before it writes: the caller may start to read only after the reply. */
static const rusm_error *give(const rusm_message *request) {
    rusm_pid to;
    rusm_bytes value, body = request->body;
    rusm_stream writer;
    if (body.len < sizeof(to)) {
        REFUSE(request, "a request begins with the twelve bytes of a pid");
        return NULL;
    }
    __builtin_memcpy(&to, body.at, sizeof(to));
    if (!value_of(request, (rusm_bytes){body.at + sizeof(to), body.len - sizeof(to)}, &value)) return NULL;
    rusm_line line = {0};
    const rusm_error *error = rusm_stream_open(to, CAPACITY, &writer);
    if (error) {
        rusm_put(&line, RUSM("error: "));
        rusm_put_error(&line, error);
        answer_line(request, &line);
        return NULL;
    }
    rusm_put_number(&line, value.len);
    answer_line(request, &line);
    error = rusm_stream_write(writer, value);
    rusm_stream_close(writer);
    return error;
}

static const rusm_error *take(rusm_stream reader, uint32_t *len) {
    rusm_bytes part;
    *len = 0;
    do {
        rusm_mark mark = rusm_remember();
        const rusm_error *error = rusm_stream_read(reader, CAPACITY, &part);
        if (error) return error;
        uint32_t room = VALUE_MAX - *len, taken = part.len < room ? part.len : room;
        __builtin_memcpy(streamed + *len, part.at, taken);
        *len += taken;
        rusm_forget(mark);
    } while (part.len > 0);
    return NULL;
}

static void answer(const rusm_message *request) {
    rusm_bytes value;
    switch (request->tag) {
    case 1: keep(request); return;
    case 2:
        if (value_of(request, request->body, &value)) rusm_reply(request, value);
        return;
    case 3: give(request); return; /* ignore the error: the reader may stop before the end */
    case 4: move(request); return;
    default: REFUSE(request, "the tag is none of 1 to 4");
    }
}

rusm_bytes run(rusm_args args) {
    static rusm_line failure;
    rusm_label(RUSM("keeper"));
    for (;;) {
        rusm_received next;
        rusm_stream reader;
        uint32_t len;
        rusm_receive(&next, RUSM_FOREVER);
        if (next.kind == RUSM_MESSAGE) answer(&next.message);
        if (next.kind != RUSM_OPAQUE || !rusm_equal(next.opaque, RUSM_READER) || !rusm_stream_accept(&reader)) continue;
        const rusm_error *error = take(reader, &len);
        rusm_stream_close(reader);
        if (error) {
            rusm_put_error(&failure, error);
            return rusm_text(&failure);
        }
        const rusm_kv_error *unkept = rusm_kv_put(BUCKET, RUSM("stream"), (rusm_bytes){streamed, len}, RUSM_FOREVER);
        if (unkept) {
            rusm_put_kv_error(&failure, unkept);
            return rusm_text(&failure);
        }
    }
}

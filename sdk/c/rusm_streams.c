/* Implements rusm_streams.h on the imports of the world `rusm:runtime/streaming`. */
#include "rusm_streams.h"

/* Result that the node writes at the end of a call. */
static struct {
    bool failed;
    union {
        rusm_error error;
        rusm_bytes bytes;
    };
} result;

static struct {
    bool failed;
    union {
        rusm_error error;
        rusm_stream stream;
    };
} opened;

_Static_assert(sizeof(result) == 20 && offsetof(typeof(result), bytes) == 4, "the layout of the canonical ABI");
_Static_assert(sizeof(opened) == 24 && offsetof(typeof(opened), stream) == 8, "the layout of the canonical ABI");

#define FROM(name) __attribute__((import_module("rusm:runtime/streams@0.1.0"), import_name(name))) extern

FROM("open") void streams_open(uint32_t node, uint32_t slot, uint32_t generation, uint32_t capacity, void *);
FROM("accept") void streams_accept(rusm_maybe_u64 *);
FROM("write") void streams_write(rusm_stream, const char *, uint32_t, void *);
FROM("read") void streams_read(rusm_stream, uint32_t most, void *);
FROM("close") bool streams_close(rusm_stream);

const rusm_error *rusm_stream_open(rusm_pid to, uint32_t capacity, rusm_stream *writer) {
    streams_open(to.node, to.slot, to.generation, capacity, &opened);
    if (opened.failed) return &opened.error;
    *writer = opened.stream;
    return NULL;
}

bool rusm_stream_accept(rusm_stream *stream) {
    rusm_maybe_u64 end;
    streams_accept(&end);
    if (end.some) *stream = end.value;
    return end.some;
}

const rusm_error *rusm_stream_write(rusm_stream stream, rusm_bytes bytes) {
    streams_write(stream, bytes.at, bytes.len, &result);
    return result.failed ? &result.error : NULL;
}

const rusm_error *rusm_stream_read(rusm_stream stream, uint32_t most, rusm_bytes *bytes) {
    streams_read(stream, most, &result);
    if (result.failed) return &result.error;
    *bytes = result.bytes;
    return NULL;
}

bool rusm_stream_close(rusm_stream stream) { return streams_close(stream); }

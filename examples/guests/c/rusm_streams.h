/* Bytes from one process to another, and two ends that notice each other's death. To open one needs the capability
 * `streams`; an end that was given to this process is its own to use. Compile rusm_streams.c as well, and encode with its
 * world:
 *
 *   encode component mine.core.wasm mine.wasm ../../../crates/runtime/wit actor ../../../crates/runtime/wit streaming
 *
 * An end comes as RUSM_OPAQUE with the name RUSM_READER or RUSM_WRITER, and is accepted then. The words are those of
 * crates/runtime/wit/streams.wit.
 */
#ifndef RUSM_STREAMS_H
#define RUSM_STREAMS_H

#include "rusm.h"

#define RUSM_READER RUSM("stream-reader")
#define RUSM_WRITER RUSM("stream-writer")

/* One end, of this process only. */
typedef uint64_t rusm_stream;

/* The end that writes; the other goes to a process. The capacity in bytes is a power of two up to 1,048,576. */
const rusm_error *rusm_stream_open(rusm_pid to, uint32_t capacity, rusm_stream *writer);
/* The oldest end that came and was not accepted yet; false where there is none. */
bool rusm_stream_accept(rusm_stream *stream);
/* Writes all of the bytes, and waits while there is no room for them. */
const rusm_error *rusm_stream_write(rusm_stream stream, rusm_bytes bytes);
/* At most so many bytes, at least one, as soon as there are any; none at the end. They lie in the arena. */
const rusm_error *rusm_stream_read(rusm_stream stream, uint32_t most, rusm_bytes *bytes);
/* Ends the stream if this is the end that writes; false where there was none. */
bool rusm_stream_close(rusm_stream stream);

#endif

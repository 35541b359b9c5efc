/* Byte streams between processes. Each end notices when the other's process ends. Opening a stream needs the capability
 * `streams`; using an end that was sent to this process does not. Compile rusm_streams.c as well, and encode with its
 * world:
 *
 *   encode component mine.core.wasm mine.wasm wit/runtime actor wit/runtime streaming
 *
 * An end is received as RUSM_OPAQUE with the name RUSM_READER or RUSM_WRITER, and must then be accepted. The functions
 * are those of wit/runtime/streams.wit.
 */
#ifndef RUSM_STREAMS_H
#define RUSM_STREAMS_H

#include "rusm.h"

#define RUSM_READER RUSM("stream-reader")
#define RUSM_WRITER RUSM("stream-writer")

/* Id of one end of a stream, valid in this process only. */
typedef uint64_t rusm_stream;

/* Opens a stream and sends the reading end to `to`. `capacity` is in bytes, a power of two up to 1,048,576. */
const rusm_error *rusm_stream_open(rusm_pid to, uint32_t capacity, rusm_stream *writer);
/* Accepts the oldest end that was received and not yet accepted; returns false if there is none. */
bool rusm_stream_accept(rusm_stream *stream);
/* Writes all bytes, and waits while the stream is full. */
const rusm_error *rusm_stream_write(rusm_stream stream, rusm_bytes bytes);
/* Gets at most `most` bytes, and waits until there is at least one; no bytes at the end of the stream. They are in the
 * arena. */
const rusm_error *rusm_stream_read(rusm_stream stream, uint32_t most, rusm_bytes *bytes);
/* Closes an end. A closed writing end ends the stream. Returns false if the end does not exist. */
bool rusm_stream_close(rusm_stream stream);

#endif

/* The durable store of the node. Needs the capability `kv` and a grant of the bucket, on a node that has a store: other
 * nodes do not load a guest that imports the store. Compile rusm_kv.c as well, and encode with its world:
 *
 *   encode component mine.core.wasm mine.wasm wit/runtime actor wit/store storage
 *
 * Data from the node is in the arena, as described in rusm.h. The functions are those of wit/store/kv.wit.
 */
#ifndef RUSM_KV_H
#define RUSM_KV_H

#include "rusm.h"

/* Error of a call into the store, valid until the next call into the store. */
typedef struct {
    enum : uint8_t { RUSM_KV_DENIED, RUSM_KV_INVALID, RUSM_KV_LIMIT, RUSM_KV_FAILED } kind;
    rusm_bytes text;
} rusm_kv_error;

typedef struct {
    rusm_bytes key, value;
} rusm_kv_row;

/* Rows in the order of their keys, and the key after which to continue; no key at the end. */
typedef struct {
    const rusm_kv_row *at;
    uint32_t len;
    rusm_maybe_bytes next;
} rusm_kv_page;

/* Expectation of a commit: the key has this value, or does not exist if there is no value. */
typedef struct {
    rusm_bytes bucket, key;
    rusm_maybe_bytes value;
} rusm_kv_expected;

/* Change of a commit: sets the value of a key, optionally with an expiry. A change without a value deletes the key. */
typedef struct {
    rusm_bytes bucket, key;
    rusm_maybe_bytes value;
    rusm_maybe_u64 lifetime_ms;
} rusm_kv_change;

/* Gets the value of a key, which is absent if the key does not exist. */
const rusm_kv_error *rusm_kv_get(rusm_bytes bucket, rusm_bytes key, rusm_maybe_bytes *value);
/* Sets the value of a key, which expires after `lifetime_ms`, or never with RUSM_FOREVER. Returns once it is as durable
 * as the node is configured to guarantee. */
const rusm_kv_error *rusm_kv_put(rusm_bytes bucket, rusm_bytes key, rusm_bytes value, uint64_t lifetime_ms);
/* Deletes a key; `was_there` is true if it existed. */
const rusm_kv_error *rusm_kv_delete(rusm_bytes bucket, rusm_bytes key, bool *was_there);
/* Sets a key, or deletes it if there is no value, provided that it has the expected value, or does not exist if none is
 * expected. `was_set` is true if it did so. */
const rusm_kv_error *rusm_kv_compare_and_set(rusm_bytes bucket, rusm_bytes key, rusm_maybe_bytes expected,
                                             rusm_maybe_bytes value, bool *was_set);
/* Makes all changes atomically if all expectations hold, otherwise none; `was_done` is true if it made them. */
const rusm_kv_error *rusm_kv_commit(const rusm_kv_expected *expects, uint32_t expects_len, const rusm_kv_change *changes,
                                    uint32_t changes_len, bool *was_done);
/* Gets at most `limit` rows, 1 to 1,000, with keys that begin with `prefix` and follow `after` (empty for the first
 * page). */
const rusm_kv_error *rusm_kv_scan(rusm_bytes bucket, rusm_bytes prefix, rusm_bytes after, uint32_t limit, rusm_kv_page *page);

void rusm_put_kv_error(rusm_line *line, const rusm_kv_error *error);

#endif

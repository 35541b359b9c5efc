/* The durable store of the node. Needs the capability `kv` and a grant of the bucket, on a node that has a store: another
 * one does not load a guest that asks for it. Compile rusm_kv.c as well, and encode with its world:
 *
 *   encode component mine.core.wasm mine.wasm ../../../crates/runtime/wit actor ../../../crates/runtime/wit-kv storage
 *
 * What the node gives lies in the arena, as rusm.h says. The words are those of crates/runtime/wit-kv/kv.wit.
 */
#ifndef RUSM_KV_H
#define RUSM_KV_H

#include "rusm.h"

/* Why the store did nothing; holds until the next call into the store. */
typedef struct {
    enum : uint8_t { RUSM_KV_DENIED, RUSM_KV_INVALID, RUSM_KV_LIMIT, RUSM_KV_FAILED } kind;
    rusm_bytes text;
} rusm_kv_error;

typedef struct {
    rusm_bytes key, value;
} rusm_kv_row;

/* Rows in the order of their keys, and the key to go on after, unless that was all. */
typedef struct {
    const rusm_kv_row *at;
    uint32_t len;
    rusm_maybe_bytes next;
} rusm_kv_page;

/* What a key must have for a commit: this value, or none. */
typedef struct {
    rusm_bytes bucket, key;
    rusm_maybe_bytes value;
} rusm_kv_expected;

/* What a commit does to a key: gives it this value, for so many milliseconds or for good, or takes it away for none. */
typedef struct {
    rusm_bytes bucket, key;
    rusm_maybe_bytes value;
    rusm_maybe_u64 lifetime_ms;
} rusm_kv_change;

/* The value of a key, which may be absent. */
const rusm_kv_error *rusm_kv_get(rusm_bytes bucket, rusm_bytes key, rusm_maybe_bytes *value);
/* For so many milliseconds, or for good with RUSM_FOREVER. Returns when it is as durable as the node promises. */
const rusm_kv_error *rusm_kv_put(rusm_bytes bucket, rusm_bytes key, rusm_bytes value, uint64_t lifetime_ms);
/* Whether it was there. */
const rusm_kv_error *rusm_kv_delete(rusm_bytes bucket, rusm_bytes key, bool *was_there);
/* Gives a key a value, or takes it away for none, if it has the expected one, or none; whether it had. */
const rusm_kv_error *rusm_kv_compare_and_set(rusm_bytes bucket, rusm_bytes key, rusm_maybe_bytes expected,
                                             rusm_maybe_bytes value, bool *was_set);
/* Makes all changes at one instant if every key has what is expected of it, and none of them otherwise; whether it did. */
const rusm_kv_error *rusm_kv_commit(const rusm_kv_expected *expects, uint32_t expects_len, const rusm_kv_change *changes,
                                    uint32_t changes_len, bool *was_done);
/* The rows whose keys begin with `prefix`, after the key `after` (of no bytes for all), at most `limit` of them, 1 to 1,000. */
const rusm_kv_error *rusm_kv_scan(rusm_bytes bucket, rusm_bytes prefix, rusm_bytes after, uint32_t limit, rusm_kv_page *page);

void rusm_put_kv_error(rusm_line *line, const rusm_kv_error *error);

#endif

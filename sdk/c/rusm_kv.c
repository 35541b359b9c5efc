/* Implements rusm_kv.h on the imports of the world `rusm:store/storage`. */
#include "rusm_kv.h"

/* Result that the node writes at the end of a call. */
static struct {
    bool failed;
    union {
        rusm_kv_error error;
        rusm_maybe_bytes value;
        bool yes;
        rusm_kv_page page;
    };
} result;

_Static_assert(sizeof(rusm_kv_error) == 12 && sizeof(rusm_kv_page) == 20, "the layout of the canonical ABI");
_Static_assert(sizeof(rusm_kv_expected) == 28 && sizeof(rusm_kv_change) == 48, "the layout of the canonical ABI");
_Static_assert(sizeof(result) == 24 && offsetof(typeof(result), page) == 4, "the layout of the canonical ABI");

#define FROM(name) __attribute__((import_module("rusm:store/kv@0.1.0"), import_name(name))) extern
#define BYTES const char *, uint32_t
#define MAYBE uint32_t, const char *, uint32_t
#define OF(bytes) (bytes).at, (bytes).len
#define OF_MAYBE(maybe) (maybe).some, (maybe).value.at, (maybe).value.len

FROM("get") void kv_get(BYTES, BYTES, void *);
FROM("put") void kv_put(BYTES, BYTES, BYTES, uint32_t limited, uint64_t lifetime_ms, void *);
FROM("delete") void kv_delete(BYTES, BYTES, void *);
FROM("compare-and-set") void kv_compare_and_set(BYTES, BYTES, MAYBE, MAYBE, void *);
FROM("commit") void kv_commit(const rusm_kv_expected *, uint32_t, const rusm_kv_change *, uint32_t, void *);
FROM("scan") void kv_scan(BYTES, BYTES, BYTES, uint32_t limit, void *);

static const rusm_kv_error *error(void) { return result.failed ? &result.error : NULL; }

static const rusm_kv_error *answer(bool *yes) {
    if (!result.failed) *yes = result.yes;
    return error();
}

const rusm_kv_error *rusm_kv_get(rusm_bytes bucket, rusm_bytes key, rusm_maybe_bytes *value) {
    kv_get(OF(bucket), OF(key), &result);
    if (!result.failed) *value = result.value;
    return error();
}

const rusm_kv_error *rusm_kv_put(rusm_bytes bucket, rusm_bytes key, rusm_bytes value, uint64_t lifetime_ms) {
    kv_put(OF(bucket), OF(key), OF(value), lifetime_ms != RUSM_FOREVER, lifetime_ms, &result);
    return error();
}

const rusm_kv_error *rusm_kv_delete(rusm_bytes bucket, rusm_bytes key, bool *was_there) {
    kv_delete(OF(bucket), OF(key), &result);
    return answer(was_there);
}

const rusm_kv_error *rusm_kv_compare_and_set(rusm_bytes bucket, rusm_bytes key, rusm_maybe_bytes expected,
                                             rusm_maybe_bytes value, bool *was_set) {
    kv_compare_and_set(OF(bucket), OF(key), OF_MAYBE(expected), OF_MAYBE(value), &result);
    return answer(was_set);
}

const rusm_kv_error *rusm_kv_commit(const rusm_kv_expected *expects, uint32_t expects_len, const rusm_kv_change *changes,
                                    uint32_t changes_len, bool *was_done) {
    kv_commit(expects, expects_len, changes, changes_len, &result);
    return answer(was_done);
}

const rusm_kv_error *rusm_kv_scan(rusm_bytes bucket, rusm_bytes prefix, rusm_bytes after, uint32_t limit, rusm_kv_page *page) {
    kv_scan(OF(bucket), OF(prefix), OF(after), limit, &result);
    if (!result.failed) *page = result.page;
    return error();
}

void rusm_put_kv_error(rusm_line *line, const rusm_kv_error *error) {
    static const rusm_bytes words[] = {{"denied: ", 8}, {"invalid: ", 9}, {"limit: ", 7}, {"failed: ", 8}};
    rusm_put(line, words[error->kind]);
    rusm_put(line, error->text);
}

/* Implements rusm.h on the imports of the world `rusm:runtime/actor`, and the world's export `run`. */
#include "rusm.h"

/* ---- Memory: an arena that grows upwards from the end of the program's static data ---- */

#define PAGE 65536u

extern char __heap_base;
static uintptr_t arena_start, arena_end;

/* Allocates memory; the node calls this for each list and text that it passes. */
__attribute__((export_name("cabi_realloc")))
void *cabi_realloc(void *old, size_t old_len, size_t align, size_t len) {
    if (arena_end == 0) arena_end = (uintptr_t)&__heap_base;
    arena_end = (arena_end + align - 1) & ~(align - 1);
    char *block = (char *)arena_end;
    uintptr_t end = arena_end + len, has = (uintptr_t)__builtin_wasm_memory_size(0) * PAGE;
    /* An allocation beyond the memory limit cannot be reported to the node, so end the process. */
    if (end < arena_end) __builtin_trap();
    if (end > has && __builtin_wasm_memory_grow(0, (end - has + PAGE - 1) / PAGE) == (size_t)-1) __builtin_trap();
    arena_end = end;
    if (old_len) __builtin_memcpy(block, old, old_len);
    return block;
}

rusm_mark rusm_remember(void) { return arena_end; }
void rusm_forget(rusm_mark mark) { arena_end = mark; }
rusm_mark rusm_keep(void) { return arena_start = arena_end; }

/* ---- The export; a guest of rusm_http.h has no `run` ---- */

__attribute__((weak)) rusm_bytes run(rusm_args args);

static struct {
    bool failed;
    rusm_bytes words;
} ending;

__attribute__((export_name("run")))
void *rusm_run(const rusm_bytes *args, uint32_t count) {
    rusm_keep(); /* the arguments stay valid */
    ending.words = run((rusm_args){args, count});
    ending.failed = ending.words.at != NULL;
    return &ending;
}

/* ---- Results that the node writes to memory, because they are larger than one number ---- */

typedef struct {
    bool failed;
    union {
        rusm_error error;
        rusm_bytes bytes;
        rusm_pid pid;
    };
} small_result;

typedef struct {
    bool failed;
    union {
        rusm_error error;
        uint64_t number;
        rusm_spawned spawned;
        struct {
            uint64_t monitor;
            rusm_pids members;
        } group;
    };
} large_result;

typedef struct {
    bool some;
    rusm_pid pid;
} maybe_pid;

typedef struct {
    bool some;
    rusm_message message;
} maybe_message;

_Static_assert(sizeof(rusm_exit_reason) == 12, "the layout of the canonical ABI");
_Static_assert(sizeof(rusm_error) == 16, "the layout of the canonical ABI");
_Static_assert(sizeof(rusm_message) == 32, "the layout of the canonical ABI");
_Static_assert(sizeof(rusm_received) == 48 && offsetof(rusm_received, message) == 16, "the layout of the canonical ABI");
_Static_assert(sizeof(small_result) == 20 && offsetof(small_result, bytes) == 4, "the layout of the canonical ABI");
_Static_assert(sizeof(large_result) == 40 && offsetof(large_result, number) == 8, "the layout of the canonical ABI");
_Static_assert(sizeof(maybe_message) == 40, "the layout of the canonical ABI");
_Static_assert(sizeof(rusm_child_spec) == 96 && offsetof(rusm_child_spec, restart) == 72, "the layout of the canonical ABI");

/* Results of the last calls that can fail; the returned errors point into them. */
static small_result small;
static large_result large;

static const rusm_error *small_error(void) { return small.failed ? &small.error : NULL; }
static const rusm_error *large_error(void) { return large.failed ? &large.error : NULL; }

static const rusm_error *small_bytes(rusm_bytes *bytes) {
    if (!small.failed) *bytes = small.bytes;
    return small_error();
}

static const rusm_error *large_number(uint64_t *number) {
    if (!large.failed && number) *number = large.number;
    return large_error();
}

/* ---- The imports, in the order of rusm.wit: records and texts are passed as separate numbers ---- */

#define FROM(interface, name) __attribute__((import_module("rusm:runtime/" interface "@0.1.0"), import_name(name))) extern
#define PID uint32_t node, uint32_t slot, uint32_t generation
#define TEXT const char *at, uint32_t len
#define OF_PID(pid) (pid).node, (pid).slot, (pid).generation
#define OF(bytes) (bytes).at, (bytes).len

FROM("process", "self") void process_self(rusm_pid *);
FROM("process", "parent") void process_parent(maybe_pid *);
FROM("process", "label") void process_label(TEXT);
FROM("process", "spawn") void process_spawn(TEXT, const rusm_bytes *args, uint32_t count, uint32_t ties, uint32_t named,
    const char *name, uint32_t name_len, uint32_t profiled, const char *profile, uint32_t profile_len, uint32_t limited,
    uint64_t memory_max_bytes, large_result *);
FROM("process", "send") void process_send(PID, uint64_t tag, TEXT, small_result *);
FROM("process", "try-send") void process_try_send(PID, uint64_t tag, TEXT, small_result *);
FROM("process", "receive") void process_receive(uint32_t limited, uint64_t timeout_ms, rusm_received *);
FROM("process", "receive-tagged") void process_receive_tagged(uint64_t tag, uint32_t limited, uint64_t timeout_ms, maybe_message *);
FROM("process", "call") void process_call(PID, uint64_t tag, TEXT, uint64_t timeout_ms, small_result *);
FROM("process", "reply") bool process_reply(uint64_t to, TEXT);
FROM("process", "link") void process_link(PID);
FROM("process", "unlink") void process_unlink(PID);
FROM("process", "monitor") uint64_t process_monitor(PID);
FROM("process", "demonitor") bool process_demonitor(uint64_t monitor);
FROM("process", "trap-exits") bool process_trap_exits(bool trap);
FROM("process", "exit") void process_exit(PID, uint32_t kind, TEXT, small_result *);
FROM("process", "sleep") void process_sleep(uint64_t ms);
FROM("process", "yield") void process_yield(void);
FROM("names", "register") void names_register(TEXT, small_result *);
FROM("names", "unregister") void names_unregister(TEXT, small_result *);
FROM("names", "whereis") void names_whereis(TEXT, maybe_pid *);
FROM("groups", "join") void groups_join(TEXT, small_result *);
FROM("groups", "leave") void groups_leave(TEXT, small_result *);
FROM("groups", "members") void groups_members(TEXT, rusm_pids *);
FROM("groups", "monitor") void groups_monitor(TEXT, large_result *);
FROM("groups", "demonitor") bool groups_demonitor(uint64_t monitor);
FROM("timers", "send-after") void timers_send_after(PID, uint64_t ms, uint64_t tag, TEXT, large_result *);
FROM("timers", "send-every") void timers_send_every(PID, uint64_t ms, uint64_t tag, TEXT, large_result *);
FROM("timers", "cancel") void timers_cancel(uint64_t timer, rusm_maybe_u64 *);
FROM("supervisor", "start") void supervisor_start(uint32_t strategy, uint32_t intensity, uint64_t period_ms,
    const rusm_child_spec *, uint32_t count, small_result *);
FROM("clock", "now-ns") uint64_t clock_now_ns(void);
FROM("clock", "unix-ms") uint64_t clock_unix_ms(void);
FROM("log", "line") void log_line(uint32_t level, TEXT);
FROM("random", "bytes") void random_bytes(uint32_t count, small_result *);
FROM("crypto", "digest") void crypto_digest(uint32_t hash, TEXT, small_result *);
FROM("crypto", "hmac") void crypto_hmac(uint32_t hash, const char *key, uint32_t key_len, TEXT, small_result *);

/* ---- Processes ---- */

rusm_pid rusm_self(void) {
    rusm_pid pid;
    process_self(&pid);
    return pid;
}

static bool known(const maybe_pid *maybe, rusm_pid *pid) {
    if (maybe->some) *pid = maybe->pid;
    return maybe->some;
}

bool rusm_parent(rusm_pid *parent) {
    maybe_pid maybe;
    process_parent(&maybe);
    return known(&maybe, parent);
}

void rusm_label(rusm_bytes text) { process_label(OF(text)); }

const rusm_error *rusm_spawn(rusm_bytes module, const rusm_spawn_options *o, rusm_spawned *spawned) {
    process_spawn(OF(module), o->args.at, o->args.len, o->ties, o->name.some, OF(o->name.value), o->profile.some,
                  OF(o->profile.value), o->memory_max_bytes.some, o->memory_max_bytes.value, &large);
    if (!large.failed) *spawned = large.spawned;
    return large_error();
}

const rusm_error *rusm_send(rusm_pid to, uint64_t tag, rusm_bytes body) {
    process_send(OF_PID(to), tag, OF(body), &small);
    return small_error();
}

const rusm_error *rusm_try_send(rusm_pid to, uint64_t tag, rusm_bytes body) {
    process_try_send(OF_PID(to), tag, OF(body), &small);
    return small_error();
}

bool rusm_receive(rusm_received *next, uint64_t timeout_ms) {
    arena_end = arena_start;
    process_receive(timeout_ms != RUSM_FOREVER, timeout_ms, next);
    return next->some;
}

bool rusm_receive_tagged(rusm_message *message, uint64_t tag, uint64_t timeout_ms) {
    maybe_message maybe;
    process_receive_tagged(tag, timeout_ms != RUSM_FOREVER, timeout_ms, &maybe);
    if (maybe.some) *message = maybe.message;
    return maybe.some;
}

const rusm_error *rusm_call(rusm_pid to, uint64_t tag, rusm_bytes body, uint64_t timeout_ms, rusm_bytes *reply) {
    process_call(OF_PID(to), tag, OF(body), timeout_ms, &small);
    return small_bytes(reply);
}

bool rusm_reply(const rusm_message *request, rusm_bytes body) {
    return request->reply_to.some && process_reply(request->reply_to.value, OF(body));
}

void rusm_link(rusm_pid other) { process_link(OF_PID(other)); }
void rusm_unlink(rusm_pid other) { process_unlink(OF_PID(other)); }
uint64_t rusm_monitor(rusm_pid target) { return process_monitor(OF_PID(target)); }
bool rusm_demonitor(uint64_t monitor) { return process_demonitor(monitor); }
bool rusm_trap_exits(bool trap) { return process_trap_exits(trap); }

const rusm_error *rusm_exit(rusm_pid target, rusm_exit_reason reason) {
    process_exit(OF_PID(target), reason.kind, OF(reason.text), &small);
    return small_error();
}

void rusm_sleep(uint64_t ms) { process_sleep(ms); }
void rusm_yield(void) { process_yield(); }

/* ---- Names, groups, timers, supervisors ---- */

const rusm_error *rusm_register(rusm_bytes name) {
    names_register(OF(name), &small);
    return small_error();
}

const rusm_error *rusm_unregister(rusm_bytes name) {
    names_unregister(OF(name), &small);
    return small_error();
}

bool rusm_whereis(rusm_bytes name, rusm_pid *pid) {
    maybe_pid maybe;
    names_whereis(OF(name), &maybe);
    return known(&maybe, pid);
}

const rusm_error *rusm_join(rusm_bytes group) {
    groups_join(OF(group), &small);
    return small_error();
}

const rusm_error *rusm_leave(rusm_bytes group) {
    groups_leave(OF(group), &small);
    return small_error();
}

rusm_pids rusm_members(rusm_bytes group) {
    rusm_pids members;
    groups_members(OF(group), &members);
    return members;
}

const rusm_error *rusm_monitor_group(rusm_bytes group, uint64_t *monitor, rusm_pids *members) {
    groups_monitor(OF(group), &large);
    if (!large.failed) {
        *monitor = large.group.monitor;
        *members = large.group.members;
    }
    return large_error();
}

bool rusm_demonitor_group(uint64_t monitor) { return groups_demonitor(monitor); }

const rusm_error *rusm_send_after(rusm_pid to, uint64_t delay_ms, uint64_t tag, rusm_bytes body, uint64_t *timer) {
    timers_send_after(OF_PID(to), delay_ms, tag, OF(body), &large);
    return large_number(timer);
}

const rusm_error *rusm_send_every(rusm_pid to, uint64_t period_ms, uint64_t tag, rusm_bytes body, uint64_t *timer) {
    timers_send_every(OF_PID(to), period_ms, tag, OF(body), &large);
    return large_number(timer);
}

bool rusm_cancel(uint64_t timer, uint64_t *left_ms) {
    rusm_maybe_u64 left;
    timers_cancel(timer, &left);
    if (left.some) *left_ms = left.value;
    return left.some;
}

const rusm_error *rusm_supervise(rusm_strategy strategy, uint32_t intensity, uint64_t period_ms,
                                 const rusm_child_spec *children, uint32_t count, rusm_pid *supervisor) {
    supervisor_start(strategy, intensity, period_ms, children, count, &small);
    if (!small.failed) *supervisor = small.pid;
    return small_error();
}

/* ---- Time, log, random bytes, digests ---- */

uint64_t rusm_now_ns(void) { return clock_now_ns(); }
uint64_t rusm_unix_ms(void) { return clock_unix_ms(); }

void rusm_log_error(rusm_bytes line) { log_line(0, OF(line)); }
void rusm_warn(rusm_bytes line) { log_line(1, OF(line)); }
void rusm_info(rusm_bytes line) { log_line(2, OF(line)); }
void rusm_debug(rusm_bytes line) { log_line(3, OF(line)); }

const rusm_error *rusm_random(uint32_t count, rusm_bytes *bytes) {
    random_bytes(count, &small);
    return small_bytes(bytes);
}

const rusm_error *rusm_digest(rusm_hash hash, rusm_bytes data, rusm_bytes *digest) {
    crypto_digest(hash, OF(data), &small);
    return small_bytes(digest);
}

const rusm_error *rusm_hmac(rusm_hash hash, rusm_bytes key, rusm_bytes data, rusm_bytes *mac) {
    crypto_hmac(hash, OF(key), OF(data), &small);
    return small_bytes(mac);
}

/* ---- Text ---- */

void rusm_put(rusm_line *line, rusm_bytes text) {
    uint32_t room = sizeof(line->at) - line->len, len = text.len < room ? text.len : room;
    __builtin_memcpy(line->at + line->len, text.at, len);
    line->len += len;
}

void rusm_put_number(rusm_line *line, int64_t number) {
    char digits[20];
    uint32_t at = sizeof(digits);
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (number < 0) digits[--at] = '-';
    rusm_put(line, (rusm_bytes){digits + at, sizeof(digits) - at});
}

void rusm_put_pid(rusm_line *line, rusm_pid pid) {
    rusm_put(line, RUSM("<"));
    rusm_put_number(line, pid.node);
    rusm_put(line, RUSM("."));
    rusm_put_number(line, pid.slot);
    rusm_put(line, RUSM("."));
    rusm_put_number(line, pid.generation);
    rusm_put(line, RUSM(">"));
}

void rusm_put_reason(rusm_line *line, const rusm_exit_reason *reason) {
    static const rusm_bytes words[] = {{"normal", 6}, {"shutdown", 8}, {"shutdown: ", 10}, {"killed", 6},
        {"no such process", 15}, {"no connection", 13}, {"panic: ", 7}, {"", 0}};
    rusm_put(line, words[reason->kind]);
    if (reason->kind == RUSM_EXIT_SHUTDOWN_WITH || reason->kind >= RUSM_EXIT_PANIC) rusm_put(line, reason->text);
}

void rusm_put_error(rusm_line *line, const rusm_error *error) {
    static const rusm_bytes words[] = {{"denied: this process lacks the capability ", 42}, {"no such process", 15},
        {"the receiver's mailbox is full", 30}, {"no answer in time", 17}, {"the callee ended: ", 18}, {"no such: ", 9},
        {"taken: ", 7}, {"limit: ", 7}, {"invalid: ", 9}};
    rusm_put(line, words[error->kind]);
    if (error->kind == RUSM_CALLEE_EXITED) rusm_put_reason(line, &error->exit);
    if (error->kind == RUSM_DENIED || error->kind >= RUSM_NO_SUCH) rusm_put(line, error->text);
}

rusm_bytes rusm_text(const rusm_line *line) { return (rusm_bytes){line->at, line->len}; }

bool rusm_starts_with(rusm_bytes text, rusm_bytes start) {
    if (text.len < start.len) return false;
    for (uint32_t i = 0; i < start.len; i++) {
        if (text.at[i] != start.at[i]) return false;
    }
    return true;
}

bool rusm_equal(rusm_bytes a, rusm_bytes b) { return a.len == b.len && rusm_starts_with(a, b); }

bool rusm_number(rusm_bytes text, int64_t *number) {
    uint32_t at = text.len > 0 && text.at[0] == '-';
    /* Eighteen digits always fit into an int64_t. */
    if (at == text.len || text.len - at > 18) return false;
    int64_t value = 0;
    for (uint32_t i = at; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') return false;
        value = value * 10 + (text.at[i] - '0');
    }
    *number = at ? -value : value;
    return true;
}

/* What a guest in C needs to be a process of a rusm node.
 *
 *   #include "rusm.h"
 *
 *   rusm_bytes run(rusm_args args) {
 *       rusm_info(RUSM("hello"));
 *       return RUSM_NORMAL;
 *   }
 *
 * Compile it together with rusm.c; there is no libc below. Everything that waits suspends this process and nothing else.
 *
 * Memory: what the node gives (bodies, texts, lists) lies in an arena that `rusm_receive` empties, so it holds until the
 * next `rusm_receive`, or the `rusm_forget` of a mark made before. Copy what has to last. The arguments do.
 *
 * Errors: a function that can fail returns NULL, or why it did not do it. That holds until the next call that can fail.
 *
 * The structs have the very layout in which the node reads and writes them (the canonical ABI of WebAssembly
 * components); rusm.c checks their sizes. The words are those of crates/runtime/wit/rusm.wit.
 */
#ifndef RUSM_H
#define RUSM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text or bytes: where they begin and how many they are. No zero at the end. */
typedef struct {
    const char *at;
    uint32_t len;
} rusm_bytes;

/* A literal as bytes. */
#define RUSM(literal) ((rusm_bytes){(literal), sizeof(literal) - 1})

/* What `run` returns for a normal end; anything else becomes the exit reason. */
#define RUSM_NORMAL ((rusm_bytes){NULL, 0})

/* The arguments of a process. */
typedef struct {
    const rusm_bytes *at;
    uint32_t len;
} rusm_args;

/* Yours: the process, from its first instruction to its last. */
rusm_bytes run(rusm_args args);

/* ---- Words ---- */

/* The address of a process. Twelve bytes in a message: the same in all SDKs. */
typedef struct {
    uint32_t node, slot, generation;
} rusm_pid;

typedef struct {
    const rusm_pid *at;
    uint32_t len;
} rusm_pids;

/* Why a process ended. The text belongs to SHUTDOWN_WITH, PANIC and OTHER. */
typedef struct {
    enum : uint8_t {
        RUSM_EXIT_NORMAL,
        RUSM_EXIT_SHUTDOWN,
        RUSM_EXIT_SHUTDOWN_WITH,
        RUSM_EXIT_KILLED,
        RUSM_EXIT_NO_PROCESS,
        RUSM_EXIT_NO_CONNECTION,
        RUSM_EXIT_PANIC,
        RUSM_EXIT_OTHER,
    } kind;
    rusm_bytes text;
} rusm_exit_reason;

/* Why something was not done. `exit` belongs to CALLEE_EXITED, the text to DENIED and all from NO_SUCH on. */
typedef struct {
    enum : uint8_t {
        RUSM_DENIED,
        RUSM_NO_PROCESS,
        RUSM_MAILBOX_FULL,
        RUSM_TIMED_OUT,
        RUSM_CALLEE_EXITED,
        RUSM_NO_SUCH,
        RUSM_TAKEN,
        RUSM_LIMIT,
        RUSM_INVALID,
    } kind;
    union {
        rusm_bytes text;
        rusm_exit_reason exit;
    };
} rusm_error;

/* Something that may be absent. */
typedef struct {
    bool some;
    uint64_t value;
} rusm_maybe_u64;

typedef struct {
    bool some;
    rusm_bytes value;
} rusm_maybe_bytes;

/* What one process sent to another; `reply_to` is set where the sender waits in `rusm_call`. */
typedef struct {
    uint64_t tag;
    rusm_bytes body;
    rusm_maybe_u64 reply_to;
} rusm_message;

/* The next thing in a mailbox. */
typedef struct {
    bool some;
    _Alignas(8) enum : uint8_t {
        RUSM_MESSAGE,
        RUSM_EXIT,   /* an exit signal, while exits are trapped */
        RUSM_DOWN,   /* a monitor has fired */
        RUSM_GROUP,  /* a group has changed */
        RUSM_OPAQUE, /* a native process sent a value that is not bytes */
    } kind;
    union {
        rusm_message message;
        struct {
            rusm_pid from;
            rusm_exit_reason reason;
        } exit;
        struct {
            uint64_t monitor;
            rusm_pid pid;
            rusm_exit_reason reason;
        } down;
        struct {
            uint64_t monitor;
            rusm_bytes group;
            rusm_pid pid;
            bool joined;
        } group;
        rusm_bytes opaque;
    };
} rusm_received;

/* ---- Processes ---- */

#define RUSM_FOREVER UINT64_MAX

rusm_pid rusm_self(void);
/* False where no process started this one. */
bool rusm_parent(rusm_pid *parent);
/* What the observer shows beside the pid. */
void rusm_label(rusm_bytes text);

/* How a new process is to run; {0} leaves everything as in this one. */
typedef struct {
    rusm_args args;
    enum : uint8_t { RUSM_LINK = 1, RUSM_MONITOR = 2 } ties; /* either, or both added */
    rusm_maybe_bytes name;
    rusm_maybe_bytes profile;
    rusm_maybe_u64 memory_max_bytes;
} rusm_spawn_options;

typedef struct {
    rusm_pid pid;
    rusm_maybe_u64 monitor;
} rusm_spawned;

/* From a module that the node knows by this name; RUSM("") is the module of this process. */
const rusm_error *rusm_spawn(rusm_bytes module, const rusm_spawn_options *options, rusm_spawned *spawned);

/* Waits while the receiver's mailbox is full; to a process that is gone it does nothing. */
const rusm_error *rusm_send(rusm_pid to, uint64_t tag, rusm_bytes body);
/* Sends, or says at once why not. */
const rusm_error *rusm_try_send(rusm_pid to, uint64_t tag, rusm_bytes body);

/* The next thing, oldest first; false after so many milliseconds, 0 only looks. Empties the arena. */
bool rusm_receive(rusm_received *next, uint64_t timeout_ms);
/* The oldest message with this tag; all else stays. Does not empty the arena. */
bool rusm_receive_tagged(rusm_message *message, uint64_t tag, uint64_t timeout_ms);

/* Sends a request and waits for its reply. */
const rusm_error *rusm_call(rusm_pid to, uint64_t tag, rusm_bytes body, uint64_t timeout_ms, rusm_bytes *reply);
/* Answers a caller; false where nobody waits, or no longer. */
bool rusm_reply(const rusm_message *request, rusm_bytes body);

void rusm_link(rusm_pid other);
void rusm_unlink(rusm_pid other);
uint64_t rusm_monitor(rusm_pid target);
bool rusm_demonitor(uint64_t monitor);
/* Returns what held before. */
bool rusm_trap_exits(bool trap);
const rusm_error *rusm_exit(rusm_pid target, rusm_exit_reason reason);
void rusm_sleep(uint64_t ms);
void rusm_yield(void);

/* ---- Names, groups, timers ---- */

const rusm_error *rusm_register(rusm_bytes name);
const rusm_error *rusm_unregister(rusm_bytes name);
bool rusm_whereis(rusm_bytes name, rusm_pid *pid);

const rusm_error *rusm_join(rusm_bytes group);
const rusm_error *rusm_leave(rusm_bytes group);
rusm_pids rusm_members(rusm_bytes group);
const rusm_error *rusm_monitor_group(rusm_bytes group, uint64_t *monitor, rusm_pids *members);
bool rusm_demonitor_group(uint64_t monitor);

const rusm_error *rusm_send_after(rusm_pid to, uint64_t delay_ms, uint64_t tag, rusm_bytes body, uint64_t *timer);
const rusm_error *rusm_send_every(rusm_pid to, uint64_t period_ms, uint64_t tag, rusm_bytes body, uint64_t *timer);
/* False where it had fired; else the milliseconds that were left. */
bool rusm_cancel(uint64_t timer, uint64_t *left_ms);

/* ---- Supervisors ---- */

typedef enum { RUSM_ONE_FOR_ONE, RUSM_ONE_FOR_ALL, RUSM_REST_FOR_ONE } rusm_strategy;

typedef struct {
    rusm_bytes id;
    rusm_bytes module;
    rusm_spawn_options options; /* without ties */
    enum : uint8_t { RUSM_PERMANENT, RUSM_TRANSIENT, RUSM_TEMPORARY } restart;
    rusm_maybe_u64 shutdown_ms; /* absent waits for ever, 0 kills at once */
} rusm_child_spec;

/* Linked to this process. More than `intensity` restarts within `period_ms` end it. */
const rusm_error *rusm_supervise(rusm_strategy strategy, uint32_t intensity, uint64_t period_ms,
                                 const rusm_child_spec *children, uint32_t count, rusm_pid *supervisor);

/* ---- Time, log, chance, digests ---- */

uint64_t rusm_now_ns(void);
uint64_t rusm_unix_ms(void);

void rusm_log_error(rusm_bytes line);
void rusm_warn(rusm_bytes line);
void rusm_info(rusm_bytes line);
void rusm_debug(rusm_bytes line);

const rusm_error *rusm_random(uint32_t count, rusm_bytes *bytes);

typedef enum { RUSM_SHA256, RUSM_SHA384, RUSM_SHA512 } rusm_hash;
const rusm_error *rusm_digest(rusm_hash hash, rusm_bytes data, rusm_bytes *digest);
const rusm_error *rusm_hmac(rusm_hash hash, rusm_bytes key, rusm_bytes data, rusm_bytes *mac);

/* ---- Memory: for a loop that asks the node for much before it receives again ---- */

typedef uintptr_t rusm_mark;

rusm_mark rusm_remember(void);
/* What the node gave since then holds no longer. */
void rusm_forget(rusm_mark mark);

/* ---- Text: a line that is written piece by piece; what does not fit is cut off ---- */

typedef struct {
    char at[240];
    uint32_t len;
} rusm_line;

void rusm_put(rusm_line *line, rusm_bytes text);
void rusm_put_number(rusm_line *line, int64_t number);
void rusm_put_pid(rusm_line *line, rusm_pid pid);
void rusm_put_reason(rusm_line *line, const rusm_exit_reason *reason);
void rusm_put_error(rusm_line *line, const rusm_error *error);
rusm_bytes rusm_text(const rusm_line *line);

bool rusm_equal(rusm_bytes a, rusm_bytes b);
bool rusm_starts_with(rusm_bytes text, rusm_bytes start);
/* A whole decimal number, with or without a minus; false for anything else. */
bool rusm_number(rusm_bytes text, int64_t *number);

#endif

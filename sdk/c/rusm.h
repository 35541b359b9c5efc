/* SDK for guests in C: processes of a rusm node.
 *
 *   #include "rusm.h"
 *
 *   rusm_bytes run(rusm_args args) {
 *       rusm_info(RUSM("hello"));
 *       return RUSM_NORMAL;
 *   }
 *
 * Compile it together with rusm.c; there is no libc. A call that waits suspends this process only.
 *
 * Memory: data from the node (bodies, texts, lists) is in an arena that `rusm_receive` empties. It is valid until the
 * next `rusm_receive`, or until `rusm_forget` with an older mark. Copy what must last longer. The arguments stay valid.
 *
 * Errors: a function that can fail returns NULL, or the error. The error is valid until the next call that can fail.
 *
 * The structs have the layout in which the node reads and writes them (the canonical ABI of WebAssembly components);
 * rusm.c checks their sizes. The functions are those of wit/runtime/rusm.wit.
 */
#ifndef RUSM_H
#define RUSM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text or bytes: their address and their number. Not terminated by a zero. */
typedef struct {
    const char *at;
    uint32_t len;
} rusm_bytes;

/* Converts a string literal to bytes. */
#define RUSM(literal) ((rusm_bytes){(literal), sizeof(literal) - 1})

/* Return value of `run` for a normal end; any other value becomes the exit reason. */
#define RUSM_NORMAL ((rusm_bytes){NULL, 0})

/* The arguments of a process. */
typedef struct {
    const rusm_bytes *at;
    uint32_t len;
} rusm_args;

/* Runs the process from its first instruction to its last. The guest defines this function. */
rusm_bytes run(rusm_args args);

/* ---- Types ---- */

/* Address of a process. All SDKs encode it in a message as these twelve bytes. */
typedef struct {
    uint32_t node, slot, generation;
} rusm_pid;

typedef struct {
    const rusm_pid *at;
    uint32_t len;
} rusm_pids;

/* Reason why a process ended. The text is set for SHUTDOWN_WITH, PANIC and OTHER. */
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

/* Error of a call. `exit` is set for CALLEE_EXITED; the text is set for DENIED and for all kinds from NO_SUCH on. */
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

/* Optional values. */
typedef struct {
    bool some;
    uint64_t value;
} rusm_maybe_u64;

typedef struct {
    bool some;
    rusm_bytes value;
} rusm_maybe_bytes;

/* A message from another process; `reply_to` is set if the sender waits in `rusm_call`. */
typedef struct {
    uint64_t tag;
    rusm_bytes body;
    rusm_maybe_u64 reply_to;
} rusm_message;

/* The next item in the mailbox. */
typedef struct {
    bool some;
    _Alignas(8) enum : uint8_t {
        RUSM_MESSAGE,
        RUSM_EXIT,   /* an exit signal; delivered only while exits are trapped */
        RUSM_DOWN,   /* a monitored process ended */
        RUSM_GROUP,  /* a monitored group changed */
        RUSM_OPAQUE, /* a value that is not bytes, sent by a native process */
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
/* Sets `parent`; returns false if no process started this one. */
bool rusm_parent(rusm_pid *parent);
/* Sets the label that the observer shows beside the pid. */
void rusm_label(rusm_bytes text);

/* Options of a new process; {0} leaves all values as in this process. */
typedef struct {
    rusm_args args;
    enum : uint8_t { RUSM_LINK = 1, RUSM_MONITOR = 2 } ties; /* RUSM_LINK, RUSM_MONITOR, or their sum */
    rusm_maybe_bytes name;
    rusm_maybe_bytes profile;
    rusm_maybe_u64 memory_max_bytes;
} rusm_spawn_options;

typedef struct {
    rusm_pid pid;
    rusm_maybe_u64 monitor;
} rusm_spawned;

/* Starts a process of the module with this name; RUSM("") stands for the module of this process. */
const rusm_error *rusm_spawn(rusm_bytes module, const rusm_spawn_options *options, rusm_spawned *spawned);

/* Sends bytes, and waits while the receiver's mailbox is full. Does nothing if the process has ended. */
const rusm_error *rusm_send(rusm_pid to, uint64_t tag, rusm_bytes body);
/* Sends bytes, or returns an error immediately if that is not possible. */
const rusm_error *rusm_try_send(rusm_pid to, uint64_t tag, rusm_bytes body);

/* Gets the oldest item in the mailbox; returns false after the timeout. 0 does not wait. Empties the arena. */
bool rusm_receive(rusm_received *next, uint64_t timeout_ms);
/* Gets the oldest message with this tag; all other items stay in the mailbox. Does not empty the arena. */
bool rusm_receive_tagged(rusm_message *message, uint64_t tag, uint64_t timeout_ms);

/* Sends a request and waits for its reply. */
const rusm_error *rusm_call(rusm_pid to, uint64_t tag, rusm_bytes body, uint64_t timeout_ms, rusm_bytes *reply);
/* Answers a caller; returns false if no caller waits, or no longer waits. */
bool rusm_reply(const rusm_message *request, rusm_bytes body);

void rusm_link(rusm_pid other);
void rusm_unlink(rusm_pid other);
uint64_t rusm_monitor(rusm_pid target);
bool rusm_demonitor(uint64_t monitor);
/* If true, exit signals arrive as RUSM_EXIT instead of ending this process. Returns the previous setting. */
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
/* Cancels a timer; returns false if it had fired, otherwise sets the milliseconds that were left. */
bool rusm_cancel(uint64_t timer, uint64_t *left_ms);

/* ---- Supervisors ---- */

typedef enum { RUSM_ONE_FOR_ONE, RUSM_ONE_FOR_ALL, RUSM_REST_FOR_ONE } rusm_strategy;

typedef struct {
    rusm_bytes id;
    rusm_bytes module;
    rusm_spawn_options options; /* `ties` must be empty */
    enum : uint8_t { RUSM_PERMANENT, RUSM_TRANSIENT, RUSM_TEMPORARY } restart;
    rusm_maybe_u64 shutdown_ms; /* absent: waits without a limit; 0: kills immediately */
} rusm_child_spec;

/* Starts a supervisor linked to this process. More than `intensity` restarts within `period_ms` end the supervisor. */
const rusm_error *rusm_supervise(rusm_strategy strategy, uint32_t intensity, uint64_t period_ms,
                                 const rusm_child_spec *children, uint32_t count, rusm_pid *supervisor);

/* ---- Time, log, random bytes, digests ---- */

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

/* ---- Memory: for loops that get much data from the node without calling rusm_receive ---- */

typedef uintptr_t rusm_mark;

rusm_mark rusm_remember(void);
/* Frees the data that the node has returned since `mark`. */
void rusm_forget(rusm_mark mark);
/* Keeps the data that the node has returned until now: `rusm_receive` does not free it. */
rusm_mark rusm_keep(void);

/* ---- Text: a line that is appended to piece by piece; text that does not fit is cut off ---- */

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
/* Parses a decimal integer of at most 18 digits, with an optional minus; returns false for any other text. */
bool rusm_number(rusm_bytes text, int64_t *number);

#endif

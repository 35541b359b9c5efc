/* Two processes send a number back and forth.
 *
 *   pinger -- pid of the pinger, number --> ponger
 *          <------------ number -----------
 *
 * Without arguments it starts its own ponger and runs the pinger; with the argument `pong` it runs only the ponger.
 */
#include "rusm.h"

/* Default number of round trips; the first argument overrides it. */
static const int64_t ROUND_TRIPS = 10000;

/* Text of an error, in static memory so that `run` can return it. */
static rusm_line failure;

static rusm_bytes failed(const rusm_error *error) {
    rusm_put_error(&failure, error);
    return rusm_text(&failure);
}

static rusm_message next_message(void) {
    rusm_received next;
    do rusm_receive(&next, RUSM_FOREVER);
    while (next.kind != RUSM_MESSAGE);
    return next.message;
}

/* Sends the bytes after the pid back to that pid. */
static rusm_bytes pong(void) {
    rusm_label(RUSM("ponger"));
    for (;;) {
        rusm_bytes ping = next_message().body;
        rusm_pid from;
        if (ping.len < sizeof(from)) return RUSM("a ping begins with the twelve bytes of a pid");
        __builtin_memcpy(&from, ping.at, sizeof(from));
        rusm_bytes rest = {ping.at + sizeof(from), ping.len - sizeof(from)};
        const rusm_error *error = rusm_send(from, 0, rest);
        if (error) return failed(error);
    }
}

/* A message does not carry its sender: include the pid for the reply. */
struct __attribute__((packed)) ping {
    rusm_pid from;
    int64_t number;
};

static rusm_bytes ping(int64_t round_trips) {
    const rusm_bytes role[] = {RUSM("pong")};
    const rusm_spawn_options options = {.args = {role, 1}, .ties = RUSM_LINK};
    rusm_spawned ponger;
    const rusm_error *error = rusm_spawn(RUSM(""), &options, &ponger);
    if (error) return failed(error);

    uint64_t started_ns = rusm_now_ns();
    struct ping ping = {.from = rusm_self()};
    for (; ping.number < round_trips; ping.number++) {
        error = rusm_send(ponger.pid, 0, (rusm_bytes){(char *)&ping, sizeof(ping)});
        if (error) return failed(error);
        rusm_bytes pong = next_message().body;
        rusm_bytes expected = {(char *)&ping.number, sizeof(ping.number)};
        if (!rusm_equal(pong, expected)) return RUSM("a number came back as another");
    }

    rusm_line line = {0};
    rusm_put_number(&line, round_trips);
    rusm_put(&line, RUSM(" round trips in "));
    rusm_put_number(&line, (int64_t)((rusm_now_ns() - started_ns) / 1000));
    rusm_put(&line, RUSM(" us"));
    rusm_info(rusm_text(&line));
    rusm_unlink(ponger.pid);
    error = rusm_exit(ponger.pid, (rusm_exit_reason){.kind = RUSM_EXIT_SHUTDOWN});
    return error ? failed(error) : RUSM_NORMAL;
}

rusm_bytes run(rusm_args args) {
    int64_t round_trips = ROUND_TRIPS;
    if (args.len > 0 && rusm_equal(args.at[0], RUSM("pong"))) return pong();
    if (args.len > 0 && !rusm_number(args.at[0], &round_trips)) return RUSM("the argument is no number of round trips");
    return ping(round_trips);
}

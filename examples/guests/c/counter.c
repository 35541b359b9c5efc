/* A supervised server with state, called by its registered name.
 *
 *   run --> supervisor --> counter      "add 2" --> "2", "add 3" --> "5", "get" --> "5"
 *                             x         "crash": it exits, is restarted, and counts from 0
 *
 * Without arguments it demonstrates all of this; with the argument `serve` it runs only the counter.
 */
#include "rusm.h"

static const uint64_t PATIENCE_MS = 5000;
#define NAME RUSM("counter")

/* Text of an error, in static memory so that `run` can return it. */
static rusm_line failure;

static rusm_bytes failed(const rusm_error *error) {
    rusm_put_error(&failure, error);
    return rusm_text(&failure);
}

static void answer(const rusm_message *request, int64_t count) {
    rusm_line label = {0}, reply = {0};
    rusm_put(&label, RUSM("counter at "));
    rusm_put_number(&label, count);
    rusm_label(rusm_text(&label));
    rusm_put_number(&reply, count);
    rusm_reply(request, rusm_text(&reply));
}

/* Runs the server. Its state is a local variable of its loop. */
static rusm_bytes serve(void) {
    int64_t count = 0, amount;
    rusm_received next;
    for (;;) {
        rusm_receive(&next, RUSM_FOREVER);
        if (next.kind != RUSM_MESSAGE) continue;
        rusm_bytes request = next.message.body;

        if (rusm_equal(request, RUSM("crash"))) {
            rusm_put(&failure, RUSM("told to crash at "));
            rusm_put_number(&failure, count);
            return rusm_text(&failure);
        }
        if (rusm_equal(request, RUSM("get"))) {
            answer(&next.message, count);
        } else if (rusm_starts_with(request, RUSM("add ")) &&
                   rusm_number((rusm_bytes){request.at + 4, request.len - 4}, &amount)) {
            answer(&next.message, count += amount);
        } else {
            rusm_reply(&next.message, RUSM("error: it is none of add NUMBER, get, crash"));
        }
    }
}

/* Waits for the counter and sets its pid: after a crash its name is free until the supervisor has restarted it. */
static bool find(rusm_pid *counter) {
    for (uint64_t waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms++) {
        if (rusm_whereis(NAME, counter)) return true;
        rusm_sleep(1);
    }
    return false;
}

/* Sends a request and logs the reply or the error. */
static bool ask(rusm_pid counter, rusm_bytes request) {
    rusm_bytes reply;
    const rusm_error *error = rusm_call(counter, 0, request, PATIENCE_MS, &reply);
    rusm_line line = {0};
    rusm_put_pid(&line, counter);
    rusm_put(&line, RUSM(", "));
    rusm_put(&line, request);
    rusm_put(&line, RUSM(": "));
    if (error) rusm_put_error(&line, error);
    else rusm_put(&line, reply);
    rusm_info(rusm_text(&line));
    return error == NULL;
}

/* Runs a client of the server. */
static rusm_bytes show(void) {
    const rusm_bytes role[] = {RUSM("serve")};
    const rusm_child_spec child = {
        .id = NAME,
        .options = {.args = {role, 1}, .name = {true, NAME}},
        .restart = RUSM_PERMANENT,
        .shutdown_ms = {true, 5000},
    };
    rusm_pid supervisor, counter;
    const rusm_error *error = rusm_supervise(RUSM_ONE_FOR_ONE, 3, 5000, &child, 1, &supervisor);
    if (error) return failed(error);

    if (!find(&counter)) return RUSM("there is no counter");
    if (!ask(counter, RUSM("add 2")) || !ask(counter, RUSM("add 3"))) return RUSM("the counter does not count");
    ask(counter, RUSM("crash"));
    if (!find(&counter)) return RUSM("no counter was started instead");
    if (!ask(counter, RUSM("get"))) return RUSM("the new counter does not answer");

    rusm_unlink(supervisor);
    error = rusm_exit(supervisor, (rusm_exit_reason){.kind = RUSM_EXIT_SHUTDOWN});
    return error ? failed(error) : RUSM_NORMAL;
}

rusm_bytes run(rusm_args args) {
    if (args.len == 0) return show();
    if (rusm_equal(args.at[0], RUSM("serve"))) return serve();
    return RUSM("the argument is neither \"serve\" nor nothing");
}

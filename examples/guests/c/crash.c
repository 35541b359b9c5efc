/* A process that ends in a requested way, given as its first argument or else in a message. */
#include "rusm.h"

static rusm_line failure;

/* Volatile, so that the compiler cannot evaluate the faulty operations in advance and remove them. */
static volatile uint32_t one = 1, zero = 0;

static uint32_t recurse(uint32_t depth) {
    volatile uint32_t kept[64];
    kept[depth % 64] = depth;
    return recurse(depth + one) + kept[zero];
}

static rusm_bytes end(rusm_bytes way) {
    if (rusm_equal(way, RUSM("return"))) return RUSM_NORMAL;
    /* An error that the process detected itself: the text is its exit reason. */
    if (rusm_equal(way, RUSM("error"))) return RUSM("no more coins");
    if (rusm_equal(way, RUSM("exit"))) {
        rusm_exit_reason reason = {.kind = RUSM_EXIT_SHUTDOWN_WITH, .text = RUSM("closing time")};
        const rusm_error *error = rusm_exit(rusm_self(), reason);
        if (!error) return RUSM_NORMAL;
        rusm_put_error(&failure, error);
        return rusm_text(&failure);
    }
    /* Errors that WebAssembly detects: traps. */
    if (rusm_equal(way, RUSM("trap"))) __builtin_trap();
    if (rusm_equal(way, RUSM("divide"))) one /= zero;
    if (rusm_equal(way, RUSM("bounds"))) one = *(volatile char *)(UINTPTR_MAX - 15 * one);
    if (rusm_equal(way, RUSM("recurse"))) one = recurse(one);
    rusm_put(&failure, way);
    rusm_put(&failure, RUSM(" is none of return, error, exit, trap, divide, bounds, recurse"));
    return rusm_text(&failure);
}

rusm_bytes run(rusm_args args) {
    if (args.len > 0) return end(args.at[0]);
    rusm_received next;
    do rusm_receive(&next, RUSM_FOREVER);
    while (next.kind != RUSM_MESSAGE);
    return end(next.message.body);
}

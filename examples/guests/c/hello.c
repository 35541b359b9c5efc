/* The smallest guest: a process that logs a greeting of the name in its first argument and exits. */
#include "rusm.h"

rusm_bytes run(rusm_args args) {
    rusm_line line = {0};
    rusm_put(&line, RUSM("hello, "));
    rusm_put(&line, args.len > 0 ? args.at[0] : RUSM("world"));
    rusm_put(&line, RUSM(": I am process "));
    rusm_put_pid(&line, rusm_self());
    rusm_info(rusm_text(&line));
    return RUSM_NORMAL;
}

/* A process that waits, in one page of memory, used in large numbers to measure the cost of waiting. It answers each
 * call with `pong`. */
#include "rusm.h"

rusm_bytes run(rusm_args args) {
    rusm_received next;
    for (;;) {
        rusm_receive(&next, RUSM_FOREVER);
        if (next.kind == RUSM_MESSAGE) rusm_reply(&next.message, RUSM("pong"));
    }
}

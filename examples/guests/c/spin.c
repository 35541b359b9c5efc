/* A process that never gives way, and cannot keep others from running: the node interrupts it. */
#include "rusm.h"

rusm_bytes run(rusm_args args) {
    rusm_label(RUSM("spinning"));
    for (volatile uint64_t turns = 0;; turns++) continue;
}

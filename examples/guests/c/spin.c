/* A process that never yields. The node interrupts it, so that other processes can run. */
#include "rusm.h"

rusm_bytes run(rusm_args args) {
    rusm_label(RUSM("spinning"));
    for (volatile uint64_t turns = 0;; turns++) continue;
}

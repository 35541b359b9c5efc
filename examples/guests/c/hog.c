/* A process that takes memory until it may not: its end is the limit's, and nobody else's. */
#include "rusm.h"

/* How much it takes at a time, unless the first argument says otherwise. */
static const int64_t STEP_KIB = 1024;
enum { PAGE = 65536 };

rusm_bytes run(rusm_args args) {
    int64_t step_kib = STEP_KIB;
    if (args.len > 0 && (!rusm_number(args.at[0], &step_kib) || step_kib < 1)) return RUSM("the argument is no number of KiB");
    /* There is no larger memory. */
    if (step_kib > 4 * 1024 * 1024) step_kib = 4 * 1024 * 1024;
    size_t pages = (size_t)(((uint64_t)step_kib * 1024 + PAGE - 1) / PAGE);
    for (int64_t taken = 1;; taken++) {
        size_t place = __builtin_wasm_memory_grow(0, pages);
        if (place == (size_t)-1) return RUSM("no more memory, and no limit");
        /* Written, and not only asked for: memory that nobody touches costs nothing. */
        __builtin_memset((char *)(place * PAGE), 0xA5, pages * PAGE);
        rusm_line label = {0};
        rusm_put_number(&label, taken * (int64_t)pages * (PAGE / 1024));
        rusm_put(&label, RUSM(" KiB taken"));
        rusm_label(rusm_text(&label));
    }
}

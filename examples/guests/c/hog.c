/* A process that allocates memory until it reaches its limit. The limit ends this process and no other. */
#include "rusm.h"

/* Default size of an allocation in KiB; the first argument overrides it. */
static const int64_t STEP_KIB = 1024;
enum { PAGE = 65536 };

rusm_bytes run(rusm_args args) {
    int64_t step_kib = STEP_KIB;
    if (args.len > 0 && (!rusm_number(args.at[0], &step_kib) || step_kib < 1)) return RUSM("the argument is no number of KiB");
    /* A memory of WebAssembly has at most 4 GiB. */
    if (step_kib > 4 * 1024 * 1024) step_kib = 4 * 1024 * 1024;
    size_t pages = (size_t)(((uint64_t)step_kib * 1024 + PAGE - 1) / PAGE);
    for (int64_t taken = 1;; taken++) {
        size_t place = __builtin_wasm_memory_grow(0, pages);
        if (place == (size_t)-1) return RUSM("no more memory, and no limit");
        /* Write to the memory: untouched pages are never allocated. */
        __builtin_memset((char *)(place * PAGE), 0xA5, pages * PAGE);
        rusm_line label = {0};
        rusm_put_number(&label, taken * (int64_t)pages * (PAGE / 1024));
        rusm_put(&label, RUSM(" KiB taken"));
        rusm_label(rusm_text(&label));
    }
}

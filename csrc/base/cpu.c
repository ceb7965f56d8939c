#include "base/cpu.h"

const char *plb_cpu_simd(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init(); /* needed if a constructor of another library calls this function before
                             the constructor of libgcc has run */
    if (__builtin_cpu_supports("avx512f")) {
        return "avx512";
    }
    if (__builtin_cpu_supports("avx2")) {
        return "avx2";
    }
    if (__builtin_cpu_supports("avx")) {
        return "avx";
    }
    return __builtin_cpu_supports("sse4.2") ? "sse4.2" : "sse2";
#else
    return plb_cpu_compiled(); /* on other processors, no code depends on the result */
#endif
}

const char *plb_cpu_compiled(void)
{
#if defined(__AVX512F__)
    return "avx512";
#elif defined(__AVX2__)
    return "avx2";
#elif defined(__AVX__)
    return "avx";
#elif defined(__SSE4_2__)
    return "sse4.2";
#elif defined(__SSE2__)
    return "sse2";
#elif defined(__ARM_NEON)
    return "neon";
#else
    return "none";
#endif
}

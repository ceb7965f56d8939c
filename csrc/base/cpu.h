/* What the processor offers and what the core was compiled with. */
#ifndef PLB_BASE_CPU_H
#define PLB_BASE_CPU_H

#if defined(__clang__)
#define PLB_COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define PLB_COMPILER "gcc " __VERSION__
#else
#define PLB_COMPILER "unknown"
#endif

/** The widest vector instructions of this processor that the operating system has switched on:
 *  "avx512", "avx2", "avx", "sse4.2", "sse2", "neon" or "none". */
const char *plb_cpu_simd(void);

/** Those that the compiler was allowed to use everywhere in the core. */
const char *plb_cpu_compiled(void);

#endif

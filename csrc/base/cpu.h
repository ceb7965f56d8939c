/* Vector instructions of the processor, and those that pylb's C code was compiled for. */
#pragma once

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

/** The vector instructions that the compiler was allowed to use everywhere in pylb's C code. */
const char *plb_cpu_compiled(void);

/* Compile a hot function twice: for all x86-64 processors, and for those with AVX2 and BMI
 * (x86-64-v3).  The loader chooses the version for this processor.  Neither version uses fused
 * multiply-adds, so both give the same bits.  With the address and thread sanitizers (which start
 * only after the loader has chosen) and with compilers other than gcc 12 or later, the function is
 * compiled once. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && __GNUC__ >= 12 &&     \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PLB_MULTIVERSION __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define PLB_MULTIVERSION
#endif

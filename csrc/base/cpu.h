/* Vector instructions of the processor. */
#pragma once

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

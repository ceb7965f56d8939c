/* Marked procedures of the program.  There are three ways to mark one: pylb.procedure in Python;
 * the macro of pylb_procedure.h in C; or the compiler's -finstrument-functions, with -rdynamic for
 * the linker and the procedure's name in PYLB_PROCEDURES. */
#pragma once

/** Send those names of marked procedures that the monitor does not have yet. */
void plb_procedures_tell(void);

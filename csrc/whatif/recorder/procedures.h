/* Functions of the program that are marked: by pylb.procedure in Python, by the macro of
 * pylb_procedure.h in C, or compiled with -finstrument-functions (and linked with -rdynamic) and
 * named in PYLB_PROCEDURES. */
#ifndef PLB_WHATIF_RECORDER_PROCEDURES_H
#define PLB_WHATIF_RECORDER_PROCEDURES_H

/** Tell the monitor of those that were marked before it was there. */
void plb_procedures_tell(void);

#endif

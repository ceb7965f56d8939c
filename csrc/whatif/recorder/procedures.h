/* Marked procedures of the program: marked by pylb.procedure in Python, by the macro of
 * pylb_procedure.h in C, or compiled with -finstrument-functions (and linked with -rdynamic)
 * and listed in PYLB_PROCEDURES. */
#ifndef PLB_WHATIF_RECORDER_PROCEDURES_H
#define PLB_WHATIF_RECORDER_PROCEDURES_H

/** Send the names of marked functions that the monitor does not have yet. */
void plb_procedures_tell(void);

#endif

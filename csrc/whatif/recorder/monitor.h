/* The connection to the monitor, a process that writes the recording to a file. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Connect to the monitor at the address in PYLB_RECORDER; false: not connected. */
bool plb_monitor_reach(int rank);
bool plb_monitor_is_open(void);
void plb_monitor_close(void);

/** Send a frame of `length` bytes; type: a letter.  A failure closes the connection. */
void plb_frame(char type, const void *data, uint32_t length);
void plb_frame_text(char type, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Send `n` operations of `size` bytes each. */
void plb_frame_ops(const void *op, int32_t n, uint32_t size);
int64_t plb_monitor_sent(void); /* number of operations sent so far */

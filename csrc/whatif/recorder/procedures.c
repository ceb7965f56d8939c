#include "whatif/recorder/internal.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256, LONGEST = 252 };

static char names[MOST][LONGEST];
static int32_t n_names, n_told;
static plb_map_t numbers; /* maps an instrumented function to its number + 2; 1: not chosen */

PLB_EXPORT int pylb_procedure(const char *name);
PLB_EXPORT void pylb_procedure_enter(int number);
PLB_EXPORT void pylb_procedure_leave(int number);

void plb_procedures_tell(void)
{
    for (; n_told < n_names; n_told++) {
        char frame[4 + LONGEST];
        const size_t length = strlen(names[n_told]);
        memcpy(frame, &n_told, 4);
        memcpy(frame + 4, names[n_told], length);
        plb_frame('P', frame, (uint32_t)(4 + length));
    }
}

int pylb_procedure(const char *name)
{
    for (int32_t i = 0; i < n_names; i++) {
        if (strncmp(names[i], name, LONGEST - 1) == 0) {
            return i;
        }
    }
    if (n_names == MOST) {
        plb_lacks("more than 256 marked procedures");
        return MOST - 1;
    }
    strncpy(names[n_names], name, LONGEST - 1);
    n_names++;
    return n_names - 1;
}

static void mark(int kind, int number)
{
    if (plb_enter()) {
        plb_procedures_tell();
        plb_note((plb_op_t){.kind = (uint8_t)kind, .tag = number});
        plb_leave();
    }
}

void pylb_procedure_enter(int number)
{
    mark(PLB_OP_ENTER, number);
}

void pylb_procedure_leave(int number)
{
    mark(PLB_OP_LEAVE, number);
}

/* --- -finstrument-functions --- */

static bool is_chosen(const char *name)
{
    const char *all = getenv("PYLB_PROCEDURES");
    const size_t length = strlen(name);
    for (const char *at = all; at != NULL && *at != '\0'; at += *at == ',') {
        const size_t word = strcspn(at, ",");
        if (word == length && strncmp(at, name, word) == 0) {
            return true;
        }
        at += word;
    }
    return false;
}

static int number_of(void *function)
{
    uintptr_t known = (uintptr_t)plb_map_get(&numbers, (uint64_t)(uintptr_t)function);
    if (known == 0) {
        Dl_info info;
        const bool named = dladdr(function, &info) != 0 && info.dli_sname != NULL;
        known =
            named && is_chosen(info.dli_sname) ? (uintptr_t)pylb_procedure(info.dli_sname) + 2 : 1;
        plb_map_put(&numbers, (uint64_t)(uintptr_t)function, (void *)known);
    }
    return (int)known - 2;
}

PLB_EXPORT void __cyg_profile_func_enter(void *function, void *site);
PLB_EXPORT void __cyg_profile_func_exit(void *function, void *site);

static void mark_function(int kind, void *function)
{
    const int number = number_of(function);
    if (number >= 0) {
        mark(kind, number);
    }
}

void __cyg_profile_func_enter(void *function, void *site)
{
    (void)site;
    mark_function(PLB_OP_ENTER, function);
}

void __cyg_profile_func_exit(void *function, void *site)
{
    (void)site;
    mark_function(PLB_OP_LEAVE, function);
}

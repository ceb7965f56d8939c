/* libpylb_mpi: advisors of several ranks. */
#include <stdio.h>

#include "comm/comm.h"
#include "lib/internal.h"

static int closing = MPI_KEYVAL_INVALID; /* attribute of MPI_COMM_SELF: its deletion calls
                                            close_all */
static plb_handle_t *opened[64];         /* advisors of several ranks that may still be open */
static int n_opened;

/* MPI_Finalize calls this first, when it deletes the attributes of MPI_COMM_SELF.  So no rank
 * waits for a rank that ends without closing its advisors.  This rank first announces, for each
 * advisor, that it leaves, and only then waits: other ranks can be in a step of any advisor. */
static int close_all(MPI_Comm comm, int keyval, void *value, void *state)
{
    for (int i = 0; i < n_opened; i++) {
        if (opened[i]->content != NULL) {
            (void)plb_lib_advisor_begin_close(opened[i], plb_lib_error());
        }
    }
    for (int i = 0; i < n_opened; i++) {
        if (opened[i]->content != NULL) {
            (void)plb_lib_advisor_close(opened[i], plb_lib_error());
        }
    }
    n_opened = 0;
    return MPI_SUCCESS;
}

static int check_mpi(plb_err_t *err)
{
    int begun = 0, ended = 0;
    MPI_Initialized(&begun);
    if (begun) {
        MPI_Finalized(&ended);
    }
    return begun && !ended ? PLB_OK
                           : PLB_FAIL(err, PLB_ERR_STATE,
                                      "MPI is %s: expected a call between MPI_Init and "
                                      "MPI_Finalize",
                                      begun ? "finalised" : "not initialised");
}

static void say_late(void *comm)
{
    int rank = -1;
    MPI_Comm_rank(*(MPI_Comm *)comm, &rank);
    fprintf(stderr, "pylb: rank %d has waited 10 s for the other ranks to create an advisor\n",
            rank);
}

static int open_and_watch(plb_transport_t *ranks, pylb_advisor **out, plb_err_t *err)
{
    PLB_PASS(plb_lib_advisor_open(ranks, out, err));
    int ret = PLB_OK, kept = 0;
    if (closing == MPI_KEYVAL_INVALID) {
        PLB_MPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, close_all, &closing, NULL));
        PLB_MPI(MPI_Comm_set_attr(MPI_COMM_SELF, closing, NULL));
    }
    for (int i = 0; i < n_opened; i++) {
        if (opened[i]->content != NULL) {
            opened[kept++] = opened[i];
        }
    }
    n_opened = kept;
    PLB_FAIL_IF(n_opened == (int)(sizeof opened / sizeof *opened), err, PLB_ERR_STATE,
                "%d advisors of several ranks are open already: expected fewer", n_opened);
    opened[n_opened++] = (plb_handle_t *)*out;
out:
    return ret;
}

int pylb_advisor_create_mpi(MPI_Comm comm, pylb_advisor **lb)
{
    const plb_patience_t patience = {say_late, &comm};
    plb_err_t *err = plb_lib_error();
    plb_transport_t *ranks;
    PLB_FAIL_IF(lb == NULL, err, PLB_ERR_VALUE, "lb is NULL");
    *lb = NULL;
    PLB_PASS(check_mpi(err));
    PLB_FAIL_IF(comm == MPI_COMM_NULL, err, PLB_ERR_VALUE,
                "comm is MPI_COMM_NULL: expected a communicator");
    PLB_PASS(plb_transport_mpi(&ranks, comm, &patience, err));
    pylb_advisor *mine = NULL;
    const int ret = plb_agree(comm, open_and_watch(ranks, &mine, err), NULL, err);
    if (ret == PLB_OK) {
        *lb = mine;
    } else if (mine != NULL) {
        plb_lib_advisor_drop((plb_handle_t *)mine);
    } else {
        ranks->free(ranks);
    }
    return ret;
}

int pylb_advisor_create_fortran(int comm, pylb_advisor **lb)
{
    /* MPI ends the program if MPI_Comm_f2c is called too late */
    const bool active = check_mpi(plb_lib_error()) == PLB_OK;
    return pylb_advisor_create_mpi(active ? MPI_Comm_f2c(comm) : MPI_COMM_NULL, lb);
}

/* Zoltan called directly from C: the reference for pylb's calls.
 *
 *     mpiexec -n 2 zoltan_driver CASE PARTS REPEATS BOXES|- NAME=VALUE ...
 *
 * CASE and BOXES are files of raw numbers (benchmarks/partition.py writes them): int64 n, dims,
 * edges; double coords[n * dims]; int64 start[n + 1]; int64 to[edges].  BOXES (or -): int64 n,
 * dims; double lo[n * dims], hi[n * dims].  Ranks own blocks of objects.  The driver prints, as
 * JSON: the shortest time of a whole call, from Zoltan_Create to Zoltan_Destroy; a sum over the
 * result that does not depend on the numbering of the parts; for boxes, the number of parts met
 * and the shortest time of the loop over the boxes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zoltan.h>

typedef struct mesh {
    int rank, ranks;
    int64_t all, dims, edges, first;
    int n;
    double *coords;
    int64_t *start, *to;
} mesh_t;

static void die(const char *what)
{
    fprintf(stderr, "zoltan_driver: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *numbers(FILE *file, long at, int64_t n)
{
    int64_t *out = malloc((size_t)(n + 1) * 8);
    if (out == NULL || fseek(file, at, SEEK_SET) != 0 ||
        fread(out, 8, (size_t)n, file) != (size_t)n) {
        die("cannot read");
    }
    return out;
}

static mesh_t read_mesh(const char *path)
{
    mesh_t m;
    MPI_Comm_rank(MPI_COMM_WORLD, &m.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &m.ranks);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        die("no such case");
    }
    int64_t *head = numbers(file, 0, 3);
    m.all = head[0], m.dims = head[1], m.edges = head[2];
    m.first = m.all * m.rank / m.ranks;
    m.n = (int)(m.all * (m.rank + 1) / m.ranks - m.first);
    m.coords = numbers(file, 24 + 8 * m.first * m.dims, m.n * m.dims);
    const long starts = 24 + 8 * m.all * m.dims;
    m.start = numbers(file, starts + 8 * m.first, m.n + 1);
    m.to = numbers(file, starts + 8 * (m.all + 1 + m.start[0]), m.start[m.n] - m.start[0]);
    fclose(file);
    free(head);
    return m;
}

static int num_obj(void *data, int *ierr)
{
    *ierr = ZOLTAN_OK;
    return ((mesh_t *)data)->n;
}

static void obj_list(void *data, int g, int l, ZOLTAN_ID_PTR gid, ZOLTAN_ID_PTR lid, int dim,
                     float *weight, int *ierr)
{
    (void)g, (void)l, (void)dim, (void)weight;
    const mesh_t *m = data;
    for (int i = 0; i < m->n; i++) {
        gid[i] = (ZOLTAN_ID_TYPE)(m->first + i);
        lid[i] = (ZOLTAN_ID_TYPE)i;
    }
    *ierr = ZOLTAN_OK;
}

static int num_geom(void *data, int *ierr)
{
    *ierr = ZOLTAN_OK;
    return (int)((mesh_t *)data)->dims;
}

static void geom(void *data, int g, int l, int n, ZOLTAN_ID_PTR gid, ZOLTAN_ID_PTR lid, int dims,
                 double *out, int *ierr)
{
    (void)g, (void)l, (void)gid;
    const mesh_t *m = data;
    for (int i = 0; i < n; i++) {
        memcpy(out + (int64_t)i * dims, m->coords + (int64_t)lid[i] * dims,
               (size_t)dims * sizeof *out);
    }
    *ierr = ZOLTAN_OK;
}

static void num_edges(void *data, int g, int l, int n, ZOLTAN_ID_PTR gid, ZOLTAN_ID_PTR lid,
                      int *count, int *ierr)
{
    (void)g, (void)l, (void)gid;
    const mesh_t *m = data;
    for (int i = 0; i < n; i++) {
        count[i] = (int)(m->start[lid[i] + 1] - m->start[lid[i]]);
    }
    *ierr = ZOLTAN_OK;
}

static int owner(const mesh_t *m, int64_t v)
{
    int r = (int)(v * m->ranks / m->all);
    while (v >= m->all * (r + 1) / m->ranks) {
        r++;
    }
    return r;
}

static void edge_list(void *data, int g, int l, int n, ZOLTAN_ID_PTR gid, ZOLTAN_ID_PTR lid,
                      int *count, ZOLTAN_ID_PTR to, int *owners, int dim, float *w, int *ierr)
{
    (void)g, (void)l, (void)gid, (void)count, (void)dim, (void)w;
    const mesh_t *m = data;
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        for (int64_t j = m->start[lid[i]]; j < m->start[lid[i] + 1]; j++, at++) {
            to[at] = (ZOLTAN_ID_TYPE)m->to[j - m->start[0]];
            owners[at] = owner(m, m->to[j - m->start[0]]);
        }
    }
    *ierr = ZOLTAN_OK;
}

/* An object with its neighbours is a net. */
static void hg_size(void *data, int *nets, int *pins, int *format, int *ierr)
{
    const mesh_t *m = data;
    *nets = m->n;
    *pins = (int)(m->start[m->n] - m->start[0]) + m->n;
    *format = ZOLTAN_COMPRESSED_EDGE;
    *ierr = ZOLTAN_OK;
}

static void hg(void *data, int g, int nets, int pins, int format, ZOLTAN_ID_PTR net, int *start,
               ZOLTAN_ID_PTR pin, int *ierr)
{
    (void)g, (void)pins, (void)format;
    const mesh_t *m = data;
    for (int64_t e = 0, at = 0; e < nets; e++) {
        net[e] = (ZOLTAN_ID_TYPE)(m->first + e);
        start[e] = (int)at;
        for (int64_t j = m->start[e]; j < m->start[e + 1]; j++) {
            pin[at++] = (ZOLTAN_ID_TYPE)m->to[j - m->start[0]];
        }
        pin[at++] = net[e];
    }
    *ierr = ZOLTAN_OK;
}

static int first_part; /* the first part of this rank */

static void part_multi(void *data, int g, int l, int n, ZOLTAN_ID_PTR gid, ZOLTAN_ID_PTR lid,
                       int *part, int *ierr)
{
    (void)data, (void)g, (void)l, (void)gid, (void)lid;
    for (int i = 0; i < n; i++) {
        part[i] = first_part;
    }
    *ierr = ZOLTAN_OK;
}

static struct Zoltan_Struct *create(mesh_t *m, int parts, int n_params, char **params)
{
    struct Zoltan_Struct *zz = Zoltan_Create(MPI_COMM_WORLD);
    char text[32];
    snprintf(text, sizeof text, "%d", parts);
    Zoltan_Set_Param(zz, "DEBUG_LEVEL", "0");
    Zoltan_Set_Param(zz, "NUM_GLOBAL_PARTS", text);
    for (int i = 0; i < n_params; i++) {
        char name[64];
        const char *value = strchr(params[i], '=');
        snprintf(name, sizeof name, "%.*s", (int)(value - params[i]), params[i]);
        if (Zoltan_Set_Param(zz, name, value + 1) != ZOLTAN_OK) {
            die(params[i]);
        }
    }
    Zoltan_Set_Num_Obj_Fn(zz, num_obj, m);
    Zoltan_Set_Obj_List_Fn(zz, obj_list, m);
    Zoltan_Set_Part_Multi_Fn(zz, part_multi, m);
    Zoltan_Set_Num_Geom_Fn(zz, num_geom, m);
    Zoltan_Set_Geom_Multi_Fn(zz, geom, m);
    Zoltan_Set_Num_Edges_Multi_Fn(zz, num_edges, m);
    Zoltan_Set_Edge_List_Multi_Fn(zz, edge_list, m);
    Zoltan_Set_HG_Size_CS_Fn(zz, hg_size, m);
    Zoltan_Set_HG_CS_Fn(zz, hg, m);
    return zz;
}

/* Partition, with lists of imports and exports; sum[part]: sum of id + 1 over this rank's objects
 * in that part. */
static void divide(struct Zoltan_Struct *zz, const mesh_t *m, int parts, uint64_t *sum)
{
    int changes, g, l, n_in, n_out, *in_rank, *in_part, *out_rank, *out_part;
    ZOLTAN_ID_PTR in_gid, in_lid, out_gid, out_lid;
    if (Zoltan_LB_Partition(zz, &changes, &g, &l, &n_in, &in_gid, &in_lid, &in_rank, &in_part,
                            &n_out, &out_gid, &out_lid, &out_rank, &out_part) < 0) {
        die("Zoltan_LB_Partition failed");
    }
    memset(sum, 0, (size_t)parts * sizeof *sum);
    for (int i = 0; i < m->n; i++) {
        sum[first_part] += (uint64_t)(m->first + i + 1);
    }
    for (int i = 0; i < n_out; i++) {
        sum[first_part] -= (uint64_t)out_gid[i] + 1;
        sum[out_part[i]] += (uint64_t)out_gid[i] + 1;
    }
    Zoltan_LB_Free_Part(&in_gid, &in_lid, &in_rank, &in_part);
    Zoltan_LB_Free_Part(&out_gid, &out_lid, &out_rank, &out_part);
}

/* Time the loop over the boxes, and print the result. */
static void boxes(struct Zoltan_Struct *zz, const char *path, int parts, int repeats)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        die("no boxes");
    }
    int64_t *head = numbers(file, 0, 2);
    const int64_t n = head[0], d = head[1];
    const double *lo = numbers(file, 16, n * d), *hi = numbers(file, 16 + 8 * n * d, n * d);
    int *met = malloc(sizeof *met * (size_t)(parts + 1));
    double least = 1e30;
    int64_t total = 0;
    for (int k = 0; k < repeats; k++) {
        const double begin = MPI_Wtime();
        total = 0;
        for (int64_t i = 0; i < n; i++) {
            const double *a = lo + i * d, *b = hi + i * d;
            int n_ranks = 0, n_met = 0;
            Zoltan_LB_Box_PP_Assign(zz, a[0], d > 1 ? a[1] : 0, d > 2 ? a[2] : 0, b[0],
                                    d > 1 ? b[1] : 0, d > 2 ? b[2] : 0, NULL, &n_ranks, met,
                                    &n_met);
            total += n_met;
        }
        const double seconds = MPI_Wtime() - begin;
        least = seconds < least ? seconds : least;
    }

    printf(", \"met\": %lld, \"box_seconds\": %.9f", (long long)total, least);
    fclose(file);
}

int main(int argc, char **argv)
{
    float version;
    MPI_Init(&argc, &argv);
    if (argc < 5) {
        die("usage: zoltan_driver CASE PARTS REPEATS BOXES|- NAME=VALUE ...");
    }
    Zoltan_Initialize(argc, argv, &version);
    mesh_t mesh = read_mesh(argv[1]);
    const int parts = atoi(argv[2]), repeats = atoi(argv[3]);
    first_part = (mesh.rank * parts + mesh.ranks - 1) / mesh.ranks;
    first_part = first_part < parts ? first_part : parts - 1;
    double least = 1e30;
    uint64_t *sum = calloc((size_t)parts, sizeof *sum), *all = calloc((size_t)parts, sizeof *all);
    uint64_t squares = 0; /* sum of squares of all[]: the same for all numberings of the parts */
    for (int k = 0; k < repeats; k++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        struct Zoltan_Struct *zz = create(&mesh, parts, argc - 5, argv + 5);
        divide(zz, &mesh, parts, sum);
        Zoltan_Destroy(&zz);
        double seconds = MPI_Wtime() - begin, most;
        MPI_Allreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        least = most < least ? most : least;
    }
    MPI_Allreduce(sum, all, parts, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int p = 0; p < parts; p++) {
        squares += all[p] * all[p];
    }
    if (mesh.rank == 0) {
        printf("{\"seconds\": %.9f, \"sum\": %llu", least, (unsigned long long)squares);
    }
    if (strcmp(argv[4], "-") != 0) {
        struct Zoltan_Struct *zz = create(&mesh, parts, argc - 5, argv + 5);
        divide(zz, &mesh, parts, sum);
        if (mesh.rank == 0) {
            boxes(zz, argv[4], parts, repeats);
        }
        Zoltan_Destroy(&zz);
    }
    if (mesh.rank == 0) {
        printf("}\n");
    }
    MPI_Finalize();
    return 0;
}

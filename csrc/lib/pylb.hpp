/* pylb for C++17: pylb.h with objects that close themselves, and exceptions instead of codes.
 *
 *     pylb::Advisor lb(MPI_COMM_WORLD);
 *     for (int step = 0; step < n; step++) {
 *         compute_and_exchange(); // with auto timed = lb.timed(); in the blocks that compute
 *         if (lb.advise()) {
 *             auto rebalancing = lb.rebalancing();
 *             redistribute();
 *         }
 *     }
 *
 * pylb.h says what each call does and what can fail.  In calls of the functions of pylb.h, an
 * Advisor stands for its pylb_advisor *, and a Plan for its pylb_plan *.  After a move, the old
 * object has NULL, and its calls throw.  The functions that take an MPI_Comm are declared if
 * <mpi.h> was included before this header.
 */
#ifndef PYLB_HPP
#define PYLB_HPP

#include <cmath>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "pylb.h"

namespace pylb
{

struct Error : std::runtime_error {
    int code; /* an enum pylb_code */
    Error(int code_, const std::string &message) : std::runtime_error(message), code(code_) {}
};

/* Throw an Error if a function of pylb.h has failed. */
inline void check(int code)
{
    if (code != PYLB_OK) {
        throw Error(code, pylb_error());
    }
}

/* Print an error; for destructors, which must not throw. */
inline void say(int code) noexcept
{
    if (code != PYLB_OK) {
        std::fprintf(stderr, "pylb: %s\n", pylb_error());
    }
}

inline Error wrong_size(const std::string &name, size_t size, size_t expected)
{
    return {PYLB_ERR_VALUE, name + " has " + std::to_string(size) + " values: expected " +
                                std::to_string(expected)};
}

/* An array of the caller: a vector, std::array or std::span, or a pointer and a length. */
template <class T> struct Span {
    const T *data = nullptr;
    size_t size = 0;
    Span() = default;
    Span(const T *begin, size_t n) : data(begin), size(n) {}
    template <class C> Span(const C &c) : data(c.data()), size(c.size()) {}
    template <class C> Span(const C &&) = delete; /* the array must outlive the call */
};

/* The cells of this rank, as in pylb_cells: set load, and what else you have. */
struct Cells {
    Span<double> load;
    Span<int64_t> key, nbytes, memory;
    Span<uint8_t> migratable;
    Span<double> coords; /* 3 for each cell */
    Span<int64_t> src, dst;
    Span<double> edge_bytes;
    Span<int64_t> shared;     /* 3 for each cell */
    int64_t n_components = 1; /* loads of each cell, one for each phase of a step */
};

/* Return the expected loads of n_new cells of a changed mesh: see pylb_inherit. */
inline std::vector<double> inherit(Span<double> load, Span<int64_t> parent, Span<int64_t> child,
                                   size_t n_new, bool split = true, int64_t n_components = 1)
{
    if (parent.size != child.size) {
        throw wrong_size("child", child.size, parent.size);
    }
    const size_t d = n_components < 1 ? 1 : static_cast<size_t>(n_components);
    if (load.size % d != 0) {
        throw wrong_size("load", load.size, load.size / d * d);
    }
    std::vector<double> out(n_new * d);
    check(pylb_inherit(static_cast<int64_t>(load.size / d), load.data, n_components,
                       static_cast<int64_t>(parent.size), parent.data, child.data, split ? 1 : 0,
                       static_cast<int64_t>(n_new), out.data()));
    return out;
}

/* Calls `begin` when it is made, and `end` when the program leaves the block of its variable. */
template <int (*begin)(pylb_advisor *), int (*end)(pylb_advisor *)> class Block
{
  public:
    explicit Block(pylb_advisor *advisor) : lb(advisor) { check(begin(lb)); }
    Block(Block &&) = delete;
    ~Block() { say(end(lb)); }

  private:
    pylb_advisor *lb;
};

/* The new ranks of cells, or NULL: nothing moves.  Valid until the advisor's next step. */
class Plan
{
  public:
    Plan(pylb_plan *plan_, size_t n_) noexcept : plan(plan_), n(n_) {}
    Plan(Plan &&other) noexcept : plan(std::exchange(other.plan, nullptr)), n(other.n) {}
    operator pylb_plan *() const noexcept { return plan; }

    /* The new rank of each cell of this rank. */
    Span<int32_t> rank() const
    {
        check(pylb_plan_counts(plan, nullptr, nullptr));
        return {pylb_plan_rank(plan), n};
    }

    /* Return the items of the cells that this rank will have; from: one item for each cell. */
    template <class T> std::vector<T> migrate(const std::vector<T> &from) const
    {
        std::vector<T> to;
        move(pylb_plan_migrate, from, to);
        return to;
    }

    /* Like migrate, while the program computes: migrate_end() waits for all arrays that have
     * begun. Until then, items of cells that stay may change, but neither vector may change its
     * size. */
    template <class T> void migrate_begin(const std::vector<T> &from, std::vector<T> &to) const
    {
        move(pylb_plan_migrate_begin, from, to);
    }
    void migrate_end() const { check(pylb_plan_migrate_end(plan)); }

  private:
    template <class Fn, class T>
    void move(Fn call, const std::vector<T> &from, std::vector<T> &to) const
    {
        static_assert(std::is_trivially_copyable_v<T>, "items move as bytes");
        const bool fits = plan == nullptr || from.size() == n;
        to.resize(static_cast<size_t>(pylb_plan_n(plan)));
        /* without an array, the call fails on all ranks */
        const int code = call(plan, fits ? from.data() : nullptr, sizeof(T), to.data());
        check(fits ? code : throw wrong_size("from", from.size(), n));
    }

    pylb_plan *plan;
    size_t n;
};

class Advisor
{
  public:
    Advisor() { check(pylb_advisor_create(&lb)); }
#ifdef MPI_VERSION
    explicit Advisor(MPI_Comm comm)
    {
        check(pylb_advisor_create_mpi(comm, &lb));
    }
#endif
    Advisor(Advisor &&other) noexcept : lb(std::exchange(other.lb, nullptr))
    {
    }
    ~Advisor() /* collective; does nothing if MPI_Finalize has closed the advisor already */
    {
        if (pylb_advisor_rank(lb, nullptr, nullptr) == PYLB_OK) {
            say(pylb_advisor_close(&lb));
        }
    }
    void close()
    {
        check(pylb_advisor_close(&lb));
    }
    operator pylb_advisor *() const noexcept
    {
        return lb;
    }

    void set(const std::string &option, const std::string &value)
    {
        check(pylb_advisor_set(lb, option.c_str(), value.c_str()));
    }

    /* Time the rest of a block, or redistribute in it: auto timed = lb.timed(); */
    [[nodiscard]] auto timed()
    {
        return Block<pylb_start, pylb_stop>(lb);
    }
    [[nodiscard]] auto rebalancing()
    {
        return Block<pylb_rebalance_begin, pylb_rebalance_end>(lb);
    }
    void work(double seconds)
    {
        check(pylb_work(lb, seconds));
    }
    double seconds() const
    {
        const double now = pylb_seconds(lb);
        return std::isnan(now) ? throw Error(PYLB_ERR_STATE, pylb_error()) : now;
    }

    /* Return fn(row) of each row; other ranks may compute some rows.  If fn throws, its rank gets
     * that exception, and the other ranks an Error. */
    template <class In, class Fn> auto share(const std::vector<In> &in, Fn fn)
    {
        using Out = std::decay_t<std::invoke_result_t<Fn &, const In &>>;
        static_assert(std::is_trivially_copyable_v<In> && std::is_trivially_copyable_v<Out>,
                      "rows move as bytes");
        std::pair<Fn &, std::exception_ptr> call(fn, nullptr);
        const auto rows = [](int64_t n, const void *from, void *to, void *user) {
            auto &[function, error] = *static_cast<decltype(call) *>(user);
            try {
                for (int64_t i = 0; i < n; i++) {
                    static_cast<Out *>(to)[i] = function(static_cast<const In *>(from)[i]);
                }
            } catch (...) {
                error = std::current_exception();
            }
            return error ? 1 : 0;
        };
        std::vector<Out> out(in.size());
        const int code = pylb_share(lb, static_cast<int64_t>(in.size()), sizeof(In), in.data(),
                                    sizeof(Out), out.data(), rows, &call);
        if (call.second) {
            std::rethrow_exception(call.second);
        }
        check(code);
        return out;
    }

    /* End a step, and return whether to redistribute now. */
    [[nodiscard]] bool advise()
    {
        int rebalance = 0;
        check(pylb_advise(lb, &rebalance));
        return rebalance != 0;
    }

    /* End a step, and return where cells go: if (auto plan = lb.advise(cells)) ... */
    [[nodiscard]] Plan advise(const Cells &given)
    {
        const int64_t d = given.n_components;
        const size_t n = d < 1 ? 0 : given.load.size / static_cast<size_t>(d);
        const size_t n_edges = given.src.size;
        std::exception_ptr wrong;
        const auto array = [&](const char *name, auto span, size_t size) {
            if (span.size != size && span.size != 0) {
                wrong = std::make_exception_ptr(wrong_size(name, span.size, size));
            }
            return span.size == 0 ? nullptr : span.data;
        };
        pylb_cells cells;
        pylb_cells_init(&cells);
        cells.n_components = d;
        if (d >= 1 && n * static_cast<size_t>(d) != given.load.size) {
            wrong = std::make_exception_ptr(
                wrong_size("load", given.load.size, (n + 1) * static_cast<size_t>(d)));
        }
        cells.load = given.load.data;
        cells.key = array("key", given.key, n);
        cells.nbytes = array("nbytes", given.nbytes, n);
        cells.memory = array("memory", given.memory, n);
        cells.migratable = array("migratable", given.migratable, n);
        cells.coords = array("coords", given.coords, 3 * n);
        cells.shared = array("shared", given.shared, 3 * n);
        cells.src = given.src.data;
        cells.dst = array("dst", given.dst, n_edges);
        cells.edge_bytes = array("edge_bytes", given.edge_bytes, n_edges);
        cells.n_edges = static_cast<int64_t>(n_edges);
        cells.n = wrong ? -1 : static_cast<int64_t>(n); /* with -1, the call fails on all ranks */
        pylb_plan *plan = nullptr;
        const int code = pylb_advise_cells(lb, &cells, &plan);
        if (wrong) {
            std::rethrow_exception(wrong);
        }
        check(code);
        return Plan(plan, n);
    }

  private:
    pylb_advisor *lb = nullptr;
};

} // namespace pylb
#endif

# From the report of llvm-cov: lines and branches of csrc, by room.
# Columns: file; regions, missed, %; functions, missed, %; lines, missed, %; branches, missed, %.
NF == 13 && $8 ~ /^[0-9]+$/ && $1 ~ /csrc/ {
    room = $1
    sub(/\/[^\/]*$/, "", room)
    sub(/^.*csrc\//, "", room)
    for (i = 0; i < 2; i++) {
        name = i ? "all" : room
        lines[name] += $8; missed_lines[name] += $9
        branches[name] += $11; missed_branches[name] += $12
    }
}
function percent(missed, n) { return n ? sprintf("%.0f %%", 100 * (1 - missed / n)) : "-" }
END {
    printf "%-20s %8s %8s %10s %8s\n", "room", "lines", "covered", "branches", "covered"
    for (name in lines) {
        printf "%-20s %8d %8s %10d %8s\n", name, lines[name], percent(missed_lines[name], \
            lines[name]), branches[name], percent(missed_branches[name], branches[name]) | "sort"
    }
}

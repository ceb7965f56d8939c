"""The C core, ``csrc/py``: one block for each room's file."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

# base.c
version: Final[str]
compiler: Final[str]

def simd() -> dict[str, str]: ...
def all_finite(x: ArrayLike, /) -> bool: ...

# measure.c
def metrics(time: ArrayLike, /) -> dict[str, float]: ...
def metrics_table() -> list[tuple[str, str, str]]: ...
def rank_times(snapshot: Any, rank: ArrayLike | None = None, /) -> NDArray[np.float64]: ...
def phase_times(snapshot: Any, alpha: float, beta: float, /) -> NDArray[np.float64]: ...
def evaluate(snapshot: Any, rank: ArrayLike | None = None, /) -> dict[str, Any]: ...
def check_snapshot(snapshot: Any, /) -> None: ...
def clock() -> float: ...
def clock_enter(source: str, seconds: float, pace: float, /) -> None: ...
def clock_leave() -> float: ...
def clock_declare(seconds: float, /) -> None: ...
def exact_sum(values: ArrayLike, /) -> float: ...
def mail_pack(messages: list[tuple[int, int, Any]], most: int, /) -> tuple[bytes, list[Any]]: ...
def mail_unpack(wire: Any, others: list[Any], /) -> list[tuple[int, int, Any]]: ...
def estimate(loads: NDArray[np.float64], table: NDArray[np.float64], /) -> None: ...
def end_pass(
    loads: NDArray[np.float64], table: NDArray[np.float64], window: NDArray[np.float64], /
) -> None: ...

# place.c
def strategies() -> list[
    tuple[str, str, int, str, str, list[tuple[Any, ...]], bool, str | None, bool]
]: ...
def place(
    snapshot: Any, strategy: Any, params: Sequence[float], seed: int, /
) -> tuple[NDArray[np.int32], dict[str, float], dict[str, float], int, int, float]: ...

# decide.c
def triggers() -> list[tuple[str, str, str, tuple[tuple[Any, ...], ...]]]: ...

@final
class Trigger:
    def __new__(cls, name: str | Callable[..., Any], params: ArrayLike) -> Trigger: ...
    @property
    def name(self) -> str: ...
    @property
    def params(self) -> dict[str, float]: ...
    @property
    def reason(self) -> str: ...
    @property
    def considered(self) -> bool: ...
    def expect(self, end: int | None, cost: float, /) -> None: ...
    def observe(self, iteration: int, max: float, mean: float, /) -> bool: ...
    def balanced(self, iteration: int, cost: float, max_over_mean: float, /) -> None: ...
    def state(self) -> dict[str, Any]: ...

# select.c
def selection() -> tuple[tuple[Any, ...], ...]: ...

@final
class Selector:
    def __new__(
        cls, candidates: list[tuple[bool, int]], alpha: float, beta: float, params: ArrayLike
    ) -> Selector: ...
    def observe(
        self,
        max: float,
        mean: float,
        total: float,
        utilization: float,
        messages: int,
        bytes: int,
        /,
    ) -> bool: ...
    def balanced(
        self, candidate: int, before: float, after: float, cost: float, migrations: int, /
    ) -> None: ...
    def choice(self) -> dict[str, Any]: ...
    def records(self) -> list[tuple[int, float, float, float, int]]: ...

# ledger.c
def ledger() -> tuple[tuple[Any, ...], ...]: ...

@final
class Ledger:
    def __new__(cls, strategies: int, params: ArrayLike) -> Ledger: ...
    def observe(self, time: float, max: float, mean: float, /) -> None: ...
    def catch_up(self, rows: NDArray[np.float64], /) -> None: ...
    def judges(self, iteration: int, asked: bool, /) -> bool: ...
    def judge(self, iteration: int, gain: float, /) -> None: ...
    def allows(self, iteration: int, /) -> bool: ...
    def balanced(
        self,
        iteration: int,
        strategy: int,
        statistics: float,
        seconds: float,
        migration: float,
        whole: float,
        /,
    ) -> None: ...
    def theta(self, strategy: int, /) -> float: ...
    def state(self) -> dict[str, Any]: ...

# decider.c
PLACING: Final[int]

@final
class Decider:
    def __new__(
        cls,
        *,
        n_ranks: int,
        candidates: tuple[tuple[Any, ...], ...],
        trigger: Trigger,
        selects: bool,
        selection: ArrayLike,
        ledger: ArrayLike,
        gives_up: bool,
        learns: bool,
        watches: bool,
        network: tuple[float, float],
        seed: int,
    ) -> Decider: ...
    @property
    def n_balancings(self) -> int: ...
    @property
    def foresees(self) -> bool: ...
    @property
    def weighs(self) -> bool: ...
    @property
    def books(self) -> tuple[bool, float, float, int]: ...
    @property
    def speed(self) -> NDArray[np.float64] | None: ...
    def network(self, alpha: float, beta: float, /) -> None: ...
    def expect(self, end: int | None, cost: float, /) -> None: ...
    def observe(
        self,
        iteration: int,
        time: float,
        max: float,
        mean: float,
        min: float,
        total: float,
        utilization: float,
        messages: int,
        bytes: int,
        /,
    ) -> bool: ...
    def next(self, asked: bool, may_look: bool, /) -> int: ...
    def weigh(self, gain: float, /) -> None: ...
    def look(
        self,
        snapshot: Any,
        here: NDArray[np.float64] | None,
        work: NDArray[np.float64] | None,
        /,
    ) -> float: ...
    def looked(self, gain: float, /) -> int: ...
    def choose(self, reason: int = -1, /) -> tuple[int, int]: ...
    def place(
        self,
        snapshot: Any,
        here: NDArray[np.float64] | None,
        work: NDArray[np.float64] | None,
        figures: NDArray[np.float64],
        speed: NDArray[np.float64],
        rank: NDArray[np.int32],
        /,
    ) -> None: ...
    def placed(self, figures: NDArray[np.float64], speed: NDArray[np.float64], /) -> None: ...
    def balanced(
        self,
        migrations: int,
        bytes: int,
        seconds_migration: float,
        cost: float,
        moved: bool,
        given: bool = False,
        /,
    ) -> None: ...
    def abandon(self) -> None: ...
    def receipts(self) -> list[dict[str, Any]]: ...

def first_cost(
    alpha: float, beta: float, handling: float, objects: int, bytes: int, n_ranks: int, /
) -> float: ...

# vt.c
VT_ENTITY_TYPES: Final[tuple[str, ...]]
VT_COMM_TYPES: Final[tuple[str, ...]]
VT_USER: Final[tuple[str, ...]]

def vt_scan(text: Any, name: str, /) -> Any: ...
def vt_head(scan: Any, /) -> tuple[bytes | None, list[int]]: ...
def vt_merge(scans: list[Any], source: ArrayLike, /) -> dict[str, Any]: ...
def vt_plan(
    scans: list[Any],
    n_entities: int,
    source: ArrayLike,
    task_entity: ArrayLike,
    comm_src: ArrayLike,
    comm_dst: ArrayLike,
    rank: ArrayLike,
    /,
) -> Any: ...
def vt_write(plan: Any, rank: int, /) -> bytes: ...

# rounds.c
def traffic(
    snapshot: Any, strategy: str, params: Sequence[float], seed: int, /
) -> tuple[NDArray[np.int32], int, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...

@final
class Agent:
    def __new__(
        cls,
        strategy: str,
        params: ArrayLike,
        seed: int,
        rank: int,
        n_ranks: int,
        neighbours: ArrayLike | None,
        speed: float,
        background: float,
        memory_limit: int,
        id: ArrayLike,
        load: ArrayLike,
        memory: ArrayLike | None,
        migratable: ArrayLike | None,
        edge_object: ArrayLike,
        edge_peer_id: ArrayLike,
        edge_peer_rank: ArrayLike,
        edge_bytes: ArrayLike,
        /,
    ) -> Agent: ...
    @property
    def done(self) -> bool: ...
    @property
    def rank(self) -> NDArray[np.int32]: ...
    @property
    def times(self) -> tuple[float, float]: ...
    def round(
        self,
        received: list[tuple[int, list[Any]]],
        tally: tuple[float, float, float, float, int, int, int],
        /,
    ) -> tuple[list[tuple[int, list[Any]]], tuple[float, float, float, float, int, int, int]]: ...

# topology.c
def hop_bytes(
    torus: bool,
    sizes: ArrayLike,
    start: ArrayLike,
    to: ArrayLike,
    bytes: ArrayLike,
    place: ArrayLike,
    /,
) -> tuple[float, float]: ...
def map_parts(
    torus: bool,
    sizes: ArrayLike,
    start: ArrayLike,
    to: ArrayLike,
    bytes: ArrayLike,
    place: ArrayLike,
    group: ArrayLike,
    /,
) -> NDArray[np.int32]: ...

# replay.c
@final
class Replay:
    def __new__(
        cls,
        *,
        n_ranks: int,
        decider: Decider | None,
        lag: int,
        as_recorded: bool,
        foresight: bool,
        moves: bool,
        network: tuple[float, float],
        cost: float,
        model: tuple[float, float, float, float, float],
        per_move: float,
        per_byte: float,
        steps: list[tuple[Any, ...]],
        keep_times: bool,
        keep_ranks: bool,
    ) -> Replay: ...
    def loop(self, first: int, n: int, cost: float, /) -> None: ...
    def feed(self, trace: Any, /) -> None: ...
    def settle(self, stays: NDArray[np.bool_] | None, early: bool = False, /) -> None: ...
    def metrics(
        self, begin: int, /
    ) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.float64]]: ...
    def take(self) -> tuple[NDArray[np.int32] | None, NDArray[np.float64] | None]: ...

def repeats(trace: Any, /) -> NDArray[np.uint8]: ...

# recorder.c
def stats(samples: list[Any], /) -> tuple[Any, ...]: ...
def stats_table() -> list[tuple[str, str, str]]: ...

@final
class Recorder:
    def __new__(
        cls, items: tuple[Any, ...], seconds: NDArray[np.float64], clock: str, /
    ) -> Recorder: ...
    def __iter__(self) -> Iterator[Any]: ...

# atsync.c
ATSYNC_WINDOW: Final[int]

@final
class AtSync:
    def __new__(
        cls,
        reduction: Any,
        trigger: Trigger,
        decider: Decider | None,
        answers: tuple[Any, Any, Any, Any, Any],
        kind: int,
        first: int,
        n: int,
        lag: int,
        balance: bool,
    ) -> AtSync: ...
    @property
    def over(self) -> bool: ...
    @property
    def whole(self) -> bool: ...
    @property
    def final(self) -> int | None: ...
    @property
    def contributed(self) -> int: ...
    @property
    def seen(self) -> int: ...
    def bind(
        self,
        keys: tuple[int, ...] | None,
        recorder: Recorder,
        seconds: NDArray[np.float64],
        window: NDArray[np.float64],
        estimates: NDArray[np.float64],
        /,
    ) -> None: ...
    def at_sync(self) -> Any: ...
    def reached(self, key: int, load: float | None = None, /) -> Any: ...
    def ask(self) -> Any: ...
    def serve(self, seconds: float, /) -> bool: ...
    def balanced(self) -> None: ...
    def give_up(self, failed: bool, /) -> None: ...
    def rows(self, begin: int, /) -> NDArray[np.float64]: ...
    def why(self) -> tuple[int, str, float, int]: ...

# optimum.c
def program_optimum(
    program: Any, cost: float, /
) -> tuple[float, NDArray[np.int64], float, bool, None]: ...
def program_run(
    program: Any, trigger: Trigger, cost: float, /
) -> tuple[NDArray[np.float64], NDArray[np.int64]]: ...
def trace_optimum(
    trace: Any,
    strategies: tuple[tuple[Any, int], ...],
    params: Sequence[float],
    cost: float,
    seed: int,
    width: int,
    upper: float,
    /,
) -> tuple[float, NDArray[np.int64], float, bool, NDArray[np.int32] | None]: ...

# partition.c
def install(partitioner: Any, /) -> None: ...
def partition(
    library: str | None,
    vertices: int,
    parts: int,
    *,
    n_weights: int = 1,
    n_dims: int = 0,
    weight: ArrayLike | None = None,
    share: ArrayLike | None = None,
    start: ArrayLike | None = None,
    to: ArrayLike | None = None,
    edge_weight: ArrayLike | None = None,
    net_start: ArrayLike | None = None,
    pin: ArrayLike | None = None,
    net_weight: ArrayLike | None = None,
    coords: ArrayLike | None = None,
    fixed: ArrayLike | None = None,
    old: ArrayLike | None = None,
    old_cost: ArrayLike | None = None,
    part: ArrayLike | None = None,
    imbalance: float = 1.03,
    seed: int = 0,
    cycles: int = -1,
    options: list[str] = [],
) -> NDArray[np.int32]: ...
def connectivity(
    net_start: ArrayLike, pin: ArrayLike, net_weight: ArrayLike, part: ArrayLike, parts: int, /
) -> int: ...

# quality.c
def scan_rows(
    name: str, start: ArrayLike, to: ArrayLike, first: int, objects: int, /
) -> tuple[int, int]: ...
def graph_quality(
    start: ArrayLike,
    to: ArrayLike,
    weight: ArrayLike | None,
    parts: int,
    first: int,
    part: ArrayLike,
    ghost: ArrayLike,
    ghost_part: ArrayLike,
    /,
) -> tuple[
    NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], float, NDArray[np.int64]
]: ...
def nets_quality(
    start: ArrayLike,
    pin: ArrayLike,
    weight: ArrayLike | None,
    parts: int,
    first: int,
    part: ArrayLike,
    ghost: ArrayLike,
    ghost_part: ArrayLike,
    /,
) -> tuple[float, float]: ...
def part_sums(
    part: ArrayLike, parts: int, weight: ArrayLike | None, columns: int, /
) -> NDArray[np.float64]: ...
def remap(
    parts: int,
    ranks: int,
    share: ArrayLike | None,
    fixed: ArrayLike | None,
    kept_part: ArrayLike | None,
    kept_old: ArrayLike | None,
    kept: ArrayLike | None,
    on_rank: ArrayLike | None,
    /,
) -> NDArray[np.int32]: ...
def moves(
    part: ArrayLike, old: ArrayLike | None, parts: int, first: int, ids: ArrayLike | None, /
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]: ...

# learner.c
@final
class SpeedLearner:
    def __new__(cls, n_ranks: int) -> SpeedLearner: ...
    def observe(
        self,
        key: ArrayLike,
        rank: ArrayLike,
        seconds: ArrayLike,
        work: ArrayLike | None,
        /,
    ) -> None: ...
    @property
    def speed(self) -> NDArray[np.float64] | None: ...
    @property
    def error(self) -> NDArray[np.float64]: ...
    @property
    def sigma(self) -> float: ...
    @property
    def has_changed(self) -> bool: ...
    @property
    def explained(self) -> float: ...
    @property
    def evidence(self) -> float: ...
    @property
    def sizes(self) -> tuple[int, ...]: ...

# machine.c
@final
class Repeats:
    def __new__(cls, n_ranks: int) -> Repeats: ...
    @property
    def mean(self) -> NDArray[np.float64]: ...
    @property
    def n(self) -> NDArray[np.int64]: ...
    def begin(self) -> None: ...
    def observe(self, seconds: ArrayLike, busy: ArrayLike, /) -> bool: ...
    def predicted(self, seconds: ArrayLike, expected: ArrayLike, which: ArrayLike, /) -> None: ...
    def choose(
        self, now: float, bold: float, bold_paging: float, safe: float, tolerance: float, /
    ) -> int: ...

def fpm_check(start: ArrayLike, rows: ArrayLike, speed: ArrayLike, /) -> None: ...
def fpm_times(
    start: ArrayLike, rows: ArrayLike, speed: ArrayLike, parts: ArrayLike, /
) -> NDArray[np.float64]: ...
def fpm_update(
    start: ArrayLike,
    rows: ArrayLike,
    speed: ArrayLike,
    parts: ArrayLike,
    seconds: ArrayLike,
    /,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]: ...
def fpm_split(
    start: ArrayLike, rows: ArrayLike, speed: ArrayLike, n: int, /
) -> tuple[NDArray[np.int64], float]: ...
def speeds_fit(
    start: ArrayLike,
    rank: ArrayLike,
    seconds: ArrayLike,
    weight: ArrayLike | None,
    n_ranks: int,
    /,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float, float, int]: ...
def apportion(share: ArrayLike, n: int, /) -> NDArray[np.int64]: ...
def rectangles_columns(
    share: ArrayLike, rows: float, cols: float, column: ArrayLike | None = None, /
) -> tuple[NDArray[np.int32], float]: ...
def rectangles_place(
    share: ArrayLike, column: ArrayLike, rows: int, cols: int, /
) -> NDArray[np.int64]: ...

# protocol.c
def protocol_params() -> list[tuple[str, Any, str, str]]: ...
def protocol(values: tuple[Any, ...], /) -> tuple[dict[str, Any], list[tuple[Any, ...]]]: ...

# move.c
def route(
    destination: ArrayLike, n_ranks: int, /
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32] | None]: ...
def gather(
    items: NDArray[Any],
    index: ArrayLike,
    out: NDArray[Any],
    row_bytes: int,
    offset: ArrayLike | None,
    /,
) -> None: ...
def scatter(
    packed: NDArray[Any],
    index: ArrayLike,
    out: NDArray[Any],
    row_bytes: int,
    offset: ArrayLike | None,
    /,
) -> None: ...
def home(ids: ArrayLike, n_ranks: int, /) -> NDArray[np.int32]: ...

@final
class Table:
    def __new__(cls, data_bytes: int) -> Table: ...
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def stage(self, ids: ArrayLike, /) -> tuple[int, int] | None: ...
    def commit(self, owner: ArrayLike, local: ArrayLike, data: NDArray[Any] | None, /) -> None: ...
    def abandon(self) -> None: ...
    def find(
        self, ids: ArrayLike, data: NDArray[Any] | None, /
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], int]: ...
    def remove(self, ids: ArrayLike, /) -> int: ...
    def ids(self) -> NDArray[np.int64]: ...

# whatif.c
def op_layout() -> tuple[list[tuple[str, str, int]], list[str], list[str]]: ...

@final
class Simulation:
    def __new__(
        cls,
        comm_start: ArrayLike,
        comm_member: ArrayLike,
        place: ArrayLike,
        speed: ArrayLike,
        node: ArrayLike,
        alpha: ArrayLike,
        beta: ArrayLike,
        share: ArrayLike,
        period: float,
        overhead: float,
        eager: int,
        quantum: float,
        polling: float,
        waiting: int,
        as_recorded: bool,
        /,
    ) -> Simulation: ...
    def feed(
        self, rank: int, ops: NDArray[Any], closed: bool, steps: NDArray[Any] | None, /
    ) -> None: ...
    def comms(self, start: ArrayLike, member: ArrayLike, /) -> None: ...
    def run(self) -> int: ...
    def times(self) -> NDArray[np.float64]: ...
    def memory(self) -> int: ...

# path.c
def path_lengths(
    ops: list[NDArray[Any]],
    comm_start: ArrayLike,
    comm_member: ArrayLike,
    asks: list[tuple[int, int, int, int, bool, float, float]],
    /,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]: ...
def critical_path(
    ops: list[NDArray[Any]],
    comm_start: ArrayLike,
    comm_member: ArrayLike,
    alpha: float,
    beta: float,
    n_procedures: int,
    /,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]: ...

# drum.c
def drum_power(
    parent: ArrayLike, cpu: ArrayLike, comm: ArrayLike, w_comm: float, /
) -> NDArray[np.float64]: ...
def drum_benchmark(seconds: float, /) -> tuple[float, float, float]: ...

# fill.c
def fill(start: ArrayLike, to: ArrayLike, perm: ArrayLike, /) -> NDArray[np.int64]: ...

"""The decider of csrc/decide/decider.h in plain Python.

Its parts have twins of their own: the trigger (test_decide.py), the ledger (twin_ledger.py), the
selection (test_selection.py) and the learner of speeds (twin_speeds.py). This file combines them,
and writes the receipts.
"""

import math
from dataclasses import replace

import numpy as np
from in_order import added
from twin_ledger import Ledger

import pylb
from pylb import _core
from pylb.errors import StateError

NAN = math.nan
NOTHING, JUDGE, PREVIEW, BALANCE = range(4)
LEDGER = [row[1] for row in _core.ledger()]
WARMED_UP = 6  # iterations after an LB step until the ledger knows what the first ones cost
FIGURES = (  # the figures of a placement, in order; the last two are measured times
    "before",
    "predicted",
    "before_with_messages",
    "predicted_with_messages",
    "passed_over",
    "idle_mean",
    "idle_max",
    "predicted_idle_mean",
    "predicted_idle_max",
    "memory_full",
    "heaviest",
    "next_heaviest",
    "heaviest_key",
    "ahead",
    "present",
    "loss_0",
    "loss_1",
    "loss_2",
    "loss_4",
    "loss_8",
    "loss_scattered",
    "tolerance",
    "loss_tolerant",
    "seconds_statistics",
    "seconds_strategy",
)


def heaviest(s):
    """Return the times of the two heaviest objects on the fastest rank, over the time in balance.

    The third value is the key of the heaviest object.
    """
    if not s.load.any():
        return [NAN] * 3
    loads = s.load.tolist()
    speed = [1.0] * s.n_ranks if s.speed is None else s.speed.tolist()
    work = 0.0
    for v, b in zip(speed, [] if s.background is None else s.background.tolist(), strict=False):
        work += v * b
    for load in loads:
        work += load
    alike = added(speed) / max(speed)
    first = loads.index(max(loads))
    rest = loads[:first] + loads[first + 1 :]
    return [loads[first] / work * alike, max(rest, default=0.0) / work * alike, float(s.key[first])]


class Promise:
    """Says when to ask why iterations take longer than the last LB step predicted (promise.h)."""

    def __init__(self):
        self.predicted, self.price = math.inf, 0.0
        self.since, self.lost, self.last = 0, 0.0, 1.0
        self.previews, self.level = 0, math.inf

    def observe(self, longest, mean):
        ratio = longest / mean if mean > 0 else 1.0
        self.since += 1
        if math.isfinite(self.predicted):
            self.lost += max(longest - self.predicted * mean, 0.0)
        now = min(ratio, self.last)  # a high ratio counts only if it appears twice in a row
        self.last = ratio
        if self.since < 3:
            return False
        if now <= 1.05 * self.predicted:
            self.previews = 0
            return False
        if now > 1.1 * self.level:
            self.previews = 0
        pause = 3 * 2 ** max(self.previews - 1, 0)
        if (self.previews and self.since < pause) or self.lost < 8 * self.price:
            return False
        self.previews += 1
        self.level = now
        self.since, self.lost = 0, 0.0
        return True

    def balanced(self, predicted, price):
        self.predicted, self.price, self.last = max(predicted, 1.0), price, 1.0
        self.since, self.lost = 0, 0.0


class Jumps:
    """Whether the imbalance of an iteration has grown by far more than usual."""

    def __init__(self):
        self.usual, self.sudden, self.n = 0.0, False, 0

    def observe(self, last, mean):
        """last: max - mean of the last two iterations; right after an LB step, of one iteration."""
        grown = last[1] - last[0] if len(last) == 2 else 0.0
        self.sudden = grown > max(0.05 * mean, 0.5 * last[-1], 5.0 * self.usual)
        self.usual += 0.2 * (abs(grown) - self.usual)
        self.n += 1


class Twin:
    """The calls of `pylb._core.Decider`; `place` returns what the core's `place` fills in."""

    def __init__(self, given, trigger, n_ranks, network=(0.0, 0.0)):
        """given: `pylb.decide.decider.settings`; trigger: a new one, like that of `given`."""
        self.given = given
        self.n_ranks = n_ranks
        self.trigger = trigger
        self.ledger = Ledger(len(given.strategies), *LEDGER)
        self.promise = Promise()
        self.learner = _core.SpeedLearner(n_ranks) if given.learns else None
        self.names = [s.name for s in given.strategies]
        self.params = {}  # the parameters of each strategy that are not the defaults
        # max/mean that each strategy left after its last LB step
        self.left = dict.fromkeys(self.names, NAN)
        self.network(*network)
        self.end, self.foreseen = None, (NAN, NAN)
        self.seen = None
        self.history = []
        self.last = None  # receipt of the last LB step
        self.since = []  # (max, mean, min) of the iterations since the last LB step
        self.held = {}  # receipts of decisions to wait in this cycle
        self.jumps = Jumps()
        self.found = NAN
        self.judging = self.previewing = False
        self.pending = None  # the receipt of the LB step that has begun
        self.n_lb_steps = 0

    # ---- iterations ----

    def network(self, alpha, beta):
        self.prices = pylb.model.Network(alpha, beta)
        self.selector = None
        if self.given.selects:
            chosen = self.given.strategy.values
            self.selector = pylb.decide.Selector(
                alpha, beta, strategies=self.given.strategies, **chosen
            )
            if alpha + beta > 0:  # a strategy with parameters for the cost of messages gets it
                told = {"alpha": alpha, "beta": beta}
                for s in self.given.strategies:
                    limits = {p.name: (p.least, p.most) for p in s.params}
                    self.params[s.name] = {
                        name: min(max(value, limits[name][0]), limits[name][1])
                        for name, value in told.items()
                        if name in limits
                    }

    def expect(self, end, cost, moving=NAN):
        self.end = end
        if not math.isnan(cost):
            self.foreseen = cost, moving
        self.trigger.expect(end, cost)

    def observe(self, iteration, time, most, mean, least, total, utilization, messages, nbytes):
        if self.pending or self.judging or self.previewing:
            raise StateError("the decider waits for an answer")
        self.seen = (iteration, most, mean, total, utilization, messages, nbytes)
        self.ledger.observe(time, most, mean)
        self.since.append((most, mean, least))
        self.jumps.observe([m - a for m, a, _ in self.since[-2:]], mean)
        if self.last is not None and len(self.since) == WARMED_UP:
            warm_up = self.ledger.last["warm_up"]
            self.last["seconds_warm_up"] = warm_up
            self.last["cost"] += warm_up
            self.trigger.expect(self.end, self.ledger.theta(self.last["strategy"]))
        cost, moving = self.foreseen
        if self.last is None and self.jumps.n > 1 and moving > 0 and most > 0:
            stays = 1 - max(most - mean, 0.0) / most  # fraction of the slowest rank's load
            self.trigger.expect(self.end, cost - moving * stays)
        asked = self.trigger.observe(iteration, most, mean)
        if self.trigger.considered:
            self.hold("hold", self.trigger.reason)
        return asked

    def next(self, asked, may_preview):
        iteration, most, mean = self.seen[:3]
        if self.given.gives_up and self.ledger.judges(iteration, asked):
            self.judging = True
            return JUDGE
        if asked and self.given.gives_up and not self.ledger.allows(iteration):
            self.hold("off", self.ledger.until)
            asked = False
        if asked:
            return BALANCE
        if self.given.watches and may_preview and self.promise.observe(most, mean):
            self.previewing = True
            return PREVIEW
        return NOTHING

    def judge(self, gain):
        if self.last is None:
            raise StateError("there was no LB step")
        self.last["gain"] = gain
        self.last["iterations"] = self.seen[0] - self.last["iteration"]
        if self.judging:
            self.judging = False
            self.ledger.judge(self.seen[0], gain)

    def previewed(self, gain):
        self.previewing = False
        iteration = self.seen[0]
        left = iteration + 1 if self.end is None else self.end - iteration - 1
        if self.last is not None and gain * left > self.last["cost"]:
            self.found = gain
            return BALANCE
        return NOTHING

    # ---- an LB step ----

    def choose(self):
        self.chosen, self.instead, why = 0, -1, ""
        if self.selector is not None:
            _, most, mean, total, utilization, messages, nbytes = self.seen
            choice = self.selector.observe(
                max(most, mean),
                mean,
                total=total,
                utilization=utilization,
                messages=messages,
                nbytes=nbytes,
            )
            self.chosen, self.instead = self.names.index(choice.strategy), self.stand_in(choice)
            why = choice.reason
        kind = "balance" if math.isnan(self.found) else "speeds"
        self.pending = self.receipt(kind, self.trigger.reason)
        self.pending |= {"strategy": self.chosen, "why": why, "found": self.found}
        self.found = NAN
        return self.chosen, self.instead

    def stand_in(self, choice):
        """Return the first refinement of the same kind if `choice` was not tried yet."""
        if choice.family == "comprehensive" and not self.selector.history()[choice.strategy].n:
            for i, s in enumerate(self.given.strategies):
                talks = "communication" in s.looks_at
                if s.family == "refinement" and talks == (choice.used == "communication"):
                    return i
        return -1

    def tell(self, snapshot, here, work, looks_at):
        """Return work and speeds instead of seconds, if the ranks' speeds are known to differ."""
        if self.learner is None or here is None:
            return snapshot, np.zeros(self.n_ranks)
        self.learner.observe(snapshot.key, snapshot.rank, here, work)
        speed = self.learner.speed
        if speed is None or "speed" not in looks_at:
            return snapshot, np.zeros(self.n_ranks)
        load = snapshot.load * speed[snapshot.rank]
        return replace(snapshot, load=load, speed=speed), speed

    def run(self, i, snapshot):
        """Return (placement, slowest rank including its messages / mean load, before and after)."""
        s = self.given.strategies[i]
        params = self.params.get(s.name, {}) if self.selector else {}
        plan = pylb.place(snapshot, pylb.strategy(s, **params), seed=self.given.seed)
        ratios = plan.before.max_over_mean, plan.after.max_over_mean
        if any(self.prices) and plan.before.mean > 0 and len(snapshot.edges.src):
            both = snapshot, snapshot.with_rank(plan.rank)
            ratios = [self.rank_times(x).max() / plan.before.mean for x in both]
        return plan, *ratios

    def rank_times(self, snapshot):
        """Return the times including messages: alpha per message, beta per byte (Menon eq. 3.6)."""
        out = np.zeros(self.n_ranks)
        for load, rank in zip(snapshot.load, snapshot.rank, strict=True):
            out[rank] += load
        if snapshot.speed is not None:
            out /= snapshot.speed
        messages, nbytes = np.zeros(self.n_ranks), np.zeros(self.n_ranks)
        edges = snapshot.edges
        for src, dst, size, n in zip(
            edges.src, edges.dst, edges.nbytes, edges.messages, strict=True
        ):
            if snapshot.rank[src] != snapshot.rank[dst]:
                messages[snapshot.rank[src]] += n
                nbytes[snapshot.rank[src]] += size
        return out + (self.prices.alpha * messages + self.prices.beta * nbytes)

    def place(self, snapshot, here, work):
        """Return (figures, speed, rank); the strategy's time is nan."""
        looks_at = self.given.strategies[self.chosen].looks_at
        told, speed = self.tell(snapshot, here, work, looks_at)
        first = best = self.run(self.chosen, told)
        passed_over = NAN
        if self.instead >= 0:
            other = self.run(self.instead, told)
            is_as_good = other[2] <= self.selector.params["tolerance"] * first[2]
            if is_as_good and other[0].migrations < first[0].migrations:
                best, passed_over = other, first[2]
        plan, before, after = best
        figures = [plan.before.max_over_mean, plan.after.max_over_mean, before, after, passed_over]
        figures += [plan.before.idle_mean, plan.before.idle_max]
        figures += [plan.after.idle_mean, plan.after.idle_max]
        figures += [NAN, *heaviest(told)]  # without memory limits
        figures += [0.0, *[NAN] * 9, 0.0, NAN]  # the twin does not look ahead
        return figures, speed, plan.rank

    def preview(self, snapshot, here, work):
        told, speed = self.tell(snapshot, here, work, ["speed"])
        is_void = self.promise.level > 1.5 * self.promise.predicted
        if not (speed.any() or is_void):
            return 0.0
        plan = pylb.place(told, "BestFitLB")
        return plan.before.max - plan.after.max

    def placed(self, figures, speed):
        self.pending |= dict(zip(FIGURES, map(float, figures), strict=True))
        self.pending["speed"] = tuple(map(float, speed)) if speed[0] > 0 else ()

    def balanced(self, migrations, nbytes, seconds_migration, cost, moved):
        self.settle()
        r, self.pending = self.pending, None
        chosen = self.names[self.chosen]
        stands_in = self.instead >= 0 and not math.isnan(r["passed_over"])
        if stands_in:
            name = self.names[self.instead]
            r["strategy"] = self.instead
            r["why"] += f", but {name} balances about as well as {chosen} "
            r["why"] += "and moves fewer objects"
        r |= {"migrations": migrations, "nbytes": nbytes, "moved": moved, "seconds": cost}
        r["seconds_migration"] = seconds_migration
        parts = r["seconds_statistics"], r["seconds_strategy"], seconds_migration
        self.ledger.balanced(r["iteration"], r["strategy"], *parts, cost)
        if r["kind"] == "speeds":
            self.take_back_hold(r["iteration"])
        r["cost"] = self.ledger.last["cost"]
        if stands_in:
            self.remember(chosen, r, r["passed_over"])
        self.remember(self.names[r["strategy"]], r, r["predicted_with_messages"])
        self.trigger.balanced(r["iteration"], r["cost"], r["predicted"], self.jumps.sudden)
        self.left[self.names[r["strategy"]]] = r["predicted"]
        moving = 0.0 if math.isnan(seconds_migration) else seconds_migration
        self.promise.balanced(r["predicted"], cost - moving)
        self.history.append(r)
        self.last, self.since, self.held = r, [], {}
        self.n_lb_steps += 1

    def remember(self, name, r, after):
        if self.selector is not None:
            self.selector.balanced(
                name,
                before=max(r["before_with_messages"], 1.0),
                after=max(after, 1.0),
                cost=r["cost"],
                migrations=r["migrations"],
            )

    # ---- receipts ----

    def hold(self, kind, reason):
        """Write a receipt for the decision to wait; a cycle has one for each reason."""
        held = self.held.get((kind, reason))
        if held is None:
            held = self.held[kind, reason] = self.receipt(kind, self.trigger.reason)
            if kind == "off":
                held |= {"paid": self.ledger.paid, "saved": self.ledger.gained}
                held["off_until"] = self.ledger.until
            self.history.append(held)
        else:
            self.held_before = held["until"]
            held["until"] = self.seen[0]
            held["times"] += 1

    def take_back_hold(self, iteration):
        """Remove the iteration from the receipt for waiting, because the decider has not waited."""
        for held in self.held.values():
            if held["kind"] == "hold" and held["until"] == iteration:
                held["times"] -= 1
                if held["times"]:
                    held["until"] = self.held_before
                else:
                    self.history = [r for r in self.history if r is not held]

    def receipt(self, kind, reason):
        iteration, most, mean = self.seen[:3]
        state = self.trigger.state()
        figures = {k: v for k, v in state.items() if isinstance(v, float)}
        alternatives = []
        for i, name in enumerate(self.names):
            left = self.left[name]
            if math.isnan(left):  # imbalance that LB steps could not remove so far
                left = figures["residual"]
            gain = max(most - (1.0 if math.isnan(left) else left) * mean, 0.0)
            level, says = figures["level"], state["reason"]
            if says == "the next iteration alone would repay an LB step twice":
                gain = level
            elif not says.startswith("no LB step was tried yet") and not math.isnan(level):
                gain = min(gain, level)
            alternatives.append((gain, self.ledger.theta(i)))
        unknown = ("realised", "realised_idle_mean", "realised_idle_max", "seconds_migration")
        unknown += ("seconds_warm_up", "seconds", "gain", "paid", "saved", "found", *FIGURES)
        counts = dict.fromkeys(("migrations", "nbytes", "iterations", "off_until"), 0)
        return (
            dict.fromkeys(unknown, NAN)
            | counts
            | {
                "kind": kind,
                "strategy": -1,
                "moved": False,
                "reason": reason,
                "why": "",
                "figures": figures,
                "alternatives": tuple(alternatives),
                "speed": (),
                "max": most,
                "mean": mean,
                "left": math.inf if self.end is None else max(float(self.end - iteration - 1), 0.0),
                "cost": 0.0,
                "iteration": iteration,
                "until": iteration,
                "times": 1,
            }
        )

    def settle(self):
        """Write max/mean and idle times after the last LB step to that LB step's receipt."""
        if self.last is None or not self.since:
            return
        most = mean = least = 0.0
        for a, b, c in self.since:
            most, mean, least = most + a, mean + b, least + c
        if mean > 0:
            self.last["realised"] = most / mean
        self.last["realised_idle_mean"] = (most - mean) / len(self.since)
        self.last["realised_idle_max"] = (most - least) / len(self.since)

    def receipts(self):
        self.settle()
        return self.history

"""Functions of the user, e.g. strategies and objects that are pickled, call the balancer itself."""

import threading

import pytest
from each_case import in_blocks
from launch import HERE, launch

import pylb
from pylb.errors import SerializationError, StateError


def run(lb, within=None):
    """Run three iterations; within: the class of objects whose `lb` is set in the second one."""
    for it in lb.iterate(3):
        if it == 1 and within is not None and lb.rank == 0:
            within.lb = lb


def final_keys(comm, remover):
    """Remove one object of rank 0, by a function that pylb calls; return the keys at the end."""
    mine, removed = {}, []

    def remove(name):
        lb = mine["lb"]
        if name == remover and lb.rank == 0 and lb.iteration >= 2 and not removed:
            removed.append(lb.remove(0))

    def strategy(snapshot):
        remove("strategy")
        return (snapshot.rank + 1) % snapshot.n_ranks  # every object moves

    def trigger(cycle):
        remove("trigger")
        return cycle.n == 2

    def background():
        if mine:
            remove("background")
        return 0.0

    lb = pylb.Balancer(comm, strategy=strategy, trigger=trigger, background=background)
    mine["lb"] = lb
    in_blocks(lb, 4 * comm.size, lambda key: "an object")
    run(lb)
    return [key for key, _ in lb.local()], lb.report().n_objects


@pytest.mark.parametrize("remover", ["strategy", "trigger", "background"])
def test_an_object_that_is_removed_before_it_moves(remover):
    assert pylb.VirtualCluster(2, clock="none").run(final_keys, remover) == [
        ([4, 5, 6, 7], 7),
        ([1, 2, 3], 7),
    ]


class Leaving:
    """An object that removes another object while it is packed for a migration."""

    lb = None

    def __getstate__(self):
        if Leaving.lb is not None:
            lb, Leaving.lb = Leaving.lb, None
            lb.remove(0)
        return {}


def test_an_object_that_is_removed_while_it_is_packed():
    def main(comm):
        lb = pylb.Balancer(comm, strategy=lambda s: (s.rank + 1) % 2, every=2)
        for key in range(4 * lb.rank, 4 * lb.rank + 4):
            lb.add(key, Leaving(), nbytes=8)
        with pytest.raises(StateError, match="removed while it was packed; nothing has moved"):
            run(lb, within=Leaving)
        assert [key for key, _ in lb.local()] == ([4, 5, 6, 7] if lb.rank else [1, 2, 3])
        run(lb)
        return [key for key, _ in lb.local()], lb.report().n_objects

    assert pylb.VirtualCluster(2, clock="none").run(main) == [([4, 5, 6, 7], 7), ([1, 2, 3], 7)]


CALLS = []


class Calling:
    """A message that calls ``CALLS[number]`` when it is packed or restored."""

    def __init__(self, when, call):
        self.when, self.number = when, len(CALLS)
        CALLS.append(call)

    def __getstate__(self):
        if self.when == "packed":
            CALLS[self.number]()
        return self.__dict__

    def __setstate__(self, state):
        self.__dict__ = state
        if self.when == "restored":
            CALLS[self.number]()


@pytest.mark.parametrize("when", ["packed", "restored"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_message_that_is_sent_by_another_message_is_not_lost(ranks, when):
    def main(comm):
        lb = pylb.Balancer(comm, every=100, strategy="GreedyLB")
        lb.add(lb.rank, "an object")
        target = (lb.rank + 1) % lb.n_ranks

        def call():
            lb.send(target, lb.rank, "a second message")

        got = []
        for it in lb.iterate(4):
            got.append([x if isinstance(x, str) else "the first" for _, x in lb.inbox(lb.rank)])
            if it == 0:
                lb.send(target, lb.rank, Calling(when, call), copy=when == "restored")
        return got

    second = [] if when == "packed" and ranks == 1 else ["a second message"]  # nothing is packed
    for got in pylb.VirtualCluster(ranks, clock="none").run(main):
        assert got == [[], ["the first"], second, []]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_message_cannot_exchange_messages_while_it_is_restored(ranks):
    def main(comm):
        lb = pylb.Balancer(comm, every=100, strategy="GreedyLB")
        lb.add(lb.rank, "an object")
        lb.send(lb.rank, lb.rank, Calling("restored", lb.exchange))
        with pytest.raises(SerializationError, match="StateError: exchange"):
            run(lb)
        lb.add(10 + lb.rank, "another object")
        for _ in lb.iterate(2):
            lb.exchange()
        return lb.report().n_objects

    assert pylb.VirtualCluster(ranks, clock="none").run(main) == [2 * ranks] * ranks


@pytest.mark.parametrize("call", ["load", "trigger", "strategy"])
def test_exchange_is_called_in_the_body_of_the_loop(call):
    def exchange(name, answer):
        if name == call:
            lb.exchange()
        return answer

    lb = pylb.Balancer(
        load=lambda key, block: exchange("load", 1.0),
        trigger=lambda cycle: exchange("trigger", True),
        strategy=lambda snapshot: exchange("strategy", snapshot.rank),
    )
    lb.add(0, "an object")
    with pytest.raises(pylb.errors.PylbError, match=r"exchange\(\) outside iterate"):
        run(lb)


def test_exchange_after_an_exchange_that_failed():
    lb = pylb.Balancer()
    lb.add(0, "an object")
    for _ in lb.iterate(1):
        lb.send(1, 0, "to no object")
        with pytest.raises(pylb.errors.UnknownKeyError):
            lb.exchange()
        lb.send(0, 0, "to itself")
        lb.exchange()
        assert lb.inbox(0) == [(0, "to itself")]


def test_a_second_thread_while_the_core_calls_a_strategy():
    """In the core, the first thread has released the GIL; the object belongs to it."""
    said = []

    def call():
        with pytest.raises(StateError) as why:
            lb._state.decider.core.abandon()
        said.append(str(why.value))

    def strategy(snapshot):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        return snapshot.rank

    lb = pylb.Balancer(strategy=strategy, every=1)
    lb.add(0, "an object")
    run(lb)
    one = (
        "Decider.abandon() while another thread is in Decider.place(): expected one call at a time"
    )
    assert said == [one] * len(said)
    assert said


@pytest.mark.parametrize("lag", ["0", "2"])
def test_a_second_thread_in_a_collective_call(mpiexec, lag):
    pytest.importorskip("mpi4py")
    code, out, said = launch(mpiexec, 2, HERE / "short.py", "two_threads", lag)
    assert code == 0, said
    assert "".join(out.split()) == 2 * "done"  # mpiexec may mix the lines of two ranks

"""The clock."""

import pytest

from simfl.agents.world import StallError, World


def test_calls_happen_at_their_times_in_the_order_in_which_they_were_scheduled():
    world, seen = World(), []

    def agent():
        for name, at_s in (("slow", 2.0), ("fast", 0.5), ("tie", 2.0)):
            world.at(at_s, lambda name: seen.append((world.now, name)), name)
        yield world.until(3.0)

    world.run(world.spawn(agent()))
    assert seen == [(0.5, "fast"), (2.0, "slow"), (2.0, "tie")] and world.now == 3.0


def test_later_phases_wait_for_all_that_happens_at_their_instant():
    world, seen = World(), []

    def first(_):
        seen.append("first")
        world.at(world.now, seen.append, "because of the first")

    def agent():
        world.at(1.0, seen.append, "last", phase=2)
        world.at(1.0, seen.append, "before the last", phase=1)
        world.at(1.0, first)
        yield world.until(1.5)

    world.run(world.spawn(agent()))
    assert seen == ["first", "because of the first", "before the last", "last"]


def test_an_instant_is_settled_when_nothing_else_is_left_in_it():
    world, seen = World(), []

    def agent():
        world.at(1.0, lambda _: seen.append(world.settled))
        world.at(1.0, lambda _: seen.append(world.settled))
        world.at(2.0, lambda _: seen.append(world.settled))
        yield world.until(4.0)

    world.run(world.spawn(agent()))
    assert seen == [False, True, True]


def test_times_are_absolute():
    """0.1 + (t - 0.1) is not t in floating point for this t."""
    start, t = 0.1, 0.42857142857142855
    world = World(start)
    assert start + (t - start) != t

    def agent():
        yield world.until(t)

    world.run(world.spawn(agent()))
    assert world.now == t


def test_a_world_in_which_nothing_can_happen_any_more_is_an_error():
    world = World()

    def agent():
        yield world.event()

    with pytest.raises(StallError, match="waits for what cannot come"):
        world.run(world.spawn(agent()))


def test_processes_wait_and_wake():
    world = World()
    bell = world.event()

    def waiter():
        return (yield bell), world.now

    def ringer():
        yield world.wait(2.5)
        bell.succeed("ding")

    waiting = world.spawn(waiter())
    world.spawn(ringer())
    assert world.run(waiting) == ("ding", 2.5)


def test_who_waits_for_what_has_happened_goes_on_before_anything_else():
    world, seen = World(), []

    def agent():
        world.at(0.0, seen.append, "another")
        seen.append((yield world.past("value")))
        seen.append(world.now)
        yield world.until(1.0)

    world.run(world.spawn(agent()))
    assert seen == ["value", 0.0, "another"]

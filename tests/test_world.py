"""The clock and the post."""

import pytest

from simfl.world import Message, StallError, World


def message(to, kind="update", body=None):
    return Message(kind, 7, to, body, 0)


def test_messages_arrive_after_their_delay_and_in_order_of_arrival():
    world, seen = World(), []

    def server():
        box = world.mailbox(-1)
        for body, delay in (("slow", 2.0), ("fast", 0.5), ("tie", 2.0)):
            world.send(message(-1, body=body), delay)
        for _ in range(3):
            (mail,) = yield box.receive()
            seen.append((world.now, mail.body))

    world.run(world.spawn(server()))
    assert seen == [(0.5, "fast"), (2.0, "slow"), (2.0, "tie")]


def test_receive_waits_for_the_count_and_keeps_the_rest_for_later():
    world = World()

    def server():
        box = world.mailbox(-1)
        for delay in (1.0, 2.0, 3.0):
            world.send(message(-1, body=delay), delay)
        first = yield box.receive(count=2)
        yield world.wait(5.0)
        rest = yield box.receive(count=1)
        return [m.body for m in first], [m.body for m in rest], world.now

    assert world.run(world.spawn(server())) == ([1.0, 2.0], [3.0], 7.0)


def test_a_deadline_hands_over_what_has_arrived_and_does_not_fire_later():
    world = World()

    def server():
        box = world.mailbox(-1)
        world.send(message(-1, body="in time"), 1.0)
        world.send(message(-1, body="late"), 9.0)
        early = yield box.receive(count=2, deadline_s=3.0)
        at = world.now
        late = yield box.receive(count=1, deadline_s=100.0)
        return [m.body for m in early], at, [m.body for m in late], world.now

    assert world.run(world.spawn(server())) == (["in time"], 3.0, ["late"], 9.0)


def test_an_arrival_exactly_at_the_deadline_that_was_sent_before_counts():
    world = World()

    def server():
        box = world.mailbox(-1)
        world.send(message(-1, body="on time"), 3.0)
        mail = yield box.receive(count=2, deadline_s=3.0)
        return [m.body for m in mail]

    assert world.run(world.spawn(server())) == ["on time"]


def test_an_urgent_message_ends_the_wait():
    world = World()

    def server():
        box = world.mailbox(-1)
        world.send(message(-1, body="a"), 1.0)
        world.send(message(-1, kind="failure"), 2.0)
        world.send(message(-1, body="b"), 3.0)
        mail = yield box.receive(count=3, urgent="failure")
        return [m.kind for m in mail], world.now

    assert world.run(world.spawn(server())) == (["update", "failure"], 2.0)


def test_a_stall_is_an_error():
    world = World()

    def server():
        yield world.mailbox(-1).receive()

    with pytest.raises(StallError, match="stalled at 0"):
        world.run(world.spawn(server()))


def test_an_agent_who_does_not_listen_is_reached_through_the_default():
    world, reached = World(start_s=10.0), []
    world.listen(lambda m: reached.append((m.to, world.now)))

    def server():
        world.send(message(3), 11.0)
        yield world.wait(2.0)

    world.run(world.spawn(server()))
    assert reached == [(3, 11.0)]

"""Client agents of a user's: one that sends again, the standard one as text, one that remembers, and such that err."""

from dataclasses import dataclass

import numpy as np

from simfl.plugins.agents import CLIENT_AGENTS, ClientAgent, Node


@CLIENT_AGENTS("again")
@dataclass(frozen=True)
class Again(ClientAgent):
    """Sends an update again that has not been acknowledged."""

    attempts: int = 4
    pause_s: float = 0.5

    def run(self, node: Node):
        request = yield node.receive("model")
        update = yield node.train(request)
        for attempt in range(self.attempts):
            if (yield node.reply(request, update, timeout_s=1.0)):
                return
            yield node.sleep(self.pause_s * 2**attempt)


@CLIENT_AGENTS("plain_text")
@dataclass(frozen=True)
class PlainText(ClientAgent):
    """What the standard agent does."""

    def run(self, node: Node):
        request = yield node.receive("model")
        update = yield node.train(request)
        yield node.reply(request, update)


@CLIENT_AGENTS("for_ever")
@dataclass(frozen=True)
class ForEver(ClientAgent):
    """Never ends; rests longer the more it has worked, by chance, and works in pieces."""

    def run(self, node: Node):
        while True:
            request = yield node.receive("model", timeout_s=3.0)
            if request is None:
                node.memory["idle"] = node.memory.get("idle", np.zeros(1)) + 1
                continue
            node.memory["worked"] = node.memory.get("worked", np.zeros(1)) + 1
            yield node.sleep(0.1 * float(node.memory["worked"][0]) * node.rng.random())
            while (update := (yield node.train(request, at_most_s=0.3))) is None:
                yield node.sleep(0.05)
            yield node.reply(request, update)
            yield node.reply(request, update, timeout_s=0.4, breaks_s=0.2)


@CLIENT_AGENTS("errs")
@dataclass(frozen=True)
class Errs(ClientAgent):
    """Does what none can do, from the first round on."""

    how: str = "raises"

    def run(self, node: Node):
        if self.how == "never receives":
            yield node.sleep(0.1)
            return
        request = yield node.receive("model")
        if self.how == "never answers":
            return
        if self.how == "keeps a word":
            node.memory["word"] = "kept"
        if self.how == "waits":
            yield node.receive("model")
        if self.how == "raises":
            raise ValueError("no such thing")
        if self.how == "yields a number":
            yield 3
        if self.how == "yields twice the same":
            wait = node.sleep(0.1)
            yield wait
            yield wait
        if self.how == "forgets yield":
            node.sleep(0.1)
        if self.how == "forgets yield at the end":
            node.sleep(0.1)
            return
        while self.how == "loops":
            yield node.sleep(0)
        while self.how == "goes on":
            yield node.sleep(1)
        if self.how == "sleeps backwards":
            yield node.sleep(-1)
        if self.how == "sleeps for a word":
            yield node.sleep("long")
        if self.how == "trains twice":
            yield node.train(request)
            yield node.train(request)
        if self.how == "makes up a request":
            yield node.train(tuple(request))
        if self.how == "replies without work":
            yield node.reply(request, request)
        if self.how == "listens to nobody":
            yield node.receive("gossip")
        if self.how == "does not end":
            try:
                yield node.sleep(1000)
            finally:
                yield node.sleep(1)
        update = yield node.train(request)
        yield node.reply(request, update)


@CLIENT_AGENTS("no_generator")
@dataclass(frozen=True)
class NoGenerator(ClientAgent):
    """Has no yield."""

    def run(self, node: Node):
        return None


@CLIENT_AGENTS("nothing_new")
@dataclass(frozen=True)
class NothingNew(type(CLIENT_AGENTS.of("standard"))):
    """Overrides nothing of the standard agent."""


@CLIENT_AGENTS("reader")
@dataclass(frozen=True)
class Reader(ClientAgent):
    """Reads a loss and does not say so."""

    def run(self, node: Node):
        request = yield node.receive("model")
        update = yield node.train(request)
        yield node.evaluate(request)
        yield node.reply(request, update)


@CLIENT_AGENTS("hasty")
@dataclass(frozen=True)
class Hasty(ClientAgent):
    """Reads a loss that it cannot know yet."""

    reads_data = True

    def run(self, node: Node):
        request = yield node.receive("model")
        yield node.evaluate(request)

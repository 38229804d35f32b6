"""Edges of a user's: the standard one by hand, two of uneven numbers, one that remembers, and such that err."""

from dataclasses import dataclass

import numpy as np

from simfl.plugins.topology import TOPOLOGIES, EdgeNode, Servers, Tree


@TOPOLOGIES("by_hand")
@dataclass(frozen=True, kw_only=True)
class ByHand(Tree):
    """What a tree does."""

    has_root = True

    def run_edge(self, edge: EdgeNode):
        for _ in range(self.edge_rounds):
            yield edge.aggregate()


@TOPOLOGIES("uneven_tree")
@dataclass(frozen=True, kw_only=True)
class UnevenTree(Tree):
    """The edge with number i aggregates i + 1 times."""

    has_root = True

    def run_edge(self, edge: EdgeNode):
        yield edge.aggregate(edge.edge + 1)


@TOPOLOGIES("uneven_servers")
@dataclass(frozen=True, kw_only=True)
class UnevenServers(Servers):
    """The server with number i aggregates i + 1 times."""

    def run_edge(self, edge: EdgeNode):
        yield edge.aggregate(edge.edge + 1)


@TOPOLOGIES("in_time")
@dataclass(frozen=True, kw_only=True)
class InTime(Tree):
    """Aggregates until a time has passed or all have been heard, then rests by chance, longer the more it has heard."""

    budget_s: float = 1.5

    has_root = True

    def run_edge(self, edge: EdgeNode):
        ends_s, heard = edge.now + self.budget_s, edge.memory.get("heard", np.zeros(0, dtype=np.int32))
        while edge.now < ends_s and len(heard) < len(edge.clients):
            heard = np.union1d(heard, (yield edge.aggregate()))
        if len(heard) == len(edge.clients):
            yield edge.aggregate()
            heard = heard[:0]
        edge.memory["heard"] = heard
        yield edge.sleep(edge.rng.random() * (1 + len(heard)))


@TOPOLOGIES("errs")
@dataclass(frozen=True, kw_only=True)
class Errs(Tree):
    """Does what no edge can."""

    how: str = "nothing"

    has_root = True

    def run_edge(self, edge: EdgeNode):
        if self.how == "raises":
            raise KeyError("gone")
        if self.how == "asks, and does not wait":
            edge.aggregate()
        if self.how == "counts what it has not waited for":
            int(edge.aggregate())
        if self.how == "asks twice":
            edge.aggregate()
            yield edge.sleep(1)
        if self.how == "number":
            yield 3.0
        if self.how == "times":
            yield edge.aggregate(0)
        if self.how == "back":
            yield edge.sleep(-1)
        if self.how == "memory":
            edge.memory["words"] = "some"
            yield edge.aggregate()
        if self.how == "mask":
            edge.memory["mask"] = np.ma.masked_less(np.arange(3), 1)
            yield edge.aggregate()
        if self.how == "anew":
            edge.memory = None
            yield edge.aggregate()
        while self.how == "loop":
            yield edge.sleep(0)


@TOPOLOGIES("no_generator")
@dataclass(frozen=True, kw_only=True)
class NoGenerator(Tree):
    """Gives what cannot be waited for."""

    has_root = True

    def run_edge(self, edge: EdgeNode):
        return edge.aggregate()


@TOPOLOGIES("uneven_rests")
@dataclass(frozen=True, kw_only=True)
class UnevenRests(Tree):
    """The first edge is back at once, by chance; all others rest."""

    has_root = True

    def run_edge(self, edge: EdgeNode):
        yield edge.aggregate()
        edge.memory = {"models": edge.memory.get("models", np.zeros(1)) + 1}
        yield edge.sleep(edge.rng.random() + (100 if edge.edge else edge.memory["models"][0]))

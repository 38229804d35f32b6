"""The training rule of a server that lies: its keys, and what it can be put together with."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from simfl.plugins import Column, ScenarioView
from simfl.plugins.training import RULES, FedAvg

REFUSING = Column(
    "refusing_clients", "Refusing clients", "count", "Clients that objected to what the server told them.", 0, "sum",
)  # fmt: skip


@RULES("lying_server")
@dataclass(frozen=True, kw_only=True)
class LyingServerRule(FedAvg):
    """Federated averaging by a server that lies to see the update of one client.

    Clients check what they are told with ``selection: verifiable``; a unit in which one of them objects is in no sum.
    """

    lie: Annotated[
        Literal["selects", "models", "dropouts", "replays", "sybils"],
        Field(description="whom it selects, models that it sends, failures that it claims, a round twice, own clients"),
    ] = "selects"
    victim: Annotated[int, Field(ge=0, description="the client whose update it wants to see")] = 0
    sybils: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...], Field(description="clients that are the server's, for lie: sybils")
    ] = field(default=())

    server: ClassVar[str] = "lying_server"
    example: ClassVar[dict[str, object]] = {"rounds": 2, "lie": "models"}

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*super().columns, REFUSING)

    def check(self, scenario: ScenarioView) -> list[tuple[str, str]]:
        problems, n = super().check(scenario), scenario.clients
        for key, clients in (("victim", [self.victim]), ("sybils", self.sybils)):
            if wrong := [i for i in clients if i >= n]:
                problems.append((key, f"is client {wrong[0]}, and clients are 0 to {n - 1}"))
        if self.lie == "sybils" and not self.sybils:
            problems.append(("sybils", "are the clients that are the server's; give some, or another lie"))
        if self.sybils and (self.lie != "sybils" or self.victim in self.sybils):
            problems.append(("sybils", "are for lie: sybils, and the victim is none of them"))
        if not scenario.secagg.assumes:
            why = "lies as far as sums can be chosen, and what else a protocol shows is not simulated"
            problems.append(("name", f"{why}; use secagg: ideal"))
        if scenario.selection.asks or scenario.selection.reads:
            why = "lies about selections that follow from who is available"
            problems.append(("name", f"{why}; use a selection that reads nothing else"))
        if scenario.privacy.stages:
            problems.append(("name", "lies about sums without noise; leave privacy.stages out"))
        return problems

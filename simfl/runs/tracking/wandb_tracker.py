"""Weights & Biases: a run of the project that is called like the scenario; offline unless ``WANDB_MODE`` says else."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simfl.core.errors import requires_extra
from simfl.core.json_data import JsonObject
from simfl.runs.tracking.tracker import Tracker

if TYPE_CHECKING:
    from wandb import Run


@dataclass
class WandbTracker(Tracker):
    """Logs a row a round, with ``round`` as the axis of every curve.

    Without ``WANDB_DIR`` the files lie in ``wandb`` below the root of the results; ``wandb sync`` uploads them.
    """

    option = "wandb"
    _run: "Run | None" = field(default=None, init=False)

    @classmethod
    def prepare(cls, scenario: str) -> None:
        with requires_extra("wandb", "--log wandb"):
            import wandb  # noqa: F401

    def open(self) -> None:
        import wandb

        self.out.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=self.name,
            name=self.title,
            notes=self.notes.note or None,
            tags=self.notes.tags,
            config=self.scenario | {"simfl_digest": self.digest},
            dir=os.environ.get("WANDB_DIR", str(self.out)),
            mode=None if "WANDB_MODE" in os.environ else "offline",
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off"),
        )
        self._run.define_metric("round")
        self._run.define_metric("*", step_metric="round")

    def write(self, round: int, time_s: float, values: Mapping[str, float]) -> None:
        assert self._run is not None
        self._run.log({"round": round, "time_s": time_s, **values})

    def close(self, summary: JsonObject | None, infinite: Sequence[str] = ()) -> None:
        assert self._run is not None
        numbers = {name: value for name, value in (summary or {}).items() if isinstance(value, (int, float))}
        self._run.summary.update(numbers | dict.fromkeys(infinite, math.inf))
        self._run.finish(exit_code=1 if summary is None else 0)

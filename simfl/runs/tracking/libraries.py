"""What MLflow, Weights & Biases and TensorBoard are sent of a run; each is imported when it is used."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isnan
from typing import TYPE_CHECKING

from simfl.core.errors import requires_extra
from simfl.core.json_data import JsonObject, flat
from simfl.results.export import EventFile
from simfl.results.file_names import SCENARIO, SUMMARY
from simfl.results.folder import ResultsFolder
from simfl.runs.tracking.tracker import Tracker

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from wandb import Run

MAX_PARAMS = 100
"""Parameters that one call may send."""

MAX_CHARACTERS = 500
"""Of a parameter's value, in every store."""


@dataclass
class MlflowTracker(Tracker):
    """Sends a batch of metrics a round; the time of a metric is the simulated one, in milliseconds from 1970 on.

    To the store that MLflow uses here: ``MLFLOW_TRACKING_URI``, or else the local one of the installed version.
    """

    option = "mlflow"
    _client: "MlflowClient | None" = field(default=None, init=False)
    _run_id: str = field(default="", init=False)

    @classmethod
    def prepare(cls, scenario: str) -> None:
        with requires_extra("mlflow", "--log mlflow"):
            from mlflow import MlflowClient
        _experiment(MlflowClient(), scenario)

    def open(self) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self._client = MlflowClient()
        tags = {"simfl.digest": self.digest, "simfl.folder": str(self.folder), "mlflow.note.content": self.notes.note}
        tags |= dict.fromkeys((f"tag.{tag}" for tag in self.notes.tags), "true")
        run = self._client.create_run(_experiment(self._client, self.name), tags=tags, run_name=self.title)
        self._run_id = run.info.run_id
        params = [Param(key, value[:MAX_CHARACTERS]) for key, value in flat(self.scenario).items()]
        for first in range(0, len(params), MAX_PARAMS):
            self._client.log_batch(self._run_id, params=params[first : first + MAX_PARAMS])

    def write(self, round: int, time_s: float, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        at_ms = int(1000 * time_s)
        metrics = [Metric(name, value, at_ms, round) for name, value in values.items() if not isnan(value)]
        assert self._client is not None
        self._client.log_batch(self._run_id, metrics=metrics)

    def close(self, summary: JsonObject | None, infinite: Sequence[str] = ()) -> None:
        assert self._client is not None
        if summary is not None:
            self._client.log_dict(self._run_id, summary, SUMMARY)
            self._client.log_text(self._run_id, ResultsFolder.open(self.folder).read(SCENARIO).decode(), SCENARIO)
        self._client.set_terminated(self._run_id, "KILLED" if summary is None else "FINISHED")


def _experiment(client: "MlflowClient", name: str) -> str:
    """The id of an experiment, which is made if need be."""
    known = client.get_experiment_by_name(name)
    return client.create_experiment(name) if known is None else known.experiment_id


@dataclass
class WandbTracker(Tracker):
    """Logs a row a round, with ``round`` as the axis of every curve; offline unless ``WANDB_MODE`` says else.

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
        self._run.summary.update(numbers | dict.fromkeys(infinite, inf))
        self._run.finish(exit_code=1 if summary is None else 0)


@dataclass
class TensorboardTracker(Tracker):
    """Appends an event a round, so that a running TensorBoard shows it."""

    option = "tensorboard"
    _file: EventFile | None = field(default=None, init=False)

    @classmethod
    def prepare(cls, scenario: str) -> None:
        with requires_extra("tensorboard", "TensorBoard"):
            import tensorboard  # noqa: F401

    def open(self) -> None:
        self._file = EventFile.create(self.folder / "tensorboard", self.digest)

    def write(self, round: int, time_s: float, values: Mapping[str, float]) -> None:
        assert self._file is not None
        self._file.add(round, time_s, values)

    def close(self, summary: JsonObject | None, infinite: Sequence[str] = ()) -> None:
        assert self._file is not None
        self._file.close()

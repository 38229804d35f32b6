"""MLflow: a run of the experiment that is called like the scenario, in the store that MLflow uses here.

That is ``MLFLOW_TRACKING_URI``, or else the local store of the installed version (``mlflow.db`` or ``mlruns`` in the
working directory), as for any other program that logs to MLflow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import TYPE_CHECKING

from simfl.core.errors import requires_extra
from simfl.core.json_data import JsonObject, flat
from simfl.results.file_names import SCENARIO, SUMMARY
from simfl.results.folder import ResultsFolder
from simfl.runs.tracking.tracker import Tracker

if TYPE_CHECKING:
    from mlflow import MlflowClient

MAX_PARAMS = 100
"""Parameters that one call may send."""

MAX_CHARACTERS = 500
"""Of a parameter's value, in every store."""


@dataclass
class MlflowTracker(Tracker):
    """Sends a batch of metrics a round; the time of a metric is the simulated one, in milliseconds from 1970 on."""

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

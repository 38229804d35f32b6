"""MLflow and Weights & Biases as far as simfl calls them, with the signatures of mlflow 3.17 and wandb 0.31.

What is called is recorded; a wrong name or argument is a TypeError, as with the real libraries.
"""

import sys
from types import ModuleType, SimpleNamespace

MAX_PARAMS, MAX_METRICS, MAX_TAGS = 100, 1000, 100
"""Of one call of log_batch (MLflow, REST API, "Request limits")."""


class FakeMlflow:
    """Records runs by id: name, experiment, tags, params, metrics as (key, value, timestamp, step), files, status."""

    def __init__(self):
        self.experiments, self.runs = {}, {}
        self.fails_at = None

    def install(self, monkeypatch):
        mlflow, entities = ModuleType("mlflow"), ModuleType("mlflow.entities")
        mlflow.MlflowClient = lambda tracking_uri=None, registry_uri=None: self
        entities.Metric, entities.Param = _metric, lambda key, value: SimpleNamespace(key=key, value=value)
        monkeypatch.setitem(sys.modules, "mlflow", mlflow)
        monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
        return self

    def get_experiment_by_name(self, name):
        known = self.experiments.get(name)
        return None if known is None else SimpleNamespace(experiment_id=known)

    def create_experiment(self, name, artifact_location=None, tags=None):
        assert name not in self.experiments, "RESOURCE_ALREADY_EXISTS"
        self.experiments[name] = str(len(self.experiments) + 1)
        return self.experiments[name]

    def create_run(self, experiment_id, start_time=None, tags=None, run_name=None):
        assert experiment_id in self.experiments.values()
        assert all(isinstance(value, str) for value in tags.values())
        run_id = f"run{len(self.runs)}"
        self.runs[run_id] = SimpleNamespace(
            name=run_name, tags=tags, params={}, metrics=[], files={}, status="RUNNING", experiment=experiment_id
        )
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id))

    def log_batch(self, run_id, metrics=(), params=(), tags=(), synchronous=None):
        assert len(metrics) <= MAX_METRICS and len(params) <= MAX_PARAMS and len(tags) <= MAX_TAGS
        run = self.runs[run_id]
        if self.fails_at is not None and any(metric.step == self.fails_at for metric in metrics):
            raise ConnectionError("the server is gone")
        for param in params:
            assert len(param.value) <= 6000 and param.key not in run.params
            run.params[param.key] = param.value
        run.metrics += [(metric.key, metric.value, metric.timestamp, metric.step) for metric in metrics]

    def log_dict(self, run_id, dictionary, artifact_file):
        self.runs[run_id].files[artifact_file] = dictionary

    def log_text(self, run_id, text, artifact_file):
        self.runs[run_id].files[artifact_file] = text

    def set_terminated(self, run_id, status=None, end_time=None):
        assert status in ("FINISHED", "FAILED", "KILLED")
        self.runs[run_id].status = status


def _metric(key, value, timestamp, step):
    assert isinstance(timestamp, int) and isinstance(step, int)
    return SimpleNamespace(key=key, value=value, timestamp=timestamp, step=step)


class FakeWandb:
    """Records runs: what init was called with, the rows of log, axes, summary, exit code."""

    def __init__(self):
        self.runs = []

    def install(self, monkeypatch):
        wandb = ModuleType("wandb")
        wandb.init, wandb.Settings = self.init, lambda **settings: SimpleNamespace(**settings)
        monkeypatch.setitem(sys.modules, "wandb", wandb)
        return self

    def init(self, entity=None, project=None, dir=None, id=None, name=None, notes=None, tags=None, config=None,
             mode=None, reinit=None, resume=None, settings=None):  # fmt: skip
        assert settings.silent is True and settings.console == "off" and reinit == "create_new"
        self.runs.append(FakeWandbRun(dict(project=project, dir=dir, name=name, notes=notes, tags=tags, config=config,
                                           mode=mode)))  # fmt: skip
        return self.runs[-1]


class FakeWandbRun:
    def __init__(self, init):
        self.init, self.rows, self.axes, self.summary, self.exit_code = init, [], {}, {}, None

    def define_metric(self, name, step_metric=None, step_sync=None, hidden=None, summary=None, overwrite=None):
        self.axes[name] = step_metric

    def log(self, data, step=None, commit=None):
        assert self.exit_code is None
        self.rows.append(dict(data))

    def finish(self, exit_code=None):
        self.exit_code = exit_code

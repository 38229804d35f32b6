"""simfl from Python: ``simfl.load``, ``run``, ``sweep``, ``compare``, ``open``. Importing it imports nothing slow."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simfl.api.result_objects import ComparisonResult, Result, SweepResult
    from simfl.scenario import Scenario

Overrides = Iterable[str] | Mapping[str, Any]


def load(file: Path | str | Mapping[str, object], overrides: Overrides = (), **keys: object) -> "Scenario":
    """Reads a scenario.

    Args:
        file: YAML, or a mapping with the keys of a scenario file.
        overrides: ``{"training.rounds": 50}`` or ``["training.rounds=50"]``; texts are read as on the command line.
        keys: further overrides of top-level keys, e.g. ``seed=3``.

    Raises:
        InvalidScenario: with everything that is wrong.
    """
    from simfl.experiments.sweep.plan import source

    return source(file)[1]([*_texts(overrides), *_texts(keys)])


def run(
    scenario: "Scenario | Mapping[str, object] | Path | str",
    overrides: Overrides = (),
    *,
    out: Path | str = "results",
    resume: bool = True,
    force: bool = False,
    **keys: object,
) -> "Result":
    """Runs a scenario, or opens its results if they are complete.

    Args:
        scenario: a file, a mapping with the keys of one, or what :func:`load` returned.
        overrides, keys: as for :func:`load`.
        out: root of all results.
        resume: go on where an interrupted run stopped; else start anew.
        force: run again even if the results are complete.

    Raises:
        SimflError: the scenario is invalid, cannot be built, or another process is running it.
    """
    from simfl.api.result_objects import Result
    from simfl.core.errors import ScenarioError
    from simfl.experiments.sweep.plan import source
    from simfl.runs.run import run as play
    from simfl.scenario import Scenario

    texts = [*_texts(overrides), *_texts(keys)]
    chosen = scenario if isinstance(scenario, Scenario) and not texts else source(scenario)[1](texts)
    try:
        return Result.open(play(chosen, Path(out), resume=resume, force=force).path)
    except ScenarioError as error:
        raise chosen.locate(error) from None


def sweep(
    scenario: "Scenario | Mapping[str, Any] | Path | str",
    grid: Mapping[str, Any],
    *,
    replications: int = 1,
    out: Path | str = "results",
    progress: bool = True,
    **how: Any,
) -> "SweepResult":
    """Runs a scenario for every combination of values; what is complete is kept.

    Args:
        scenario: a file, a mapping with the keys of one, or what :func:`load` returned.
        grid: values by key, e.g. ``{"selection": ["random", "partition"], "training.rounds": 20}``.
        replications: runs of each combination, with the seeds ``seed``, ``seed + 1``, ...
        out: root of all results.
        progress: show a progress bar in a terminal.
        how: ``jobs``, ``retry_failed``, ``time_limit_s``, ``shard``, ``engine``, ``scheduler``, ``insecure`` of
            :class:`simfl.experiments.sweep.execution.How`.

    Raises:
        SimflError: a member is invalid, or another process is running the same sweep. A run that fails raises
            nothing: it is a row of ``runs`` with its error.
    """
    from simfl.api.result_objects import SweepResult
    from simfl.experiments.sweep.execution import How, play
    from simfl.experiments.sweep.grid import axes_of
    from simfl.experiments.sweep.plan import plan_sweep
    from simfl.experiments.sweep.progress import shown

    options = How(**how)
    plan = plan_sweep(scenario, axes_of(grid), replications)
    folder = Path(out, plan.name, f"sweep-{plan.digest}")
    with shown(not progress) as watch:
        play(plan, Path(out), folder, options, watch)
    return SweepResult.open(folder)


def compare(
    scenario: "Scenario | Mapping[str, Any] | Path | str",
    grid: Mapping[str, Any],
    *,
    replications: int = 5,
    baseline: str | None = None,
    target_accuracy: float | None = None,
    out: Path | str = "results",
    progress: bool = True,
    **how: Any,
) -> "ComparisonResult":
    """Runs a scenario in several configurations with the same draws; means, and differences with their confidence.

    Args:
        scenario: a file, a mapping with the keys of one, or what :func:`load` returned.
        grid: what is compared (keys with several values) and fixed (keys with one).
        replications: seeds of each configuration.
        baseline: the label of the configuration that the others are compared with; default: the first.
        target_accuracy: for time, rounds and bytes to it; default: the highest whole per cent reached by every run
            that learned.
        out, progress, how: as for :func:`sweep`.

    Raises:
        SimflError: as for :func:`sweep`, or there is nothing to compare.
    """
    from simfl.api.result_objects import ComparisonResult
    from simfl.experiments.compare.comparison import compare as made
    from simfl.experiments.compare.comparison import configurations
    from simfl.experiments.sweep.execution import How
    from simfl.experiments.sweep.grid import axes_of
    from simfl.experiments.sweep.plan import plan_sweep
    from simfl.experiments.sweep.progress import shown

    axes, options = axes_of(grid), How(**how)
    configurations(axes)
    plan = plan_sweep(scenario, axes, replications)
    with shown(not progress) as watch:
        path = made(plan, Path(out), options, baseline, target_accuracy, watch).path
    return ComparisonResult.open(path)


def open(path: Path | str, *, trust_plugins: bool = False) -> "Result | SweepResult | ComparisonResult":
    """The results in the folder of a run, a sweep or a comparison. Nothing in it is executed.

    Args:
        path: the folder.
        trust_plugins: whether ``scenario`` of the results, read when first asked for, may execute plugin files that
            the folder names, whatever they are. Otherwise only those whose content has been executed here before.

    Raises:
        SimflError: there are none.
    """
    from simfl.api.result_objects import open as opened

    return opened(path, trust_plugins)


def _texts(overrides: Overrides) -> list[str]:
    from simfl.core.errors import SimflError
    from simfl.experiments.sweep.grid import value_text

    if isinstance(overrides, Mapping):
        return [f"{key}={value_text(value)}" for key, value in overrides.items()]
    if isinstance(overrides, str):
        raise SimflError(f"overrides are a mapping or a list of texts; did you mean [{overrides!r}]?")
    return list(overrides)

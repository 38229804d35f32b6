"""simfl from Python: ``simfl.load``, ``run``, ``sweep``, ``compare``, ``open``. Importing it imports nothing slow."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simfl.compare.result import ComparisonResult
    from simfl.results import Result
    from simfl.scenario import Scenario
    from simfl.sweep.result import SweepResult

__all__ = ["CallableModule", "compare", "load", "open", "run", "sweep"]

Overrides = Iterable[str] | Mapping[str, Any]


class CallableModule(ModuleType):
    """A module that is called like its function of this module: ``simfl.run(...)`` beside ``simfl.run.verify(...)``."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return globals()[self.__name__.rpartition(".")[2]](*arguments, **options)


def load(file: Path | str | Mapping[str, Any], overrides: Overrides = (), **keys: Any) -> "Scenario":
    """Reads a scenario.

    Args:
        file: YAML, or a mapping with the keys of a scenario file.
        overrides: ``{"training.rounds": 50}`` or ``["training.rounds=50"]``; texts are read as on the command line.
        keys: further overrides of top-level keys, e.g. ``seed=3``.

    Raises:
        InvalidScenario: with everything that is wrong.
    """
    from simfl.sweep.plan import source

    return source(file)[1]([*_texts(overrides), *_texts(keys)])


def run(
    scenario: "Scenario | Mapping[str, Any] | Path | str",
    overrides: Overrides = (),
    *,
    out: Path | str = "results",
    resume: bool = False,
    force: bool = False,
    **keys: Any,
) -> "Result":
    """Plays a scenario, or opens its results if they are complete.

    Args:
        scenario: a file, a mapping with the keys of one, or what :func:`load` returned.
        overrides, keys: as for :func:`load`.
        out: root of all results.
        resume: go on where an interrupted run stopped.
        force: play again even if the results are complete.

    Raises:
        SimflError: the scenario is invalid, cannot be built, or another process is playing it.
    """
    from simfl.errors import ScenarioError
    from simfl.results import Result
    from simfl.scenario import Scenario
    from simfl.sweep.plan import source

    texts = [*_texts(overrides), *_texts(keys)]
    chosen = scenario if isinstance(scenario, Scenario) and not texts else source(scenario)[1](texts)
    try:
        return Result.open(import_module("simfl.run").run(chosen, Path(out), resume=resume, force=force).path)
    except ScenarioError as error:
        raise chosen.located(error) from None


def sweep(
    scenario: "Scenario | Mapping[str, Any] | Path | str",
    grid: Mapping[str, Any],
    *,
    replications: int = 1,
    out: Path | str = "results",
    progress: bool = True,
    **how: Any,
) -> "SweepResult":
    """Plays a scenario for every combination of values; what is complete is kept.

    Args:
        scenario: a file, a mapping with the keys of one, or what :func:`load` returned.
        grid: values by key, e.g. ``{"selection": ["random", "partition"], "training.rounds": 20}``.
        replications: runs of each combination, with the seeds ``seed``, ``seed + 1``, ...
        out: root of all results.
        progress: show a progress bar in a terminal.
        how: ``jobs``, ``retry_failed``, ``time_limit_s``, ``shard``, ``engine``, ``scheduler``, ``insecure`` of
            :class:`simfl.sweep.playing.How`.

    Raises:
        SimflError: a member is invalid, or another process is playing the same sweep. A run that fails raises
            nothing: it is a row of ``runs`` with its error.
    """
    from simfl.sweep.grid import axes_of
    from simfl.sweep.plan import planned
    from simfl.sweep.playing import How, play
    from simfl.sweep.progress import shown
    from simfl.sweep.result import SweepResult

    options = How(**how)
    plan = planned(scenario, axes_of(grid), replications)
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
    """Plays a scenario with several choices under the same draws; means, and differences with their confidence.

    Args:
        scenario: a file, a mapping with the keys of one, or what :func:`load` returned.
        grid: what is compared (keys with several values) and fixed (keys with one).
        replications: seeds of each choice.
        baseline: the choice that the others are compared with; default: the first.
        target_accuracy: for time, rounds and bytes to it; default: the highest whole per cent reached by every run
            that learned.
        out, progress, how: as for :func:`sweep`.

    Raises:
        SimflError: as for :func:`sweep`, or there is nothing to compare.
    """
    from simfl.compare.comparison import choices
    from simfl.compare.comparison import compare as made
    from simfl.compare.result import ComparisonResult
    from simfl.sweep.grid import axes_of
    from simfl.sweep.plan import planned
    from simfl.sweep.playing import How
    from simfl.sweep.progress import shown

    axes, options = axes_of(grid), How(**how)
    choices(axes)
    plan = planned(scenario, axes, replications)
    with shown(not progress) as watch:
        path = made(plan, Path(out), options, baseline, target_accuracy, watch).path
    return ComparisonResult.open(path)


def open(path: Path | str) -> "Result | SweepResult | ComparisonResult":
    """The results in the folder of a run, a sweep or a comparison.

    Raises:
        SimflError: there are none.
    """
    from simfl.compare.result import ComparisonResult
    from simfl.errors import SimflError
    from simfl.results import Result
    from simfl.sweep.result import SweepResult

    for name, kind in (("summary.json", Result), ("comparison.json", ComparisonResult), ("sweep.yaml", SweepResult)):
        if Path(path, name).exists():
            found: Any = kind.open(path)  # type: ignore[attr-defined]
            return found
    raise SimflError(f"{path}: no run, sweep or comparison here")


def _texts(overrides: Overrides) -> list[str]:
    from simfl.sweep.grid import value_text

    if isinstance(overrides, Mapping):
        return [f"{key}={value_text(value)}" for key, value in overrides.items()]
    return list(overrides)

"""simfl from Python: ``simfl.load``, ``run``, ``sweep``, ``compare``, ``open``, ``verify``.

Importing it imports nothing slow.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simfl.api.result_objects import ComparisonResult, Result, SweepResult
    from simfl.learning.objects.handles import Handle
    from simfl.scenario import Scenario

Overrides = Iterable[str] | Mapping[str, Any]


def load(file: Path | str | Mapping[str, object], overrides: Overrides = (), **keys: object) -> "Scenario":
    """Reads a scenario.

    Args:
        file: YAML, or a mapping with the keys of a scenario file.
        overrides: ``{"training.rounds": 50}`` or ``["training.rounds=50"]``; texts are read as on the command line.
        keys: further overrides of top-level keys, e.g. ``seed=3``.

    The values of ``learning.model``, ``learning.data`` and ``learning.partition`` may be objects: a torch module, data
    as ``(X, y)`` or a data set, lists of positions, see docs/how-to/own-model.md.

    Raises:
        InvalidScenario: with everything that is wrong.
    """
    from simfl.experiments.sweep.plan import source

    base, texts, handles = _hand_in_all(file, overrides, keys)
    return source(base)[1](texts).using(objects=tuple(handles))


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

    base, texts, handles = _hand_in_all(scenario, overrides, keys)
    chosen = base if isinstance(base, Scenario) and not texts else source(base)[1](texts)
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
    from simfl.api.object_overrides import hand_in
    from simfl.api.result_objects import SweepResult
    from simfl.experiments.sweep.execution import How, play
    from simfl.experiments.sweep.grid import axes_of
    from simfl.experiments.sweep.plan import plan_sweep
    from simfl.experiments.sweep.progress import shown

    options = How(**how)
    base, _, _handles = _hand_in_all(scenario, (), {})
    texts, _grid_handles = hand_in(grid, several=True)
    plan = plan_sweep(base, axes_of(texts), replications)
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
    from simfl.api.object_overrides import hand_in
    from simfl.api.result_objects import ComparisonResult
    from simfl.experiments.compare.comparison import compare as made
    from simfl.experiments.compare.comparison import configurations
    from simfl.experiments.sweep.execution import How
    from simfl.experiments.sweep.grid import axes_of
    from simfl.experiments.sweep.plan import plan_sweep
    from simfl.experiments.sweep.progress import shown

    base, _, _handles = _hand_in_all(scenario, (), {})
    texts, _grid_handles = hand_in(grid, several=True)
    axes, options = axes_of(texts), How(**how)
    configurations(axes)
    plan = plan_sweep(base, axes, replications)
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


def verify(
    path: Path | str, objects: Mapping[str, object] | None = None, *, trust_plugins: bool = False
) -> dict[str, bool]:
    """Repeats a finished run elsewhere, from the sources of its data; for every file, whether it came out the same.

    Args:
        path: the folder of the run.
        objects: the models, data and partitions that were handed in, by their keys, e.g. ``{"learning.model": net}``.
        trust_plugins: execute plugin files and modules that the scenario names, whatever they are.

    Raises:
        SimflError: there is no finished run, or an object is missing or is not the one of the run.
        IntegrityError: a stored file does not match the digest in its summary.
    """
    from simfl.api.object_overrides import hand_in, refuse_others
    from simfl.results.file_names import SCENARIO
    from simfl.results.folder import ResultsFolder
    from simfl.runs.run import verify as repeat
    from simfl.scenario import Scenario
    from simfl.scenario.trust import Trust

    texts, _handles = hand_in(objects or {})
    scenario = Scenario.load(ResultsFolder.open(path).file(SCENARIO), trust=Trust(trust_plugins))
    refuse_others(scenario, texts)
    return repeat(Path(path), trust_plugins)


def _hand_in_all(scenario: Any, overrides: Overrides, keys: Mapping[str, Any]) -> tuple[Any, list[str], "list[Handle]"]:
    """The scenario and the texts of its overrides, with texts for the objects among them; the objects' handles."""
    from simfl.api.object_overrides import hand_in

    base, handles = hand_in(scenario) if isinstance(scenario, Mapping) else (scenario, [])
    texts, of_overrides = hand_in(overrides) if isinstance(overrides, Mapping) else (overrides, [])
    others, of_keys = hand_in(keys)
    return base, [*_texts(texts), *_texts(others)], [*handles, *of_overrides, *of_keys]


def _texts(overrides: Overrides) -> list[str]:
    from simfl.experiments.sweep.grid import value_text

    if isinstance(overrides, Mapping):
        return [f"{key}={value_text(value)}" for key, value in overrides.items()]
    return list(overrides)

"""simfl from Python: ``load``, ``run``, ``sweep``, ``compare``, ``search``, ``open``, ``plot``, ``attack``, ``verify``;
importing is fast.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from simfl.api.object_overrides import Overrides, hand_in, hand_in_all, plan_of, refuse_others
from simfl.core.errors import ScenarioError, SimflError, suggestion

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simfl.api.result_objects import ComparisonResult, Result, SearchResult, SweepResult
    from simfl.experiments.attack.after_run import Replayed
    from simfl.experiments.sweep.execution import How
    from simfl.results.run_files import OnRound
    from simfl.scenario import Scenario


WIDTHS_IN = {"column": 3.4, "page": 7.0}
"""Widths of one and of two columns of a paper, inches."""
FONTS = {"sans": {}, "serif": {"font_family": "STIXGeneral", "mathtext_fontset": "stix"}}


def load(file: "Path | str | Mapping[str, object] | Scenario", overrides: Overrides = (), **keys: object) -> "Scenario":
    """Reads a scenario.

    Args:
        file: YAML, a mapping with the keys of a scenario file, or a scenario that other overrides change.
        overrides: ``{"training.rounds": 50}`` or ``["training.rounds=50"]``; texts are read as on the command line.
        keys: further overrides of top-level keys, e.g. ``seed=3``.

    The values of ``learning.model``, ``learning.data`` and ``learning.partition`` may be objects: a torch module, data
    as ``(X, y)`` or a data set, lists of positions, see docs/how-to/own-model.md.

    Raises:
        InvalidScenario: with everything that is wrong.
    """
    from simfl.experiments.sweep.plan import source

    base, texts, handles = hand_in_all(file, overrides, keys)
    return source(base)[1](texts).using(objects=tuple(handles))


def run(
    scenario: "Scenario | Mapping[str, object] | Path | str",
    overrides: Overrides = (),
    *,
    out: Path | str = "results",
    resume: bool = True,
    force: bool = False,
    on_round: "OnRound | None" = None,
    log: Iterable[str] = (),
    run_name: str = "",
    tags: Iterable[str] = (),
    note: str = "",
    trust_plugins: bool = False,
    **keys: object,
) -> "Result":
    """Runs a scenario, or opens its results if they are complete.

    Args:
        scenario: a file, a mapping with the keys of one, or what :func:`load` returned; or the folder of a finished run
            that is made longer by ``training.rounds`` or ``training.stop``.
        overrides, keys: as for :func:`load`.
        out: root of all results.
        resume: go on where an interrupted run stopped; else start anew.
        force: run again even if the results are complete.
        on_round: called after every round with its row, a mapping from the columns of ``rounds.csv`` to numbers, None
            where a cell is empty: ``{"round": 0, "time_s": 0.41, "test_accuracy": 0.31, ...}``. Columns of privacy are
            computed at the end of the run, and empty before. Rounds that were run before (the results are complete, or
            the run goes on) come first, from the table. What it raises, ``simfl.StopRun`` or anything else, stops the
            run and comes out of this function; the same call goes on after that round. It cannot change a result.
        log: ``"mlflow"``, ``"wandb"`` or ``"tensorboard"``, or several of them, that log every round while it runs.
        run_name, tags, note: what ``simfl ls`` shows of the run; tags are added to those that it has.
        trust_plugins: execute plugin files that the folder of a finished run names, whatever they are.

    Raises:
        SimflError: the scenario is invalid, cannot be built, or another process is running it.
    """
    from simfl.api.result_objects import Result
    from simfl.experiments.sweep.plan import source
    from simfl.results.file_names import SCENARIO, is_finished
    from simfl.results.notes import Notes, texts_of
    from simfl.runs.tracking.tracked_run import run_tracked
    from simfl.scenario import Scenario
    from simfl.scenario.plugin_files import Trust

    names, notes = texts_of(log), Notes(run_name, texts_of(tags), note)
    goes_on = Path(scenario) if isinstance(scenario, (str, Path)) and is_finished(Path(scenario)) else None
    if goes_on is not None:  # it may be somebody else's
        Scenario.load(goes_on / SCENARIO, trust=Trust(trust_plugins))
    base, texts, handles = hand_in_all(scenario if goes_on is None else goes_on / SCENARIO, overrides, keys)
    chosen = base if isinstance(base, Scenario) and not texts else source(base)[1](texts)
    how: dict[str, Any] = {"resume": resume, "force": force, "extendable": True, "goes_on": goes_on}
    try:
        return Result.open(run_tracked(chosen, Path(out), names, notes, on_round=on_round, **how).path)
    except ScenarioError as error:
        raise chosen.locate(error) from None


def sweep(
    scenario: "Scenario | Mapping[str, Any] | Path | str",
    grid: Mapping[str, Any] | None = None,
    *,
    zipped: Iterable[Sequence[str]] = (),
    cases: Mapping[str, Mapping[str, Any]] | None = None,
    replications: int | None = None,
    out: Path | str = "results",
    progress: bool = True,
    **how: Any,
) -> "SweepResult":
    """Runs a scenario for every combination of values; what is complete is kept.

    Args:
        scenario: a file, a mapping with the keys of one, what :func:`load` returned, or a sweep file (``sweep.yaml``).
        grid: values by key, e.g. ``{"selection": ["random", "partition"], "training.rounds": 20}``.
        zipped: keys whose values move together, e.g. ``[("selection.k", "training.rounds")]``.
        cases: named cases, each with several overrides, e.g. ``{"fast": {}, "slow": {"training.rounds": 40}}``.
        replications: runs of each combination, with the seeds ``seed``, ``seed + 1``, ...; default: as the sweep file
            says, or 1.
        out: root of all results.
        progress: show a progress bar in a terminal.
        how: ``jobs``, ``retry_failed``, ``time_limit_s``, ``shard``, ``engine``, ``scheduler``, ``insecure``, ``log``,
            ``run_name``, ``tags``, ``note`` of :class:`simfl.experiments.sweep.execution.How`.

    Raises:
        SimflError: a member is invalid, or another process is running the same sweep. A run that fails raises
            nothing: it is a row of ``runs`` with its error.
    """
    from simfl.api.result_objects import SweepResult
    from simfl.experiments.sweep.execution import execute, shown

    options, plan = _how(how, sweep), plan_of(scenario, grid, zipped, cases, replications)
    folder = Path(out, plan.name, f"sweep-{plan.digest}")
    with shown(not progress) as watch:
        execute(plan, Path(out), folder, options, watch)
    return SweepResult.open(folder)


def compare(
    scenario: "Scenario | Mapping[str, Any] | Path | str",
    grid: Mapping[str, Any] | None = None,
    *,
    zipped: Iterable[Sequence[str]] = (),
    cases: Mapping[str, Mapping[str, Any]] | None = None,
    replications: int | None = None,
    baseline: str | None = None,
    target_accuracy: float | None = None,
    world: Iterable[str] = (),
    choice: Iterable[str] = (),
    at: Mapping[str, float] | None = None,
    out: Path | str = "results",
    progress: bool = True,
    **how: Any,
) -> "ComparisonResult":
    """Runs a scenario in several configurations with the same draws; means, and differences with their confidence.

    Args:
        scenario: as for :func:`sweep`.
        grid: what is compared (keys with several values) and fixed (keys with one).
        zipped, cases: as for :func:`sweep`.
        replications: seeds of each configuration; default: as the sweep file says, or 5.
        baseline: the choice that the others are compared with; default: the first.
        target_accuracy: for time, rounds and bytes to it; default: 95 % of the best of the baseline, mean over its
            runs, whatever it is compared with.
        world, choice: keys that are the world, or a choice, other than by default: a server decides ``selection``,
            ``training``, ``compression``, ``secagg`` and ``privacy``. Everything is compared within a world.
        at: ``rounds``, ``time``, ``updates`` or ``bytes`` spent, where the tables at equal budgets are made; default:
            the most that all runs spent.
        out, progress, how: as for :func:`sweep`.

    Raises:
        SimflError: as for :func:`sweep`, or there is nothing to compare.
    """
    from simfl.api.result_objects import ComparisonResult
    from simfl.experiments.compare.comparison import compare as made
    from simfl.experiments.compare.comparison import configurations
    from simfl.experiments.sweep.execution import shown

    options, plan = _how(how, compare), plan_of(scenario, grid, zipped, cases, replications, 5, configurations)
    with shown(not progress) as watch:
        path = made(plan, Path(out), options, baseline, target_accuracy, watch, tuple(world), tuple(choice), at).path
    return ComparisonResult.open(path)


def search(
    scenario: "Scenario | Mapping[str, Any] | Path | str",
    space: Mapping[str, Any] | Iterable[str],
    *,
    maximise: str | Sequence[str] = (),
    minimise: str | Sequence[str] = (),
    require: str | Sequence[str] = (),
    runs: int = 40,
    batch: int = 4,
    prune: Literal["rounds", "time"] | None = None,
    own_seeds: bool = False,
    out: Path | str = "results",
    progress: bool = True,
    **how: Any,
) -> "SearchResult":
    """Searches for the best values of keys with Optuna; what is complete is kept.

    Args:
        scenario: a file, a mapping with the keys of one, or what :func:`load` returned.
        space: by key, a range ``"0.01..0.3"``, ``"log:0.001..0.1"`` or ``"4..20:4"``, a list of values, or one value.
        maximise, minimise: one final value of a run or several; of several the Pareto front is found.
        require: bounds such as ``"privacy_weak>=4"``; only runs that keep all of them are feasible.
        runs: at most; a greater number goes on with the same search.
        batch: runs that are proposed together; it decides which ones are proposed, ``jobs`` does not.
        prune: stop runs early that are worse than the median of earlier ones after as many rounds, or at the same
            simulated time.
        own_seeds: whether each run has a seed of its own, so that the epsilons of all runs compose.
        out, progress, how: as for :func:`sweep`.

    Raises:
        MissingError: optuna is not installed (extra ``search``).
        SimflError: the space or the goal does not fit the scenario.
    """
    from simfl.api.result_objects import SearchResult
    from simfl.experiments.search.preparation import prepare
    from simfl.experiments.search.run_search import search as made
    from simfl.experiments.sweep.execution import shown

    large, small, bounds = ([text] if isinstance(text, str) else [*text] for text in (maximise, minimise, require))
    base, _, _handles = hand_in_all(scenario, (), {})
    texts, _of_space = hand_in(space, several=True) if isinstance(space, Mapping) else (space, [])
    definition, options = (
        prepare(base, texts, large, small, bounds, runs, batch, prune, (), own_seeds),
        _how(how, search),
    )
    with shown(not progress) as watch:
        path = made(definition, Path(out), options, watch).path
    return SearchResult.open(path)


def open(path: Path | str, *, trust_plugins: bool = False) -> "Result | SweepResult | ComparisonResult | SearchResult":
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
        objects: the models, data and partitions that were passed, by their keys, e.g. ``{"learning.model": net}``.
        trust_plugins: execute plugin files and modules that the scenario names, whatever they are.

    Raises:
        SimflError: there is no finished run, or an object is missing or is not the one of the run.
        IntegrityError: a stored file does not match the digest in its summary.
    """
    from simfl.results.file_names import SCENARIO
    from simfl.results.folder import ResultsFolder
    from simfl.runs.run import verify as repeat
    from simfl.scenario import Scenario
    from simfl.scenario.plugin_files import Trust

    texts, _handles = hand_in(objects or {})
    scenario = Scenario.load(ResultsFolder.open(path).file(SCENARIO), trust=Trust(trust_plugins))
    refuse_others(scenario, texts)
    return repeat(Path(path), trust_plugins)


def plot(
    folders: Path | str | Sequence[Path | str],
    figure: str | None = None,
    *,
    y: str | None = None,
    x: str | None = None,
    color: Sequence[str] = (),
    panels: Sequence[str] = (),
    where: Mapping[str, str] | None = None,
    output: Path | str | None = None,
    width: str | None = None,
    font: str = "sans",
) -> "Figure":
    """One figure of a run, a sweep or a comparison, as ``simfl plot`` draws it.

    Args:
        folders: one or several folders of results.
        figure: its name; ``simfl plot --help`` lists them. Or ``y`` and ``x``:
        y: a measure, e.g. ``test_accuracy``.
        x: a key that varies, another measure, or ``round`` or ``time`` for curves.
        color, panels: keys that are told by colours, and those with a panel for each value.
        where: values of other keys.
        output: a .pdf, .svg or .png file to write, with the data in a .csv file beside it.
        width: ``column`` or ``page`` of a paper.
        font: ``sans`` or ``serif``.

    Raises:
        SimflError: there is no such figure, key or format, or nothing to draw.
    """
    from simfl.report import draw, draw_by, style
    from simfl.report.saving import save

    if (figure is None) == (x is None or y is None) or (figure and (x or y or color or panels or where)):
        raise SimflError("give the name of a figure, or x and y")
    size = {"figure_figsize": (WIDTHS_IN[width], WIDTHS_IN[width])} if width else {}
    changes: dict[str, object] = {**FONTS[font], **size}
    if figure is not None:
        fig, table = draw(figure, folders, **changes)
    else:
        fig, table = draw_by(folders, str(y), str(x), color=color, panels=panels, where=where, **changes)
    if output is not None:
        with style.settings(**FONTS[font]):
            save(fig, table, Path(output))
    return fig


def attack(
    folder: Path | str,
    name: str,
    overrides: Iterable[str] = (),
    *,
    rounds: tuple[int, int | None] = (0, None),
    trust_plugins: bool = False,
) -> "Replayed":
    """Attacks a finished run with what its server saw, as ``simfl attack`` does.

    Args:
        folder: of a run made with ``trace: aggregates``.
        name: one of ``simfl list attack``.
        overrides: its fields, ``["field=value"]``.
        rounds: the window, first and behind the last; None = to the end.
        trust_plugins: execute plugin files that the results name.

    Raises:
        SimflError: there is no such run, record, window or attack.
    """
    from simfl.experiments.attack import after_run

    return after_run.attack(Path(folder), name, tuple(overrides), *rounds, trust_plugins=trust_plugins)


def _how(options: Mapping[str, Any], function: Callable[..., object]) -> "How":
    """
    Raises:
        SimflError: the function has no such argument.
    """
    from simfl.experiments.sweep.execution import How

    known = [*signature(function).parameters, *How.__dataclass_fields__]
    for name in options.keys() - How.__dataclass_fields__.keys():
        hint = suggestion(name, known) or f"; there are {', '.join(known)}"
        raise SimflError(f"{function.__name__}: no argument {name!r}{hint}")
    return How(**options)

"""Which delta stands behind each column of epsilons, read as data; epsilons of different deltas are not compared."""

from collections.abc import Collection, Iterator, Mapping

from simfl.core.columns import Column, unknown
from simfl.core.json_data import JsonObject
from simfl.core.wording import label_list
from simfl.results.file_names import SCENARIO
from simfl.results.folder import ResultsFolder

ACCOUNTED = {"zero_out": ("epsilon_max", "epsilon_median"), "pld": ("epsilon_pld",), "rdp": ("epsilon_rdp",)}
"""The epsilons of simfl's accountants, which all have the key ``delta``."""

PERTURBED = ("epsilon_weight", "epsilon_model")
"""Those of the stage ``output_perturbation``, of its key ``delta`` where its noise is Gaussian, else of 0."""

PURE = {"oblivious": ("epsilon_weight",)}
"""Those of protocols: of a delta of 0."""

Deltas = Mapping[str, tuple[float, ...]]
"""Of a run or a configuration: by column, ascending."""


def read_deltas(results: ResultsFolder) -> dict[str, tuple[float, ...]]:
    """The deltas behind a run's columns; of its scenario's text, of which nothing is executed.

    Raises:
        SimflError: the scenario is damaged.
    """
    from simfl.scenario.yaml.reader import read

    if SCENARIO not in results or not any("epsilon" in name for name in results.columns()):
        return {}
    text = results.read(SCENARIO).decode()
    if "delta" not in text and "oblivious" not in text and "output_perturbation" not in text:
        return {}
    scenario = read(text, str(results.path / SCENARIO)).value
    return deltas(scenario, results.columns()) if isinstance(scenario, dict) else {}


def deltas(scenario: JsonObject, columns: Collection[str]) -> dict[str, tuple[float, ...]]:
    """The deltas behind each of the columns.

    An accountant of a plugin that has a key ``delta`` is taken to fill what is called an epsilon and is nobody else's.

    Args:
        scenario: resolved, as plain data.
        columns: names of all that the run has.
    """
    privacy, protocol = _mapping(scenario.get("privacy")), _mapping(scenario.get("secagg"))
    simfls = {*PERTURBED, *(name for names in ACCOUNTED.values() for name in names)}
    foreign = tuple(name for name in columns if "epsilon" in name and name not in simfls)
    behind: dict[str, set[float]] = {}
    for accountant in map(_mapping, privacy.get("accountants") or ()):
        if isinstance(delta := accountant.get("delta"), (int, float)):
            for name in ACCOUNTED.get(str(accountant.get("name")), foreign):
                behind.setdefault(name, set()).add(float(delta))
    for stage in map(_mapping, privacy.get("stages") or ()):
        if stage.get("name") == "output_perturbation":
            delta = stage.get("delta") if stage.get("mechanism") == "gaussian" else None
            behind |= {name: {float(delta or 0.0)} for name in PERTURBED}
    behind |= {name: {0.0} for name in PURE.get(str(protocol.get("name")), ())}
    return {name: tuple(sorted(values)) for name, values in behind.items() if name in columns}


def merge(runs: Collection[Deltas]) -> dict[str, tuple[float, ...]]:
    """Those of some runs together."""
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: tuple(sorted({value for run in runs for value in run.get(name, ())})) for name in names}


def unlike(configurations: Mapping[str, Deltas]) -> dict[str, dict[str, tuple[float, ...]]]:
    """The columns behind which configurations have different deltas: by column, the deltas by configuration."""
    names = dict.fromkeys(name for each in configurations.values() for name in each)
    having = {name: {label: each[name] for label, each in configurations.items() if name in each} for name in names}
    return {name: by_label for name, by_label in having.items() if len(set(by_label.values())) > 1}


def delta_sentences(configurations: Mapping[str, Deltas], columns: Mapping[str, Column]) -> Iterator[str]:
    """In words, which epsilons cannot be compared: a sentence, without a full stop, for all of the same deltas."""
    together: dict[tuple[tuple[str, tuple[float, ...]], ...], list[str]] = {}
    for name, by_label in unlike(configurations).items():
        together.setdefault(tuple(by_label.items()), []).append((columns.get(name) or unknown(name)).heading)
    for pairs, headings in together.items():
        labels: dict[tuple[float, ...], list[str]] = {}
        for label, values in pairs:
            labels.setdefault(values, []).append(label)
        parts = [f"δ = {' and '.join(f'{value:g}' for value in values)} for {label_list(of)}"
                 for values, of in sorted(labels.items())]  # fmt: skip
        yield f"{' and '.join(headings)}: {', '.join(parts)}; ε of different δ cannot be compared"


def _mapping(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}

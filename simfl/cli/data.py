"""``simfl show data``"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from simfl.cli.shared import as_json, load, print_json, scenario_arguments, writable
from simfl.core.errors import ScenarioError
from simfl.core.json_data import JsonObject

QUANTILES = {"min": 0.0, "10%": 0.1, "median": 0.5, "90%": 0.9, "max": 1.0}
"""Of the columns of device profiles."""


@click.command("data", short_help="Show which client holds which data.")
@scenario_arguments
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the figure (.svg, .pdf or .png) and its tables (.csv) here."
)
@as_json
def command(file: str, overrides: tuple[str, ...], plugins: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Load a scenario's data, deal them out as a run would, and show samples and labels of the clients.

    Of device profiles (devices.profiles) it shows what the clients got: minimum, quantiles and maximum of each column.

    Nothing is trained. With --out NAME.svg the label histogram is drawn; NAME.csv holds its numbers, and
    NAME-samples.csv every client's samples by their position in the training part.
    """
    from simfl.core.rng import Streams
    from simfl.learning.supervised import Supervised
    from simfl.report.saving import format_of

    if out is not None:
        format_of(out)
        writable(out, "--out")
    scenario = load(file, overrides, plugins)
    choice = scenario.learning
    streams = Streams(scenario.seed)
    if not isinstance(choice, Supervised):
        if scenario.devices.profiles is None or out is not None:
            raise ScenarioError("learning", f"{choice.name} has no data; choose supervised")
        _show(_profile_facts(scenario, streams), as_json)
        return
    try:
        data = choice.data.load(scenario, streams)
        split = choice.partition.prepare(scenario).split(data, scenario.clients, streams("partition"))
    except ScenarioError as error:
        raise scenario.locate(error) from None
    counts = split.label_counts(data.labels, data.classes)
    facts = _facts(data, split, counts) | _profile_facts(scenario, streams)
    if out is not None:
        for path in _written(out, counts, data.label_names, split):
            click.echo(path, err=True)
    _show(facts, as_json)


def _show(facts: JsonObject, as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    for note in facts.pop("notes", []):
        click.echo(note)
    for name, value in facts.items():
        shown = "  ".join(f"{key} {number:.6g}" for key, number in value.items()) if isinstance(value, dict) else value
        click.echo(f"{name:28} {shown}")


def _profile_facts(scenario: Any, streams: Any) -> JsonObject:
    """Each column of the device profiles as the clients have it, in quantiles."""
    import numpy as np

    from simfl.devices.profiles import client_profiles

    return {
        f"device_{name}": {
            label: float(value)
            for label, value in zip(QUANTILES, np.quantile(values, [*QUANTILES.values()], method="nearest"))
        }
        for name, values in client_profiles(scenario, streams).items()
    }


def _written(out: Path, counts: Any, names: Any, split: Any) -> Iterator[Path]:
    """Writes the figure, and two tables: samples and labels of each client, and every client's samples."""
    import numpy as np
    from pandas import DataFrame

    from simfl.core.storage.disk import write_atomically
    from simfl.report import style
    from simfl.report.figures.labels import histogram
    from simfl.report.saving import csv_text, format_of, picture
    from simfl.results.file_names import refuse_result_files

    format = format_of(out)
    refuse_result_files(out, out.with_suffix(".csv"), out.with_name(f"{out.stem}-samples.csv"))
    labels = DataFrame({"client": np.arange(len(counts)), "samples": counts.sum(axis=1)})
    labels = labels.join(DataFrame(counts, columns=list(names)))
    owners = np.repeat(np.arange(len(split)), split.sizes)
    with style.settings():
        image = picture(histogram(counts, names)[0], format)
    out.parent.mkdir(parents=True, exist_ok=True)
    for path, data in (
        (out, image),
        (out.with_suffix(".csv"), csv_text(labels).encode()),
        (
            out.with_name(f"{out.stem}-samples.csv"),
            csv_text(DataFrame({"client": owners, "sample": split.indices})).encode(),
        ),
    ):
        write_atomically(path, data)
        yield path


def _facts(data: Any, split: Any, counts: Any) -> JsonObject:
    import numpy as np

    sizes = split.sizes
    return {
        "training_samples": len(data.y_train),
        "test_samples": len(data.y_test),
        "sample_shape": list(data.shape),
        **({"classes": data.classes} if data.classified else {}),
        "clients": len(split),
        "clients_without_samples": int((sizes == 0).sum()),
        "samples_per_client_min": int(sizes.min()),
        "samples_per_client_mean": float(sizes.mean()),
        "samples_per_client_max": int(sizes.max()),
        **({"labels_per_client_mean": float((counts > 0).sum(axis=1).mean())} if data.classified else {}),
        "unused_training_samples": len(data.y_train) - int(np.unique(split.indices).size),
        "columns": sorted(data.columns),
        "notes": list(data.notes),
    }

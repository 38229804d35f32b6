"""The files that fedltn.py and best.py write."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas
from arms import HERE

from simfl.experiments.compare.intervals import Interval, mean, paired_difference

MEASURES = {
    "trained_mean": "client_trained_accuracy_mean",
    "trained_min": "client_trained_accuracy_min",
    "before_mean": "client_accuracy_mean",
    "before_min": "client_accuracy_min",
}
PAIRS = (
    ("FedLTN 0.9", "FedLTN 0.9, rewinding"),
    ("FedLTN 0.9, no threshold", "FedLTN 0.9, rewinding, no threshold"),
    ("FedLTN 0.5", "LotteryFL 0.5"),
    ("FedLTN 0.1", "LotteryFL 0.1"),
    ("FedBN", "FedAvg"),
    ("FedLTN 0.9", "FedAvg"),
    ("FedLTN 0.9", "FedBN"),
    ("FedLTN 0.9", "FedLTN 0.9, plain server"),
    ("FedBN", "FedBN, look-ahead server"),
    ("FedLTN 0.9, plain server", "FedBN"),
)


def sent_mb(rounds: pandas.DataFrame) -> pandas.Series:
    """Megabytes sent in each round. Averages send whole models; sparse methods say what counts: values only."""
    return rounds.published_mb if "published_mb" in rounds else rounds.bytes_up / 1e6


def grown(
    file: Path, frames: list[pandas.DataFrame], played: Collection[tuple[str, int]], arms: list[str]
) -> pandas.DataFrame:
    """These rows and those that the file has of other arms and seeds than were played, as it has them afterwards."""
    if file.exists():
        before = pandas.read_csv(file)
        frames = [before[~pandas.MultiIndex.from_frame(before[["arm", "seed"]]).isin(list(played))], *frames]
    if not frames:
        raise SystemExit("every run has diverged; no table is written")
    rank = {arm: place for place, arm in enumerate(arms)}
    table = pandas.concat(frames)
    table = table.assign(place=table.arm.map(rank).fillna(len(arms))).sort_values(["seed", "place"], kind="stable")
    table.drop(columns="place").to_csv(file, index=False, float_format="%.5g")
    return pandas.read_csv(file)


def write(found: dict[str, dict[int, dict[str, float]]], diverged: dict[str, int], table: str) -> None:
    """The arms' rows, by seed, as means and as paired differences."""
    whole = pandas.DataFrame(found["FedAvg"].values())
    rows: list[dict[str, Any]] = []
    for name, values in found.items():
        frame = pandas.DataFrame(values.values())
        for when in ("20", "last"):  # of what FedAvg sends in a round
            frame[f"pruned_{when}"] = 100 * (1 - frame.pop(f"sent_{when}") / whole.sent_20.iloc[0])
        row: dict[str, Any] = {"arm": name, "seeds": len(frame), "diverged": diverged[name]}
        for measure in frame:
            row |= columns(measure, mean(frame[measure].to_numpy()))
        rows.append(row | {"share": row["megabytes"] / whole.megabytes.mean()})
    pandas.DataFrame(rows).to_csv(HERE / f"{table}.csv", index=False, float_format="%.5g")
    rows = []
    for one, other in PAIRS:
        if seeds := sorted(found.get(one, {}).keys() & found.get(other, {}).keys()):
            a, b = (pandas.DataFrame([found[name][seed] for seed in seeds]) for name in (one, other))
            row = {"arm": one, "against": other, "seeds": len(seeds)}
            for measure in ("trained_mean", "trained_min", "before_mean", "sent_20", "megabytes"):
                row |= columns(measure, paired_difference(a[measure].to_numpy(), b[measure].to_numpy()))
            rows.append(row)
    pandas.DataFrame(rows).to_csv(HERE / f"{table}_paired.csv", index=False, float_format="%.5g")


def write_courses(courses: dict[str, list[pandas.DataFrame]], table: str) -> None:
    means = {name: pandas.concat(frames).groupby("rounds").mean() for name, frames in courses.items()}
    if max(map(len, means.values())) > 1:
        rows = pandas.concat(means, names=["arm"]).reset_index()
        rows.to_csv(HERE / f"{table}_course.csv", index=False, float_format="%.5g")


def columns(name: str, interval: Interval) -> dict[str, float | None]:
    return {name: interval.estimate, f"{name}_low": interval.lower, f"{name}_high": interval.upper}


def draw(clients: dict[str, list[pandas.DataFrame]], table: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": table, "svg.fonttype": "none"}
    from matplotlib import pyplot

    names = list(clients)
    values = [pandas.concat(frames).trained.dropna().mul(100).to_numpy() for frames in clients.values()]
    figure, axes = pyplot.subplots(figsize=(7, 0.35 * len(names) + 1), layout="constrained")
    axes.boxplot(values, orientation="horizontal", whis=(0, 100), tick_labels=names, widths=0.6)
    axes.invert_yaxis()
    axes.set_xlabel("accuracy on own test samples after local training, % (box: quartiles; whiskers: all clients)")
    figure.savefig(HERE / f"{table}.svg", metadata={"Date": None})
    pyplot.close(figure)

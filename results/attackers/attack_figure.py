"""Tables and the figure of the studies of attackers, from the stored values of their runs alone.

    python results/attackers/attack_figure.py

Reads seeds.csv (attackers.py) and units_seeds.csv (units.py) beside this file. Writes damage.csv, one row a
configuration: damage (accuracy of the same seed without attackers less that with them), attack success and the
attackers' share of the aggregate; liars.csv, what liars under Oort change, pair by pair; and damage.svg. All with 95 %
intervals (Student) over the seeds.
"""

from pathlib import Path

import pandas

from simfl.experiments.compare.intervals import mean, paired_difference
from simfl.report import style
from simfl.report.saving import save

HERE = Path(__file__).resolve().parent
KEYS = ["part", "attack", "aggregate", "where", "T"]
SEED = "seed"
LIED = ("liars_share", "honest_sums", "test_accuracy", *(f"recovered_{kind}{t}" for t in (10, 20, 30)
        for kind in ("", "most_", "told_", "told_most_")))  # fmt: skip


def seeds() -> pandas.DataFrame:
    """The runs of both studies that have an aggregate and an attack, a row each."""
    first = pandas.read_csv(HERE / "seeds.csv").query("part == 'aggregates'").assign(T=1)
    return pandas.concat([first, pandas.read_csv(HERE / "units_seeds.csv")], ignore_index=True)


def _ends(name: str, values: pandas.Series) -> dict[str, float]:
    if not len(values := values.dropna()):
        return {}
    known = mean(values.to_numpy())
    return {name: known.estimate, f"{name}_lower": known.lower, f"{name}_upper": known.upper}


def damages(table: pandas.DataFrame) -> pandas.DataFrame:
    """One row a configuration with attackers."""
    table = table[table["part"] != "liars"].replace({"part": {"goal": "aggregates"}})
    cells, rows = table.set_index([*KEYS, SEED]).sort_index(), []
    for key, runs in table.groupby(KEYS, sort=False):
        part, attack, aggregate, _, T = key
        if attack == "none":
            continue
        clean = cells.loc[(part, "none", aggregate, "apart", T)].test_accuracy
        lost = clean - runs.set_index(SEED).test_accuracy
        row = dict(zip(KEYS, key, strict=True)) | {"seeds": len(lost), "clean": clean.mean()} | _ends("damage", lost)
        rows.append(row | _ends("success", runs.attack_success) | _ends("believed", runs.attacker_share)
                    if "attack_success" in runs else row | _ends("believed", runs.attacker_share))  # fmt: skip
    return pandas.DataFrame(rows)


def lies(table: pandas.DataFrame) -> pandas.DataFrame:
    """What it changes that eight clients say losses ten times as large, of the same seeds."""
    told = {factor: table[table["attack"] == f"losses times {factor}"].set_index(SEED) for factor in (1, 10)}
    rows = []
    for name in LIED:
        change = paired_difference(told[10][name], told[1][name])
        ends = {"change": change.estimate, "lower": change.lower, "upper": change.upper}
        rows.append({"measure": name, "honest": told[1][name].mean(), "lying": told[10][name].mean()} | ends)
    return pandas.DataFrame(rows)


def _points(axis: object, place: object, rows: pandas.DataFrame, name: str, **how: object) -> None:
    ends = [rows[name] - rows[f"{name}_lower"], rows[f"{name}_upper"] - rows[name]]
    axis.errorbar(place, rows[name], ends, capsize=2, **how)


def draw(table: pandas.DataFrame) -> None:
    """Above, by attack and aggregate; below, by the clients of a unit."""
    from matplotlib import pyplot

    labels = {"damage": "accuracy lost", "success": "attack success", "believed": "attackers' share of the aggregate"}
    singles, units = table[table["part"] == "aggregates"], table[table["part"] == "units"]
    with style.settings():
        figure, axes = pyplot.subplots(2, 3, figsize=(11, 6.2))
        attacks = list(dict.fromkeys(singles["attack"]))
        for axis, (name, label) in zip(axes[0], labels.items(), strict=True):
            for shift, marker, (aggregate, rows) in zip(
                (-0.2, 0, 0.2), "os^", singles.groupby("aggregate", sort=False)
            ):
                rows = rows.dropna(subset=[name])
                places = [attacks.index(attack) + shift for attack in rows["attack"]]
                _points(axis, places, rows, name, marker=marker, linestyle="none", label=aggregate)
            axis.set(ylabel=label, ylim=(0, None) if name != "damage" else None)
            axis.set_xticks(range(len(attacks)), attacks, rotation=20)
        panels = [("inner product", "damage"), ("sign flip", "damage"), ("inner product", "believed")]
        for axis, (attack, name) in zip(axes[1], panels, strict=True):
            some = units[units["attack"] == attack]
            for (aggregate, where), rows in some.groupby(["aggregate", "where"], sort=False):
                n = ("mean", "geometric median").index(aggregate) * 2 + (where == "together")
                _points(axis, rows["T"], rows, name, marker="os^v"[n], color=f"C{n}", label=f"{aggregate}, {where}")
            axis.set(xlabel="clients of a unit, T", ylabel=f"{labels[name]} ({attack})", xscale="log")
            axis.set_xticks(sorted(set(units["T"])), [f"{T}" for T in sorted(set(units["T"]))])
            axis.minorticks_off()
        for axis in (axes[0, 0], axes[1, 0]):
            axis.legend(frameon=False, fontsize=7)
        save(figure, table, HERE / "damage.svg")


def main() -> None:
    """Writes all of it."""
    table = seeds()
    lies(table).round(4).to_csv(HERE / "liars.csv", index=False)
    draw(damages(table).round(4))


if __name__ == "__main__":
    main()

"""What a reported number is: its name, unit, heading and meaning. Everyone who shows numbers reads these."""

from typing import Literal, NamedTuple

__all__ = ["Column", "ROUND_COLUMNS"]

Unit = Literal["number", "count", "seconds", "bytes", "share"]
Final = Literal["last", "sum", "max", "min"]


class Column(NamedTuple):
    """One column of rounds.csv, owned by whoever fills it: the servers, or a plugin that lists it in ``columns``.

    Attributes:
        name: as in rounds.csv and summary.json; units stand in it (``_s``, ``_bytes``).
        heading: a short title for tables and axes.
        unit: how its values are shown.
        sentence: what it means, one sentence.
        better: 1 if more is better, -1 if less is, 0 if neither.
        final: how a run's summary sums it up; None leaves it out.
    """

    name: str
    heading: str
    unit: Unit
    sentence: str
    better: Literal[-1, 0, 1] = 0
    final: Final | None = "last"


ROUND_COLUMNS: tuple[Column, ...] = (
    Column("round", "Round", "count", "Number of the server round, from 0.", final=None),
    Column("time_s", "Simulated time", "seconds", "Simulated time at which the round ended.", -1),
    Column("skipped", "Skipped rounds", "count", "1 if nothing was aggregated in the round.", -1, "sum"),
    Column("cardinality", "Updates", "count", "Updates aggregated in the round.", 1, None),
    Column("mean_cardinality", "Cardinality", "number", "Updates aggregated per round, mean over all rounds so far.", 1),
    Column(
        "fairness_gap", "Fairness gap", "number",
        "Largest minus smallest share of the rounds so far in which a client took part.", -1,
    ),
    Column("privacy_strong", "Strong", "number", "Smallest set of clients that always took part together.", 1),
    Column(
        "privacy_semi_strong", "Semi-strong", "number",
        "Fewest clients behind which each one hides in every linear combination, weighted.", 1,
    ),
    Column(
        "privacy_weak_lower", "Weak", "number",
        "Fewest clients in any linear combination of the aggregates; a lower bound where not exact.", 1,
    ),
    Column(
        "privacy_weak_upper", "Weak, at most", "number",
        "Upper bound of the fewest clients in any linear combination of the aggregates.", 1,
    ),
    Column("staleness_mean", "Mean staleness", "number", "Mean staleness of the updates aggregated.", -1, None),
    Column("staleness_max", "Largest staleness", "count", "Largest staleness of the updates aggregated.", -1, None),
    Column("failed", "Failed jobs", "count", "Clients that began to work and were not aggregated.", -1, "sum"),
    Column("bytes_down", "Bytes down", "bytes", "Bytes sent by the server.", -1, "sum"),
    Column("bytes_up", "Bytes up", "bytes", "Bytes that reached the server.", -1, "sum"),
    Column("train_loss", "Training loss", "number", "Mean training loss of the updates aggregated.", -1),
    Column("test_loss", "Test loss", "number", "Loss of the global model on the test samples.", -1),
    Column("test_accuracy", "Accuracy", "share", "Test accuracy of the global model.", 1),
)  # fmt: skip
"""What every rounds.csv begins with; plugins' columns follow."""

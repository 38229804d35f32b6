"""What a reported number is: its name, unit, heading and meaning. Everyone who shows numbers reads these.

``python -m simfl.core.columns`` prints ``docs/reference/columns.md``.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from simfl.core.certificate_words import MEASURED, MULTI_ROUND, POLICY, basis_lines

Unit = Literal["number", "count", "seconds", "bytes", "share"]
Final = Literal["last", "end", "sum", "whole_sum", "max", "min", "count"]


class Column(NamedTuple):
    """One column of rounds.csv, owned by whoever fills it: the servers, or a plugin that lists it in ``columns``.

    Attributes:
        name: as in rounds.csv and summary.json; units stand in it (``_s``, ``_bytes``).
        heading: a short title for tables and axes.
        unit: how its values are shown.
        sentence: what it means, one sentence.
        better: 1 if more is better, -1 if less is, 0 if neither.
        final: how a summary sums it up; None leaves it out. ``last`` is the last value that there is. ``end`` (of the
            last round) and ``whole_sum`` are for values whose empty cells mean infinity, as of epsilons; they are empty
            themselves where one of these counts.
        source: the column of rounds.csv that ``final`` sums up, where it has another name.
        shown: whether comparisons, reports and the live page show it unasked.
        words: what a sentence calls it, if not by its heading.
        observer: of a certificate, whom it is against; empty of all other numbers.
        protects: of a certificate, what is protected: its adjacency.
        assumes: of a certificate, what it takes for granted, in clauses separated by semicolons.
    """

    name: str
    heading: str
    unit: Unit
    sentence: str
    better: Literal[-1, 0, 1] = 0
    final: Final | None = "last"
    source: str = ""
    shown: bool = True
    words: str = ""
    observer: str = ""
    protects: str = ""
    assumes: str = ""

    @property
    def noun(self) -> str:
        """The heading inside a sentence."""
        return self.words or self.heading[:1].lower() + self.heading[1:]

    @property
    def may_be_infinite(self) -> bool:
        """Whether a run that has no value of it has an infinite one."""
        return self.final in ("end", "whole_sum")


ROUND_COLUMNS: tuple[Column, ...] = (
    Column("round", "Round", "count", "Number of the server round, from 0.", final=None, shown=False),
    Column("time_s", "Simulated time", "seconds", "Simulated time at which the round ended.", -1),
    Column("skipped", "Skipped rounds", "count",
           "1 if nothing was aggregated in the round; in a summary, the number of such rounds.", -1, "sum"),
    Column("cardinality", "Updates", "count", "Updates aggregated in the round.", 1, None, shown=False),
    Column("mean_cardinality", "Cardinality", "number", "Updates aggregated per round, mean over the rounds so far.",
           1),
    Column("fairness_gap", "Fairness gap", "number",
           "Largest minus smallest share of the rounds so far in which a client took part.", -1),
    Column("privacy_strong", "Strong", "number", "Smallest set of clients that always took part together.", 1,
           words="strong guarantee", **MULTI_ROUND),
    Column("privacy_semi_strong", "Semi-strong", "number",
           "Fewest clients behind which each one hides in every linear combination, weighted; a lower bound where not "
           "exact.", 1, words="semi-strong guarantee", **MULTI_ROUND),
    Column(
        "privacy_weak_lower", "Weak", "number",
        "Fewest clients in any linear combination of the aggregates; a lower bound where not exact.", 1,
        words="weak guarantee", **MULTI_ROUND,
    ),
    Column(
        "privacy_weak_upper", "Weak, at most", "number",
        "Upper bound of the fewest clients in any linear combination of the aggregates.", 1, shown=False,
        **MULTI_ROUND,
    ),
    Column(
        "measured_recovered", "Recovered (measured)", "count",
        "Clients whose latest update the best of the tried least-squares attackers recovers from all that the server "
        "has seen, with a squared error below a tenth of its squared length.", -1, words="recovered clients (measured)",
        **MEASURED,
    ),
    Column(
        "measured_error", "Recovery error (measured)", "number",
        "Squared error, relative to the squared length of each client's latest update, of the best of the tried "
        "least-squares attackers, mean over the clients that have sent any; 1 is that of guessing 0.", 1, shown=False,
        words="recovery error (measured)", **MEASURED,
    ),
    Column("staleness_mean", "Mean staleness", "number", "Mean staleness of the updates aggregated.", -1, None,
           shown=False),
    Column("staleness_max", "Largest staleness", "count", "Largest staleness of the updates aggregated.", -1, None,
           shown=False),
    Column("failed", "Failed jobs", "count", "Clients that began to work and were not aggregated.", -1, "sum",
           shown=False),
    Column("bytes_down", "Bytes down", "bytes", "Bytes sent by the server.", -1, "sum", shown=False),
    Column("bytes_up", "Bytes up", "bytes", "Bytes that reached the server.", -1, "sum", shown=False),
    Column("train_loss", "Training loss", "number", "Mean training loss of the updates aggregated.", -1),
    Column("test_loss", "Test loss", "number", "Loss of the global model on the test samples.", -1, shown=False),
    Column("test_accuracy", "Accuracy", "share", "Test accuracy of the global model.", 1),
)  # fmt: skip
"""What every rounds.csv begins with; plugins' columns follow."""

MASKED_COLUMNS: tuple[Column, ...] = (
    Column("secagg_bytes", "Secure aggregation", "bytes",
           "Bytes of the secure aggregation's own phases, in both directions.", -1, "sum", shown=False),
    Column("secagg_s", "Time of secure aggregation", "seconds",
           "Simulated time of the secure aggregation's own phases; those of several units add up.", -1, "sum",
           shown=False),
    Column("clear_bytes", "Bytes in clear", "bytes",
           "Bytes that the same models and updates take without secure aggregation, in both directions.", -1, "sum",
           shown=False),
    Column("secagg_failed", "Failed sums", "count",
           "Sums, and units' preparations, that the protocol could not bring to a good end.", -1, "sum", shown=False),
    Column("failed_upload", "Failed in upload", "count",
           "Clients that were sent the model and failed, or whose update was too late.", -1, "sum", shown=False),
    Column("clipped", "Clipped coordinates", "count",
           "Coordinates of the updates in the sum that were clipped before it.", -1, "sum", shown=False),
    Column("wrapped", "Wrapped coordinates", "count",
           "Coordinates of the sum that wrapped around; only a fixed scale lets them.", -1, "sum", shown=False),
)  # fmt: skip
"""What rounds.csv tells of protocols of masks, besides :func:`failing` for each of their phases."""

COLLUDER_COLUMNS = tuple(
    Column(
        f"{column.name}_colluders", f"{column.heading}, colluders", column.unit, sentence, column.better,
        column.final, "", column.shown, f"{column.noun} against colluders",
        "the server and any privacy.colluders clients", column.protects, column.assumes,
    )
    for column, sentence in zip([column for column in ROUND_COLUMNS if column.name.startswith("privacy_")], (
        "Strong guarantee against the server and the worst `privacy.colluders` clients.",
        "What the semi-strong guarantee is at least against the server and any `privacy.colluders` clients.",
        "Weak guarantee against the server and the worst `privacy.colluders` clients; a lower bound where not exact.",
        "Upper bound of the weak guarantee against the server and the worst `privacy.colluders` clients.",
    ), strict=True)
)  # fmt: skip
"""What rounds.csv tells of colluders, if the scenario asks for them, in the order of the guarantees."""

REFUSED = Column(
    "refused_sum", "Refused sum", "count",
    "1 where the selection policy refused what would have been summed, so that it was not recovered.", -1, "sum",
    shown=False,
)  # fmt: skip
"""What rounds.csv tells of policies that are asked again before a sum is opened."""


LATE = Column(
    "late", "Late jobs", "count",
    "Clients whose update was on its way when the round went on with its quorum; they are cancelled and not failed.",
    -1, "sum", shown=False,
)  # fmt: skip
"""What rounds.csv tells of rules with a quorum."""


def failing(phase: str) -> Column:
    """How many clients an aggregation protocol's phase has lost."""
    return Column(
        f"failed_{phase}", f"Failed in {phase}", "count",
        f"Clients that were asked in the phase '{phase}' and failed, or were too late.", -1, "sum", shown=False,
    )  # fmt: skip


GUARANTEES: tuple[Column, ...] = tuple(
    Column(
        f"guarantee_{notion}", f"{heading}, any number of rounds", "count",
        f"The {heading.lower()} guarantee that theory gives the policy for any number of rounds.", 1, None,
        shown=notion == "semi_strong", words=f"{heading.lower()} guarantee for any number of rounds",
        **POLICY,
    )
    for notion, heading in (("strong", "Strong"), ("semi_strong", "Semi-strong"), ("weak", "Weak"))
)  # fmt: skip
"""What theory knows of a run's policy, beside the guarantees that the run came to."""

SUMMARY_COLUMNS: tuple[Column, ...] = (
    Column("rounds", "Rounds", "count", "Server rounds, skipped ones included.", final="count", source="round",
           shown=False),
    Column("best_test_accuracy", "Best accuracy (optimistic)", "share",
           "Highest test accuracy after any round; optimistic, as the test samples choose the round.", 1, "max",
           "test_accuracy"),
    Column("expected_cardinality", "Expected cardinality", "number",
           "Cardinality that theory expects of selection and failures; deadlines and samples are left out.",
           final=None),
    Column("no_skill_accuracy", "No-skill accuracy", "share",
           "Test accuracy without training: of the untrained model, or of always naming the commonest class, "
           "whichever is higher.", final=None, shown=False),
    *GUARANTEES,
    Column("tolerated_colluders", "Tolerated colluders", "count",
           "Clients who with the server learn no single update from the protocol of secure aggregation, whoever they "
           "are: the fewest of any sum.", 1, None, shown=False, observer="the server and so many clients",
           protects="a client's update in a sum", assumes="all follow the protocol"),
    Column("diverged_round", "Diverged", "count", "First round in which a loss was no finite number.",
           final=None, shown=False),
    Column("client_updates", "Client updates", "count", "Client updates aggregated; in summaries of asynchronous runs.",
           1, None, shown=False),
    Column("wasted_updates", "Wasted updates", "count",
           "Jobs that were failed, late, forfeited or stale; asynchronous runs.", -1, None, shown=False),
    Column("mean_concurrency", "Concurrency", "number", "Clients at work, mean over time; asynchronous runs.", 0, None,
           shown=False),
    Column("bytes", "Traffic", "bytes", "Bytes sent by the server and by the clients.", -1, None),
)  # fmt: skip
"""What a summary holds beside the final values of rounds.csv; ``bytes`` is added up by those who read it."""

TARGET_COLUMNS: tuple[Column, ...] = (
    Column("time_to_target_s", "Time to target", "seconds",
           "Simulated time until the test accuracy is first measured at the target or above; it may have been there "
           "since the evaluation before.", -1, None),
    Column("rounds_to_target", "Rounds to target", "count",
           "Rounds until the test accuracy is first measured at the target or above, skipped ones included.", -1, None),
    Column("bytes_to_target", "Traffic to target", "bytes",
           "Bytes sent by the server and by the clients until the test accuracy is first measured at the target or "
           "above.", -1, None),
)  # fmt: skip
"""What a comparison adds, given a target accuracy."""

_FIRST = (
    "test_accuracy", "best_test_accuracy", "epsilon_max", "epsilon_median", "privacy_semi_strong", "privacy_weak_lower",
    "privacy_strong", "measured_recovered", "guarantee_semi_strong", "guarantee_weak", "guarantee_strong",
    "time_to_target_s", "rounds_to_target", "bytes_to_target", "time_s", "mean_cardinality", "expected_cardinality",
    "fairness_gap", "skipped", "bytes",
)  # fmt: skip
"""What readers of tables want first, in this order; all other columns follow as they are listed."""


def order_columns(columns: Iterable[Column]) -> list[Column]:
    """The columns, the most telling first."""
    place = {name: number for number, name in enumerate(_FIRST)}
    return sorted(columns, key=lambda column: place.get(column.name, len(place)))


def unknown(name: str) -> Column:
    """A column of which only the name is known."""
    unit: Unit = "seconds" if name.endswith("_s") else "bytes" if "bytes" in name.split("_") else "number"
    return Column(name, name.removesuffix("_s").replace("_", " ").capitalize(), unit, "")


# -- docs/reference/columns.md -----------------------------------------------------------------------------------

_INTRODUCTION = """# Columns

*Generated by `python -m simfl.core.columns > docs/reference/columns.md`; a test compares the two.*

Every number that simfl reports is described once, in `simfl/core/columns.py`, or by the plugin that fills it
(`columns`). The same list gives the tables on disk their columns and the comparison, the report and the live page their
headings, units and directions. A finished run describes its own columns, plugins' too, in `columns.json`.

"Better" says which way is better; "in the summary" how `summary.json` sums the rounds up. Of certificates,
`columns.json` also says whom they are against (`observer`), what they protect (`protects`) and what they take for
granted (`assumes`), as the end of this page does; where a run's protocol assumes something more, that is among it.
"""

_PARTS = (
    ("`rounds.csv`, and its final values in `summary.json` and `index.csv`", ROUND_COLUMNS),
    (
        "`rounds.csv` with secure aggregation; there is a `failed_...` for each phase of the protocol",
        (*MASKED_COLUMNS, *map(failing, ("advertise", "share", "deliver", "unmask"))),
    ),
    ("`rounds.csv` of rules with a quorum, and of policies that are asked before a sum is opened", (LATE, REFUSED)),
    ("`rounds.csv` with `privacy: {colluders: C}`", COLLUDER_COLUMNS),
    ("`summary.json` and `index.csv`", SUMMARY_COLUMNS),
    ("`comparison.csv` and `paired.csv`, given a target accuracy", TARGET_COLUMNS),
)


def markdown() -> str:
    """The text of ``docs/reference/columns.md``."""
    lines = [_INTRODUCTION]
    for title, columns in _PARTS:
        lines += [f"## {title}\n", "| column | heading | unit | better | in the summary | meaning |",
                  "|---|---|---|---|---|---|"]  # fmt: skip
        for column in columns:
            better = {1: "more", -1: "less", 0: ""}[column.better]
            final = f"{column.final or ''}{f' of `{column.source}`' if column.source else ''}"
            cells = (f"`{column.name}`", column.heading, column.unit, better, final, column.sentence)
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    every = (column for _, columns in _PARTS for column in columns)
    lines += ["## Certificates\n", *(f"- {line}" for line in basis_lines(every, lambda column: f"`{column.name}`"))]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(markdown(), end="")

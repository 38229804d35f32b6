"""What stands beside every certificate: whom it is against, what it protects, and what is taken for granted.

All who print one take their words from here.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simfl.core.columns import Column
    from simfl.core.json_data import JsonObject

AND = "; "
"""Between the assumptions of a column."""
ONLY_SUMS = "only sums are seen"
"""What is taken for granted where no protocol makes it so: of logs, and of ``secagg: ideal``."""
IF_ONLY_SUMS = f"(if {ONLY_SUMS})"
WORST_CASE = "worst case: updates that stay the same"
"""What sums tell exactly, they tell of updates that no round changes; of others they tell less."""
WORST = "in the worst case of updates that stay the same"
RECONSTRUCTABLE = f"reconstructable by the server {WORST}"
OF_A_LOG = f"Against the server, for each client's update over all its rounds, {WORST} {IF_ONLY_SUMS}"
"""Of a log nothing is known but its sums."""

# The three fields of a column that is a certificate.
MULTI_ROUND: dict[str, Any] = {
    "observer": "the server, or who else aggregates",
    "protects": "a client's update against none, over all its rounds",
    "assumes": WORST_CASE,
}
POLICY: dict[str, Any] = MULTI_ROUND | {"assumes": AND.join([WORST_CASE, "the server follows the policy"])}
EPSILON: dict[str, Any] = {
    "observer": "all who see the models, and the server unless it adds the noise itself",
    "protects": "all updates of a client against none of them (zero-out)",
    "assumes": "nothing of the clients' data is released but this one run",
}
SAMPLED_EPSILON: dict[str, Any] = EPSILON | {
    "observer": "all who see the models; where sampling is claimed, but not who takes part",
    "protects": "a client, added or removed; with fixed_size, replaced",
}
SAMPLE_EPSILON: dict[str, Any] = EPSILON | {
    "observer": "the server, and all who see the models",
    "protects": "one sample of one client, replaced",
    "assumes": AND.join(
        [
            EPSILON["assumes"],
            "what data are scaled by is public",
            "of Gaussian noise, at the stage's delta for each round, which add up",
        ]
    ),
}
UNSAID: dict[str, Any] = EPSILON | {"observer": "an observer that is not said", "protects": "what is not said"}
"""Of a plugin's epsilon that does not say."""


def assumptions(column: "Column") -> list[str]:
    """What a certificate takes for granted."""
    return column.assumes.split(AND) if column.assumes else []


def basis(column: "Column") -> str:
    """What stands beside a certificate, in words, such as ``against the server; protects ... (if only sums are
    seen)``.
    """
    clauses = assumptions(column)
    said = [each if each == WORST_CASE else f"if {each}" for each in clauses if each != ONLY_SUMS]
    text = AND.join([f"against {column.observer}", f"protects {column.protects}", *said])
    return f"{text} {IF_ONLY_SUMS}" if ONLY_SUMS in clauses else text


OF_ONE_RUN = (
    "Guarantees and columns of privacy are of each run by itself. Runs of one seed begin with the same updates: "
    "whoever sees several of them has all their sums."
)
"""Said of the certificates of several runs."""


NOT_COMPARED = f"no guarantee, as only some take for granted that {ONLY_SUMS}"


def basis_lines(columns: "Iterable[Column]", name: "Callable[[Column], str]" = attrgetter("heading")) -> list[str]:
    """A line for all certificates among some columns that have the same basis; ``name`` is what they are called."""
    names: dict[str, list[str]] = {}
    for column in columns:
        if column.observer:
            names.setdefault(basis(column), []).append(name(column))
    return [f"{', '.join(called)}: {text}." for text, called in names.items()]


def facts_of_a_log(observer: str = "server") -> "JsonObject":
    """What stands beside all certificates of a log, as plain data."""
    return {"observer": observer, "protects": MULTI_ROUND["protects"], "assumes": [WORST_CASE, ONLY_SUMS]}


def about(column: "Column") -> str:
    """What a column means and, of a certificate, what stands beside it."""
    return f"{column.sentence} A{basis(column)[1:]}." if column.observer else column.sentence


def said_of(assumed: Sequence[str], labels: Iterable[str]) -> list[str]:
    """A line with those who take for granted that only sums are seen, where others do not."""
    return [f"{IF_ONLY_SUMS} is said of {', '.join(assumed)}."] if assumed and set(labels) - {*assumed} else []


def basis_facts(column: "Column") -> "JsonObject":
    """The same as plain data."""
    return {"observer": column.observer, "protects": column.protects, "assumes": assumptions(column)}


def taking_for_granted(columns: "Iterable[Column]", assumed: str) -> "list[Column]":
    """The columns of a run whose protocol assumes something: so do its certificates."""
    return [
        column._replace(assumes=AND.join(dict.fromkeys([*assumptions(column), assumed])))
        if column.observer and assumed
        else column
        for column in columns
    ]


def unite_columns(columns: "Iterable[Column]") -> "dict[str, Column]":
    """The columns of several runs by name; a certificate takes for granted what it does in any of them."""
    known: dict[str, Column] = {}
    for column in columns:
        before = assumptions(known[column.name]) if column.name in known else []
        known[column.name] = column._replace(assumes=AND.join(dict.fromkeys([*before, *assumptions(column)])))
    return known

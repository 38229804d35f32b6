"""What stands beside every certificate: whom it is against, what it protects, and what is taken for granted.

All who print one take their words from here.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from simfl.core.wording import label_list

if TYPE_CHECKING:
    from simfl.core.columns import Column
    from simfl.core.json_data import JsonObject

AND = "; "
"""Between the assumptions of a column."""
OR = "; or "
"""Between the observers of a column of several runs, and between what it protects in them."""
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
SERVER_TOO = "the server, and all who see the models"
NOT_SERVER = "all who see the models, not the server, which adds the noise"
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
    "observer": SERVER_TOO,
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


def against(column: "Column", noisy: Collection[str]) -> "Column":
    """An epsilon of a run whose stages with noise protect against ``server`` or ``outside``: whom it is against."""
    if column.observer not in (EPSILON["observer"], SAMPLED_EPSILON["observer"]):
        return column
    if set(noisy) == {"server"}:
        return column._replace(observer=SERVER_TOO)
    return column._replace(observer=NOT_SERVER) if column.observer == EPSILON["observer"] else column


def unite_columns(columns: "Iterable[Column]") -> "dict[str, Column]":
    """The columns of several runs by name; a certificate takes for granted what it does in any of them, and none is
    better than another where they are against different observers, or protect different things.
    """
    known: dict[str, Column] = {}
    for column in columns:
        before = known.get(column.name, column)
        assumed = dict.fromkeys([*assumptions(before), *assumptions(column)])
        column = column._replace(assumes=AND.join(assumed))
        if _promise(before) != _promise(column):
            observer, protects = (_either(*pair) for pair in zip(_promise(before), _promise(column), strict=True))
            column = column._replace(better=0, observer=observer, protects=protects)
        known[column.name] = column
    return known


def unlike_sentences(configurations: "Mapping[str, Mapping[str, str]]", columns: "Mapping[str, Column]") -> list[str]:
    """In words, without full stops, which certificates cannot be compared; of what :func:`promises` says of each
    configuration.
    """
    of: dict[str, dict[str, list[str]]] = {}
    for label, each in configurations.items():
        for name, text in each.items():
            of.setdefault(name, {}).setdefault(text, []).append(label)
    sentences: dict[str, list[str]] = {}
    for name, labels in of.items():
        if len(labels) > 1:
            parts = [f"of {label_list(those)} {text}" for text, those in labels.items()]
            sentences.setdefault(AND.join(parts), []).append(columns[name].heading if name in columns else name)
    return [f"{' and '.join(headings)}: {text}; these cannot be compared" for text, headings in sentences.items()]


def promises(columns: "Iterable[Column]") -> dict[str, str]:
    """Whom each certificate is against, and what it protects, by name."""
    return {c.name: f"against {c.observer}, protects {c.protects}" for c in columns if c.observer}


def _promise(column: "Column") -> tuple[str, str]:
    return column.observer, column.protects


def _either(before: str, now: str) -> str:
    return OR.join(dict.fromkeys([*before.split(OR), *now.split(OR)]))

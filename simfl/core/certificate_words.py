"""What stands beside every certificate: whom it is against, what it protects, and what is taken for granted.

All who print one take their words from here.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from simfl.core.errors import label_list

if TYPE_CHECKING:
    from simfl.core.columns import Column
    from simfl.core.json_data import JsonObject
    from simfl.core.scenario_view import ScenarioView

AND = "; "
"""Between the assumptions of a column."""
OR = "; or "
"""Between the observers of a column of several runs, and between what it protects in them."""
ONLY_SUMS = "only sums are seen"
"""What is taken for granted where no protocol makes it so: of logs, and of ``secagg: ideal``."""
PUBLIC_NUMBERS = "what clients tell for the selection is public"
"""What is taken for granted with ``scalars: clear``."""
ENDS = "no model decides when the run ends"
"""What epsilons of the rounds that were played take for granted: losses that are stopped where they are largest are
larger (Rogers, Roth, Ullman and Vadhan, "Privacy odometers and filters", NeurIPS 2016).
"""
REMOTE = "remote clients train and send as simulated ones do"
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
MALICIOUS: dict[str, Any] = MULTI_ROUND | {
    "observer": "a server that lies to its clients",
    "assumes": AND.join([
        WORST_CASE, "what is summed under two models is two unknowns", "no client is the server's",
        "clients check what they are told", "keys and signatures are not forged", "units are the same for all time",
    ]),
}  # fmt: skip
SERVER_TOO = "the server, and all who see the models"
NOT_SERVER = "all who see the models, not the server, which adds the noise"
MEASURED: dict[str, Any] = {
    "observer": "the server that tries these attackers",
    "protects": "each client's latest update",
    "assumes": "no other attacker does better",
}
AGGREGATES_ONLY: dict[str, Any] = {
    "observer": "an attacker who is not shown what the server has in no aggregate",
    "protects": "what the attack asks for",
    "assumes": "no other attacker does better",
}
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
            "what data are scaled by, and how they are split among clients, is public",
            "clients train in real numbers",
            "of Gaussian noise, at the stage's delta for each round, which add up",
        ]
    ),
}
UNSAID: dict[str, Any] = EPSILON | {"observer": "an observer that is not said", "protects": "what is not said"}
"""Of a plugin's epsilon that does not say."""
AT_DELTA = "at δ = "
UNSAID_DELTA = f"{AT_DELTA}what is not said"
UNSAID_CLAUSES = frozenset({f"against {UNSAID['observer']}", UNSAID_DELTA})
"""Certificates that say one of them are compared with none."""

OF_ONE_RUN = (
    "Guarantees and columns of privacy are of each run by itself. Runs of one seed begin with the same updates: "
    "whoever sees several of them has all their sums."
)
"""Said of the certificates of several runs."""

NOT_COMPARED = "no guarantee, as not all assume the same"


def assumptions(column: "Column") -> list[str]:
    """What a certificate takes for granted."""
    return column.assumes.split(AND) if column.assumes else []


def basis(column: "Column") -> str:
    """What stands beside a certificate, in words: ``against the server; protects ... (if only sums are seen)``."""
    text = AND.join(each for each in _clauses(column) if each != IF_ONLY_SUMS)
    return f"{text} {IF_ONLY_SUMS}" if ONLY_SUMS in assumptions(column) else text


def _clauses(column: "Column") -> list[str]:
    """Whom a certificate is against, what it protects, and what is taken for granted; none of any other number."""
    if not column.observer:
        return []
    plain = {WORST_CASE: WORST_CASE, ONLY_SUMS: IF_ONLY_SUMS}
    said = [plain.get(each) or (each if each.startswith(AT_DELTA) else f"if {each}") for each in assumptions(column)]
    return [f"against {column.observer}", f"protects {column.protects}", *said]


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


def premises_of(setting: "ScenarioView") -> str:
    """What certificates take for granted as the scenario says so: of protocol, selection, and what it calls public."""
    from simfl.core.coverage import reports_for_selection

    public = setting.selection.scalars == "clear" and reports_for_selection(setting)
    remote = REMOTE if setting.learning.external else ""
    premises = [setting.secagg.assumes, PUBLIC_NUMBERS if public else "", setting.selection.premise, remote]
    return AND.join(filter(None, [*premises, setting.learning.premise]))


def taking_for_granted(columns: "Iterable[Column]", assumed: str) -> "list[Column]":
    """The columns of a run that takes something for granted: so do its certificates."""
    more = assumed.split(AND) if assumed else []
    return [
        column._replace(assumes=AND.join(dict.fromkeys([*assumptions(column), *more]))) if column.observer else column
        for column in columns
    ]


def against(column: "Column", noisy: Collection[str]) -> "Column":
    """An epsilon of a run whose stages with noise protect against ``server`` or ``outside``: whom it is against."""
    if column.observer not in (EPSILON["observer"], SAMPLED_EPSILON["observer"]):
        return column
    if not noisy:
        return column
    if set(noisy) == {"server"}:
        return column._replace(observer=SERVER_TOO)
    return column._replace(observer=NOT_SERVER) if column.observer == EPSILON["observer"] else column


def unite_columns(columns: "Iterable[Column]") -> "dict[str, Column]":
    """The columns of several runs by name; a certificate takes for granted what it does in any of them, and none is
    better than another where they do not say the same.
    """
    known: dict[str, Column] = {}
    repeated: dict[str, tuple[Column, bool]] = {}
    for column in columns:
        if repeated.get(column.name) == (column, True):  # once more changes nothing
            continue
        repeated[column.name] = column, repeated.get(column.name, (None,))[0] == column
        before = known.get(column.name, column)
        alike = column.name not in known or comparable(_clauses(before), _clauses(column))
        known[column.name] = column._replace(
            better=column.better if alike and before.better else 0,
            observer=_either(before.observer, column.observer),
            protects=_either(before.protects, column.protects),
            assumes=AND.join(dict.fromkeys([*assumptions(before), *assumptions(column)])),
        )
    return known


def promises(columns: "Iterable[Column]", others: Collection[str] = ()) -> dict[str, list[str]]:
    """What stands beside each certificate, by name, in clauses; nothing beside ``others`` that are none here."""
    return {column.name: _clauses(column) for column in columns if column.observer or column.name in others}


def comparable(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two certificates say the same; of what is not said nobody knows."""
    return list(one) == list(other) and UNSAID_CLAUSES.isdisjoint(one)


def unlike_sentences(
    configurations: "Mapping[str, Mapping[str, Sequence[str]]]", columns: "Mapping[str, Column]"
) -> list[str]:
    """In words, without full stops, which certificates cannot be compared, and why; of what :func:`promises` says."""
    of: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for label, each in configurations.items():
        for name, clauses in each.items():
            of.setdefault(name, {}).setdefault(tuple(clauses), []).append(label)
    sentences: dict[str, list[str]] = {}
    for name, labels in of.items():
        if len(labels) > 1 or not (len(configurations) == 1 or UNSAID_CLAUSES.isdisjoint(*labels)):
            common = set.intersection(*map(set, labels))
            more = {label_list(those): [each for each in said if each not in common] for said, those in labels.items()}
            parts = [f"of {those} {', '.join(said) or 'nothing more'}" for those, said in more.items()]
            heading = columns[name].heading if name in columns else name
            sentences.setdefault(AND.join(parts), []).append(heading)
    return [f"{' and '.join(headings)}: {text}; these cannot be compared" for text, headings in sentences.items()]


def _either(before: str, now: str) -> str:
    return OR.join(dict.fromkeys(filter(None, [*before.split(OR), *now.split(OR)])))

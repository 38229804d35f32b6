"""Names of simfl: which words are refused, and which names stand for two things (docs/reference/glossary.md).

``python tests/support/names.py [package ...]`` prints what is wrong, file by file.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import simfl

HOME = Path(simfl.__file__).parent

REFUSED = {
    **dict.fromkeys(("talk", "converse", "Conversation"), "protocol session, run_session"),
    **dict.fromkeys(("Ask", "Asked"), "PhaseRequest, JobRequest"),
    "heard": "responded",
    **dict.fromkeys(("ways", "leg", "legs", "Leg", "Legs"), "delays"),
    **dict.fromkeys(
        ("Staff", "roster", "enrol", "vacate", "dismiss"), "Dispatcher: queue, enqueue, free_slot, release"
    ),
    **dict.fromkeys(("Flight", "tick"), "AsyncJob, selection_id"),
    **dict.fromkeys(("Ledger", "Cost", "charge"), "RoundAccounts, add_to"),
    **dict.fromkeys(
        ("Summing", "Summed", "Sum", "Total", "Contributions"),
        "AggregationPipeline, SessionResult, Aggregate, ClientUpdates",
    ),
    **dict.fromkeys(("made", "given", "change"), "update, weighted_update, server_update"),
    "Aggregator": "GlobalModelState",
    **dict.fromkeys(("Observing", "Measuring", "concluding"), "AttackRunner, MetricRunner, finalise"),
    **dict.fromkeys(("lab", "Bench", "Vault"), "attack context, GroundTruth"),
    **dict.fromkeys(("Seen", "Inside"), "ServerView, CoalitionView"),
    **dict.fromkeys(("exploit", "judge"), "answer, score"),
    **dict.fromkeys(("recall", "remember"), "init_memory, update_memory"),
    **dict.fromkeys(("Parts", "Setting", "Means"), "Components, ScenarioView, RuntimeOptions"),
    **dict.fromkeys(
        ("variant", "Visit", "Begun", "Done", "Conclusion"),
        "client algorithm, LocalContext, LocalStart, LocalResult, RoundOutcome",
    ),
    **dict.fromkeys(("own", "holds"), "client_state, mask"),
    **dict.fromkeys(("Desk", "Sent", "outside"), "RemoteJobs, JobResult, remote"),
    **dict.fromkeys(
        ("finishing", "stored", "opening", "listing", "tidy", "examine", "blame", "answers", "addresses"),
        "finalise, run_reader, result objects, index, frames, preflight, plugin_errors, validation, hosts",
    ),
    **dict.fromkeys(
        ("settle", "room", "tested", "apart", "deal"),
        "torch_setup, memory_budget, replicas, test_set, pretraining, assign",
    ),
    **dict.fromkeys(
        ("strips", "lattice", "lightest", "doubt", "course", "loose"),
        "log-concave sampler, discrete noise, minimum-weight codeword, uncertain weights, timeline, unresolved",
    ),
    **dict.fromkeys(
        ("telling", "people", "beside_plain", "equal", "attacked"),
        "summary_text, live_clients, RoundsTail, overhead_rows, equal_table",
    ),
    **dict.fromkeys(("play", "plays", "_play"), "run, simulate, execute"),
    **dict.fromkeys(("shipping", "playing"), "plugin_pickling, worker_process, task, execution"),
    **dict.fromkeys(("findings", "drafting", "owned"), "pydantic_errors, key_comments, scaffold, column_owners"),
    **dict.fromkeys(
        ("deserted", "fruitless", "standing", "PATIENCE"), "no_active_client, failed_attempts, stagnant_rounds, MAX_..."
    ),
    **dict.fromkeys(("floor", "floors", "house", "tells"), "layer, package, distinguishes"),
    **dict.fromkeys(
        (
            "found",
            "told",
            "held",
            "kept",
            "lost",
            "due",
            "drawn",
            "taken",
            "begun",
            "paid",
            "asked",
            "meant",
            "brought",
        ),
        "a noun, or a verb that says what it does",
    ),
}
"""Words that no module, class, function, field, parameter or variable is called, and what the field says."""

ALLOWED_TWICE = {"__init__", "base"}
"""Modules that stand in many packages: a package's face, and the protocols of a family of plugins."""


class Name(NamedTuple):
    """A name that is bound somewhere: ``kind`` is module, class, function, property or variable."""

    kind: str
    name: str
    path: Path
    line: int


@cache
def names(path: Path) -> list[Name]:
    """All names that a module binds, itself among them; not what it imports."""
    return list(_names(path))


def _names(path: Path) -> Iterator[Name]:
    yield Name("module", path.parent.name if path.stem == "__init__" else path.stem, path, 1)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ClassDef():
                yield Name("class", node.name, path, node.lineno)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                kind = (
                    "property" if any("property" in ast.unparse(each) for each in node.decorator_list) else "function"
                )
                yield Name(kind, node.name, path, node.lineno)
            case ast.arg():
                yield Name("variable", node.arg, path, node.lineno)
            case ast.Name(ctx=ast.Store()):
                yield Name("variable", node.id, path, node.lineno)
            case ast.Attribute(ctx=ast.Store()):
                yield Name("variable", node.attr, path, node.lineno)


def participle(name: str) -> bool:
    """Whether a function is called like ``moved``: what happened to what, nobody can tell."""
    return "_" not in name.strip("_") and name.strip("_").endswith("ed") and name.strip("_") not in VERBS


VERBS = {"need", "exceed", "embed", "feed", "proceed", "seed", "speed", "shed", "unneeded", "red"}


def refused(paths: Iterator[Path]) -> list[str]:
    """``simfl/x.py:3: function told: ...`` for every name with a refused word."""
    lines = []
    for path in paths:
        for name in names(path):
            place = f"{path.relative_to(HOME.parent)}:{name.line}: {name.kind} {name.name}"
            if (bare := name.name.strip("_")) in REFUSED:
                lines.append(f"{place} ({REFUSED[bare]})")
            elif name.kind == "function" and participle(name.name):
                lines.append(f"{place} (a participle)")
    return lines


def ambiguous(paths: Iterator[Path]) -> list[str]:
    """Public classes and modules that share their name with another, with the places."""
    places = defaultdict(set)
    for path in paths:
        for name in names(path):
            if name.kind in ("class", "module") and not name.name.startswith("_") and name.name not in ALLOWED_TWICE:
                places[name.kind, name.name].add(path.relative_to(HOME))
    return [
        f"{kind} {name}: {', '.join(map(str, sorted(at)))}"
        for (kind, name), at in sorted(places.items())
        if len(at) > 1
    ]


if __name__ == "__main__":
    chosen = [
        path
        for path in sorted(HOME.rglob("*.py"))
        if not sys.argv[1:] or path.relative_to(HOME).parts[0] in sys.argv[1:]
    ]
    print("\n".join(refused(chosen)))
    print("\n".join(ambiguous(sorted(HOME.rglob("*.py")))))

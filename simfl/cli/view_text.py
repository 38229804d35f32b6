"""What an observer received, in words and as JSON."""

from collections.abc import Iterator

import numpy as np

from simfl.core.errors import amount
from simfl.core.json_data import JsonObject
from simfl.privacy.certify.maps import BY
from simfl.privacy.certify.observer_view import NoiseTerm, ObserverView

FEW = 12
"""Clients that a line names; the JSON names all."""


def view_json(view: ObserverView) -> JsonObject:
    """All of it; ``null`` where something is not known, or nobody needs to be tolerated."""
    rounds: list[JsonObject] = []
    for t in range(view.rounds):
        of_round = [event for event in view.events if event.round == t]
        rounds.append({
            "round": t,
            "rows": [{"clients": clients, "coefficients": values} for clients, values in _rows(view, t)],
            "sessions": [
                {"sent": e.clients.tolist(), "summed": e.clients[e.summed].tolist(), "ended": e.ended} for e in of_round
            ],
            "tolerated_colluders": int(of) if np.isfinite(of := _colluders_left(view, t)) else None,
            "noise": [{"stage": term.stage, "where": term.where, "std": _std(term, t)} for term in view.noise],
        })  # fmt: skip
    return {
        "observer": view.observer,
        "in_clear": [clear._asdict() for clear in view.clear],
        "besides": list(view.opaque),
        "stays_the_same": view.same,
        "times_samples": view.by_samples,
        "rounds": rounds,
    }


def view_lines(view: ObserverView, assumes: str) -> Iterator[str]:
    """A paragraph about the whole run, then the lines of each round."""
    yield f"observer   {view.observer}{f' (if {assumes})' if assumes else ''}"
    for label, what in (("in clear", [clear.part for clear in view.clear]), ("besides", list(view.opaque))):
        if what:
            yield f"{label:<10} {'; '.join(what)}"
    if view.by_samples:
        yield "weights    each times its client's samples"
    for t in range(view.rounds):
        lines = list(_lines(view, t))
        yield f"{f'round {t}':<10} {lines[0] if lines else 'nothing'}"
        yield from (f"{'':<10} {line}" for line in lines[1:])


def _lines(view: ObserverView, t: int) -> Iterator[str]:
    rows = list(_rows(view, t))
    alone = [clients[0] for clients, _ in rows if len(clients) == 1]
    if alone:
        yield f"{amount(len(alone), 'update')} by {'itself' if len(alone) == 1 else 'themselves'}: {_few(alone)}"
    for clients, values in rows:
        if len(clients) > 1:
            weights = "" if set(values) == {1.0} else f", of weights {min(values):g} to {max(values):g}"
            yield f"the sum of {amount(len(clients), 'update')}: {_few(clients)}{weights}"
    for event in view.events:
        if event.round == t:
            if event.ended:
                yield f"messages in the sum and in none: {_few(event.clients[~event.summed].tolist())}"
            else:
                yield f"messages in no sum: {_few(event.clients.tolist())}"
    tolerated = _colluders_left(view, t)
    if view.tolerated[t] < 0:
        yield "more than this may be known from a session"
    elif tolerated + 1 < view.rows.shape[1]:
        yield f"open to {amount(int(tolerated) + 1, 'further colluder')}"
    for term in view.noise:
        if (std := _std(term, t)) is not None:
            yield f"noise of {term.stage}, by {BY[term.where]}: standard deviation {std:g}"


def _rows(view: ObserverView, t: int) -> Iterator[tuple[list[int], list[float]]]:
    for row in range(*np.searchsorted(view.round, [t, t + 1]).tolist()):
        of_row = slice(view.rows.indptr[row], view.rows.indptr[row + 1])
        order = np.argsort(view.rows.indices[of_row])
        yield view.rows.indices[of_row][order].tolist(), view.rows.data[of_row][order].astype(float).tolist()


def _colluders_left(view: ObserverView, t: int) -> float:
    """Further colluders who learn no single update of a round: they leave two in each of its sums."""
    left = [len(clients) - 2 for clients, _ in _rows(view, t)]
    return (
        float(min([view.tolerated[t], *(max(0, each) for each in left)])) if np.isfinite(view.tolerated[t]) else np.inf
    )


def _std(term: NoiseTerm, t: int) -> float | None:
    return float(term.std[t]) if np.isfinite(term.std[t]) else None


def _few(clients: list[int]) -> str:
    return ", ".join(map(str, clients[:FEW])) + (", ..." if len(clients) > FEW else "")

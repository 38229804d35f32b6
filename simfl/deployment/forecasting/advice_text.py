"""An advice in words, a small table, and the lines that deploy it."""

import json
from pathlib import Path

import numpy as np

from simfl.api.certificates import IF_ONLY_SUMS, ONLY_SUMS, WORST
from simfl.deployment.audit.log import plain
from simfl.deployment.audit.log_columns import LogOptions
from simfl.deployment.forecasting.forecast_text import columns, what_is_left
from simfl.deployment.forecasting.policy_advice import PolicyAdvice
from simfl.plugins import View, amount

BEST = 3
"""Policies that are advised."""
ORDERS = {"as now": "", "as_logged": "as in the log", "availability": "by availability"}
TESTED = "docs/how-to/advise.md says in how many simulated deployments such an advice kept its promise"


def text(of: PolicyAdvice, log: str, options: LogOptions) -> str:
    """The advice for a person at a terminal.

    Args:
        log: path of the log.
        options: as it was read.
    """
    best = of.ranking()[:BEST]
    if of.exposed_already == len(of.past.clients):
        return "\n".join([*_past(of), "That is everybody. No policy takes it back, and none is advised."])
    parts = [_past(of), _table(of, best) if best else _none(of), _deployment(of, best[0], log, options) if best else [],
             _limits(of)]  # fmt: skip
    return "\n\n".join("\n".join(part) for part in parts if part)


def _past(of: PolicyAdvice) -> list[str]:
    already, n, rounds = of.exposed_already, len(of.past.clients), len(of.past.rows)
    them = "Nobody is" if not already else f"{amount(already, 'client')} {'is' if already == 1 else 'are'}"
    certain = " for certain" if of.past.doubtful else ""
    names = [plain(of.past.clients[client], 10**6) for client in of.plan.span.exposed.nonzero()[0].tolist()]
    listed = f" ({', '.join(names[:20])}{f' and {already - 20} more' if already > 20 else ''})" if already else ""
    return [f"{amount(rounds, 'round')} of {amount(n, 'client')}; {amount(of.futures, 'future')} of "
            f"{amount(of.plan.horizon, 'round')} each under {len(of.grid)} policies.",
            of.seen.sentence, of.model.sentence,
            f"{them} exposed already{certain}, against the server {WORST} {IF_ONLY_SUMS}{listed}."]  # fmt: skip


def _table(of: PolicyAdvice, best: list[int]) -> list[str]:
    table, already = of.table(), "else " * bool(of.exposed_already)
    heading = ["", "policy", "units", f"nobody {already}exposed", "rounds without a sum", "clients a round", "bytes"]
    rows: list[tuple[str, ...]] = []
    for name, place in [*((str(rank), place) for rank, place in enumerate(best, 1)), ("as now", 0)]:
        row = table.iloc[place]
        moved = "" if row.bytes != row.bytes else f"{row.bytes:.3g}"
        rows.append((name, str(row.policy), ORDERS[str(row.order)], f"{row.safe:.1%} (>= {row.safe_low:.1%})",
                     f"{row.lost:.3g} ({row.lost_low_95:.0f}..{row.lost_high_95:.0f})",
                     f"{row.clients:.3g}", moved))  # fmt: skip
    ended = int((table["futures"] < of.futures).sum())
    given_up = f" ({ended} others were given up early, as they lose more rounds or expose somebody)" if ended else ""
    shown = int(table["holds"].sum())
    said = [f"Promise: nobody {already}exposed in at least {of.target:.1%} of futures. {shown} of "
            f"{len(table)} policies are shown to keep it{given_up}; first those that lose the fewest rounds, then "
            "those of fewest bytes:",
            *columns(heading, rows),
            "Shares of futures with exact one-sided 95 % bounds; means with 95 % intervals of futures, as wide as "
            "forecasts of the log's policy needed."]  # fmt: skip
    if table["lost"][best[0]] > of.plan.horizon / 2:
        said.append("The first loses more than half of its rounds: fewer clients a round lose fewer (--grid, k below "
                    f"{of.choices[best[0]].k}).")  # fmt: skip
    if not of.believed:
        said.append("As now is not advised: so few sums do not show which clients are bound to each other (--policy).")
    return said


def _none(of: PolicyAdvice) -> list[str]:
    """Which policy comes nearest, and what is left to try."""
    table = of.table()
    some = table[table["lost"] < of.plan.horizon]
    guards = "" if any(each.text.startswith("guarded") for each in of.grid) else ", a guard (--grid guarded:T=2)"
    nearest = []
    if len(some):
        row = some.loc[some["safe"].idxmax()]
        nearest = [f"The nearest is {row.policy} with {row.safe:.1%} of {int(row.futures)} futures."]
    return [f"No advice: none of the {len(table)} policies keeps the promise that nobody else is exposed in at least "
            f"{of.target:.1%} of futures{' and has a sum in at least one' * (len(some) < len(table))}.",
            *nearest, f"What may: a shorter --horizon{guards}, larger units, fewer clients a round (--grid), a lower "
            "--target."]  # fmt: skip


def deployment(of: PolicyAdvice, place: int, log: str, options: LogOptions) -> list[str]:
    """Lines of Python that deploy a policy of the grid on a Flower server, after the same log, read alike."""
    past = Path(log).resolve()
    used = {past, options.past.resolve() if options.past else past}
    names = (f"participation{number}.csv" for number in ("", "-2", "-3"))
    beside = next(file for file in map(past.with_name, names) if file not in used)
    reading = {name: str(Path(value).resolve()) if name == "past" else value
               for name, value in vars(options).items() if value}  # fmt: skip
    nodes = json.dumps([node if isinstance(node, int) else str(node) for node in of.nodes(place)])
    return ["from flwr.serverapp.strategy import FedAvg",
            "from simfl.deployment.flower import PolicyStrategy",
            "",
            f"nodes = {nodes}  # in the order in which they make units",
            "strategy = PolicyStrategy(",
            f"    FedAvg(fraction_train=1.0, fraction_evaluate=0.0), {json.dumps(of.grid[place].text)}, nodes, seed=1,",
            f'    identity="reported", past={json.dumps(str(past))}, log={json.dumps(str(beside))},',
            *([f"    past_options={reading!r},"] if reading else []), ")"]  # fmt: skip


def _deployment(of: PolicyAdvice, place: int, log: str, options: LogOptions) -> list[str]:
    if not place:
        return ["The first is what you have: nothing needs to change."]
    choice = of.choices[place]
    left = sorted(set(range(len(of.past.clients))) - set(choice.order.tolist()))
    out = [f"Without {', '.join(plain(of.past.clients[client], 10**6) for client in left)}, whom no unit has room for."]
    said = ["The first on a Flower server (docs/how-to/flower.md says how a device is recognised):", "",
            *(f"    {each}".rstrip() for each in deployment(of, place, log, options)),
            "", *out * bool(left)]  # fmt: skip
    if choice.before is not None:
        everybody = np.ones(len(choice.order), dtype=bool)
        view = View(0, everybody, np.zeros(len(everybody), dtype=np.int64), before=choice.before, history=())
        said.append(what_is_left(choice.policy(), choice.text.partition(":")[0], view, "now"))
    return said


def _limits(of: PolicyAdvice) -> list[str]:
    said = [f"* Futures have devices like those of the log, as `simfl forecast` infers them; {TESTED}.",
            "* Only a guard promises for every future; batches and half-batches, after a log of other sums, only for "
            "those that were simulated.",
            f"* Exposed is so {WORST}; that {ONLY_SUMS} is assumed."]  # fmt: skip
    said += [f"* {each}" for each in of.refusals]
    return said

"""A forecast in words and small tables."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfl.api.certificates import IF_ONLY_SUMS, ONLY_SUMS, RECONSTRUCTABLE, WORST
from simfl.deployment.audit.log import plain
from simfl.deployment.audit.times import date
from simfl.deployment.forecasting.availability import ModelChoice
from simfl.deployment.forecasting.futures import FuturePlan
from simfl.deployment.forecasting.measured_coverage import COMMAND, certainty
from simfl.deployment.forecasting.past import Past
from simfl.deployment.forecasting.policies import PolicyChoice, SeenPolicy, coverage_of
from simfl.plugins import View, amount
from simfl.plugins.selection import Policy

if TYPE_CHECKING:
    from simfl.deployment.forecasting.forecast_result import Forecast

LISTED = 20
"""Clients that the text lists; the CSV has all of them."""
WORDS = {
    "exposed": "exposed clients at the end",
    "first_exposure": "rounds until the next exposure",
    "cardinality": "clients in a sum, mean",
    "skipped": "rounds without a sum",
    "fairness_gap": "fairness gap at the end",
    "bytes": "bytes of all coming rounds",
}

FIRST = 5
"""Policies in the first table."""
MEASURED = {"exposed": "exposed_end", "cardinality": "cardinality", "mean_cardinality": "cardinality",
            "skipped": "skipped", "fairness_gap": "fairness_gap", "rank": "rank_half", "since": "a_client"}  # fmt: skip
"""What was measured of the quantities of the tables: of some at other rounds or in the mean of all, of others nothing;
intervals of these have 95 of 100 futures.
"""
SO_FAR = {"exposed": "exposed clients", "cardinality": "clients a round, mean", "skipped": "rounds without a sum",
          "fairness_gap": "fairness gap"}  # fmt: skip

DRIFT, MISSING = 0.01, 0.05
"""p-values below which availability is said to drift, and clients to be missing at the end of a log."""


def text(of: "Forecast") -> str:
    """The forecast for a person at a terminal."""
    heading, rows, basis = first_table(of)
    said = summary(of)
    limits = [f"* {line}" for line in of.limits]
    parts = [said[:3], [*columns(heading, rows), basis], said[4:], _clients(of), _differences(of), limits]
    return "\n\n".join("\n".join(part) for part in parts if part)


def summary(of: "Forecast") -> list[str]:
    """What was read, how it was understood, and what each policy leads to."""
    plan, futures = of.plan, len(of.outcomes[0].rank)
    lines = [
        f"{amount(plan.past_rounds, 'round')} of {amount(plan.clients, 'client')}; {amount(futures, 'future')} of "
        f"{amount(plan.horizon, 'round')} each.",
        of.seen.sentence,
        of.model.sentence,
        "",
        *(verdict(of, policy) for policy in range(len(of.policies))),
    ]
    return lines


def first_table(of: "Forecast") -> tuple[list[str], list[tuple[str, ...]], str]:
    """Heading and rows of what holds now and after some rounds; of which deployments coverage was measured."""
    table, coverages = of.milestones(), coverage_of(of.seen.choice)
    ends = [int(end) for end in table["round"].unique()]
    heading = ["", "policy", "now", *(f"after {amount(end, 'round')}" for end in ends)]
    rows = []
    for (name, policy), part in table.groupby(["quantity", "policy"], sort=False):
        if policy in of.policies[:FIRST]:
            cells = [f"{row.median:.3g} ({row.low_95:.3g}..{row.high_95:.3g})" for row in part.itertuples()]
            quantity = SO_FAR[name] if policy == of.policies[0] else ""
            rows.append((quantity, policy, f"{part['now'].iloc[0]:.3g}", *cells))
    if not coverages:
        return heading, rows, "Forecasts of this policy were never compared with what happens."
    some = next(iter(coverages.values()))
    shares = [f"{SO_FAR[name]} {coverages[MEASURED[name]].words}" for name in dict.fromkeys(table["quantity"])
              if MEASURED.get(name) in coverages]  # fmt: skip
    wider = [f"; {SO_FAR[name]}: {100 * level:.1f}" for name in dict.fromkeys(table["quantity"])
             if (level := coverages[MEASURED[name]].level) > 0.95]  # fmt: skip
    widest, futures = max(row.level for row in coverages.values()), len(of.outcomes[0].rank)
    needed = ceil(2 / (1 - widest) - 1 - 1e-9)  # of F futures the first and the last hold 1 - 2 / (F + 1)
    more = f"; {needed} futures or more are needed for that" if futures < needed else ""
    basis = (f"Medians with 95 % intervals (of 95 in 100 futures{''.join(wider)}{more}). In simulated deployments of "
             f"{some.policy} with {some.fewest} to {some.most} clients such intervals held what then happened: "
             f"{'; '.join(shares)} (exposed to the server {WORST} {IF_ONLY_SUMS}). {COMMAND}")  # fmt: skip
    return heading, rows, basis


def columns(heading: Sequence[str], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A table in text; columns in which nothing stands are left out, and what stands twice is not said again."""
    places = [i for i in range(len(heading)) if any(row[i] for row in rows)]
    wide = [max(len(line[i]) for line in (heading, *rows)) for i in places]
    return ["  ".join(f"{line[i]:<{width}}" for i, width in zip(places, wide, strict=True)).rstrip()
            for line in (heading, *rows)]  # fmt: skip


def verdict(of: "Forecast", policy: int) -> str:
    """Who is exposed already, who will be, and when, in a sentence."""
    since = of.outcomes[policy].exposed
    already = int((since[0] < 0).sum())
    exposed = of.exposed_counts(policy)[:, -1]
    low, middle, high = (int(np.quantile(exposed, q, method="inverted_cdf")) for q in (0.1, 0.5, 0.9))
    any_new = float(((since >= 0) & (since < of.plan.horizon)).any(axis=1).mean())
    start = "as now" if policy == 0 else f"from round {of.past.label(of.plan.change_over)} on"
    basis = f"against the server {WORST} {IF_ONLY_SUMS}"
    them = amount(already, "client") if already else "nobody"
    exposed_now = f"{them} {'is' if already < 2 else 'are'} exposed already{' for certain' if of.past.doubtful else ''}"
    if already == of.plan.clients:
        return f"{of.policies[policy]}, {start}, {basis}: {exposed_now}, which is everybody."
    return (
        f"{of.policies[policy]}, {start}, {basis}: {exposed_now}; somebody {'else ' if already else ''}will be with "
        f"probability {any_new:.2f}{_when(of, since)}. Exposed at the end: {middle}, {low} to {high} in 80 of 100 "
        "futures."
    )


def _when(of: "Forecast", since: NDArray[np.int32]) -> str:
    """When somebody else is exposed first, in half of the futures."""
    horizon = of.plan.horizon
    first = int(np.quantile(np.where(since < 0, horizon, since).min(axis=1), 0.5, method="inverted_cdf"))
    if first >= horizon:
        return ""
    when = np.median(of.outcomes[0].time_s, axis=0)[first]
    dated = f", {date(float(when))} UTC" if of.past.dated else ""
    return f", in half of the futures by round {of.past.label(first)}{dated}"


def _clients(of: "Forecast") -> list[str]:
    table = of.clients()
    now = table[(table.policy == of.policies[0]) & (table["median"].fillna(of.plan.horizon) >= 0)]
    now = now.sort_values(["probability", "median"], ascending=[False, True], kind="stable")
    if not len(now):
        return [f"Everybody is exposed already: {RECONSTRUCTABLE}."]
    rows: list[tuple[str, ...]] = []
    alike = now.groupby([repr(row[3:9]) for row in now.round({"probability": 2}).itertuples()], sort=False)
    for _, part in list(alike)[:LISTED]:
        row, names = next(part.itertuples()), [plain(name, 10**6) for name in part.client[:LISTED]]
        more = f" and {len(part) - LISTED} more" if len(part) > LISTED else ""
        when = [""] * 3 if row.low_95 is None or row.low_95 != row.low_95 else [
            _label(of, row.median), *(f"{_label(of, low)}..{_label(of, high)}" for low, high in
                                      ((row.low_80, row.high_80), (row.low_95, row.high_95)))]  # fmt: skip
        rows.append((f"{row.probability:.2f}", *when, f"{amount(len(part), 'client')}: {', '.join(names)}{more}"))
    heading = f"Exposed ({RECONSTRUCTABLE}) within the horizon, and from which round on (>: beyond the horizon)"
    more = "; the first of them" if len(alike) > LISTED else ""
    return [f"{heading}{more}:", *columns(["probability", "median", "80 %", "95 %", "clients"], rows), certainty()]


def _label(of: "Forecast", t: float | None) -> str:
    if t is None or t != t:
        return ">"
    return "past" if int(t) < 0 else str(of.past.label(int(t)))


def _differences(of: "Forecast") -> list[str]:
    table = of.differences()
    if not len(table):
        return []
    rows: list[tuple[str, ...]]
    rows = [(str(row.policy), WORDS[row.quantity], f"{row.as_now:.4g}", f"{row.with_policy:.4g}",
             f"{row.difference:+.3g} ({row.low_95:+.3g}..{row.high_95:+.3g})")
            for row in table.itertuples()]  # fmt: skip
    return [f"What other policies change {WORST}, by paired futures:",
            *columns(["policy", "", "as now", "with it", "difference (95 %)"], rows)]  # fmt: skip


def limits_of(past: Past, plan: FuturePlan, seen: SeenPolicy, model: ModelChoice) -> list[str]:
    """What is not known of this log's future."""
    first = np.where(past.rows.any(axis=0), past.rows.argmax(axis=0), -1)
    newcomers = int((first >= len(past.rows) * 3 // 4).sum())
    said = [
        "A policy that looks at losses, durations or earlier sums (oort, fedcs, guarded) leaves a log that may look "
        "like any other; if yours does, this is no forecast of it.",
        "Rounds are simulated one after another. Where the server waits for the fastest only, or buffers (fedbuff), "
        "who comes next depends on who is still at work, which a log does not say.",
        f"Clients that join later are not in it; {newcomers} took part first in the last quarter of the log.",
        "Clients that leave for good are not in it; then fewer take part than these futures say.",
    ]
    if model.drift < DRIFT:
        said.append(f"Who takes part has drifted: the two halves of the log differ (p = {model.drift:.3g}). Futures "
                    "have the mean of both.")  # fmt: skip
    else:
        said.append(f"No drift of availability was seen (p = {model.drift:.2g}); slow drift may be there all the same.")
    if model.left < MISSING:
        said.append(f"Clients that took part are missing from the last sums (p = {model.left:.2g}): where they have "
                    "left for good, or stay away for long, fewer take part than these futures say.")  # fmt: skip
    if seen.relation == "some":
        said.append("A log says who was selected, not who was available. How many were is known only as far as rounds "
                    "had too few; the futures differ in it, and other policies depend on it.")  # fmt: skip
    if "mode=fair" in seen.choice.text:
        said.append("Fair selection evens out who takes part, so that the log says little of who is available less.")
    if past.times_s is None:
        said.append("No column was read as times: there are no dates, and no times of day.")
    if past.round_bytes is not None:
        said.append("Bytes are those of a client in the past rounds, times the clients of a coming sum.")
    if past.doubtful:
        said.append(f"Some weights may be rounded numbers (in {past.doubtful} of {amount(len(past.rows), 'round')}). "
                    "For rank and exposure these sums are left out, so that more clients may be exposed to the server "
                    f"{WORST}. Coming sums, and the semi-strong and weak guarantees, have the weights as they are "
                    "written.")  # fmt: skip
    if plan.span.generic:
        said.append("Clients' weights vary from round to round; coming weights are taken to be unlike any before.")
    said.extend(_remaining_guarantee(choice, plan) for choice in plan.policies[1:] if choice.before is not None)
    said.extend(_comparison_limits(past, plan, seen, model))
    said.append(f"As in the audit, who is exposed to the server is so {WORST}; updates that change tell less. That "
                f"{ONLY_SUMS} is assumed.")  # fmt: skip
    return said


TRIED_ROUNDS = 24, 60
"""Past rounds of the simulated deployments of ``benchmarks/forecast.py``, at least and at most; as many came."""


def _comparison_limits(past: Past, plan: FuturePlan, seen: SeenPolicy, model: ModelChoice) -> list[str]:
    """What forecasts were never compared with, and intervals not widened by, in sentences."""
    coverages = next(iter(coverage_of(seen.choice).values()), None)
    new = [] if coverages is None or coverages.fewest <= len(past.clients) <= coverages.most else [
        f"{len(past.clients)} clients (only {coverages.fewest} to {coverages.most})"]  # fmt: skip
    base = next(iter(coverage_of(seen.choice, 0).values()), None)
    as_wide = [] if base is None or base == coverages else [
        f"Intervals are as wide as forecasts of {base.fewest} to {base.most} clients needed, which may be too narrow."
    ]  # fmt: skip
    few, many = TRIED_ROUNDS
    if not (few <= len(past.rows) <= many and plan.horizon <= many):
        new.append(f"{len(past.rows)} past and {plan.horizon} coming rounds (only {few} to {many}, as many coming)")
    new += ["a model of availability that is named"] * model.named
    new += ["sizes and shares that are drawn again"] * (plan.policies[0].text == "as_before")
    new += ["policies other than the log's"] * (len(plan.policies) > 1)
    return as_wide + [f"Forecasts were never compared with what then happens for {', '.join(new)}."] * bool(new)


def _remaining_guarantee(choice: PolicyChoice, plan: FuturePlan) -> str:
    """What a policy that answers for the past's sums can still keep."""
    n = len(choice.order)
    view = View(0, np.ones(n, bool), np.zeros(n, np.int64), before=choice.before, history=())
    after = " Sums until it selects may take more." if plan.change_over else ""
    return what_is_left(choice.policy(), choice.text, view, "now") + after


def what_is_left(policy: Policy, name: str, view: View, start: str) -> str:
    """What the sums of ``view.before`` have left of the guarantee that a policy keeps from ``start`` on."""
    guarantees, guarantee = policy.client_guarantees(view), policy.guarantee(len(view.available))
    if guarantees is None or guarantee is None:
        return f"{name} reads the log's sums, and keeps no guarantee."
    notion, T = ("semi-strong", guarantee.semi_strong) if guarantee.semi_strong else ("weak", guarantee.weak)
    assert T is not None
    whole, exposed = int((guarantees > T - 1e-6).sum()), int((guarantees < 1 + 1e-6).sum())
    against = f"against the server {WORST} {IF_ONLY_SUMS}"
    keeps = f"{name}, from {start} on, keeps the {notion} guarantee {T} to"
    if whole == len(guarantees):
        return f"{keeps} everybody, the log's sums included, {against}."
    partly = guarantees[(guarantees > 1 + 1e-6) & (guarantees < T - 1e-6)]
    less = f"; {len(partly)} keep what the log has left them, at least {partly.min():.3g}" if len(partly) else ""
    stays = (
        f"; {exposed} {'is' if exposed == 1 else 'are'} exposed already, which nothing takes back" if exposed else ""
    )
    return (f"{keeps} {whole} of {len(guarantees)} clients, the log's sums included{less}{stays}, {against}. Reserved "
            "units that would take more are not selected.")  # fmt: skip

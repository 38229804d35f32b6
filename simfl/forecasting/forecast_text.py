"""A forecast in words and small tables."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfl.audit.log import plain
from simfl.core.certificate_words import IF_ONLY_SUMS, RECONSTRUCTABLE, WORST
from simfl.core.wording import amount
from simfl.forecasting.times import date
from simfl.forecasting.unknowns import CALIBRATED

if TYPE_CHECKING:
    from simfl.forecasting.forecast_result import Forecast

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


def text(of: "Forecast") -> str:
    """The forecast for a person at a terminal."""
    return "\n".join([*summary(of), "", *_clients(of), *_differences(of), "", *(f"* {line}" for line in of.limits)])


def summary(of: "Forecast") -> list[str]:
    """What was read, how it was understood, and what each policy leads to."""
    plan, futures = of.plan, len(of.outcomes[0].rank)
    lines = [
        f"{amount(plan.past_rounds, 'round')} of {amount(plan.clients, 'client')}; {amount(futures, 'future')} of "
        f"{amount(plan.horizon, 'round')} each.",
        of.seen.sentence,
        of.model.sentence,
        "",
        *(_verdict(of, policy) for policy in range(len(of.policies))),
    ]
    return lines


def _verdict(of: "Forecast", policy: int) -> str:
    since = of.outcomes[policy].exposed
    already = int((since[0] < 0).sum())
    exposed = of.exposed_counts(policy)[:, -1]
    low, middle, high = (int(np.quantile(exposed, q, method="inverted_cdf")) for q in (0.1, 0.5, 0.9))
    any_new = float(((since >= 0) & (since < of.plan.horizon)).any(axis=1).mean())
    start = "as now" if policy == 0 else f"from {_from(of)} on"
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


def _from(of: "Forecast") -> str:
    return f"round {of.past.label(of.plan.change_over)}"


def _clients(of: "Forecast") -> list[str]:
    table = of.clients()
    now = table[(table.policy == of.policies[0]) & (table["median"].fillna(of.plan.horizon) >= 0)]
    now = now.sort_values(["probability", "median"], ascending=[False, True], kind="stable").head(LISTED)
    if not len(now):
        return [f"Everybody is exposed already: {RECONSTRUCTABLE}."]
    form = "{:>16} {:>12} {:>10} {:>16} {:>16}"
    rows = [form.format("client", "probability", "median", "80 %", "95 %")]
    for row in now.itertuples():
        rows.append(form.format(plain(row.client, 16), f"{row.probability:.2f}", _label(of, row.median),
                                f"{_label(of, row.low_80)}..{_label(of, row.high_80)}",
                                f"{_label(of, row.low_95)}..{_label(of, row.high_95)}"))  # fmt: skip
    heading = f"Exposed ({RECONSTRUCTABLE}) within the horizon, and from which round on (>: beyond the horizon)"
    more = "; the first of them" if len(table) / len(of.policies) > LISTED else ""
    return [f"{heading}{more}:", *rows, CALIBRATED, ""]


def _label(of: "Forecast", t: float | None) -> str:
    if t is None or t != t:
        return ">"
    return "past" if int(t) < 0 else str(of.past.label(int(t)))


def _differences(of: "Forecast") -> list[str]:
    table = of.differences()
    if not len(table):
        return []
    form = "{:>34} {:>32} {:>10} {:>10} {:>24}"
    rows = [form.format("policy", "", "as now", "with it", "difference (95 %)")]
    for row in table.itertuples():
        name = plain(row.policy, 34)
        change_by = f"{row.difference:+.3g} ({row.low_95:+.3g}..{row.high_95:+.3g})"
        rows.append(form.format(name, WORDS[row.quantity], f"{row.as_now:.4g}", f"{row.with_policy:.4g}", change_by))
    return [f"What other policies change {WORST}, by paired futures:", *rows]

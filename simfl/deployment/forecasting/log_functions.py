"""``simfl.forecast`` and ``simfl.advise``: from a table or a file of who took part."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

    from simfl.deployment.forecasting.forecast_result import Forecast
    from simfl.deployment.forecasting.past import Past
    from simfl.deployment.forecasting.policy_advice import PolicyAdvice


def advise(
    log: "DataFrame | Path | str",
    grid: str | Sequence[str] = (),
    *,
    columns: Mapping[str, str] | None = None,
    where: Mapping[str, str] | None = None,
    all_rows: bool = False,
    horizon: int | None = None,
    days: float | None = None,
    **settings: Any,
) -> "PolicyAdvice":
    """Which policy exposes nobody else in most futures of a deployment, and loses the fewest rounds.

    Args:
        log, columns, where, all_rows, horizon, days: as for :func:`forecast`.
        grid: policies to look at; empty = a list of at most 24.
        settings: ``futures`` (100), ``target`` (0.95), ``policy``, ``model``, ``seed``, ``processes`` and ``folder`` of
            :func:`simfl.deployment.forecasting.policy_advice.advise`.

    Returns:
        An object with ``table()``, ``ranking()`` (places in it of those that keep the promise, the best first) and
        ``nodes(place)``, the clients in the order in which they make a policy's units.

    Raises:
        SimflError: as for :func:`forecast`, or there are too few futures for the target.
    """
    from simfl.deployment.forecasting.forecast_result import rounds_ahead
    from simfl.deployment.forecasting.policy_advice import advise as look_through

    past = _past_of_log(log, columns, where, all_rows)
    policies = (grid,) if isinstance(grid, str) else tuple(grid)
    return look_through(past, policies, horizon=rounds_ahead(past, horizon, days), **settings)


def _past_of_log(
    log: "DataFrame | Path | str", columns: Mapping[str, str] | None, where: Mapping[str, str] | None, all_rows: bool
) -> "Past":
    from simfl.deployment.audit.log_columns import LogOptions
    from simfl.deployment.forecasting.past import past_from_frame, read_past

    options = LogOptions(columns or {}, where or {}, all_rows)
    return read_past(log, options) if isinstance(log, (str, Path)) else past_from_frame(log, options)


def forecast(
    log: "DataFrame | Path | str",
    against: str | Sequence[str] = (),
    *,
    columns: Mapping[str, str] | None = None,
    where: Mapping[str, str] | None = None,
    all_rows: bool = False,
    horizon: int | None = None,
    days: float | None = None,
    futures: int = 200,
    start: int = 0,
    processes: int = 1,
    **settings: Any,
) -> "Forecast":
    """When whose update will become computable, and what other policies would change.

    Args:
        log: a table or a file with a row for every client in every round, or a folder of results.
        against: other policies, e.g. ``"batch_partition:T=4"``.
        columns: names of the columns of ``round``, ``client``, ``weight``, ``time`` and ``bytes``.
        where: by column the value that rows have which took part, e.g. ``{"status": "success"}``.
        all_rows: every row took part, whatever its other columns say.
        horizon: coming rounds; None = as many as the log has.
        days: the horizon in days, for a log with dates.
        futures: how many are simulated under each policy.
        start: coming round, from 0, from which the other policies select.
        processes: how many work at once.
        settings: ``policy``, ``model``, ``seed``, ``guarantees`` and ``folder`` of
            :func:`simfl.deployment.forecasting.forecast_result.forecast`.

    Returns:
        An object with the tables ``clients()``, ``rounds()`` and ``differences()``, with ``figure()``, ``html()`` and
        ``limits``, what it cannot know.

    Raises:
        SimflError: the log cannot be read, there is no such policy, or forecasts of the log's policy are not tested.
    """
    from simfl.deployment.forecasting.forecast_result import forecast as play_futures
    from simfl.deployment.forecasting.forecast_result import rounds_ahead

    past = _past_of_log(log, columns, where, all_rows)
    others = (against,) if isinstance(against, str) else tuple(against)
    rounds = rounds_ahead(past, horizon, days)
    return play_futures(past, others, horizon=rounds, futures=futures, change_over=start, processes=processes,
                        **settings)  # fmt: skip

"""``simfl.forecast``: what a deployment's log leads to."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

    from simfl.forecasting.forecast_result import Forecast


def forecast(
    log: "DataFrame | Path | str",
    against: str | Sequence[str] = (),
    *,
    columns: Mapping[str, str] | None = None,
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
        horizon: coming rounds; None = as many as the log has.
        days: the horizon in days, for a log with dates.
        futures: how many are simulated under each policy.
        start: coming round, from 0, from which the other policies select.
        processes: how many work at once.
        settings: ``policy``, ``model``, ``seed``, ``guarantees`` and ``folder`` of
            :func:`simfl.forecasting.forecast_result.forecast`.

    Returns:
        An object with the tables ``clients()``, ``rounds()`` and ``differences()``, with ``figure()``, ``html()`` and
        ``limits``, what it cannot know.

    Raises:
        SimflError: the log cannot be read, there is no such policy, or forecasts of the log's policy are not tested.
    """
    from simfl.forecasting.forecast_result import forecast as play_futures
    from simfl.forecasting.forecast_result import rounds_ahead
    from simfl.forecasting.past import past_from_frame, read_past

    is_file = isinstance(log, (str, Path))
    past = read_past(log, columns) if is_file else past_from_frame(log, columns)
    others = (against,) if isinstance(against, str) else tuple(against)
    rounds = rounds_ahead(past, horizon, days)
    return play_futures(past, others, horizon=rounds, futures=futures, change_over=start, processes=processes,
                        **settings)  # fmt: skip

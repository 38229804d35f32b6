"""How many colluders the protocol of secure aggregation tolerates.

With more of them the server knows masks, and single updates are open to it, whatever the sums are: no certificate
against so many clients holds.
"""

from simfl.core.scenario_view import ScenarioView, has_buffer, summands
from simfl.core.wording import amount


def tolerated_colluders(setting: ScenarioView, summed: int | None = None) -> int:
    """Clients who with the server learn no single update from the protocol, whoever they are, where nobody fails.

    0 where the protocol promises nothing, or nothing of so small a sum; -1 where it shows updates.

    Args:
        setting: the scenario.
        summed: clients in the sum; those whom the protocol was prepared for are at least as many. Only looked at
            where the scenario does not say how many these are.
    """
    fixed = has_buffer(setting.training) or setting.selection.fixed_size
    members = (summands(setting) if fixed else None) or summed
    protocol = setting.secagg
    tolerated = (protocol.tolerance(members, setting.clients) if members else None) or 0
    return -1 if protocol.shows_updates else tolerated


def surely_tolerated(setting: ScenarioView, summed: int | None = None) -> int:
    """The same before the run, whatever happens: 0 where clients can be lost after they have shared masks.

    Their silence cuts graphs of neighbours, and may be that of a colluder who keeps the one share that opens a failed
    sum. Of a sum two updates at least have to be left.
    """
    tolerated = tolerated_colluders(setting, summed)
    if summed and not setting.secagg.assumes:
        tolerated = min(tolerated, summed - 2)
    return tolerated if setting.secagg.assumes or not can_lose_clients(setting) else min(tolerated, 0)


def can_lose_clients(setting: ScenarioView) -> bool:
    """Whether a client may be silent in an aggregation: it fails, is too late, or is not waited for."""
    losses, protocol = setting.training.losses, setting.secagg
    late = losses is not None and (losses.quorum or losses.deadline_s is not None)
    return late or protocol.deadline_s is not None or not setting.devices.failure.never


def tolerance_problem(setting: ScenarioView, colluders: int) -> str:
    """Why nothing can be promised against so many colluders, with the nearest number; empty where it can."""
    most = max(0, tolerated_colluders(setting, summands(setting) or setting.clients))
    if colluders <= most:
        return ""
    why = f"secagg: {setting.secagg.name} hides single updates from at most {amount(most, 'colluder')} of a sum"
    return f"is {colluders}, but {why}; the nearest value is {most}"

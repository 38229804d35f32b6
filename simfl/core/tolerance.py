"""How many colluders the protocol of secure aggregation tolerates.

With more of them the server knows masks, and single updates are open to it, whatever the sums are: no certificate
against so many clients holds.
"""

from simfl.core.scenario_view import ScenarioView, has_buffer, summands
from simfl.core.wording import amount


def tolerated_colluders(setting: ScenarioView, summed: int | None = None) -> int | None:
    """Clients who with the server learn no single update from the protocol, whoever they are; None = not known.

    0 where the protocol promises nothing of so small a sum, though it does of larger ones.

    Args:
        setting: the scenario.
        summed: clients in the sum; those whom the protocol was prepared for are at least as many. Only looked at
            where the scenario does not say how many these are.
    """
    fixed = has_buffer(setting.training) or setting.selection.fixed_size
    members = (summands(setting) if fixed else None) or summed
    if not members:
        return None
    protocol, n = setting.secagg, setting.clients
    tolerated = protocol.tolerance(members, n)
    return 0 if tolerated is None and protocol.tolerance(n, n) is not None else tolerated


def tolerance_problem(setting: ScenarioView, colluders: int) -> str:
    """Why nothing can be promised against so many colluders, with the nearest number; empty where it can."""
    most = tolerated_colluders(setting)
    if most is None or colluders <= most:
        return ""
    why = f"secagg: {setting.secagg.name} hides single updates from at most {amount(most, 'colluder')} of a sum"
    return f"is {colluders}, but {why}; the nearest value is {most}"

"""A run that asks processes outside for the updates of some of its clients."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from simfl.errors import ScenarioError
from simfl.run import Finished, run
from simfl.scenario import Scenario
from simfl.serving.desk import Desk
from simfl.serving.server import LOOPBACK, listening
from simfl.updates import Replay, Updates
from simfl.version import RESULTS

__all__ = ["serve"]


def serve(
    scenario: Scenario,
    out: Path,
    *,
    token: str | None = None,
    host: str = LOOPBACK,
    port: int = 0,
    insecure: bool = False,
    names: Sequence[str] = (),
    limit_s: float = 600.0,
    force: bool = False,
    replay: Path | None = None,
    ready: Callable[[str, str], None] | None = None,
    **how: Any,
) -> Finished:
    """Plays a scenario whose clients are, in part, processes of their own (backend ``external``).

    Updates that have come before the run was interrupted are not asked for again.

    Args:
        scenario: what to play.
        out: root of all results.
        token: what lets a process join; None = a new one.
        host, port: where to listen; port 0 = a free one.
        insecure: also at an address that is not this machine's own.
        names: by which clients may address the server besides its own names and addresses.
        limit_s: seconds of real time that the clients have for the jobs of one aggregation.
        force: play from the start, and ask for every update again.
        replay: folder of a finished run whose clients' updates are taken instead; nobody is asked.
        ready: called with the address and the token as soon as clients may come.
        how: ``progress`` and ``phase`` of :func:`simfl.run.run`.

    Raises:
        ScenarioError: no client is outside.
        OutsideError: a client has failed; what came before is kept, and the same call goes on.
        SimflError: as for :func:`simfl.run.run`, or the address is refused.
    """
    if not scenario.learning.external:
        raise ScenarioError("learning.backend", "no client is outside; e.g. {name: external, clients: [0, 1]}")
    folder = out / scenario.name / scenario.digest
    if replay is not None:
        return run(scenario.using(outside=Replay(replay, folder)), out, force=force, **how)
    inside = replace(scenario, learning=scenario.learning.inside())
    about = {
        "name": scenario.name,
        "digest": scenario.digest,
        "results": RESULTS,
        "clients": list(scenario.learning.external),
        "scenario": inside.plain(),
    }
    token = token or secrets.token_urlsafe(24)
    desk = Desk(scenario.learning.external, Updates(folder, anew=force), token, limit_s, about)
    with listening(desk, host, port, insecure, names) as address:
        if ready is not None:
            ready(address, token)
        try:
            finished = run(scenario.using(outside=desk), out, force=force, **how)
        except BaseException as error:
            desk.end(str(error) or type(error).__name__)
            raise
        desk.end()
        return finished

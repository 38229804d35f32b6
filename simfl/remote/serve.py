"""A run that asks remote clients, processes of their own, for their updates."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from simfl.core.errors import ScenarioError
from simfl.core.json_data import JsonObject
from simfl.core.version import RESULTS
from simfl.remote.job_server import LOOPBACK, serve_jobs
from simfl.remote.jobs import RemoteJobs
from simfl.results.client_updates import UpdateReplay, UpdateStore
from simfl.runs.run import FinishedRun, run
from simfl.scenario import Scenario


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
) -> FinishedRun:
    """Runs a scenario whose clients are, in part, processes of their own (backend ``external``).

    Updates that have come before the run was interrupted are not asked for again.

    Args:
        scenario: what to run.
        out: root of all results.
        token: what lets a process join; None = a new one.
        host, port: where to listen; port 0 = a free one.
        insecure: also at an address that is not this machine's own.
        names: by which clients may address the server besides its own names and addresses.
        limit_s: seconds of real time that the clients have for the jobs of one aggregation.
        force: run from the start, and ask for every update again.
        replay: folder of a finished run whose clients' updates are taken instead; nobody is asked.
        ready: called with the address and the token as soon as clients may come.
        how: ``progress`` and ``phase`` of :func:`simfl.runs.run.run`.

    Raises:
        ScenarioError: no client is remote.
        RemoteClientError: a client has failed; what came before is kept, and the same call goes on.
        SimflError: as for :func:`simfl.runs.run.run`, or the address is refused.
    """
    if not scenario.learning.external:
        raise ScenarioError("learning.backend", "no client is remote; e.g. {name: external, clients: [0, 1]}")
    folder = out / scenario.name / scenario.digest
    if replay is not None:
        return run(scenario.using(remote_clients=UpdateReplay(replay, folder)), out, force=force, **how)
    token = token or secrets.token_urlsafe(24)
    updates = UpdateStore(folder, anew=force)
    jobs = RemoteJobs(scenario.learning.external, updates, token, limit_s, project(scenario))
    with serve_jobs(jobs, host, port, insecure, names) as address:
        if ready is not None:
            ready(address, token)
        try:
            finished = run(scenario.using(remote_clients=jobs), out, force=force, **how)
        except BaseException as error:
            jobs.end(str(error) or type(error).__name__)
            raise
        jobs.end()
        return finished


def project(scenario: Scenario) -> JsonObject:
    """The run, as clients are told; the scenario trains all of them by itself."""
    local = replace(scenario, learning=scenario.learning.without_remote_clients())
    return {
        "name": scenario.name,
        "digest": scenario.digest,
        "results": RESULTS,
        "clients": list(scenario.learning.external),
        "scenario": local.plain(),
    }

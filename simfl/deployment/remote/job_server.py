"""The server that remote clients ask for jobs and send updates to, over HTTP.

Each connection has one request; answers are small, and whatever is wrong with a request is answered by a status 4xx.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from simfl.api.files import UpdateReplay, UpdateStore
from simfl.api.http import (
    DEFAULT_LIMITS,
    BoundedHandler,
    ConnectionLimits,
    Query,
    RequestError,
    check_name,
    is_loopback,
    listening,
)
from simfl.api.runs import FinishedRun, run
from simfl.api.scenarios import Scenario
from simfl.deployment.remote.jobs import RemoteJobs
from simfl.plugins import RESULTS, JsonObject, ScenarioError, SimflError

LOOPBACK = "127.0.0.1"

MOST_JSON = 1 << 16
"""Bytes of a JSON document."""

PLACES = {
    "GET": (r"/project", r"/jobs", r"/models/(0|[1-9][0-9]{0,18})"),
    "POST": (r"/clients", r"/scores"),
    "PUT": (r"/updates/(0|[1-9][0-9]{0,18})",),
}
"""What there is, by method."""

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class _Handler(BoundedHandler):
    """Answers clients of a run."""

    wrong_host = "the Host header does not name this server; simfl serve --name NAME adds a name"

    def __init__(self, jobs: RemoteJobs, *connection: Any) -> None:
        self.jobs = jobs
        super().__init__(*connection)

    def reply(self, path: str, query: Query) -> None:
        methods = {
            method: match
            for method, patterns in PLACES.items()
            for pattern in patterns
            if (match := re.fullmatch(pattern, path, re.ASCII))
        }
        if not methods:
            raise RequestError(404, "there is nothing here")
        if self.command not in methods:
            raise RequestError(405, f"only {', '.join(methods)}")
        match, place = methods[self.command], path.split("/")[1]
        if place in ("project", "clients"):
            if not self.jobs.may_join(self._token()):
                raise RequestError(401, "the project's token is needed")
            self._admit()
            self._answer(*((200, self.jobs.about) if place == "project" else self._join()))
            return
        client = self.jobs.client_of(self._token())
        self._admit()
        self._answer(*self._reply_to_client(client, place, int(match[1]) if match.groups() else 0, query))

    def _reply_to_client(self, client: int, place: str, number: int, query: Query) -> tuple[int, object]:
        """Status and content for a client that has joined; ``number`` is the model version or job in the path."""
        if place == "jobs":
            return 200, self.jobs.jobs(client, _number(query, "wait", 0.0))
        if place == "models":
            return 200, self.jobs.model(client, number)
        if place == "scores":
            document = self._json()
            self.jobs.add_scores(client, document)
            return 200, {"scores": len(document)}
        try:
            data = self.read_body(self.jobs.max_update_bytes(client, number))
            durations_s = _duration(query, "download_s"), _duration(query, "work_s")
            new = self.jobs.update(client, number, data, _number(query, "loss"), durations_s)
            return (201 if new else 200), {"job": number}
        except RequestError as error:
            self.jobs.note_refusal(client, error.message)
            raise

    def _join(self) -> tuple[int, Any]:
        document = self._json()
        name, slot = document.pop("name", ""), document.pop("slot", None)
        if document or type(name) is not str or len(name) > 100 or not name.isprintable():
            raise RequestError(422, "name (100 printable letters) and slot are all there is to say")
        if slot is not None and type(slot) is not int:
            raise RequestError(422, "slot is the number of a client")
        client, token = self.jobs.join(name, slot)
        return 201, {"slot": client, "token": token}

    def _admit(self) -> None:
        """The peer has a valid token: it is not evicted, and a job is waited for without a time limit of the peer's."""
        self.peer.admit()
        self.peer.expect(None)

    # -- reading -------------------------------------------------------------------------------------

    def _token(self) -> str:
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        return token.strip() if kind.lower() == "bearer" else ""

    def _json(self) -> JsonObject:
        try:
            document = json.loads(self.read_body(MOST_JSON) or b"{}")
        except (ValueError, RecursionError):
            raise RequestError(400, "not a JSON document") from None
        if not isinstance(document, dict):
            raise RequestError(422, "a JSON object is needed")
        return document

    # -- answering -----------------------------------------------------------------------------------

    def _answer(self, status: int, content: object) -> None:
        kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
        if status >= 400:
            content = {"error": content}
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.answer(status, kind, data, HEADERS | ({"WWW-Authenticate": "Bearer"} if status == 401 else {}))

    def answer_error(self, status: int, message: str) -> None:
        self._answer(status, message)


def _number(query: Query, name: str, default: float | None = None) -> float:
    """
    Raises:
        RequestError: there is none.
    """
    values = query.get(name, [] if default is None else [str(default)])
    try:
        (text,) = values
        value = float(text)
    except ValueError:
        raise RequestError(422, f"{name}=NUMBER is needed in the address") from None
    if value != value or (name == "wait" and value < 0):
        raise RequestError(422, f"{name} is no number that makes sense")
    return value


def _duration(query: Query, name: str) -> float | None:
    """
    Raises:
        RequestError: it is there, and no finite number of seconds from 0.
    """
    if name not in query:
        return None
    value = _number(query, name)
    if not 0 <= value < inf:
        raise RequestError(422, f"{name} is a number of seconds from 0")
    return value


def check_host(host: str, insecure: bool) -> None:
    """Refuses to send models and tokens over a network in clear.

    Raises:
        SimflError: the address is not this machine's own, and nobody has said that the network is trusted.
    """
    if not (insecure or is_loopback(host)):
        raise SimflError(
            f"--host {host}: models, updates and tokens would cross the network in clear; use {LOOPBACK} behind an SSH "
            "tunnel or a TLS proxy, or --insecure if the network is trusted"
        )


@contextmanager
def serve_jobs(
    jobs: RemoteJobs,
    host: str = LOOPBACK,
    port: int = 0,
    insecure: bool = False,
    names: Sequence[str] = (),
    limits: ConnectionLimits = DEFAULT_LIMITS,
) -> Iterator[str]:
    """Runs the job server in threads of its own for as long as the context lasts.

    Args:
        jobs: what clients are asked for.
        host: address to listen at.
        port: 0 = a free one.
        insecure: it may be another than this machine's own.
        names: under which clients may address the server besides its own names and addresses.
        limits: what peers can take from the server.

    Yields:
        The address, ``http://HOST:PORT``, with the first of the names if there are any.

    Raises:
        SimflError: the address is refused or taken, or a name is none.
    """
    check_host(host, insecure)
    for name in names:
        check_name(name)
    shown = (*names, host)[0]
    with listening(host, port, partial(_Handler, jobs), names, limits) as server:
        yield f"http://{f'[{shown}]' if ':' in shown else shown}:{server.server_port}"


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

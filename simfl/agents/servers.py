"""The family of servers: what every server has and does, and the registry by whose names rules choose one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, ClassVar, Generic

import numpy as np
from numpy.typing import NDArray

from simfl.agents.agent_nodes import AgentNodes
from simfl.agents.aggregation.accounts import Log, RoundAccounts
from simfl.agents.aggregation.components import Components, R_co, RoundResult
from simfl.agents.aggregation.exchange import WORK, CompletedSession, Exchange, exchange, run_session, sample_delays
from simfl.agents.aggregation.global_model import GlobalModelState
from simfl.agents.aggregation.policy_queries import MAX_EMPTY_ATTEMPTS, stall_error
from simfl.agents.gathering import Gathering
from simfl.agents.live_session import LiveSession
from simfl.agents.trips import Trips
from simfl.agents.world import Process, World
from simfl.core.columns import REFUSED
from simfl.core.errors import PluginError
from simfl.core.json_data import JsonObject
from simfl.core.registration.protocol import Plugin, is_foreign
from simfl.core.registration.registry import Registry
from simfl.core.rng import Address
from simfl.core.types import Arrays, Job, Receipts, Units, View, job_ids, prefix_arrays, under
from simfl.core.validation import checked_type
from simfl.devices.base import checked_available, is_told
from simfl.metrics.participation import Tally
from simfl.secagg.receipts import answered_by, confirm_sum, confirm_units
from simfl.secagg.sessions import PhaseRequest, PreparedUnits, R, Session, SessionFailure, SessionResult
from simfl.secagg.transcript import Transcript
from simfl.selection.asking import ask as ask_policy
from simfl.training.base import Rule


@dataclass(eq=False)
class Server(Plugin, ABC, Generic[R_co]):
    """An agent of the world that selects clients and aggregates their updates, from the current round to the run's end.

    One that goes round by round is a :class:`RoundServer`; one that reacts to single arrivals has a :meth:`run` of its
    own. Rows, participation, traffic, the model's versions and the end of the run are decided in :meth:`aggregate`.
    Between two rounds all of a server's state is explicit: :meth:`state` and :meth:`restore` are all that a checkpoint
    needs.

    Args:
        parts: the built scenario.
        world: the clock on which it lives.
        on_round: called with each finished :class:`RoundResult`.
        log: called with a record for every event, or None.

    Attributes:
        accounts: what the round has cost so far, a :class:`simfl.agents.aggregation.accounts.RoundAccounts`.
        shown_view: what the policy has been shown for the current round.
        global_model: the model's versions and its step.
        at_end: the rule has ended the run.
        used: numbers of the jobs that a server of a plugin has aggregated, and of the sums that it has recovered.
        follows_policy: whoever works was selected by the policy. A server has to say so: else its guarantee is 1.
        counts_unsummed: it notes of every update that is sent what becomes of it, gives every session a number of its
            own, asks clients for nothing else, and who is summed, and when it ends, follows from no update. A server
            has to say so: else guarantees are 1, and epsilons infinite.
        confirms: where clients check each selection, they do by its :meth:`prepare` and :meth:`recover`. Likewise.
        reads: keys of ``training`` that only a server can obey, and this one does, of
            :data:`simfl.agents.server_choice.OBEYED`; others are refused. A class of a plugin says so itself.
        stores_state: a checkpoint holds all of it; else a run that was killed begins anew.
        asks_agents: it asks clients by :meth:`gather` and :meth:`run_session` only; else they cannot be processes.
    """

    follows_policy: ClassVar[bool] = False
    counts_unsummed: ClassVar[bool] = False
    confirms: ClassVar[bool] = False
    asks_agents: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()
    stores_state: ClassVar[bool] = True

    parts: Components[R_co]
    world: World
    on_round: Callable[[RoundResult], None]
    log: Log | None = None

    def __post_init__(self) -> None:
        self.global_model = GlobalModelState(self.parts)
        self.accounts, self.at_end = RoundAccounts(self.log), False
        self.used: dict[str, set[int]] = {"numbers": set(), "recovered": set()}
        clocked = self.parts.rule.asynchronous or self.parts.own_agents_share  # else a round has links to itself
        self.trips = Trips(self.world, self.parts.sharing if clocked else None, self.parts.client_process)
        if not self.parts.agents.all_standard:
            self.trips.nodes = AgentNodes(self.parts, self.trips, self.accounts)
        self.start()

    @classmethod
    def class_for(cls, parts: Components[Any], log: Log | None) -> "type[Server[Any]]":
        """The class that runs these parts: this one, or one that gives the same results in less time."""
        return cls

    def start(self) -> None:
        """Sets what a server of its own holds besides, before the first round or a :meth:`restore`."""

    @property
    def tally(self) -> Tally:
        """Who was aggregated so far."""
        return self.global_model.tally

    @property
    def model(self) -> NDArray[np.float32]:
        """The current global model, float32 (d,)."""
        return self.global_model.model

    @abstractmethod
    def run(self) -> Process[None]:
        """Goes from the current state to the end of the run; ``on_round`` is called with every round."""

    # -- what happens in a round ---------------------------------------------------------------------

    def select(self, t: int) -> Units:
        """Asks the policy for the clients of a round."""
        return self.select_among(self.view(t))

    def view(self, t: int) -> View:
        """What the policy may see for a round: who is available and has not left for good, and what is known so far."""
        parts, present = self.parts, self.global_model.present
        available = checked_available(parts.available.draw(t, self.world.now), parts.clients, parts.available)
        known = self.global_model.records.known(t)
        history = None if self.tally.history is None else tuple(self.tally.history)
        return View(t, available & present, self.tally.participation, known.reports, known.state, history)

    def select_among(self, view: View) -> Units:
        """Asks the policy for the clients of the view's round."""
        parts, t = self.parts, view.round
        self.shown_view = view
        units = ask_policy(parts.policy, view, parts.policy.k, parts.streams("selection", t))
        self.note("round_start", round=t, available=int(np.count_nonzero(view.available)), selected=units.size)
        return units

    def admits(self, t: int, clients: NDArray[np.int32]) -> bool:
        """Asks the policy whether the sum of a round's clients may be opened; those without samples are in no sum."""
        learner = self.parts.learner
        if learner.dimension:
            clients = clients[learner.counts(clients, t) > 0]
        return bool(self.parts.policy.admits(self.shown_view, np.sort(clients)))

    def gather(
        self, request: PhaseRequest, number: int, stream: str = "", until_failure: bool = False
    ) -> Process[Exchange]:
        """Sends each of a cohort a request and waits for the answers, which count for the round.

        Args:
            request: what is asked of whom, and how long it is waited for.
            number: of the round; with the clients, the address of the draws.
            stream: tells exchanges at one address apart.
            until_failure: the first failure that is heard of ends it.

        Raises:
            PluginError: a plugin's server that says that it asks for nothing else asks for more than work.
        """
        parts, world = self.parts, self.world
        if is_foreign(self) and self.counts_unsummed and request.kind != WORK and not parts.policy.asks:
            why = f"asks clients for '{request.kind}', which no policy needs; say counts_unsummed = False"
            raise PluginError(f"server '{self.name}'", why)
        delays = sample_delays(parts, request, Address(number, request.to, parts.clients), stream)
        if not (parts.follows_messages if request.kind == WORK else parts.client_process):
            done = exchange(request, delays, world.now, until_failure)
            yield world.until(done.ends_s)
            return self._account(done, number)
        ended = world.event()
        live = Gathering(self.trips, request, number, delays, world.now, ended.succeed, until_failure)
        live.start()
        return self._account((yield ended), number)

    def _account(self, done: Exchange, number: int) -> Exchange:
        """An exchange has ended; devices that drain hear for how long they have worked."""
        is_work = done.request.kind == WORK
        self.accounts.add_exchange(done, job_ids(number, done.request.to) if is_work and number >= 0 else None)
        if is_work and is_told(self.parts.available):
            self.parts.available.on_work(done.request.to, done.worked_s, self.world.now)
        return done

    def run_session(
        self, session: Session[R], selection_id: int, name: str, units: int | None = None
    ) -> Process[CompletedSession[R]]:
        """Has the clients answer a protocol's session, perhaps for so many units, and waits for its end.

        Raises:
            PluginError: a plugin's server recovers two sums of one number, whose masks are the same.
        """
        parts, world = self.parts, self.world
        if is_foreign(self) and name == "recover":
            if selection_id in self.used["recovered"]:
                raise PluginError(
                    f"server '{self.name}'", "gives two sums one number, so that their masks are the same"
                )
            self.used["recovered"].add(selection_id)
        if parts.client_process is None:
            completed = run_session(parts, session, selection_id, world.now, name, units)
            if completed.exchanges:
                yield world.until(completed.ends_s)
        else:
            ended, order = world.event(), self.trips.next_serial()
            LiveSession(parts, self.trips, session, selection_id, name, order, ended.succeed, units).start()
            completed = yield ended
        self.accounts.add_session(completed, self.global_model.version)
        return completed

    def prepare(self, t: int, units: Units) -> Process[PreparedUnits | SessionFailure]:
        """Has the protocol prepare the sum of a round's units, before models go to those that it keeps."""
        session = self.parts.protocol.prepare(self.parts.cohort(t, units, t), self.parts.streams)
        prepared = (yield from self.run_session(session, t, "prepare", len(units))).result
        receipts, deadline_s = self._receipts()
        if receipts is None or isinstance(prepared, SessionFailure):
            return prepared
        confirmation = confirm_units(units, prepared, receipts, deadline_s)
        prepared = (yield from self.run_session(confirmation, t, "confirm", len(units))).result
        return prepared if prepared.kept_units.any() else SessionFailure("confirm: no unit has signed as a whole")

    def _receipts(self) -> tuple[Receipts | None, float | None]:
        """What confirmations cost the clients, and how long the server waits for one, seconds."""
        losses = self.parts.rule.losses
        return self.parts.policy.receipts(self.parts.clients), None if losses is None else losses.deadline_s

    def recover(
        self, t: int, units: Units, arrived: NDArray[np.bool_], prepared: PreparedUnits
    ) -> Process[SessionResult | SessionFailure]:
        """Has the protocol recover the sum of a round's units, of the updates that have ``arrived``, bool (n, size)."""
        cohort = self.parts.cohort(t, units, t)
        (receipts, deadline_s), shown = self._receipts(), None
        if receipts is not None and arrived.all(axis=1).any():
            confirmation = confirm_sum(units, arrived, receipts, deadline_s)
            shown = (yield from self.run_session(confirmation, t, "agree")).result
            if not shown.size:
                self.accounts.add_unopened(self.parts, t, cohort, self.world.now, on_its_way=True)
                return SessionFailure("agree: not all clients have signed the sum", {REFUSED.name: 1})
        session = self.parts.protocol.recover(cohort, arrived, [prepared.secret], self.parts.streams)
        session = session if shown is None else answered_by(session, shown)
        recovery = yield from self.run_session(session, t, "recover", len(units))
        if self.accounts.transcripts:
            self.accounts.end_transcript(recovery, units.shape[1])
        return recovery.result

    def aggregate(
        self,
        jobs: list[Job],
        session: SessionResult | None,
        staleness: NDArray[np.int64] | None = None,
        row: JsonObject | None = None,
    ) -> RoundResult:
        """Trains and sums these jobs and takes the server's step: the end of a round, also of one that sums nobody.

        Args:
            jobs: whose updates are in the protocol's sum, n, by ascending client.
            session: the protocol's good end; None without jobs.
            staleness: the staleness that weighs each, (n,); None where updates are never stale.
            row: further cells of rounds.csv.
        """
        t = self.global_model.version
        self._look_at(jobs)
        done = self.global_model.aggregate(jobs, staleness, session, self.world.now, self.accounts, row or {})
        self.at_end = done.last
        for client in self.global_model.left:
            self.note("leave", round=t, client=client)
        self.end_jobs(jobs, done, staleness)
        if jobs and not any(each.ended for each in self.accounts.transcripts):
            summed = [job.client for job in jobs]
            self.accounts.transcripts.append(Transcript.of(t, summed, self.parts.clients, summed=True))
        self.note("round_end", round=t, cardinality=len(done.clients))
        return self.report(done)

    def _look_at(self, jobs: list[Job]) -> None:
        """
        Raises:
            PluginError: two jobs of a plugin's server have one number, by which their noise is drawn, or one client; or
                it has opened a sum that it does not aggregate.
        """
        if is_foreign(self):
            numbers = {job.id for job in jobs}
            if len(numbers) < len(jobs) or numbers & self.used["numbers"]:
                raise PluginError(f"server '{self.name}'", "gives two jobs one number, so that their noise is the same")
            if self.accounts.sums and not jobs:
                raise PluginError(f"server '{self.name}'", "opens a sum and does not aggregate it")
            self.used["numbers"] |= numbers
            if len({job.client for job in jobs}) < len(jobs):
                raise PluginError(f"server '{self.name}'", "sums two updates of one client in one aggregation")

    def end_jobs(self, jobs: list[Job], done: RoundResult, staleness: NDArray[np.int64] | None) -> None:
        """What becomes of jobs that have been aggregated; synchronous rounds say nothing of single jobs."""

    def report(self, done: RoundResult) -> RoundResult:
        """The round with the fates of its jobs, and whom the server heard; the next round's accounts begin.

        Raises:
            PluginError: the server has opened several sums for one aggregation.
        """
        if self.accounts.sums > 1:
            raise PluginError(f"server '{self.name}'", f"opens {self.accounts.sums} sums and aggregates one of them")
        done = replace(done, jobs=self.accounts.job_rows, transcripts=self._transcripts(done))
        self.accounts.begin()
        return done

    def _transcripts(self, done: RoundResult) -> Sequence[Transcript] | None:
        """The sessions that say more than that each update is in its sum; None = this server does not count them."""
        parts, accounts = self.parts, self.accounts
        alone = Transcript.of(done.number, sorted(accounts.unsummed), parts.clients, summed=False)
        transcripts = [*accounts.transcripts, alone]
        if not parts.protocol.joint:
            not_empty = np.ones(parts.clients, dtype=bool) if parts.empty is None else ~parts.empty
            transcripts = [each.only(each.sent & not_empty[each.clients]) for each in transcripts]
        units = parts.protocol.sums_units  # in the order of the clients
        said = [each for each in transcripts if each.says_more(done.clients) or (units and each.ended)]
        return said if self.counts_unsummed else None

    def end_messages(self) -> None:
        """The run has ended: what clients' own agents still have on shared links is written, too."""
        if self.trips.nodes is not None:
            self.trips.nodes.end()

    def note(self, event: str, **record: object) -> None:
        """Writes a record of events.jsonl, of now."""
        self.accounts.note(event, self.world.now, **record)

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything that happens after the round just reported depends on and no table holds, as named arrays."""
        return {
            "time_s": np.float64(self.world.now),
            **self.global_model.state(),
            **prefix_arrays("available", self.parts.available.state()),
            **{name: np.array(sorted(used), dtype=np.int64) for name, used in self.used.items() if is_foreign(self)},
            **({} if self.trips.nodes is None else prefix_arrays("agents", self.trips.nodes.state())),
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`; the world must have been started at its ``time_s``."""
        self.global_model.restore(state, tally)
        self.parts.available.restore(under("available", state))
        for name, used in self.used.items():
            used.update(state[name].tolist() if name in state else ())


@dataclass(eq=False)
class RoundServer(Server[R_co]):
    """A server that goes round by round: it says what a round is, and perhaps what comes before the first.

    Args: as for :class:`Server`.
    """

    def run(self) -> Process[None]:
        """Goes from the current state to the end of the run; ``on_round`` is called with every round."""
        last, empty_rounds = False, 0
        if not self.tally.rounds:
            yield from self.set_up()
        while not last:
            process = self.round(self.tally.rounds)
            checked_type(process, Generator, f"server '{self.name}'", "round", "a generator that waits with yield")
            done = yield from process
            checked_type(done, RoundResult, f"server '{self.name}'", "round", "what aggregate returns")
            last = done.last
            if is_foreign(self) and last and not self.at_end:
                why = "ends the run, which its rule does not end, so that when it ends may tell what no noise covers"
                raise PluginError(f"server '{self.name}'", f"{why}; end it by the rule's `ends`")
            if last:
                self.end_messages()
            self.on_round(done)
            empty_rounds = 0 if len(done.clients) else empty_rounds + 1
            if empty_rounds >= MAX_EMPTY_ATTEMPTS and self.parts.rule.most_rounds is None:
                raise stall_error(f"{MAX_EMPTY_ATTEMPTS} rounds in a row have summed nothing", self.world.now)

    def state(self) -> Arrays:
        """Besides: the links, where agents' messages are on them after the end of a round."""
        links = prefix_arrays("links", self.trips.state()) if self.trips.share_links else {}
        return super().state() | links

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`."""
        super().restore(state, tally)
        if self.trips.nodes is not None:
            self.trips.nodes.restore(under("agents", state), {})
        if self.trips.share_links:
            self.trips.restore(under("links", state), ())

    def set_up(self) -> Process[None]:
        """What happens once, before the first round; it counts for that."""
        return
        yield

    @abstractmethod
    def round(self, t: int) -> Process[RoundResult]:
        """Round ``t``, which ends with :meth:`aggregate`."""


def jobs_in_sum(jobs: list[Job], session: SessionResult, units: Units) -> list[Job]:
    """The jobs of the units that a protocol has summed, by client."""
    summed = np.repeat(session.kept_units, units.size // len(session.kept_units))
    return sorted((jobs[i] for i in np.flatnonzero(summed)), key=attrgetter("client"))


SERVERS = Registry[Server[Rule]](
    "server", promises=("asks_agents", "counts_unsummed", "follows_policy", "confirms"), protocol=Server
)

"""The views of a run's observers, from what its tables say of what happened."""

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from simfl.agents.aggregation.components import RoundResult
from simfl.core.coverage import changing_lengths, exposing, silent_server, told_by_compression
from simfl.core.rng import Streams
from simfl.core.scenario_view import changing_weights, tolerated_colluders
from simfl.core.types import SERVER, Floats, Integers
from simfl.privacy.certify.observer_view import UNCOUNTED, Clear, Event, NoiseTerm, ObserverView
from simfl.results.run_files import participation_matrices, read_messages
from simfl.scenario import Scenario
from simfl.secagg.transcript import Rows, Transcript, rows_of

NEEDS_EACH = "whoever aggregates needs each update"


class Told(NamedTuple):
    """What a run has told of what happened.

    Attributes:
        matrices: gives the participation matrix of each aggregator, CSR (rounds, clients).
        tolerated: gives the fewest colluders that any session of each round tolerates, (rounds,); infinite without one.
        messages: gives the sessions that say more than that each update is in its sum, by round; None = nobody counts.
    """

    matrices: Callable[[], Mapping[int, Any]]
    tolerated: Callable[[], Floats]
    messages: Callable[[], Iterator[tuple[int, Transcript | None]]]

    @classmethod
    def by(cls, folder: Path, rounds: int, clients: int) -> Self:
        """By the tables of a run's folder."""
        return cls(
            lambda: participation_matrices(folder / "participation.csv", rounds, clients),
            lambda: fewest_tolerated(folder / "phases.csv", rounds),
            lambda: read_messages(folder / "messages.csv", clients),
        )

    @classmethod
    def of_rounds(cls, rounds: Sequence[RoundResult], shape: tuple[int, int], many_aggregators: bool) -> Self:
        """By rounds in memory, of so many rounds and clients."""
        from scipy.sparse import csr_array

        matrices = {} if many_aggregators else {SERVER: np.zeros(shape)}
        tolerated, messages = np.full(shape[0], np.inf), list[tuple[int, Transcript | None]]()
        for done in rounds:
            to = np.full(len(done.clients), SERVER) if done.aggregators is None else done.aggregators
            for aggregator, client, weight in zip(to.tolist(), done.clients.tolist(), done.weights, strict=True):
                matrices.setdefault(aggregator, np.zeros(shape))[done.number, client] = weight
            for phase in (phase for phase in done.phases if phase.tolerated is not None):
                tolerated[phase.round] = min(tolerated[phase.round], phase.tolerated)
            messages += [(done.number, each) for each in ([None] if done.transcripts is None else done.transcripts)]
        participation = {to: csr_array(matrix) for to, matrix in matrices.items()}
        return cls(lambda: participation, lambda: tolerated, lambda: iter(messages))


@dataclass(frozen=True)
class Views(Mapping[int, ObserverView]):
    """Of each aggregator; read when the first is asked for: not every accountant asks.

    Attributes:
        rounds: how many the run had.
        events: what it has told of what happened.
    """

    scenario: Scenario
    rounds: int
    events: "Told"

    @cached_property
    def by_aggregator(self) -> dict[int, ObserverView]:
        """The views of the server and of clients that aggregate, without any colluders."""
        scenario = self.scenario
        matrices = self.events.matrices()
        rule = scenario.training
        only_sums = rule.aggregate.sum_only or scenario.secagg.sums_units
        opaque: tuple[str, ...] = () if only_sums and not rule.own_models else (NEEDS_EACH,)
        opaque += (UNCOUNTED,) if silent_server(scenario) else ()
        same = not (changing_lengths(scenario) or changing_weights(scenario))
        codes, bare = told_by_compression(scenario), exposing(scenario)
        clear = tuple(Clear(part.name, part in codes) for part in dict.fromkeys((*codes, *bare)))
        recorded = self.events.tolerated()
        alone = self._alone(matrices)
        return {
            who: ObserverView(
                "server" if who == SERVER else f"client/{who}", self.rounds, *self._sums(P),
                scenario.secagg.shows_updates, same, clear, opaque,
                np.minimum(recorded, self._as_said(P)), alone, by_samples=rule.by_samples,
            )
            for who, P in matrices.items()
        }  # fmt: skip

    def _sums(self, P: Any) -> tuple[Any, Integers]:
        """The sums that were opened, CSR (sums, clients), and in which rounds: of each unit, or of all together."""
        from scipy.sparse import vstack

        if not self.scenario.secagg.sums_units:
            return P, np.arange(self.rounds)
        blocks, round, size = [P[:0]], list[int](), self.scenario.selection.unit_size
        for t, transcript in self._sessions(P, SERVER):
            if transcript is not None and transcript.ended:
                units = np.where(transcript.summed, np.arange(len(transcript.clients)) // size, -1)
                blocks.append(_with_weights(rows_of(units), transcript, P))
                round += [t] * blocks[-1].shape[0]
        return vstack(blocks).tocsr(), np.array(round, dtype=np.int64)

    def _as_said(self, P: Any) -> Floats:
        """The colluders whom the protocol says to tolerate in each round's sum, (rounds,); infinite without one."""
        summed, place = np.unique(np.diff(P.indptr), return_inverse=True)
        most = [tolerated_colluders(self.scenario, int(members)) if members else np.inf for members in summed]
        return np.array(most, dtype=np.float64)[place]

    def _alone(self, participation: Mapping[int, Any]) -> Any:
        """How many updates of each client are seen that are in no sum, CSR; None where nobody has counted."""
        from scipy.sparse import csr_array

        counts: Counter[tuple[int, int]] = Counter()
        shape = self.rounds, self.scenario.clients
        protocol, opened = self.scenario.secagg, self.events.tolerated() < 0
        for t, transcript in self.events.messages():
            if not (protocol.shows_updates or protocol.assumes or opened[t]):
                continue
            if transcript is None:
                return None
            counts.update((t, client) for client in transcript.clients[transcript.sent].tolist())
            if transcript.ended:
                P = participation[SERVER]
                counts.subtract((t, client) for client in P.indices[P.indptr[t] : P.indptr[t + 1]].tolist())
        cells = sorted((place, count) for place, count in counts.items() if count > 0)
        places = np.array([place for place, _ in cells], dtype=np.int64).reshape(-1, 2)
        values = np.array([count for _, count in cells], dtype=np.float64)
        return csr_array((values, (places[:, 0], places[:, 1])), shape=shape)

    def known_to(self, observer: int, coalition: Sequence[int], noise: tuple[NoiseTerm, ...] = ()) -> ObserverView:
        """The exact view of an aggregator and a coalition: the very rows, by each session's protocol.

        A failed session has weighted its updates as others have, where all count 1; else nobody knows how, and each of
        them counts as known where their sum is.
        """
        from scipy.sparse import vstack

        view, streams, protocol = self[observer], Streams(self.scenario.seed), self.scenario.secagg
        P = self.events.matrices()[observer]
        whole = bool((P.data == 1).all())
        known = np.array(sorted({*coalition, *([] if observer == SERVER else [observer])}), dtype=np.int32)
        blocks, round, events, opaque = [P[:0]], [], list[Event](), view.opaque
        for t, transcript in self._sessions(P, observer):
            if transcript is None:
                opaque = tuple(dict.fromkeys((*opaque, UNCOUNTED)))
                continue
            rows = protocol.view(transcript, known, streams)
            if not (whole or transcript.ended) and (np.diff(rows.indptr) > 1).any():
                rows = transcript.each(known)
            if (these := _with_weights(rows, transcript, P)).shape[0]:
                blocks.append(these)
                round += [t] * these.shape[0]
            if not transcript.ended or (transcript.sent & ~transcript.summed).any():
                sent = transcript.sent
                events.append(Event(t, transcript.clients[sent], transcript.summed[sent], transcript.ended))
        name = "+".join([view.observer, *(f"client/{who}" for who in known.tolist() if who != observer)])
        return replace(
            view, observer=name, rows=vstack(blocks).tocsr(), round=np.array(round, dtype=np.int64), each=False,
            opaque=opaque, tolerated=np.maximum(view.tolerated - len(coalition), -1), noise=noise, events=tuple(events),
        )  # fmt: skip

    def _sessions(self, P: Any, observer: int) -> Iterator[tuple[int, Transcript | None]]:
        """The sessions of each round, also those that messages.csv leaves out, by round."""
        listed: dict[int, list[Transcript | None]] = {}
        for t, transcript in self.events.messages():
            listed.setdefault(t, []).append(transcript)
        for t in range(self.rounds):
            said, clients = listed.get(t, []), P.indices[P.indptr[t] : P.indptr[t + 1]]
            if len(clients) and not any(transcript is not None and transcript.ended for transcript in said):
                yield t, Transcript.of(t, np.sort(clients).tolist(), self.scenario.clients, summed=True)
            yield from ((t, transcript) for transcript in said)

    def __getitem__(self, aggregator: int) -> ObserverView:
        return self.by_aggregator[aggregator]

    def __iter__(self) -> Iterator[int]:
        return iter(self.by_aggregator)

    def __len__(self) -> int:
        return len(self.by_aggregator)


def _with_weights(rows: Rows, transcript: Transcript, P: Any) -> Any:
    """Combinations of a session's weighted updates as ones of updates, CSR (rows, clients), without those of nobody."""
    from scipy.sparse import csr_array

    entries, members, t = rows.tocoo(), np.diff(rows.indptr), transcript.round
    used = np.zeros(P.shape[1])
    used[P.indices[P.indptr[t] : P.indptr[t + 1]]] = P.data[P.indptr[t] : P.indptr[t + 1]]
    clients, alone = transcript.clients[entries.col], members[entries.row] == 1
    data = np.where(alone | (not transcript.ended), 1.0, used[clients])
    combinations = csr_array((data, (entries.row, clients)), shape=(rows.shape[0], P.shape[1]))
    combinations.eliminate_zeros()
    return combinations[np.diff(combinations.indptr) > 0]


def fewest_tolerated(path: Path, rounds: int) -> Floats:
    """The fewest colluders that any session of each round says it tolerates, (rounds,), infinite where none says so."""
    fewest = np.full(rounds, np.inf)
    if not path.exists():
        return fewest
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["tolerated"] and (t := int(row["round"])) < rounds:
                fewest[t] = min(fewest[t], int(row["tolerated"]))
    return fewest

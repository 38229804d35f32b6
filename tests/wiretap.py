"""An omniscient recorder of the simulated wire: all that crosses between clients and servers, and in which form.

It sees what no server sees: what training made, what the client's stages made of it, and the vector that the protocol's
session really sent. It replaces functions of simfl while it lasts, so that a run costs nothing without it.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from simfl.agents import summing
from simfl.learning import learner, visits
from simfl.payload import Download, Upload
from simfl.secagg import coded, masking, oblivious, pairwise_ratchet
from simfl.secagg.field import Q
from simfl.types import Job

__all__ = ["Sum", "Tape", "recorded"]

FIELD_BYTES, FLOAT_BYTES = 4, 4


@dataclass
class Sum:
    """Vectors that were added up.

    Attributes:
        jobs: whose, n.
        made: the updates before any stage, in the coordinates that leave the clients, (n, d).
        staged: as the clients' stages left them, (n, d').
        holds: bool (n, d): over whose holders each coordinate is averaged; None = all.
        weights: (n,).
        wire: of the protocol's sessions, n pairs of the whole numbers that a client had to send and what it sent in
            their place, in the protocol's field; empty where vectors went as they were.
    """

    jobs: tuple[Job, ...]
    made: np.ndarray
    staged: np.ndarray
    holds: np.ndarray | None
    weights: np.ndarray
    wire: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)


@dataclass
class Tape:
    """What was recorded.

    Attributes:
        downloads, uploads: by job id, once a job; the upload before stages and protocol.
        alone: uploads before the first round, in which every client's whole model is shown.
        left: clients that have told that they leave.
        sums: in the order of the aggregations.
        private: bool (d,): the coordinates that a client algorithm keeps back, or None.
    """

    downloads: dict[int, Download] = field(default_factory=dict)
    uploads: dict[int, Upload] = field(default_factory=dict)
    alone: list[Upload] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    private: Any = None

    def kinds(self) -> set[str]:
        """The kinds of parts that really crossed to the server."""
        found = {kind for upload in self.uploads.values() for kind in upload.kinds if self._there(upload, kind)}
        found |= {"model", "score"} if self.alone else set()
        return found | ({"departure"} if self.left else set())

    def _there(self, upload: Upload, kind: str) -> bool:
        return kind != "update" or self.private is None or not self.private.all()

    def upload_bytes(self, job: int) -> int:
        """What a job's upload takes without stages and protocol, counted here and not by simfl."""
        upload, keep = self.uploads[job], self.private
        sent = np.ones(len(upload.update), dtype=bool) if upload.mask is None else upload.mask.copy()
        if keep is not None:
            sent &= ~keep
        arrays = sum(np.size(array) for array in upload.arrays.values())
        return FLOAT_BYTES * (int(sent.sum()) + arrays) + upload.mask_bytes + 8 * len(upload.scores)


@contextmanager
def recorded() -> Iterator[Tape]:
    """While this lasts, runs of this process write on the tape."""
    tape, session = Tape(), list[tuple[np.ndarray, np.ndarray]]()
    played, given, summed = visits.Visits.play, summing.Summing._given, summing.Summing.sum
    left, sending = learner.SupervisedLearner.conclude, summing.Summing._sent

    def play(self, all_visits, variant, purpose=""):
        ends = played(self, all_visits, variant, purpose)
        tape.private = variant.private
        for visit, end in zip(all_visits, ends, strict=True):
            if purpose == "apart/":
                tape.alone.append(end.done.upload)
            elif not purpose:
                tape.downloads[visit.job.id], tape.uploads[visit.job.id] = visit.download, end.done.upload
        return ends

    def add_up(self, *arguments):
        before = len(tape.sums)
        session.clear()
        found = summed(self, *arguments)
        if len(tape.sums) > before:
            tape.sums[-1].wire = list(session)
        return found

    def contributions(self, jobs, updates, staleness, vectors):
        result = given(self, jobs, updates, staleness, vectors)
        made = sending(self, vectors)
        tape.sums.append(Sum(tuple(jobs), made, result.vectors, updates.holds, result.weights))
        return result

    def conclude(self, jobs, ends):
        leaving = left(self, jobs, ends)
        tape.left += [job.client for job, gone in zip(jobs, leaving, strict=True) if gone]
        return leaving

    def tapped(owner: type, name: str) -> Any:
        before = getattr(owner, name)

        def method(self, *arguments):
            sent = before(self, *arguments)
            session.append((arguments[-1] % Q, sent.copy()))
            return sent

        return mock.patch.object(owner, name, method)

    def dealt(*arguments):
        found = oblivious_play(*arguments)
        session.extend(zip(arguments[2] % Q, found.vectors, strict=True))
        return found

    oblivious_play = oblivious.play
    with ExitStack() as stack:
        for patch in (
            mock.patch.object(visits.Visits, "play", play),
            mock.patch.object(summing.Summing, "_given", contributions),
            mock.patch.object(summing.Summing, "sum", add_up),
            mock.patch.object(learner.SupervisedLearner, "conclude", conclude),
            tapped(masking.Client, "mask"),
            tapped(coded.Owner, "mask"),
            tapped(pairwise_ratchet.Member, "mask"),
            mock.patch.object(oblivious, "play", dealt),
        ):
            stack.enter_context(patch)
        yield tape

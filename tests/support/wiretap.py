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

from simfl.agents.aggregation import pipeline, policy_queries
from simfl.core.payload import Download, Upload
from simfl.core.types import Job
from simfl.learning import evaluator, learner, local_runner
from simfl.papers.oblivious import oblivious_noise as oblivious
from simfl.papers.privacyfl import pairwise_ratchet
from simfl.secagg import coded_session, flamingo_session, opa, pairwise_session
from simfl.secagg.crypto.field import Q

FIELD_BYTES, FLOAT_BYTES = 4, 4


@dataclass
class Sum:
    """Vectors that were added up.

    Attributes:
        jobs: whose, n.
        made: the updates before any stage, in the coordinates that leave the clients, (n, d); of a compression that
            everybody knows the coordinates of, these.
        staged: as the clients' stages left them, (n, d').
        coded: what was compressed and what the server reads of it, both (n, d); None where nothing was.
        public: the coordinates of compressed updates that everybody knows to be sent, of each, n of (k,), or None.
        mask: bool (n, d): over whose holders each coordinate is averaged; None = all.
        weights: (n,).
        wire: of the protocol's sessions, n pairs of the whole numbers that a client had to send and what it sent in
            their place, in the protocol's field; empty where vectors went as they were.
    """

    jobs: tuple[Job, ...]
    made: np.ndarray
    staged: np.ndarray
    mask: np.ndarray | None
    weights: np.ndarray
    coded: tuple[np.ndarray, np.ndarray] | None = None
    public: tuple[np.ndarray | None, ...] = ()
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
        told: the kinds of numbers that clients have told for the selection.
    """

    downloads: dict[int, Download] = field(default_factory=dict)
    uploads: dict[int, Upload] = field(default_factory=dict)
    alone: list[Upload] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    private: Any = None
    told: set[str] = field(default_factory=set)

    def kinds(self) -> set[str]:
        """The kinds of parts that really crossed to the server."""
        found = {kind for upload in self.uploads.values() for kind in upload.kinds if self._there(upload, kind)}
        found |= {"model", "score"} if self.alone else set()
        found |= self.told_by_codes()
        return found | self.told | ({"departure"} if self.left else set())

    def told_by_codes(self) -> set[str]:
        """The kinds of what compressed updates tell beside their sum, as it shows in the vectors themselves."""
        coded = [found.coded for found in self.sums if found.coded is not None]
        if any(_few_values(row) for _, read in coded for row in read):
            return {"levels"}
        for entered, read in coded:
            left_out = (entered != 0) & (read == 0)
            if (left_out.any(axis=0) & (read != 0).any(axis=0)).any():
                return {"mask"}
        return set()

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


def _few_values(row: np.ndarray) -> bool:
    """Whether several coordinates have one magnitude, in all of a compressed update that is not 0."""
    sizes = np.abs(row[row != 0])
    return len(sizes) > 8 and len(np.unique(sizes)) <= len(sizes) / 2


@contextmanager
def recorded() -> Iterator[Tape]:
    """While this lasts, runs of this process write on the tape."""
    tape, session = Tape(), list[tuple[np.ndarray, np.ndarray]]()
    codes, coding = list[tuple[np.ndarray, np.ndarray]](), pipeline.CompressionStep._compress
    played = local_runner.LocalRunner.run
    given, summed = pipeline.AggregationPipeline._client_updates, pipeline.AggregationPipeline.sum
    measured, asked = evaluator.TrainingLosses.measure, policy_queries.ClientRecords.known
    left, sending = learner.SupervisedLearner.report_outcomes, pipeline.AggregationPipeline._sent

    def run(self, contexts, algorithm, purpose=""):
        trained = played(self, contexts, algorithm, purpose)
        tape.private = algorithm.private
        for context, job in zip(contexts, trained, strict=True):
            if purpose == "apart/":
                tape.alone.append(job.result.upload)
            elif not purpose:
                tape.downloads[context.job.id], tape.uploads[context.job.id] = context.download, job.result.upload
        return trained

    def add_up(self, *arguments):
        before = len(tape.sums)
        session.clear()
        found = summed(self, *arguments)
        if len(tape.sums) > before:
            tape.sums[-1].wire = list(session)
        return found

    def contributions(self, jobs, updates, staleness, vectors):
        codes.clear()
        result = given(self, jobs, updates, staleness, vectors)
        made = self.compression.pack(sending(self, vectors), jobs[0].selection)
        found = Sum(tuple(jobs), made, result.vectors, updates.mask, result.weights)
        if codes:
            (found.coded,) = codes
            found.public = tuple(self.compression.coordinates(job.selection) for job in jobs)
        tape.sums.append(found)
        return result

    def compress(self, vectors, jobs):
        read = coding(self, vectors, jobs)
        codes.append((vectors, read))
        return read

    def report_outcomes(self, jobs, ends):
        leaving = left(self, jobs, ends)
        tape.left += [job.client for job, gone in zip(jobs, leaving, strict=True) if gone]
        return leaving

    def measure(self, *arguments):
        tape.told.add("score")
        return measured(self, *arguments)

    def known(self, version):
        now = asked(self, version)
        tape.told |= {"count"} if "samples" in now.reports else set()
        return now

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

    oblivious_play = oblivious.run_round
    with ExitStack() as stack:
        for patch in (
            mock.patch.object(local_runner.LocalRunner, "run", run),
            mock.patch.object(pipeline.AggregationPipeline, "_client_updates", contributions),
            mock.patch.object(pipeline.AggregationPipeline, "sum", add_up),
            mock.patch.object(pipeline.CompressionStep, "_compress", compress),
            mock.patch.object(learner.SupervisedLearner, "report_outcomes", report_outcomes),
            mock.patch.object(evaluator.TrainingLosses, "measure", measure),
            mock.patch.object(policy_queries.ClientRecords, "known", known),
            tapped(pairwise_session.PairwiseClient, "mask"),
            tapped(flamingo_session.FlamingoClient, "mask"),
            tapped(opa.OneShotClient, "mask"),
            tapped(coded_session.Owner, "mask"),
            tapped(pairwise_ratchet.RatchetClient, "mask"),
            mock.patch.object(oblivious, "run_round", dealt),
        ):
            stack.enter_context(patch)
        yield tape

"""Clients' jobs computed, in rounds and before the first one, and the arrays that client algorithms keep."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.clients.base import ClientAlgorithm
from simfl.clients.local_training import LocalTraining
from simfl.clients.local_values import LocalContext, LocalPass, LocalResult, Vector
from simfl.core.errors import PluginError
from simfl.core.payload import Download, Upload
from simfl.core.rng import Streams
from simfl.core.types import Arrays, Job
from simfl.core.validation import checked_arrays
from simfl.learning.backends.base import Engine
from simfl.learning.base import Sizes
from simfl.learning.client_accuracies import ClientSamples
from simfl.learning.partitions.base import Split
from simfl.learning.work import Augment, Work, work


def add_arrays(total: Arrays, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Adds arrays to those of the same names, in float64."""
    for name, value in arrays.items():
        if name in total:
            total[name] += value
        else:
            total[name] = np.array(value, dtype=np.float64)


class AlgorithmState:
    """Keeps an algorithm's arrays between jobs, besides ``common`` ones of the server; a client that has never finished
    a job takes no room.

    What clients upload for the server's arrays reaches them when a job of a later version is trained, so that all jobs
    of one version meet the same ones.
    """

    def __init__(self, algorithm: ClientAlgorithm, clients: int, common: Arrays) -> None:
        self.algorithm, self.clients, self.common = algorithm, clients, common
        self._clients: dict[int, Arrays] = {}
        self._reported: Arrays = {}
        self._version = -1

    def client(self, client: int) -> Mapping[str, NDArray[Any]]:
        """A client's state."""
        return self._clients.get(client, {})

    def begin_version(self, version: int) -> None:
        """Jobs of this version are about to train."""
        if version > self._version:
            if self._reported:
                self.common = self.algorithm.update_common(self.common, self._reported, self.clients)
                self._reported = {}
            self._version = version

    def add_uploads(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Adds up arrays that clients have uploaded."""
        add_arrays(self._reported, arrays)

    def keep(self, client: int, state: Arrays | None) -> None:
        """A client's arrays from now on; None = as they were."""
        if state is not None:
            self._clients[client] = checked_arrays(state, f"client algorithm '{self.algorithm.name}'", "state")

    def state(self) -> Arrays:
        """For checkpoints."""
        alike: dict[str, dict[Any, dict[int, NDArray[Any]]]] = {}  # arrays of one name, shape and type by client
        for client in sorted(self._clients):
            for name, value in self._clients[client].items():
                alike.setdefault(name, {}).setdefault((value.shape, value.dtype), {})[client] = value
        named = {f"{i or ''}/{name}": values
                 for name, each in alike.items() for i, values in enumerate(each.values())}  # fmt: skip
        return {
            "version": np.int64(self._version),
            **{f"common/{name}": value for name, value in self.common.items()},
            **{f"reported/{name}": value.copy() for name, value in self._reported.items()},
            **{f"holders{name}": np.array(list(values), dtype=np.int64) for name, values in named.items()},
            **{f"own{name}": np.stack(list(values.values())) for name, values in named.items()},
        }

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""

        def under(part: str) -> Arrays:
            return {key[len(part) :]: value for key, value in state.items() if key.startswith(part)}

        self._version = int(state["version"])
        self.common = {name: np.array(value) for name, value in under("common/").items()}
        self._reported = {name: np.array(value) for name, value in under("reported/").items()}
        self._clients = {}
        holders, arrays = under("holders"), under("own")
        for name in {**holders, **arrays}:  # in a sound checkpoint they are the same
            for client, value in zip(holders[name].tolist(), np.array(arrays[name]), strict=True):
                self._clients.setdefault(client, {})[name.partition("/")[2]] = np.asarray(value)


class TrainedJob(NamedTuple):
    """A job that has been computed.

    Attributes:
        result: of the client algorithm.
        loss: of the last pass; NaN where there was none.
        passes: how often it made the job's epochs.
        model: that training ended with, (d,), where it is kept.
    """

    result: LocalResult
    loss: float
    passes: float
    model: Vector | None


class LocalRunner:
    """Computes clients' jobs: every pass of many clients' work in one call of the engine.

    Args:
        states: what clients and the server keep for the client algorithm.
        validation: accuracy of a model on a client's validation samples.
        keeps_models: whether the models that training ends with are kept.
    """

    def __init__(
        self,
        engine: Engine,
        local: LocalTraining,
        streams: Streams,
        augment: Augment | None,
        partition: Split,
        states: AlgorithmState,
        validation: Callable[[Vector, int], float],
        keeps_models: bool,
    ) -> None:
        self.engine, self.local, self.streams, self.augment = engine, local, streams, augment
        self.partition, self.states, self.validation, self.keeps_models = partition, states, validation, keeps_models

    def train(self, jobs: Sequence[Job], models: Mapping[int, Vector]) -> list[TrainedJob]:
        """The results of jobs, given the models by :attr:`Job.start`; a client without samples changes nothing."""
        contexts = {}
        for i, (job, samples) in enumerate(zip(jobs, self._counts(jobs), strict=True)):
            self.states.begin_version(job.version)
            if samples:
                contexts[i] = self._context(job, models[job.start], samples)
        trained = dict(zip(contexts, self.run(list(contexts.values()), self.states.algorithm), strict=True))
        return [trained.get(i) or self._empty_result(models[job.start]) for i, job in enumerate(jobs)]

    def run(self, contexts: Sequence[LocalContext], algorithm: ClientAlgorithm, purpose: str = "") -> list[TrainedJob]:
        """All passes of the clients' work, each pass of all of them in one batch."""
        trained: dict[int, TrainedJob] = {}
        sgd: dict[int, list[Vector]] = {i: [] for i in range(len(contexts))}
        open_passes = {i: algorithm.begin(context) for i, context in enumerate(contexts)}
        turn, passes = 0, dict.fromkeys(open_passes, 0.0)
        while open_passes:
            works = [self._work(contexts[i].job, each, turn, purpose) for i, each in open_passes.items()]
            deltas, losses = self.engine.train(works)
            further = {}
            for (i, each), job_work, delta, loss in zip(
                open_passes.items(), works, deltas, losses.tolist(), strict=True
            ):
                downloaded = contexts[i].download.model
                if _is_plain(each, self.local) and np.array_equal(each.start, downloaded, equal_nan=True):
                    sgd[i].append(delta)
                after = algorithm.end(contexts[i], each, delta, job_work.steps, job_work.rate)
                passes[i] += 1.0 if each.epochs is None else each.epochs / self.local.local_epochs
                if isinstance(after, LocalPass):
                    further[i] = after
                else:
                    model = each.start + delta if self.keeps_models else None
                    trained[i] = TrainedJob(after, loss, passes[i], model)
            open_passes, turn = further, turn + 1
        for i, job in trained.items():
            self._check_upload(job.result.upload, algorithm)
            self._check_descent(job.result.upload, sgd[i])
            if job.passes > algorithm.passes * (1 + 1e-9) and not algorithm.sized_by_training:
                most = f"`passes` says at most {algorithm.passes:g}"
                raise PluginError(self.local.algorithm, f"makes the rule's epochs {job.passes:g} times, and {most}")
        return [trained[i] for i in range(len(contexts))]

    def _check_upload(self, upload: Upload, algorithm: ClientAlgorithm) -> None:
        named = self.local.algorithm
        check_declared(named, upload.kinds)
        private = algorithm.private
        if not named.sends and (upload.update if private is None else upload.update[~private]).any():
            raise PluginError(named, "declares in `sends` that nothing leaves a client, and sends an update")

    def _check_descent(self, upload: Upload, changes: Sequence[Vector]) -> None:
        """Who promises that it sends what SGD left does so, in one of its plain passes."""
        named, update = self.local.algorithm, upload.update
        if not named.descends or named.repeats or any(update is delta for delta in changes):
            return
        if not any(np.allclose(update, delta, rtol=1e-3, atol=1e-5, equal_nan=True) for delta in changes):
            what = "says in `descends` that it sends what SGD leaves, and sends something else"
            raise PluginError(named, f"{what}, or that of other terms than it says in `proximal`")

    def tune(self, jobs: Sequence[Job], model: Vector) -> dict[int, Vector]:
        """The models, by client, that clients train from the global one, (d,), just to be measured."""
        contexts = [self._context(job, model, n) for job, n in zip(jobs, self._counts(jobs), strict=True)]
        passes = [(context.job, self.states.algorithm.tune(context)) for context in contexts]
        tuning = {job: each for job, each in passes if each is not None}
        if not tuning:
            return {}
        deltas, _ = self.engine.train([self._work(job, each, purpose="tune/") for job, each in tuning.items()])
        return {job.client: each.start + delta for (job, each), delta in zip(tuning.items(), deltas, strict=True)}

    def root_update(self, version: int, model: Vector, clean: int, count: int) -> Vector:
        """What plain SGD makes of a model, (d,), on so many of the first ``clean`` samples, always the same ones."""
        job, samples = Job.of(version, 0, version, 0.0), self.streams("root").permutation(clean)[:count]
        begin = LocalPass(model)
        passed = work(job, samples, begin, self.local, self.streams, self.augment, purpose="root/")
        return np.asarray(self.engine.train([passed])[0])[0]

    def _context(self, job: Job, model: Vector, samples: int) -> LocalContext:
        return LocalContext(
            job,
            Download(model, self.states.common),
            self.states.client(job.client),
            lambda trained: self.validation(trained, job.client),
            samples,
        )

    def _counts(self, jobs: Sequence[Job]) -> list[int]:
        """How many samples the client of each job trains on."""
        clients, versions = np.array([(job.client, job.version) for job in jobs], dtype=np.int64).reshape(-1, 2).T
        return self.partition.counts(clients, versions).tolist()

    def _work(self, job: Job, local_pass: LocalPass, turn: int = 0, purpose: str = "") -> Work:
        samples = self.partition.samples_at(job.client, job.version)
        return work(job, samples, local_pass, self.local, self.streams, self.augment, turn, purpose)

    @staticmethod
    def _empty_result(model: Vector) -> TrainedJob:
        return TrainedJob(LocalResult(Upload(np.zeros(len(model), dtype=np.float32))), np.nan, 1.0, None)


def _is_plain(each: LocalPass, local: LocalTraining) -> bool:
    """Whether a pass is SGD on the loss and penalties that the rule and the client algorithm say, and no longer."""
    shorter = local.local_steps is None and each.epochs in range(local.local_epochs + 1)
    same = each.proximal == local.algorithm.proximal and (each.epochs is None or shorter)
    return same and each.shift is None and each.mask is None and not each.distance


def check_declared(algorithm: ClientAlgorithm, kinds: Iterable[str]) -> None:
    """Nothing leaves a client that its algorithm, named in the scenario, has not declared.

    Raises:
        PluginError: one of the kinds of parts that leave is not declared.
    """
    known = {part.kind for part in algorithm.sends} or {"update"}  # an algorithm that sends nothing has an update of 0
    if secret := sorted(set(kinds) - known):
        why = f"sends a part of the kind '{secret[0]}' that it does not declare; list it in `sends`"
        raise PluginError(algorithm, why)


def upload_masks(results: Sequence[LocalResult], shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """The coordinates that each update speaks about; None where each speaks about all."""
    masks = [result.upload.mask for result in results]
    if all(mask is None for mask in masks):
        return None
    return np.stack([np.ones(shape[1], dtype=bool) if mask is None else mask for mask in masks])


class ClientPretraining:
    """Trains every client alone; each job begins where its client's last one ended.

    ``sizes`` are what it costs: the initial model down, the trained one up, and all passes.
    """

    def __init__(
        self,
        rounds: int,
        algorithm: ClientAlgorithm,
        initial: Vector,
        clients: Sequence[int],
        validation: ClientSamples,
        runner: LocalRunner,
    ) -> None:
        self.initial, self.validation, self.states = initial, validation, runner.states
        self.models: dict[int, Vector] = dict.fromkeys(clients, initial)
        self.client_states: dict[int, Arrays] = {client: {} for client in clients}
        passes, up = np.zeros(self.states.clients), np.zeros(self.states.clients, dtype=np.int64)
        results: dict[int, LocalResult] = {}
        for turn in range(rounds):
            contexts = [self._context(turn, client) for client in clients]
            for client, job in zip(clients, runner.run(contexts, algorithm, "apart/"), strict=True):
                self.client_states[client], results[client] = job.result.state or {}, job.result
                model = self.models[client] + job.result.upload.update
                personal = algorithm.personal(model, self.client_states[client])
                self.models[client] = model if personal is None else personal
                passes[client] += job.passes
        dense = 4 * len(initial)
        for client in clients:
            up[client] = algorithm.bytes_up(dense, self.client_states[client], results[client])
        self.sizes = Sizes(dense, up, passes)

    def _context(self, turn: int, client: int) -> LocalContext:
        job = Job.of(turn, client, 0, 0.0)
        download = Download(self.models[client], {})
        return LocalContext(
            job, download, self.client_states[client], lambda model: self.validation.accuracy(model, client)
        )

    def best(self, responded: NDArray[np.bool_]) -> int | None:
        """The client that responded whose model has the best mean accuracy over all clients' validation samples."""
        candidates = [client for client in self.models if responded[client]]
        holders = self.validation.holders
        scores = [self.validation.accuracies(self.models[c], lambda _: None)[holders].mean() for c in candidates]
        return candidates[int(np.nanargmax(scores))] if np.isfinite(scores).any() else None

    def start_from(self, client: int) -> Vector:
        first = self.states.algorithm.pretrained_state(self.client_states[client])
        for each in range(self.states.clients):
            self.states.keep(each, dict(first))
        return self.models[client]

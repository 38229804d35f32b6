"""Maps and the chain that they make: bounds hold, of every stage that gives them, and noise is accounted at them."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from simfl.core.rng import Streams
from simfl.core.types import SERVER, Job, JobId
from simfl.privacy.accountant import History
from simfl.privacy.certify.chain import Beside, bound_at, candidates
from simfl.privacy.certify.maps import Bound, Clip, ClipCoordinates, Map, Noise, Scale
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.dp.losses import losses
from simfl.privacy.dp.stages.central_gaussian import CentralGaussian
from simfl.privacy.stage import STAGES, Stage

NAMES = [name for name, cls in STAGES.items() if cls.__module__.startswith("simfl.")]
JOBS = (Job(JobId.of(0, 0), 0, 0, 0.0),)


def made(name, **fields):
    return STAGES.of({"name": name, **STAGES[name].example, **fields})


def norms(vector):
    return np.linalg.norm(vector), np.abs(vector).sum(), np.abs(vector).max(initial=0.0)


def applied(link, vector):
    if isinstance(link, Clip):
        length = norms(vector)[0 if link.order == 2 else 1]
        return vector * min(1.0, link.norm / length) if length else vector
    return (
        np.clip(vector, -link.magnitude, link.magnitude) if isinstance(link, ClipCoordinates) else vector * link.factor
    )


LINKS = st.one_of(
    st.builds(Clip, st.floats(0.1, 5), st.sampled_from([1, 2])),
    st.builds(ClipCoordinates, st.floats(0.1, 5)),
    st.builds(Scale, st.one_of(st.just(0.0), st.floats(0.01, 3), st.floats(-3, -0.01))),
)


@given(st.lists(LINKS, max_size=5), st.integers(0, 10**6))
def test_no_vector_leaves_a_chain_longer_than_its_bound_or_further_from_another_than_its_stability(links, seed):
    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=(2, 6)) * 10.0 ** rng.uniform(-2, 2)
    bound, apart = Bound(), np.linalg.norm(one - other)
    for link in links:
        one, other = applied(link, one), applied(link, other)
        bound = link.bound(bound, {})
        for found in (one, other):
            assert all(norm <= most * (1 + 1e-9) for norm, most in zip(norms(found), bound, strict=True))
        distance = np.linalg.norm(one - other)
        assert link.stability == np.inf or distance <= link.stability * apart * (1 + 1e-9) + 1e-12
        apart = distance


@pytest.mark.parametrize("name", NAMES)
def test_what_a_stage_sends_of_an_update_is_no_longer_than_its_maps_say(name):
    """In two worlds with the same draws: the update, and none. Whole numbers are accounted by their own lengths."""
    stage = made(name)
    if stage.whole or stage.certificate:
        pytest.skip("its loss has the lengths of its whole numbers, or it bounds samples")
    rng, state = np.random.default_rng(1), stage.start(6)
    if stage.adds_noise is None:
        bound = Bound()
        for link in stage.links:
            bound = link.bound(bound, {})
    else:
        bound = bound_at((stage,), 0, ({},), Beside())
    if name == "adaptive_gaussian":
        bound = Bound(l2=stage.initial_norm)  # what it says of a round; the bit beside it has noise of its own
    assert min(bound) < np.inf
    for size in (1e-3, 1.0, 1e4):
        for _ in range(50):
            update = (rng.normal(size=(1, 6)) * size).astype(np.float32)
            sent, none = (stage.client(x, JOBS, state, Streams(0))[0, :6] for x in (update, np.zeros_like(update)))
            for norm, most in zip(norms(sent.astype(np.float64) - none), bound, strict=True):
                assert norm <= most * (1 + 1e-5) + 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_a_stage_without_its_maps_has_no_bound_and_protects_nothing(name):
    cls = STAGES[name]

    @dataclass(frozen=True)
    class Stripped(cls):
        maps = Stage.maps

    @dataclass(frozen=True)
    class Changed(cls):
        def client(self, vectors, jobs, state, streams):
            return 100 * super().client(vectors, jobs, state, streams)

    for variant in (Stripped, Changed):
        STAGES("variant")(variant)
        del STAGES._plugins["variant"]
        stage = variant(**{key: value for key, value in vars(made(name)).items() if key in cls.__dataclass_fields__})
        assert stage.links == (Map(),)
        assert candidates((stage,), ({},), Beside()) == []
        after = (CentralGaussian(), stage)
        assert candidates(after, ({}, {}), Beside()) == []


def test_a_stage_cannot_say_what_follows_from_its_maps():
    for name, value in (("observer", "server"), ("links", (Clip(1.0),))):

        @dataclass(frozen=True)
        class Boasting(Stage):
            pass

        setattr(Boasting, name, value)
        with pytest.raises(TypeError, match=f"'{name}' follows from what else it says"):
            STAGES("boasting")(Boasting)


def test_clips_before_and_after_central_noise_narrow_what_it_noises():
    central, clip = made("central_gaussian", clip_norm=1.0), made("clipping", norm=0.5)
    for stages, place in (((clip, central), 1), ((central, clip), 0)):
        ((i, bound),) = candidates(stages, ({}, {}), Beside())
        assert i == place and bound.l2 == 0.5


def test_each_noise_has_a_bound_of_its_own_and_noise_has_none():
    local, central = made("local_gaussian", clip_norm=2.0), made("central_gaussian", clip_norm=1.0)
    assert [(i, b.l2) for i, b in candidates((local, central), ({}, {}), Beside())] == [(0, 2.0), (1, 1.0)]

    @dataclass(frozen=True)
    class Bare(CentralGaussian):
        """Noise without a clip of its own."""

        maps = ()
        server_maps = ()

    assert [i for i, _ in candidates((local, Bare()), ({}, {}), Beside())] == [0]
    assert [i for i, _ in candidates((made("clipping"), Bare()), ({}, {}), Beside())] == [1]


def test_compression_after_local_noise_only_processes_it_and_before_central_noise_is_clipped():
    local, central = made("local_gaussian"), made("central_gaussian", clip_norm=3.0)
    assert [(i, b.l2) for i, b in candidates((local, central), ({}, {}), Beside(coded=True))] == [(0, 1.0), (1, 3.0)]


def test_shares_are_shares_only_where_nothing_comes_after_them():
    shares = made("laplace_shares")
    assert [i for i, _ in candidates((made("clipping"), shares), ({}, {}), Beside(coded=True))] == [1]
    assert candidates((shares, made("clipping")), ({}, {}), Beside()) == []


def test_a_noise_says_against_whom_it_protects():
    kinds = [Noise("client"), Noise("share"), Noise("share", field=True), Noise("server")]
    assert [kind.observer for kind in kinds] == ["server", "outside", "server", "outside"]


def test_what_a_later_server_part_makes_of_the_sum_counts_before_the_noise():
    """Servers' parts work in reverse: one that multiplies has multiplied before an earlier stage adds its noise."""

    @dataclass(frozen=True)
    class Silent(Stage):
        maps = (Scale(0.01),)

        def server(self, vector, members, state, streams):
            return 100 * vector, state

    @dataclass(frozen=True)
    class Said(Silent):
        maps = (Scale(0.01),)
        server_maps = (Scale(100.0),)

        def server(self, vector, members, state, streams):
            return 100 * vector, state

    central = CentralGaussian()
    assert candidates((central, Silent()), ({}, {}), Beside()) == []
    ((_, bound),) = candidates((central, Said()), ({}, {}), Beside())
    assert bound.l2 == pytest.approx(1.0)


@given(st.lists(LINKS, min_size=1, max_size=4), st.floats(0.1, 5), st.integers(0, 10**6))
def test_two_sums_are_no_further_apart_than_the_noise_of_a_server_takes_them_to_be(links, norm, seed):
    """One client more or less; a clip of sums leaves them up to twice its norm apart."""

    @dataclass(frozen=True)
    class Later(Stage):
        server_maps = tuple(links)
        maps = ()

    bound = bound_at((made("central_gaussian", clip_norm=norm), Later()), 0, ({}, {}), Beside())
    rng = np.random.default_rng(seed)
    towards = rng.normal(size=6)
    for direction in (towards, rng.normal(size=6)):  # with the update it points the other way, where that is short
        update = norm * towards / np.linalg.norm(towards)
        one = direction * 10.0 ** rng.uniform(-2, 2) - 0.5 * update
        other = one + update
        for link in links:
            one, other = applied(link, one), applied(link, other)
        assert all(found <= most * (1 + 1e-9) + 1e-12 for found, most in zip(norms(other - one), bound, strict=True))


@dataclass(frozen=True)
class Halved(Clip):
    """A map of a user's, of updates, not of two sums."""

    def apply(self, vectors):
        return super().apply(vectors) / 2

    def bound(self, before, facts):
        return Bound(*(norm / 2 for norm in super().bound(before, facts)))


@pytest.mark.parametrize(
    ("link", "left"),
    [(Clip(1.0), 5.0), (Scale(-1.0), 5.0), (ClipCoordinates(1.0), 5.0), (Scale(0.5), 2.5), (Clip(1.0, 1), np.inf),
     (Halved(1.0), np.inf), (Map(), np.inf)],
)  # fmt: skip
def test_a_clip_of_sums_narrows_nothing(link, left):
    @dataclass(frozen=True)
    class Later(Stage):
        server_maps, maps = (link,), ()

    assert bound_at((made("central_gaussian", clip_norm=5.0), Later()), 0, ({}, {}), Beside()).l2 == left


def test_a_clip_of_sums_moves_what_stands_beside_them_and_a_factor_multiplies_their_rounding():
    @dataclass(frozen=True)
    class Later(Stage):
        factor: float = 0.0

        maps = ()

        @property
        def server_maps(self):
            return (Scale(self.factor),) if self.factor else (Clip(0.1),)

    adaptive, facts = made("adaptive_gaussian", bit_std=2.0), {"sensitivity": np.array([1.0]), "std": np.array([1.0])}
    assert candidates((adaptive, Later()), (facts, {}), Beside()) == []
    central, facts = made("central_gaussian", clip_norm=1.0), {"std": np.ones(2), "rounding": np.array([0.0, 1.0])}
    bound = bound_at((central, Later(10.0)), 0, (facts, {}), Beside())
    assert central.loss(facts, bound).mu.tolist() == [10.0, 20.0]


def test_a_clip_after_a_norm_that_moves_does_not_narrow_the_bit_beside_the_update():
    adaptive, clip = made("adaptive_gaussian", bit_std=0.6), made("clipping", norm=0.5)
    facts = {"sensitivity": np.array([10.0]), "std": np.array([10.0])}
    ((_, bound),) = candidates((adaptive, clip), (facts, {}), Beside())
    assert bound.l2.tolist() == [pytest.approx(np.hypot(10.0, 1.0))]  # of the update and its bit


def test_a_round_of_which_a_stage_says_nothing_has_no_noise():
    facts = {"rounding": np.array([0.0, np.nan]), "std": np.array([1.0, np.nan])}
    matrix = csr_array([[1.0, 0.0], [0.0, 1.0]])
    (loss,) = losses(History({SERVER: ObserverView.of_sums(matrix)}, (facts,), stages=(CentralGaussian(),)))
    assert loss.mu.tolist() == [1.0, np.inf]
    (loss,) = losses(
        History({SERVER: ObserverView.of_sums(csr_array([[1.0, 0], [0, 0]]))}, (facts,), stages=(CentralGaussian(),))
    )
    assert loss.mu.tolist() == [1.0, 0.0]

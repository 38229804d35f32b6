"""What a participation matrix proves or gives away, noise included, and the words that stand beside it."""

from simfl.core.certificate_words import (
    AND,
    IF_ONLY_SUMS,
    MULTI_ROUND,
    OF_A_LOG,
    ONLY_SUMS,
    RECONSTRUCTABLE,
    WORST,
    facts_of_a_log,
)
from simfl.core.prime_field import Residues, drawn_prime, modulo, times
from simfl.experiments.compare.intervals import paired_difference
from simfl.privacy.accountant import History, history_of_log
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.dp.losses import epsilon_timeline
from simfl.privacy.ledger.ledger_columns import sums_and_noise
from simfl.privacy.ledger.ledger_scope import COLLUDERS, GAUSSIAN_IN_SUM, is_covered
from simfl.privacy.ledger.noise_ledger import BoundedLedger, NoiseLedger, bounded_ledger
from simfl.privacy.multiround.basis import Basis
from simfl.privacy.multiround.guarantee_trace import BUDGET, Budget, Trace
from simfl.privacy.multiround.matrix_metrics import (
    ColludedGuarantees,
    MatrixAnalysis,
    MultiRound,
    against_any,
    bounded_metrics,
    bounds_for_any_weights,
    final_metrics,
    multi_round,
    trace,
)
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix, strong_guarantee, without_clients
from simfl.privacy.multiround.roots import primes
from simfl.privacy.multiround.weight_reading import LARGEST
from simfl.privacy.multiround.witness import isolating
from simfl.selection.guarded import GuardedSelection

__all__ = [
    "AND", "BUDGET", "Basis", "BoundedLedger", "Budget", "COLLUDERS", "ColludedGuarantees", "GAUSSIAN_IN_SUM",
    "GuardedSelection", "History", "IF_ONLY_SUMS", "LARGEST", "MULTI_ROUND", "MatrixAnalysis", "MultiRound",
    "NoiseLedger", "OF_A_LOG", "ONLY_SUMS", "ObserverView", "ParticipationMatrix", "RECONSTRUCTABLE", "Residues",
    "Trace", "WORST", "against_any", "bounded_ledger", "bounded_metrics", "bounds_for_any_weights", "drawn_prime",
    "epsilon_timeline", "facts_of_a_log", "final_metrics", "history_of_log", "is_covered", "isolating", "modulo",
    "multi_round", "paired_difference", "primes", "strong_guarantee", "sums_and_noise", "times", "trace",
    "without_clients",
]  # fmt: skip

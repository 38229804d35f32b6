"""What the ledger is about: its columns, and the noise that it can speak of; importing this is light."""

from simfl.core.certificate_words import MULTI_ROUND
from simfl.core.columns import Column
from simfl.privacy.stage import Stage

COLLUDERS = (1, 2, 4, 8)
"""Numbers of colluders between none and all that are asked about."""
LEDGER = MULTI_ROUND | {"observer": "who sees the sums: the server or, with noise of its own, all who see the models"}
COLLUDING = LEDGER | {"observer": "who sees the sums, and so many clients"}
LEDGER_COLUMNS = (
    Column("mu_alone", "μ alone", "number", "Largest signal to noise at which the sums so far tell of one client's "
           "update, at most once `privacy.budget` is spent or weights are not sure; empty where it is infinite.", -1,
           "end", **LEDGER),
    *(Column(f"mu_{c}_{end}", f"μ of {c}, {heading}", "number",
             f"{sentence} what the worst {c} clients learn of another one's update; empty where infinite.", -1,
             "end", shown=False, **COLLUDING)
      for c in COLLUDERS
      for end, heading, sentence in (("lower", "at least", "Lower bound of"), ("upper", "at most", "Upper bound of"))),
    Column("mu_all", "μ of all", "number", "Largest signal to noise at which all others together learn of one client's "
           "update; empty where it is infinite.", -1, "end",
           **COLLUDING),
)  # fmt: skip
"""What rounds.csv tells of the ledger, if the scenario asks for it."""

GAUSSIAN_IN_SUM = (
    "Gaussian noise that is added to the sum of updates clipped to one norm (central_gaussian, tree_gaussian), or none"
)
"""What the ledger can speak of."""


def is_covered(stage: Stage) -> bool:
    """Whether the ledger can speak of sums that a stage has changed.

    A norm that moves clips updates that stay to other ones in each sum, so that who always take part together are told
    apart.
    """
    noise = stage.adds_noise
    return noise is None or (noise.gaussian and noise.where == "server" and all(link.stays for link in stage.links))

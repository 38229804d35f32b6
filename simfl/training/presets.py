"""FedBuff under three published names, each with the choices that its name stands for (docs/how-to/fedbuff.md)."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from simfl.training.base import RULES
from simfl.training.fedbuff import FedBuff
from simfl.training.staleness import STALENESS, PolynomialStaleness


@RULES("fedbuff_paper")
@dataclass(frozen=True, kw_only=True)
class FedBuffPaper(FedBuff):
    """FedBuff as published: K updates of equal weight, each times 1/sqrt(1 + τ), divided by K.

    Reference: Nguyen et al. 2022 (arXiv 2106.06639), Algorithm 1 and section 5.
    """

    staleness: Annotated[Any, STALENESS, Field(description="how much an update of staleness τ counts, s(τ)")] = (
        PolynomialStaleness()
    )
    weighting: Annotated[Literal["equal"], Field(description="every client counts the same")] = "equal"
    normaliser: Annotated[Literal["count"], Field(description="the sum is divided by K")] = "count"
    mix: Annotated[Literal["deltas"], Field(description="changes since the download are summed")] = "deltas"


@RULES("fedasync")
@dataclass(frozen=True, kw_only=True)
class FedAsync(FedBuff):
    """Unbuffered: every arriving model is mixed in, x <- (1 - α s(τ)) x + α s(τ) x_i, α = server_learning_rate.

    Reference: Xie et al. 2019 (arXiv 1903.03934), Algorithm 1.
    """

    buffer: Annotated[Literal[1], Field(description="every update is aggregated at once")] = 1
    staleness: Annotated[Any, STALENESS, Field(description="how much an update of staleness τ counts, s(τ)")] = (
        PolynomialStaleness()
    )
    weighting: Annotated[Literal["equal"], Field(description="every client counts the same")] = "equal"
    normaliser: Annotated[Literal["count"], Field(description="the mixing weight is α s(τ)")] = "count"
    mix: Annotated[Literal["models"], Field(description="models are mixed, not changes")] = "models"
    server_learning_rate: Annotated[float, Field(gt=0, le=1, description="mixing weight α of a fresh model")] = 0.6


@RULES("flsim")
@dataclass(frozen=True, kw_only=True)
class FLSim(FedBuff):
    """The buffered aggregator of FLSim: a weighted sum that nothing divides; s(τ) is scaled to 1 at τ = 1.

    With constant staleness a step is thus K times as long as FedBuff's at the same server learning rate.
    Reference: github.com/facebookresearch/FLSim, optimizers/async_aggregators.py and
    utils/async_trainer/async_staleness_weights.py. Its open-loop arrivals (clients start at a rate, the same one
    perhaps twice at a time) and its flush of a partly filled buffer at the end of an epoch are not imitated.
    """

    weighting: Annotated[
        Literal["samples", "equal"], Field(description="what s(τ) is multiplied with: the client's samples, or 1")
    ] = "equal"
    normaliser: Annotated[Literal["none"], Field(description="nothing divides the sum")] = "none"
    mix: Annotated[Literal["deltas"], Field(description="changes since the download are summed")] = "deltas"
    reference_staleness: Annotated[
        float, Field(ge=0, le=1e9, description="the staleness at which s is scaled to 1")
    ] = 1.0

"""Whether the server of a run saw more than sums, so that what its sums hide is hidden no more."""

from simfl.audit.log import Log
from simfl.core.errors import SimflError
from simfl.core.wording import amount
from simfl.privacy.multiround.participation_matrix import strong_guarantee


def refuse_more_than_sums(log: Log, path: object, instead: str, colluders: int = 0) -> None:
    """
    Raises:
        SimflError: more than sums was seen, or is by the server and so many clients; ``instead``, what to do with the
            run's participation.csv.
    """
    if seen := more_than_sums(log, colluders):
        raise SimflError(f"{path}: {seen}; {instead} its participation.csv for the sums alone")


def more_than_sums(log: Log, colluders: int = 0) -> str:
    """In words, what else was seen; empty of a log that tells of nothing but sums."""
    if log.tolerated is not None and colluders > log.tolerated:
        why = f"{amount(colluders, 'colluder')} are more than the {log.tolerated} that the run's protocol tolerates"
        return f"{why}: single updates are open to them"
    if log.beside_sums:
        return f"more than sums was seen: {'; '.join(log.beside_sums)}"
    if log.strong is not None and (sums := strong_guarantee(log.matrix, log.doubles)) > log.strong:
        return (
            f"its sums hide {sums} clients among one another, but more than sums was seen, so that the run itself says "
            f"{log.strong}"
        )
    return ""

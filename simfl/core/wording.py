"""Numbers and lists of things in messages."""

from collections.abc import Sequence


def amount(number: float, noun: str) -> str:
    """``"1 client"``, ``"1,200 clients"``.

    Args:
        number: a count, or a mean.
        noun: in the singular; an s makes its plural.
    """
    text = f"{number:,.6g}" if isinstance(number, float) else f"{number:,}"
    return f"{text} {noun}" if number == 1 else f"{text} {noun}s"


def there_are(number: int, noun: str) -> str:
    """``"there is 1 client"``, ``"there are 2 clients"``."""
    return f"there {'is' if number == 1 else 'are'} {number:,} {noun}{'' if number == 1 else 's'}"


MOST_NAMES = 3
"""Configurations that a sentence names; of more it says how many they are."""


def label_list(labels: Sequence[str]) -> str:
    """``"a and b"``, ``"5 configurations"``."""
    return " and ".join(labels) if len(labels) <= MOST_NAMES else amount(len(labels), "configuration")

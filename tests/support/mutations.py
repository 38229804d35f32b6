"""Random damage to scenario texts, for fuzz tests: every mutation is a pure function of (text, generator)."""

import re

import numpy as np

NASTY = """null ~ true no -1 0 1 1.5 -0.0 1e-3 1e309 -1e309 .inf -.inf .nan 012 0o17 0x1F 12:30:00 9223372036854775807
9223372036854775808 100000000000000000000000000 1e12 1000000000000 {} [] [[]] {{}} [1,a] {name:} {name: []} {name: {}}
{name: null} {name: 3} '' "" '3' "\\0" "\\ud800" "\\U00110000" "\\x1b[31m" é \u2028 \ufeff ../../etc/passwd /dev/zero
!!int !x !!python/object/apply:os.system &a *a &a*a << <<: ? - | > % @ ` # , : = --- ... %YAML %TAG \t \x00 \x7f
fedavg random always bernoulli constant log_normal star supervised digits mlp batch_partition name value
k T rounds""".replace("\n", " ").split(" ")
KEYS = "name seed clients network devices selection training learning secagg privacy trace source k rounds".split()

TOKEN = re.compile(r"[\w.+-]+|\s+|.", re.DOTALL)


def flip(text: str, rng: np.random.Generator) -> str:
    data = bytearray(text.encode("utf-8", errors="surrogateescape"))
    for _ in range(rng.integers(1, 4)):
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    return data.decode("utf-8", errors="replace" if rng.integers(2) else "surrogateescape")


def swap_tokens(text: str, rng: np.random.Generator) -> str:
    tokens = TOKEN.findall(text)
    first, second = rng.integers(len(tokens), size=2)
    tokens[first], tokens[second] = tokens[second], tokens[first]
    return "".join(tokens)


def replace_token(text: str, rng: np.random.Generator) -> str:
    tokens = TOKEN.findall(text)
    words = [i for i, token in enumerate(tokens) if not token.isspace()] or [0]
    tokens[words[rng.integers(len(words))]] = NASTY[rng.integers(len(NASTY))]
    return "".join(tokens)


def replace_value(text: str, rng: np.random.Generator) -> str:
    places = [match.span(1) for match in re.finditer(r": *([^\s,{}\[\]]+)", text)]
    if not places:
        return text
    start, end = places[rng.integers(len(places))]
    return text[:start] + NASTY[rng.integers(len(NASTY))] + text[end:]


def mistype_key(text: str, rng: np.random.Generator) -> str:
    places = [match.span(1) for match in re.finditer(r"(\w+):", text)]
    if not places:
        return text
    start, end = places[rng.integers(len(places))]
    key = list(text[start:end])
    at = rng.integers(len(key))
    match rng.integers(4):
        case 0:
            del key[at]
        case 1:
            key.insert(at, key[at])
        case 2:
            key[at] = chr(rng.integers(33, 127))
        case _:
            key = list(KEYS[rng.integers(len(KEYS))])
    return text[:start] + "".join(key) + text[end:]


def delete_line(text: str, rng: np.random.Generator) -> str:
    lines = text.splitlines(keepends=True)
    del lines[rng.integers(len(lines))]
    return "".join(lines)


def repeat_line(text: str, rng: np.random.Generator) -> str:
    lines = text.splitlines(keepends=True)
    lines.insert(rng.integers(len(lines) + 1), lines[rng.integers(len(lines))])
    return "".join(lines)


def indent(text: str, rng: np.random.Generator) -> str:
    lines = text.splitlines(keepends=True)
    at = rng.integers(len(lines))
    lines[at] = [" " + lines[at], "  " + lines[at], "\t" + lines[at], lines[at].lstrip(), lines[at][1:]][
        rng.integers(5)
    ]
    return "".join(lines)


def truncate(text: str, rng: np.random.Generator) -> str:
    return text[: rng.integers(len(text))] or "#"


def insert_noise(text: str, rng: np.random.Generator) -> str:
    at = rng.integers(len(text) + 1)
    return text[:at] + NASTY[rng.integers(len(NASTY))] + text[at:]


MUTATIONS = (
    flip, swap_tokens, replace_token, replace_value, mistype_key,
    delete_line, repeat_line, indent, truncate, insert_noise,
)  # fmt: skip


def mutated(text: str, rng: np.random.Generator) -> str:
    """One to three random mutations of the text."""
    for _ in range(rng.integers(1, 4)):
        text = MUTATIONS[rng.integers(len(MUTATIONS))](text or "#", rng)
    return text

"""JSON files that hold their own SHA-256, and those of the files that they describe."""

import json
from collections.abc import Mapping
from hashlib import sha256 as sha256_of
from pathlib import Path

from simfl.core.errors import IntegrityError
from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import open_regular, read_regular, write_atomically
from simfl.results.file_names import BEGUN, FAILURE, SUMMARY

AGAIN = "simfl run --force repeats it"

MOST_BYTES = 1 << 20
"""Of a small file that holds its own digest."""


def seal_document(
    document: Mapping[str, object], files: Mapping[str, str], name: str = SUMMARY
) -> tuple[JsonObject, bytes]:
    """A document with the SHA-256 digests of all files and its own, and the bytes of its file."""
    digests = dict(sorted(files.items()))
    complete = {**document, "sha256": digests}
    digests[name] = sha256_of(json_bytes(complete)).hexdigest()
    return complete, json_bytes(complete)


def write_sealed(path: Path, document: Mapping[str, object], files: Mapping[str, str] | None = None) -> None:
    """Writes a JSON document with its own digest, whole or not at all."""
    write_atomically(path, seal_document(document, files or {}, path.name)[1])


def read_sealed(path: Path) -> JsonObject | None:
    """What :func:`write_sealed` wrote, without its digests; None where there is no such file.

    Raises:
        IntegrityError: it is something else now.
    """
    try:
        with open_regular(path) as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IntegrityError(f"{path}: cannot be read ({error.strerror})") from None
    document = check_seal(data if len(data) <= MOST_BYTES else b"", path)
    return {key: value for key, value in document.items() if key != "sha256"}


def check_seal(data: bytes, path: Path) -> JsonObject:
    """The document in a sealed file's bytes.

    Raises:
        IntegrityError: it does not match its own digest.
    """
    damaged = IntegrityError(
        f"{path}: damaged (it does not match its own SHA-256)" + (f"; {AGAIN}" if path.name == SUMMARY else "")
    )
    try:
        document: JsonObject = json.loads(data)
        files = dict(document["sha256"])
        digest = files.pop(path.name)
        rest = {**document, "sha256": files}
        if data != json_bytes(document) or sha256_of(json_bytes(rest)).hexdigest() != digest:
            raise damaged
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged from None
    if not all(isinstance(digest, str) and Path(name).name == name for name, digest in files.items()):
        raise damaged
    return document


def seal_bytes(data: bytes, name: str = "") -> bytes:
    """A file of any bytes that begins with a line of their SHA-256, and of the file's name where that is to count."""
    return sha256_of(name.encode() + data).hexdigest().encode() + b"\n" + data


def read_sealed_bytes(path: Path, name: str = "") -> bytes:
    """The bytes that :func:`seal_bytes` made a file of.

    Raises:
        IntegrityError: it is something else now, or no ordinary file.
        FileNotFoundError: there is none.
    """
    try:
        content = read_regular(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise IntegrityError(f"{path}: cannot be read ({error.strerror})") from None
    data = content.partition(b"\n")[2]
    if content != seal_bytes(data, name):
        raise IntegrityError(f"{path}: damaged (its SHA-256 does not match)")
    return data


def json_bytes(document: object) -> bytes:
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()


def digests_of(folder: Path) -> frozenset[str]:
    """The digest of the run in a folder, which may be renamed, or reached by a link.

    It is what ``begun.json`` says; where there is none, the folder's name, links followed or not.
    """
    try:
        first = read_sealed(folder / BEGUN) or {}
    except IntegrityError:
        first = {}
    return frozenset([first["digest"]] if "digest" in first else [folder.name, folder.resolve().name])


def read_failure(folder: Path) -> JsonObject | None:
    """What ``failed.json`` says of the run in a folder; None where there is none.

    Raises:
        IntegrityError: it is damaged, or of another run.
    """
    failure = read_sealed(folder / FAILURE)
    if failure is not None and failure.get("digest") not in digests_of(folder):
        raise IntegrityError(f"{folder / FAILURE}: of another run, or of an older simfl")
    return failure


def write_failure(folder: Path, error: str, **more: object) -> None:
    """Writes why a run failed, in a line, and ``more`` JSON data into the ``failed.json`` of its folder."""
    write_sealed(folder / FAILURE, {"digest": folder.name, "error": error, **more})

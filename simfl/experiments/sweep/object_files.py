"""Python objects on their way to worker processes: by value, in a file that lies in the sweep's folder while it runs.

Workers on other machines see that folder, too. A worker reads the file only if its SHA-256 is the one that the sweep
has told it, because reading it executes code.
"""

import io
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import cloudpickle

from simfl.core.errors import SimflError
from simfl.core.storage.disk import write_atomically

if TYPE_CHECKING:
    from simfl.learning.objects.handles import Handle


@contextmanager
def written(handles: "Sequence[Handle]", folder: Path) -> Iterator[tuple[str, str] | tuple[()]]:
    """A block in which the objects lie in a file; its path and SHA-256, or nothing where there are no objects.

    Raises:
        SimflError: an object cannot be sent to another process.
    """
    if not handles:
        yield ()
        return
    packed = io.BytesIO()
    for handle in handles:
        try:
            packed.write(cloudpickle.dumps(handle))
        except Exception as error:  # anything that it refers to may refuse
            raise SimflError(f"{handle.label} cannot be sent to worker processes: {error}") from error
    with tempfile.TemporaryDirectory(prefix=".objects-", dir=folder) as scratch:
        path = Path(scratch, "objects.pickle").resolve()
        write_atomically(path, packed.getvalue())
        yield str(path), sha256(packed.getvalue()).hexdigest()


@cache
def read(path: str = "", digest: str = "") -> "tuple[Handle, ...]":
    """Makes the objects in a file known to this process, for as long as it lives.

    Raises:
        SimflError: it is not the file that was written, or an object cannot be loaded here.
    """
    if not path:
        return ()
    from simfl.learning.objects.handles import keep

    content = Path(path).read_bytes()
    if sha256(content).hexdigest() != digest:
        raise SimflError(f"{path}: not the objects that the sweep has written")
    stream, handles = io.BytesIO(content), []
    try:
        while stream.tell() < len(content):
            handles.append(keep(pickle.load(stream)))  # noqa: S301  # its SHA-256 is the sweep's
    except Exception as error:  # somebody else's classes may raise anything
        raise SimflError(f"an object that was handed in cannot be loaded by a worker: {error}") from error
    return tuple(handles)

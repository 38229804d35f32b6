"""Files and folders of results: written whole or not at all, one process at a time, never through a link."""

import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from threading import Event
from typing import IO, Any

from simfl.core.errors import BusyError, SimflError

RESULTS_FILES = "summary.json", "begun.json", "sweep.yaml"
"""A folder with one of these is one of results."""

LOOK_S = 0.05
"""A lock is tried a second time after so many seconds: somebody may have looked whether it is held."""

MOST_BYTES = 2**31
"""Of a file of results that is read at once."""

MODES = {"wb": os.O_WRONLY | os.O_CREAT | os.O_TRUNC, "r+b": os.O_RDWR, "ab": os.O_WRONLY | os.O_CREAT | os.O_APPEND}


def cache_root() -> Path | None:
    """``$SIMFL_CACHE``, else ``simfl`` in the user's cache folder; None where ``SIMFL_CACHE`` is empty."""
    if (named := os.environ.get("SIMFL_CACHE")) is not None:
        return Path(named) if named else None
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "simfl"


NO_FILES = {
    stat.S_IFIFO: "is a pipe, not a file",
    stat.S_IFSOCK: "is a socket, not a file",
    stat.S_IFCHR: "is a device, not a file",
    stat.S_IFBLK: "is a device, not a file",
}


def open_regular(path: Path) -> BufferedReader:
    """Opens a file that somebody names, to read it, if it is an ordinary file: a pipe or a device may never end.

    Raises:
        OSError: it cannot be read, or is a folder, a pipe, a socket or a device, or links to it lead in a circle.
    """
    _regular(os.stat(path), path)  # opening a device may do something
    return _ordinary_file(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", path)


def _ordinary_file(descriptor: int, mode: str, path: Path) -> Any:
    """The open file, which is closed where it is no ordinary one."""
    file = os.fdopen(descriptor, mode)
    try:
        _regular(os.fstat(descriptor), path)
    except OSError:
        file.close()
        raise
    return file


def read_regular(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a file of results.

    Raises:
        OSError: as :func:`open_regular`, or it has more bytes than any that simfl writes.
    """
    with open_regular(path) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EINVAL, f"has more than {most_bytes} bytes", str(path))
    return data


def _regular(status: os.stat_result, path: Path) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind != stat.S_IFREG:
        raise OSError(errno.EINVAL, NO_FILES.get(kind, "is no file"), str(path))


def sha256(path: Path) -> str:
    """SHA-256 of an ordinary file's bytes, hexadecimal; errors as of :func:`open_regular`."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a whole file or nothing: temporary file of a name of its own, fsync, rename, fsync of the folder.

    A link of the file's own name is replaced, what lies behind it is left alone.

    Raises:
        SimflError: the way to the file leads through a link inside a folder of results.
        OSError: with the name of the file; the temporary one is gone.
    """
    refuse_links_of_results(path.parent)
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    with naming(path):
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def open_own(path: Path, mode: str) -> IO[bytes]:
    """Opens a file of a results folder to write into it.

    Args:
        path: the file.
        mode: ``wb``, ``r+b`` or ``ab``.

    Raises:
        SimflError: it is a link; what lies behind it may be anybody's.
        OSError: it cannot be written, or is a folder, a pipe, a socket or a device.
    """
    try:
        descriptor = os.open(path, MODES[mode] | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _a_link(path) from None
        if error.errno == errno.ENXIO:  # nobody reads from the pipe
            raise OSError(errno.EINVAL, NO_FILES[stat.S_IFIFO], str(path)) from None
        raise
    return _ordinary_file(descriptor, mode, path)


def refuse_link(folder: Path) -> None:
    """
    Raises:
        SimflError: the folder, which need not exist, is a link.
    """
    if folder.is_symlink():
        raise _a_link(folder)


def refuse_links_of_results(folder: Path) -> None:
    """Refuses a way that leads out of a folder of results; links elsewhere are the user's.

    Raises:
        SimflError: a part of the way to the folder, or itself, is a link in a folder of results or beside one.
    """
    for part in (folder, *folder.parents):
        if part.is_symlink() and any(
            any(part.parent.glob(f"{at}{name}")) for name in RESULTS_FILES for at in ("", "*/")
        ):
            raise _a_link(part)


def make_folder(folder: Path, below: Path) -> None:
    """Makes a folder of results, and those on the way to it.

    Args:
        folder: to be made, if it is not there.
        below: the root of the results, which may be a link: it is what the user named.

    Raises:
        SimflError: a part of the way from the root to the folder is a link.
    """
    for part in (folder, *folder.parents):
        if part == below:
            break
        refuse_link(part)
    folder.mkdir(parents=True, exist_ok=True)


def touch(path: Path) -> None:
    """A file that exists was used now; of a link, the link."""
    with suppress(FileNotFoundError):
        os.utime(path, follow_symlinks=False)


@contextmanager
def file_lock(path: Path, busy: str | None = None) -> Iterator[None]:
    """Holds a lock file; it is free again when the process ends, however it ends.

    Args:
        path: the file, made if need be; its folder must exist.
        busy: message of the BusyError if another process holds it; None waits.

    Raises:
        BusyError: another process holds it.
        SimflError: it is a link.
    """
    with open_own(path, "ab") as file:
        if not _lock(file, wait=not busy):
            Event().wait(LOOK_S)
            if not _lock(file, wait=False):
                raise BusyError(str(busy))
        yield


def _lock(file: IO[bytes], wait: bool) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the system say which file they are about: a full disk does not know."""
    try:
        yield
    except OSError as error:
        if not error.filename or str(error.filename).endswith(".tmp"):
            error.filename = str(path)
        error.filename2 = None
        raise


def _a_link(path: Path) -> SimflError:
    return SimflError(f"{path}: is a link; simfl writes no results through links")

"""Files about the clients that have joined a run, for who watches it: ``joined/CLIENT.json`` and their list."""

from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from simfl.core.errors import IntegrityError
from simfl.core.storage.disk import make_folder, refuse_link, touch
from simfl.results.file_names import JOINED, JOINED_LIST
from simfl.results.sealed_files import read_sealed, write_sealed


class ClientStatusFiles:
    """Status files of the clients of one run. Any thread may call its methods.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._list_lock = Lock()

    def write(self, client: int, status: Mapping[str, object]) -> None:
        """Writes what is known of a client; when it was last seen is the file's age."""
        path = self._path(client)
        make_folder(path.parent, self.folder.parent)
        write_sealed(path, {"run": self.folder.name, "client": client, **status})
        self._list(client)

    def touch(self, client: int) -> None:
        """Notes that a client has just been heard of."""
        path = self._path(client)
        refuse_link(path.parent)
        touch(path)

    def _path(self, client: int) -> Path:
        return self.folder / JOINED / f"{client}.json"

    def _list(self, client: int) -> None:
        """Notes that a client has a file; who is not noted yet may have one, too: a kill came between."""
        path, run = self.folder / JOINED / JOINED_LIST, self.folder.name
        with self._list_lock:
            try:
                before = read_sealed(path) or {}
            except IntegrityError:  # written anew
                before = {}
            known = before["clients"] if before.get("run") == run else []
            if client not in known:
                write_sealed(path, {"run": run, "clients": sorted({*known, client})})

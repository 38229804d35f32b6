"""Python source executed as a module: the bytes that were hashed and shown, never what a cache beside them holds."""

from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

LARGEST_BYTES = 2**20


class SourceText:
    """A loader that compiles one text."""

    def __init__(self, text: bytes, path: str) -> None:
        self.text, self.path = text, path

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = self.path
        exec(compile(self.text, self.path, "exec", dont_inherit=True), module.__dict__)


def spec_of(name: str, text: bytes, path: str, is_package: bool = False) -> ModuleSpec:
    """What imports a text as a module; of a package, no folder is searched."""
    spec = spec_from_loader(name, SourceText(text, path), origin=path, is_package=is_package)  # type: ignore[arg-type]  # it has what is used of a loader
    assert spec is not None
    return spec

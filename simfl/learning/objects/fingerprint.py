"""A fingerprint of any Python object: the same in every process, and another for other code or other content.

Arrays, tensors and plain values count by their content, with data type and shape. Functions and classes count by their
bytecode, constants and defaults, and by what they refer to: closures, and those globals that their code names. Code of
Python, of simfl and of the libraries that simfl builds on counts by its name; that of other installed packages by
name and the content of the file that defines it. A module counts by the content of its file. A torch module counts by
its layers' classes and settings, and by the names, shapes and values of its parameters and buffers. Any other object
counts by its class and its state, as pickling would see it; if it cannot be pickled, by its attributes and its repr.

Bytecode differs between versions of Python, and so do fingerprints of code.
"""

import dis
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from simfl.core.registration.said_types import as_written
from simfl.learning.objects.shorthand import DIGITS

LIBRARIES = sys.stdlib_module_names - {"__main__"} | {
    "simfl", "numpy", "torch", "torchvision", "scipy", "pandas", "sklearn", "networkx", "cloudpickle",
}  # fmt: skip
"""Packages whose code counts by its name."""

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

_GENERATED = {
    "__dict__", "__weakref__", "__module__", "__qualname__", "__doc__", "__annotations__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__", "__slotnames__",
    "_abc_impl", "__abstractmethods__", "__orig_bases__", "__parameters__", "__type_params__",
}  # fmt: skip
"""What a class has that says nothing of what it computes."""


def fingerprint(value: object) -> str:
    """The first 16 hexadecimal digits of a SHA-256 of the value's content and code."""
    content = _Content()
    content.add(value)
    return content.hash.hexdigest()[:DIGITS]


class _Content:
    """A SHA-256 to which values are added, each with its kind, so that no two values give the same bytes."""

    def __init__(self) -> None:
        self.hash = sha256()
        self.seen: dict[int, int] = {}
        self.open: set[int] = set()
        self.references: list[object] = []  # so that no other object gets the address of one that was seen

    def note(self, kind: str, content: bytes | str = b"") -> None:
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        self.hash.update(f"{kind} {len(data)}\n".encode())
        self.hash.update(data)

    def add(self, value: object) -> None:
        if isinstance(value, PLAIN):
            self.note(type(value).__name__, repr(value))
            return
        if (number := self.seen.get(id(value))) is not None:
            self.note("again", str(number))
        elif id(value) in self.open:
            self.note("cycle")
        else:
            if not isinstance(value, _VALUES):  # equal values may or may not be one object
                self.seen[id(value)] = len(self.seen)
                self.references.append(value)
            self.open.add(id(value))
            next((add for kind, add in _KINDS if isinstance(value, kind)), _Content.add_other)(self, value)
            self.open.discard(id(value))

    def add_other(self, value: Any) -> None:
        """What has no kind of its own: torch's tensors and modules, where torch is imported, or an object's state."""
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            self.add_tensor(value)
        elif torch is not None and isinstance(value, torch.nn.Module):
            self.add_network(value)
        else:
            self.add_state(value)

    def add_array(self, value: np.ndarray) -> None:
        if value.dtype.hasobject:
            self.note("objects", repr(value.shape))
            self.add(value.tolist())
            return
        self.note("array", f"{value.dtype.str} {value.shape}")
        self.hash.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)

    def add_tensor(self, value: Any) -> None:
        here = value.detach().cpu().contiguous()
        self.note("tensor", f"{value.dtype} {tuple(value.shape)} {value.requires_grad}")
        self.hash.update(here.reshape(-1).view(sys.modules["torch"].uint8).numpy().data)

    def add_network(self, network: Any) -> None:
        """Layers with their classes and settings, then parameters and buffers."""
        for name, layer in network.named_modules():
            self.note("layer", name)
            self.add(type(layer))
            inside = {"_parameters", "_buffers", "_modules", "training"}
            settings = {key: item for key, item in vars(layer).items() if key not in inside}
            for key in sorted(settings):
                hooks = key.endswith("_hooks") or "_hooks_" in key
                self.note("setting", key)
                self.add([*settings[key].values()] if hooks and isinstance(settings[key], dict) else settings[key])
        for name, tensor in (*network.named_parameters(), *network.named_buffers()):
            self.note("values", name)
            self.add_tensor(tensor)

    def add_sequence(self, value: list[object] | tuple[object, ...]) -> None:
        self.note(type(value).__name__, str(len(value)))
        for item in value:
            self.add(item)

    def add_unordered(self, value: set[object] | frozenset[object]) -> None:
        self.note("set", " ".join(sorted(fingerprint(item) for item in value)))

    def add_mapping(self, value: Mapping[object, object]) -> None:
        self.note("mapping", str(len(value)))
        for key in sorted(value, key=fingerprint):
            self.add(key)
            self.add(value[key])

    def add_code(self, code: CodeType) -> None:
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        self.note("code", code.co_code)
        self.note("names", repr((names, code.co_argcount, code.co_kwonlyargcount, code.co_flags)))
        self.add_sequence(code.co_consts)

    def add_function(self, function: FunctionType) -> None:
        function = as_written(function)
        if self.is_known(function.__module__, function.__qualname__, function.__code__.co_filename):
            return
        self.note("function", function.__name__)
        self.add(function.__code__)
        self.add((function.__defaults__, function.__kwdefaults__))
        if vars(function):
            self.add(vars(function))
        for cell in function.__closure__ or ():
            self.add(_content_of(cell))
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                self.note("global", name)
                self.add(function.__globals__[name])

    def add_class(self, cls: type) -> None:
        module = sys.modules.get(cls.__module__)
        if self.is_known(cls.__module__, cls.__qualname__, str(vars(module).get("__file__", "")) if module else ""):
            return
        self.note("class", cls.__qualname__)
        self.add(cls.__bases__)
        for name, item in sorted(vars(cls).items()):
            if name not in _GENERATED:
                self.note("attribute", name)
                self.add(item)

    def is_known(self, module: str | None, name: str, file: str) -> bool:
        """Whether code counts by its name, or by the file of an installed package; if so, that is added."""
        if module == "__main__":
            return False
        if (module or "").partition(".")[0] in LIBRARIES:
            self.note("library", f"{module}.{name}")
        elif "site-packages" in Path(file).parts or "dist-packages" in Path(file).parts:
            self.note("package", f"{module}.{name}")
            self.note("file", _file_content(file))
        else:
            return False
        return True

    def add_module(self, module: ModuleType) -> None:
        self.note("module", module.__name__)
        if module.__name__.partition(".")[0] not in LIBRARIES:
            self.note("file", _file_content(str(vars(module).get("__file__", ""))))

    def add_state(self, value: object) -> None:
        """An object by its class and its state."""
        cls = type(value)
        self.note("object", f"{cls.__module__}.{cls.__qualname__}")
        self.add(cls)
        try:
            parts = value.__reduce_ex__(4)
        except Exception:  # it cannot be pickled, as a lock or an open file
            self.note("shown", _ADDRESS.sub("", repr(value)))
            known = cls.__module__.partition(".")[0] in LIBRARIES  # which keep numbers of processes, as queues do
            for kind, name, item in () if known else ((each, *it) for each in cls.__mro__ for it in vars(each).items()):
                if name == "__dict__" or ("__slots__" in vars(kind) and isinstance(item, MemberDescriptorType)):
                    with suppress(Exception):
                        self.add((name, item.__get__(value)))
            return
        if isinstance(parts, str):
            self.note("named", parts)
            return
        _, arguments, *rest = parts
        self.add(tuple(item for item in arguments if item is not cls))
        self.add([list(item) if i > 0 and item is not None else item for i, item in enumerate(rest[:3])])


def _names(code: CodeType) -> set[str]:
    """The globals that code reads, also inside the functions in it."""
    read = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return read.union(*(_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)))


def _content_of(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it has none yet
        return None


def _file_content(file: str) -> str:
    try:
        return sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""


_VALUES = (np.ndarray, np.generic, list, tuple, set, frozenset, dict, CodeType)

_CACHED = type(lru_cache(int))
"""Functions under ``functools.cache``; what they have kept is no part of what they are."""

_KINDS: tuple[tuple[type | tuple[type, ...], Callable[[_Content, Any], None]], ...] = (
    (np.ndarray, _Content.add_array),
    (np.generic, lambda content, value: content.add_array(np.asarray(value))),
    ((list, tuple), _Content.add_sequence),
    ((set, frozenset), _Content.add_unordered),
    (dict, _Content.add_mapping),
    (CodeType, _Content.add_code),
    (FunctionType, _Content.add_function),
    (_CACHED, lambda content, value: content.add(value.__wrapped__)),
    (type, _Content.add_class),
    (MethodType, lambda content, value: content.add_sequence((value.__func__, value.__self__))),
    (partial, lambda content, value: content.add_sequence((value.func, value.args, value.keywords))),
    ((staticmethod, classmethod), lambda content, value: content.add(value.__func__)),
    (property, lambda content, value: content.add_sequence((value.fget, value.fset))),
    (BuiltinFunctionType, lambda content, value: content.note("builtin", f"{value.__module__}.{value.__qualname__}")),
    (ModuleType, _Content.add_module),
)

"""Does something right after a module has been imported for the first time. Nothing of it can be seen in the module."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from amplint.confirm.patches import UNCOUNTED


@contextlib.contextmanager
def imported(
    name: str,
    then: Callable[[], None],
    during: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
) -> Iterator[None]:
    """Calls ``then`` when the module of this name has been imported, before its importer goes on. What it raises, the
    import raises. The module is run in the context ``during()``."""
    finder = _Finder(name, then, during)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.leave()


class _Finder(MetaPathFinder):
    """Has the others find a module, and its loader call back."""

    def __init__(
        self, name: str, then: Callable[[], None], during: Callable[[], AbstractContextManager[object]]
    ) -> None:
        self._name = name
        self._then = then
        self._during = during

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders have."""
        if fullname != self._name:
            return None
        self.leave()
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                _call_back(spec.loader, self._then, self._during)
                return spec
        return None

    def leave(self) -> None:
        """Finds nothing any more."""
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)


def _call_back(
    loader: Any, then: Callable[[], None], during: Callable[[], AbstractContextManager[object]]
) -> None:
    original = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        with during():
            original(module)
        then()

    # a traceback or warning out of the module looks as ever
    exec_module.__code__ = exec_module.__code__.replace(co_filename=UNCOUNTED)
    loader.exec_module = exec_module

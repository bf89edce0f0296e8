"""A project's own wrappers, as its settings name them."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.flow.core.registry import Registry


def with_own(registry: Registry, contexts: Sequence[str], backward_functions: Sequence[str]) -> Registry:
    """A registry that knows the wrappers, too."""
    return registry

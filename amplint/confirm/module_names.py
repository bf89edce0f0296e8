"""The names of the modules that a run calls: those of ``named_modules``, below the class of the outermost one."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator

from torch.nn import Module

from amplint.confirm.held import bytes_of
from amplint.confirm.places import Site
from amplint.confirm.trace import ModuleRow


class Node:
    """A module as a trace names it. It outlives the module, and is that of the next one that takes its place."""

    __slots__ = ("calls", "kind", "module", "name", "part_of", "root", "site", "weights")

    def __init__(self, module: Module, root: Node | None, name: str) -> None:
        self.root = root or self
        self.name = name
        self.kind = type(module).__name__
        self.module = weakref.ref(module)
        self.site: Site | None = None
        self.calls = 0
        self.weights: tuple[tuple[str, int], ...] = ()
        self.part_of: Node | None = None
        """What it turned out to be, if a larger module that holds it was called later."""

    def standing(self) -> Node:
        """The node under which it is told."""
        node = self
        while node.part_of is not None:
            node = node.part_of
        return node

    def has_weights(self) -> bool:
        """Whether it has parameters, of its own or of a module in it."""
        module = self.module()
        return module is not None and next(module.parameters(), None) is not None

    def weigh(self) -> None:
        """Takes down the bytes of the module's own parameters, by type."""
        module = self.module()
        if module is not None:
            sizes: Counter[str] = Counter()
            for parameter in module.parameters(recurse=False):
                sizes[str(parameter.dtype)[6:]] += bytes_of(parameter)
            self.weights = tuple(sizes.items())


class ModuleNames:
    """Gives modules their nodes."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[weakref.ref[Module], Node]] = {}
        self._named: dict[tuple[Node, str], Node] = {}
        self._roots: dict[tuple[str, object], list[Node]] = {}

    def of(self, module: Module, around: Node | None, site: Site | None) -> Node:
        """The node of a module that is called in the module ``around``, or outside of any."""
        known = self._of.get(id(module))
        if known is not None and known[0]() is module:
            return known[1].standing()
        outermost = around.root.module() if around is not None else None
        if around is None or outermost is None:
            return self._root(module, site)
        self._take(outermost, around.root)  # it may have been given the module meanwhile
        known = self._of.get(id(module))
        if known is not None and known[0]() is module:
            return known[1]
        return self._named_node(module, around.root, f"{around.name}.({type(module).__name__})".lstrip("."))

    def _root(self, module: Module, site: Site | None) -> Node:
        """A program may make the same loss anew for each step: that is one root."""
        key = (type(module).__name__, site.key if site is not None else None)
        roots = self._roots.setdefault(key, [])
        root = next((one for one in roots if one.module() is None and one.part_of is None), None)
        if root is not None:
            root.module = weakref.ref(module)
        else:
            root = Node(module, None, "")
            roots.append(root)
        self._take(module, root)
        return root

    def _take(self, outermost: Module, root: Node) -> None:
        for name, module in outermost.named_modules():
            node = root if not name else self._named_node(module, root, name)
            known = self._of.get(id(module))
            if known is not None and known[0]() is module:
                before = known[1].standing()
                if before is not node and before is before.root and before is not root:
                    before.part_of = node
                    node.calls, node.site = node.calls + before.calls, node.site or before.site
            self._of[id(module)] = (weakref.ref(module), node)
        self._of = {key: known for key, known in self._of.items() if known[0]() is not None}

    def _named_node(self, module: Module, root: Node, name: str) -> Node:
        node = self._named.get((root, name))
        if node is None:
            node = self._named[root, name] = Node(module, root, name)
        node.module = weakref.ref(module)
        return node

    def _nodes(self) -> Iterator[Node]:
        found = {node.root: None for node in list(self._named.values())} | dict.fromkeys(
            node for _, node in list(self._of.values()) if node.root is node
        )
        found |= dict.fromkeys(root for roots in self._roots.values() for root in roots)
        for root in found:
            if root.part_of is None:
                yield root
        yield from (node for node in list(self._named.values()) if node.root.part_of is None)

    def names(self) -> dict[Node, str]:
        """The full name of each node."""
        labels: dict[Node, str] = {}
        count: Counter[str] = Counter()
        found: dict[Node, str] = {}
        for node in self._nodes():
            if node.root is node:
                count[node.kind] += 1
                labels[node] = f"{node.kind} ({count[node.kind]})" if count[node.kind] > 1 else node.kind
            root = labels.get(node.root, node.root.kind)
            found[node] = f"{root}.{node.name}" if node.name else root
        return found

    def rows(self, names: dict[Node, str]) -> Iterator[ModuleRow]:
        """The modules that were called, with what is around them."""
        for node, name in names.items():
            site = node.site
            if site is not None and node.calls:
                node.weigh()
                yield ModuleRow(name, node.kind, site.path, site.span, site.text, node.weights, node.calls)

    def forget(self) -> None:
        """Counts anew."""
        for _, node in self._of.values():
            node.calls = 0

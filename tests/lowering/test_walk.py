"""All nodes of a program, in the order of its text."""

from __future__ import annotations

from lowered import function

from amplint.lowering.program import Name
from amplint.lowering.walk import nodes


def test_names_come_in_the_order_of_the_text() -> None:
    program = function("""
        @decorator
        def f(x=default):
            with a as b:
                for c in d:
                    try:
                        e(f)
                    except g:
                        return h
            match i:
                case j:
                    pass
    """)
    found = [node.id for node in nodes(program) if isinstance(node, Name)]
    assert found == ["decorator", "default", "a", "b", "c", "d", "e", "f", "g", "h", "i"]


def test_what_stands_in_functions_inside_is_among_them() -> None:
    program = function("""
        def f():
            def inner():
                return a
            return [(lambda: b)() for c in d if e]
    """)
    found = {node.id for node in nodes(program) if isinstance(node, Name)}
    assert found == {"a", "b", "c", "d", "e"}


def test_each_node_comes_once() -> None:
    program = function("def f(x):\n    return x + x\n")
    found = list(nodes(program))
    assert len(found) == len(set(map(id, found)))

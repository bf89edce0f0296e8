from __future__ import annotations

from textwrap import dedent

from lowered import below, file_of, function
from shapes import shape

from amplint.findings import Span
from amplint.lowering.lower import lower_function, lower_lines, lower_module
from amplint.lowering.program import Call, Define, Lambda, Node, Program

PLACES = dedent("""\
    import a
    x = lambda: 0


    class A:
        @b
        def f(self, c=d.e):
            # about the loop
            for i in range(3):
                y = lambda: z(i)
            @g
            def inner(): pass
    """)


def text_at(span: Span) -> str:
    lines = PLACES.splitlines()
    assert span.line == span.end_line
    return lines[span.line - 1][span.column - 1 : span.end_column - 1]


def test_a_node_stands_where_its_text_is() -> None:
    program = function(PLACES)
    calls = [part for part in below(program) if isinstance(part, Call)]
    assert [text_at(program.locate(call.number)) for call in calls] == ["range(3)", "z(i)"]


def test_the_head_of_a_function_is_its_name() -> None:
    program = function(PLACES)
    assert program.head is not None
    assert program.locate(program.head.number) == Span(7, 9, 7, 10)


def test_a_function_begins_with_its_decorators() -> None:
    program = function(PLACES)
    assert (program.line, program.column) == (6, 5)


def test_a_nested_function_has_a_line_and_a_column_of_its_own() -> None:
    program = function(PLACES)
    inner = next(part.program for part in below(program) if isinstance(part, Define))
    assert (inner.line, inner.column) == (11, 9)


def test_a_lambda_has_a_line_and_a_column_of_its_own() -> None:
    program = function(PLACES)
    inner = next(part.program for part in below(program) if isinstance(part, Lambda))
    assert (inner.line, inner.column) == (10, 17)


def test_statements_of_a_module_stand_where_their_text_is() -> None:
    module = lower_module(file_of(PLACES))
    assert module is not None
    assert [module.locate(part.number).line for part in module.body] == [1, 2]


def test_the_text_of_a_node_is_on_one_line_and_short() -> None:
    program = function(
        "def f():\n    # comment\n    if a(1,\n         2): bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb()\n"
    )
    assert (
        program.text_of(program.body[0].number)
        == "if a(1, 2): bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb..."
    )


def test_a_node_is_named_by_path_root_and_number() -> None:
    file = file_of("x = lambda: 1\ndef f(a=lambda: 2):\n    def g(): return lambda: 3\nclass A:\n    b = 1\n")
    programs = [
        lower_function(file, file.outline.functions["f"]),
        lower_module(file),
        lower_lines(file, 1, 1),
        lower_lines(file, 5, 5),
    ]
    names = []
    for outermost in programs:
        assert outermost is not None
        parts = list(below(outermost))
        assert {part.root for part in parts if isinstance(part, Program)} == {outermost.root}
        names += [(outermost.path, outermost.root, part.number) for part in parts if isinstance(part, Node)]
        keys = [part.key for part in parts if isinstance(part, Program)]
        assert len(keys) == len(set(keys))
    assert len(names) == len(set(names))


def test_the_same_text_gives_the_same_program() -> None:
    first, second = function(PLACES), function(PLACES)
    assert [part.number for part in below(first) if isinstance(part, Node)] == [
        part.number for part in below(second) if isinstance(part, Node)
    ]
    assert shape(first) == shape(second)

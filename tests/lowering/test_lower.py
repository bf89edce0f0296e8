from __future__ import annotations

import ast
import sys
from textwrap import dedent

import libcst as cst
import pytest
from lowered import Nodes, below, body, file_of, function, functions_by_line
from shapes import expected_function, shape

from amplint.lowering.literals import NoValue, value_of
from amplint.lowering.lower import lower_function, lower_lines, lower_module
from amplint.lowering.program import (
    Assign,
    Define,
    DefineClass,
    Expression,
    Formatted,
    If,
    Import,
    LiteralNode,
    Match,
    Name,
    Opaque,
    Return,
    Subscript,
)
from amplint.lowering.statements import Lowering


def value(text: str) -> Expression:
    """What an expression becomes."""
    match body(f"return {text}"):
        case (Return(value=made),) if made is not None:
            return made
    raise AssertionError(text)


# literals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "0",
        "00",
        "0x1F",
        "1_000",
        "1e3",
        "1.5",
        "2j",
        "True",
        "None",
        "...",
        "''",
        '""""""',
        "'a'",
        "u'a'",
        "'\\x41\\n'",
        "'''a'b'''",
        "r'\\n'",
        "b'a'",
        "rb'\\n'",
        "'a' 'b' \"c\"",
        "b'a' b'b'",
        "('a'\n        'b')",
        "'\\N{BULLET}'",
    ],
)
def test_a_literal_has_the_value_that_python_gives_it(text: str) -> None:
    made = value(text)
    assert isinstance(made, LiteralNode)
    assert (type(made.value), made.value) == (type(ast.literal_eval(text)), ast.literal_eval(text))


def test_a_number_that_python_refuses_has_no_value() -> None:
    with pytest.raises(NoValue):
        value_of("0777")


def test_line_ends_in_a_string_are_those_of_python() -> None:
    program = function('def f():\r\n    return """a\r\nb"""\r\n')
    assert shape(program.body) == (("Return", ("LiteralNode", "a\nb")),)


# f-strings --------------------------------------------------------------------------------------------------


def test_an_f_string_is_text_and_values_in_order() -> None:
    made = value('f"a{x}b{y.z}"')
    assert isinstance(made, Formatted)
    assert shape(made.parts) == ("a", ("Name", "x"), "b", ("Attribute", ("Name", "y"), "z"))


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ('f"{{{x}"', "{"),
        ('f"\\t{x}"', "\t"),
        ('rf"\\t{x}"', "\\t"),
        ('f"\\N{BULLET}{x}"', "•"),
        ('"a" f"b{x}"', "ab"),
        ('f"a" "{b}" f"{x}"', "a{b}"),
    ],
)
def test_the_text_in_an_f_string_is_the_text_that_python_makes(text: str, first: str) -> None:
    assert shape(value(text)) == ("Formatted", (first, ("Name", "x")))


@pytest.mark.parametrize("text", ["f''", "f'a'", "'a' f''"])
def test_an_f_string_without_fields_is_a_literal(text: str) -> None:
    assert isinstance(value(text), LiteralNode)


@pytest.mark.parametrize("text", ["f'{x!r}'", "f'{x:.2f}'", "f'{x:>{x}}'", "f'{x=}'"])
def test_what_formatting_makes_of_a_value_is_not_worked_out(text: str) -> None:
    made = value(text)
    assert isinstance(made, Formatted)
    assert isinstance(made.parts[0], Opaque)
    assert {part.id for part in below(made.parts) if isinstance(part, Name)} == {"x"}


# expressions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a.b.c",
        "a(b, *c, d=e, **g)",
        "a(*b, c, x=d, *e)",
        "a(x for x in y)",
        "a[b]",
        "a[b, c]",
        "a[b,]",
        "a[1:2, ::3, :]",
        "a[1:2,]",
        "-a ** ~b",
        "not a is not b",
        "a - b - c * d @ e",
        "a - (b - c)",
        "a < b <= c != d not in e",
        "a and b and c or d",
        "a and (b and c)",
        "(a and b) and c",
        "a if b else c if d else e",
        "(a, *b, [c, {d, *e}], ())",
        "{a: b, **c, 'd': {}}",
        "[a for b, *c in d if e if f for g in h]",
        "{a: b for c in d}",
        "{a async for b in c}",
        "(await a for b in c)",
        "lambda: 0",
        "lambda a, /, b=1, *c, d=2, **e: (yield a)",
        "(a := b) + (c := d)",
        "await a",
        "(yield)",
        "(yield a, b)",
        "(yield from a)",
        "a << b >> c & d | e ^ f // g % h / i",
    ],
)
def test_an_expression_means_what_python_reads(text: str) -> None:
    same_as_ast(
        f"async def f():\n    return {text}" if "from" not in text else f"def f():\n    return {text}"
    )


@pytest.mark.skipif(sys.version_info < (3, 11), reason="new in Python 3.11")
def test_a_starred_key_makes_a_tuple() -> None:
    assert shape(value("a[*b]")) == (
        "Subscript",
        ("Name", "a"),
        (("Display", "tuple", (("Starred", ("Name", "b")),)),),
    )


def test_each_part_between_commas_is_a_key() -> None:
    made = value("a[..., None, 1]")
    assert isinstance(made, Subscript)
    assert [type(key) for key in made.keys] == [LiteralNode] * 3


@pytest.mark.skipif(sys.version_info < (3, 14), reason="new in Python 3.14")
def test_a_template_string_is_opaque() -> None:
    made = value('t"a{x}"')
    assert isinstance(made, Opaque)
    assert shape(made.parts) == (("Name", "x"),)


# statements -------------------------------------------------------------------------------------------------


def same_as_ast(text: str) -> None:
    program = function(text)
    assert shape(program) == expected_function(functions_by_line(dedent(text))[program.line])


@pytest.mark.parametrize(
    "text",
    [
        "a = b.c = d[e] = 1",
        "a, (b, *c) = [d, e] = 1",
        "a: int = 1",
        "a.b: 'T' = c",
        "a += 1; b.c @= d; e[0] >>= 1",
        "del a, b.c, d[0]",
        "del (a, b)",
        "return",
        "return a, *b",
        "raise",
        "raise a(b) from c",
        "assert a, b",
        "global a, b",
        "import a.b, c.d as e",
        "from .a.b import c as d, e",
        "from . import a",
        "from .. import (a, b,)",
        "while a:\n    break\nelse:\n    continue_()",
        "for a, b in c:\n    continue\nelse:\n    d",
        "for a in *b, c: pass",
        "if a: b\nelif c: d\nelif e: g\nelse: h",
        "if a: b\nelse:\n    if c: d\n    e",
        "with a, b as c, d() as (e, g): h",
        "with (a, b): c",
        "with (a as b, c): d",
        "with (a, b) as c: d",
        "with (a): b",
        "try: a\nexcept b as c: d\nexcept (e, g): h\nexcept: i\nelse: j\nfinally: k",
        "try: a\nfinally: b",
        "async def g(a, b=c):\n    async with a as b: pass\n    async for c in d: e",
        "@a.b(c)\n@d\ndef g(a: int, *, b: str = c) -> d: return a",
        "class A: x = 1",
        "@a\nclass A(B, *c, metaclass=M, **d):\n    x = 1\n    def g(self): yield",
        "match a:\n    case 1 | 'b' | -2.5 | c.d.e | None | True: b\n    case _ if b: c\n    case x: d",
        "match a, b:\n    case 1 as x: c\n    case [x, *y]: c\n    case {'k': x, **z}: c\n    case A(x, k=y): c",
        "match a:\n    case (1 | 2): b\n    case {'k': 1}: b\n    case 1 | [2]: b\n    case 1 | x: b",
    ],
)
def test_a_statement_means_what_python_reads(text: str) -> None:
    same_as_ast("def f():\n" + "\n".join(f"    {line}" for line in text.splitlines()))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="new in Python 3.11")
def test_groups_of_exceptions_are_handled_like_others() -> None:
    same_as_ast("def f():\n    try: a\n    except* B as c: d")


@pytest.mark.parametrize("text", ["'''Doc.'''", "pass", "...", "1", "'a' 'b'", "f'a'", "a: int"])
def test_what_does_nothing_is_dropped(text: str) -> None:
    assert body(text) == ()


def test_a_type_alias_binds_a_name_to_anything() -> None:
    lowering = Lowering("made.py", (1, 0), Nodes())
    made = lowering.block(cst.parse_module("type A = B").body)
    assert shape(made) == (("Assign", (("Name", "A"),), ("Opaque", ()), None),)


def test_an_import_of_all_names_is_told_apart() -> None:
    module = lower_module(file_of("from .a import *\n"))
    assert module is not None
    assert shape(module.body) == (("Import", (), (".a",)),)


def test_a_pattern_that_fits_anything_says_so() -> None:
    (match,) = body("match a:\n    case _ if b: c\n    case x: d\n    case 1 | y: e\n    case [z]: g")
    assert isinstance(match, Match)
    assert [case.anything for case in match.cases] == [True, True, True, False]


def test_a_pattern_names_the_constants_that_it_asks_for() -> None:
    (match,) = body("match a:\n    case 1 | b.c: pass\n    case None as x: pass\n    case [1]: pass")
    assert isinstance(match, Match)
    assert [shape(case.constants) for case in match.cases] == [
        (("LiteralNode", ("int", "1")), ("Attribute", ("Name", "b"), "c")),
        (("LiteralNode", None),),
        None,
    ]


def test_a_class_in_a_function_is_named_by_its_line() -> None:
    program = function("""
        def f():
            @a
            class A(B): x = 1
    """)
    (made,) = program.body
    assert isinstance(made, DefineClass)
    assert (made.name, made.line) == ("A", 3)


# definitions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(): yield", True),
        ("def f(): x = yield from y", True),
        ("def f():\n    def g(): yield", False),
        ("def f(): return lambda: (yield)", False),
        ("def f():\n    def g(x=(yield)): pass", True),
        ("def f(): return (x for x in y)", False),
    ],
)
def test_a_generator_has_a_yield_of_its_own(text: str, expected: bool) -> None:
    assert function(text).is_generator is expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a = b.c = d[0] = 1", {"a"}),
        ("a, (b, *c) = d", {"a", "b", "c"}),
        ("a += 1", {"a"}),
        ("a: int", {"a"}),
        ("a.b: int", set()),
        ("for a in b: pass", {"a"}),
        ("with b as (a, c.d): pass", {"a"}),
        ("try: pass\nexcept B as a: pass", {"a"}),
        ("if (a := b): pass", {"a"}),
        ("[a for a in b if (c := a)]", {"c"}),
        ("[(lambda: (c := a)) for a in b]", set()),
        ("import a.b, c.d as e", {"a", "e"}),
        ("from a import b as c, d", {"c", "d"}),
        ("def a(b=(c := 1)): d = 1", {"a", "c"}),
        ("class A((b := B)): c = 1", {"A", "b"}),
        ("del a", {"a"}),
        ("global a\na, b = 1, 2", {"b"}),
        ("match b:\n    case [a, *c] as d: pass\n    case {'k': e, **g}: pass", {"a", "c", "d", "e", "g"}),
        ("lambda a: (b := a)", set()),
    ],
)
def test_locals_are_the_names_that_a_function_binds(text: str, names: set[str]) -> None:
    lines = "\n".join(f"    {line}" for line in text.splitlines())
    assert function(f"def f():\n{lines}").locals == names


def test_parameters_are_locals() -> None:
    assert function("def f(a, /, b, *c, d, **e): pass").locals == set("abcde")


def test_names_of_elsewhere_are_kept_apart() -> None:
    program = function("""
        def f():
            x = 1
            def g():
                nonlocal x
                global y
                x = y = 2
    """)
    inner = program.body[-1]
    assert isinstance(inner, Define)
    assert inner.program.locals == set()
    assert inner.program.nonlocal_names == {"x"}
    assert inner.program.global_names == {"y"}


# modules and lines ------------------------------------------------------------------------------------------


def test_a_module_is_its_statements_and_imports_in_order() -> None:
    module = lower_module(
        file_of("""
            '''Doc.'''
            import a; b = 1
            def f(): pass
            c = 2
            import d
            class A: pass
            if c:
                def g(): pass
        """)
    )
    assert module is not None
    assert module.kind == "module"
    assert [type(part) for part in module.body] == [Import, Assign, Assign, Import, If]


def test_an_empty_module_has_a_place() -> None:
    module = lower_module(file_of(""))
    assert module is not None
    assert module.body == ()
    assert (module.line, module.column) == (1, 1)


def test_lines_of_a_module_are_a_program() -> None:
    program = lower_lines(file_of("a = 1\nb = (\n    2)\nc = 3\n"), 2, 3)
    assert program is not None
    assert (program.kind, program.line, program.locals) == ("module", 2, {"b"})


def test_lines_in_a_class_are_a_program_of_a_class() -> None:
    file = file_of("class A:\n    '''Doc.'''\n    a: int = 1\n    def f(self): pass\n")
    program = lower_lines(file, 3, 3, "A")
    assert program is not None
    assert (program.kind, program.name, program.line, program.column) == ("class", "A", 3, 5)
    assert program.locals == {"a"}


def test_the_body_of_a_class_on_one_line_is_found_by_its_name() -> None:
    file = file_of("class A: a = 1; b = 2\n")
    body_of_a, statement = lower_lines(file, 1, 1, "A"), lower_lines(file, 1, 1)
    assert body_of_a is not None
    assert statement is not None
    assert body_of_a.locals == {"a", "b"}
    assert statement.locals == {"A"}


def test_what_libcst_cannot_parse_is_no_program() -> None:
    file = file_of("def f():\n    return 1\n")
    file.lines[1] = "    return )\n"
    assert lower_function(file, file.outline.functions["f"]) is None


@pytest.mark.parametrize(
    "text",
    [
        "'''Doc.'''\npass\n...\nf'a'\na: int",
        "f'{a}'\nb: int = 1",
        "if a:\n    b\nelif c:\n    d\nelse:\n    e\n    f",
        "for a in b:\n    c\nelse:\n    d",
        "with a:\n    while b:\n        c",
        "try:\n    a\nexcept B:\n    c\n    d\nelse:\n    e\nfinally:\n    g",
        "match a:\n    case 1:\n        b",
        "def g():\n    a\n    b\nclass C:\n    x = 1",
    ],
)
def test_the_outline_counts_the_statements_that_are_made(text: str) -> None:
    pending = list(body(text))
    count = 0
    while pending:
        statement = pending.pop()
        count += 1
        for name in ("body", "other", "last"):
            pending += getattr(statement, name, ())
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    outline = file_of(f"def f():\n{lines}").outline.functions["f"]
    assert outline.size == count

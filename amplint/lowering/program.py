"""The small typed programs that definitions are lowered to.

A program is data: expressions are trees of nodes, statements are lists. Each node has a number, counted in the
order in which the visitor met it. Nested programs share the numbers of the outermost one, so
``(program.path, program.root, node.number)`` names a node, and is the same in every run. Spans are worked out from
the syntax tree when a finding needs one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from amplint.findings import Span

Operator = Literal["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"]
Comparator = Literal["==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in"]


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """Base of expressions and statements. ``number`` names it within its outermost program."""

    number: int


class Expression(Node):
    """Base of expressions."""

    __slots__ = ()


class Statement(Node):
    """Base of statements."""

    __slots__ = ()


# expressions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class LiteralNode(Expression):
    """``1``, ``"text"``, ``None``, ``...``: a constant. Strings that stand side by side are one."""

    value: object


@dataclass(frozen=True, slots=True, eq=False)
class Name(Expression):
    """``x``."""

    id: str


@dataclass(frozen=True, slots=True, eq=False)
class Attribute(Expression):
    """``value.name``."""

    value: Expression
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class SliceKey(Expression):
    """``lower:upper:step`` in a subscript."""

    lower: Expression | None
    upper: Expression | None
    step: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Subscript(Expression):
    """``value[keys]``: one key for each part between commas."""

    value: Expression
    keys: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """An argument of a call. ``star`` is "", "*" or "**"."""

    value: Expression
    keyword: str | None = None
    star: Literal["", "*", "**"] = ""


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expression):
    """``function(arguments)``. ``assigned``: the result is what a statement assigns."""

    function: Expression
    arguments: tuple[Argument, ...]
    assigned: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expression):
    """``left operator right``."""

    operator: Operator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Expression):
    """``not x``, ``-x``, ``+x``, ``~x``."""

    operator: Literal["not", "-", "+", "~"]
    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Compare(Expression):
    """``left < right``; chains have several comparators."""

    left: Expression
    operators: tuple[Comparator, ...]
    rights: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Boolean(Expression):
    """``left and right``, ``left or right``."""

    operator: Literal["and", "or"]
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(Expression):
    """``then if test else other``."""

    test: Expression
    then: Expression
    other: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Starred(Expression):
    """``*value`` among the elements of a display or of assignment targets."""

    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Display(Expression):
    """``(a, b)``, ``[a, b]``, ``{a, b}``."""

    kind: Literal["tuple", "list", "set"]
    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DictDisplay(Expression):
    """``{key: value, **other}``: a key of None is a star."""

    items: tuple[tuple[Expression | None, Expression], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Formatted(Expression):
    """An f-string: text and expressions, in order."""

    parts: tuple[str | Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Lambda(Expression):
    """``lambda x: x``."""

    program: Program


@dataclass(frozen=True, slots=True, eq=False)
class Clause:
    """``for target in source if tests`` of a comprehension."""

    target: Expression
    source: Expression
    tests: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension(Expression):
    """``[element for …]``; of a dict, ``key`` is set."""

    kind: Literal["list", "set", "generator", "dict"]
    key: Expression | None
    element: Expression
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Walrus(Expression):
    """``name := value``."""

    target: Name
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Await(Expression):
    """``await value``."""

    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Yield(Expression):
    """``yield value``; ``delegates`` for ``yield from``."""

    value: Expression | None
    delegates: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Opaque(Expression):
    """A value of which nothing is known after ``parts`` were evaluated: a t-string, ``{x:.2f}`` in an f-string, what
    a type alias stands for, and syntax that is younger than this package."""

    parts: tuple[Expression, ...] = ()


# statements ------------------------------------------------------------------------------------------------------

Block = tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Evaluate(Statement):
    """An expression that stands as a statement."""

    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Statement):
    """``a = b = value``, or an annotated assignment with a value."""

    targets: tuple[Expression, ...]
    value: Expression
    annotation: Expression | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AugmentedAssign(Statement):
    """``target += value``: ``operator`` is ``+``."""

    operator: Operator
    target: Expression
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Delete(Statement):
    """``del targets``."""

    targets: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Return(Statement):
    """``return value``."""

    value: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Raise(Statement):
    """``raise exception from cause``."""

    exception: Expression | None
    cause: Expression | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Break(Statement):
    """``break``."""


@dataclass(frozen=True, slots=True, eq=False)
class Continue(Statement):
    """``continue``."""


@dataclass(frozen=True, slots=True, eq=False)
class Assert(Statement):
    """``assert test, message``."""

    test: Expression
    message: Expression | None = None


@dataclass(frozen=True, slots=True, eq=False)
class If(Statement):
    """``if test: body else: other``; ``elif`` is an If alone in ``other``."""

    test: Expression
    body: Block
    other: Block


@dataclass(frozen=True, slots=True, eq=False)
class For(Statement):
    """``for target in source: body else: other``."""

    target: Expression
    source: Expression
    body: Block
    other: Block


@dataclass(frozen=True, slots=True, eq=False)
class While(Statement):
    """``while test: body else: other``."""

    test: Expression
    body: Block
    other: Block


@dataclass(frozen=True, slots=True, eq=False)
class WithItem:
    """``context as target``."""

    context: Expression
    target: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class With(Statement):
    """``with items: body``."""

    items: tuple[WithItem, ...]
    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """``except kind as name: body``."""

    kind: Expression | None
    name: str | None
    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class Try(Statement):
    """``try: body except …: … else: other finally: last``."""

    body: Block
    handlers: tuple[Handler, ...]
    other: Block
    last: Block


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One ``case`` of a match. ``constants`` are the literals, or dotted names, of which the subject has to equal
    one; None where the pattern asks for anything else. ``binds`` are the names that the pattern captures;
    ``anything`` says that it always fits if its guard does."""

    constants: tuple[Expression, ...] | None
    binds: tuple[str, ...]
    guard: Expression | None
    body: Block
    anything: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Match(Statement):
    """``match subject: cases``."""

    subject: Expression
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Define(Statement):
    """A function defined inside another one, or in a block of a module."""

    program: Program


@dataclass(frozen=True, slots=True, eq=False)
class DefineClass(Statement):
    """A class statement: ``name`` and the line where it begins, decorators included. ``arguments`` are its bases and
    keywords."""

    name: str
    line: int
    arguments: tuple[Argument, ...] = ()
    decorators: tuple[Decorator, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Import(Statement):
    """``import a.b as c``, ``from .a import b as c``. ``bindings`` are local names with dotted targets, relative
    ones with their leading dots; ``stars`` the modules of which everything is imported."""

    bindings: tuple[tuple[str, str], ...]
    stars: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Global(Statement):
    """``global names`` or, with ``nonlocal_``, ``nonlocal names``."""

    names: tuple[str, ...]
    nonlocal_: bool = False


# definitions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """A parameter. ``kind`` is "positional" (positional only), "normal", "keyword", "*" or "**"."""

    name: str
    kind: Literal["positional", "normal", "keyword", "*", "**"] = "normal"
    default: Expression | None = None
    annotation: Expression | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Decorator:
    """``@expression``."""

    expression: Expression


@dataclass(slots=True, eq=False)
class Program:
    """A function, a lambda, the body of a class or of a module, or a part of one of these.

    ``path`` is the file as reports name it, ``root`` tells the outermost program apart from others of the file:
    (first line, 0) for a function, (first line, last line) for lines, (0, 0) for a module. ``number`` is the number of
    the definition, of the Define or Lambda for nested programs and 0 for the outermost one. ``locals`` are the names
    that the program binds, parameters included, less those that it declares global or nonlocal. ``head`` is the
    node of the name, where findings about the function itself stand.
    """

    path: str
    root: tuple[int, int]
    number: int
    name: str
    parameters: tuple[Parameter, ...] = ()
    body: Block = ()
    decorators: tuple[Decorator, ...] = ()
    returns: Expression | None = None
    """The annotation of what it returns."""
    head: Node | None = None
    locals: frozenset[str] = frozenset()
    global_names: frozenset[str] = frozenset()
    """Names that it declares global, wherever in its body."""
    nonlocal_names: frozenset[str] = frozenset()
    kind: Literal["function", "lambda", "class", "module"] = "function"
    is_generator: bool = False
    is_coroutine: bool = False
    locate: Callable[[int], Span] = field(default=lambda number: Span(1, 1, 1, 1))
    """The span of a node by its number."""
    text_of: Callable[[int], str] = field(default=lambda number: "")
    """The text of a node on one line, shortened to sixty characters."""
    line_name: Callable[[int], str] | None = None
    """What messages call a line of the file, if it is more than a number."""

    @property
    def node(self) -> Node:
        """The node for findings about the program itself: that of its name if it has one."""
        return self.head if self.head is not None else Node(self.number)

    @property
    def key(self) -> tuple[str, tuple[int, int], int]:
        """What names the program in every run."""
        return (self.path, self.root, self.number)

    @property
    def line(self) -> int:
        """Its first line, decorators included. Of a nested program it takes the positions of all nodes."""
        if not self.number:
            return max(self.root[0], 1)
        first = self.decorators[0].expression.number if self.decorators else self.number
        return self.locate(first).line

    @property
    def column(self) -> int:
        """The column, from 1, of ``def``, ``async`` or ``lambda``. It takes the positions of all nodes."""
        return self.locate(self.number).column

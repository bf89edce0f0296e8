"""Statements taken out of blocks and put into blocks, with the comments that belong to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import dropwhile

import libcst as cst

from amplint.fixes.parsed import ParsedFile, Refusal

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
Block = cst.Module | cst.IndentedBlock
Replacement = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[Statement]


class Exchange(cst.CSTTransformer):
    """Puts other nodes in the places of some that do not lie within each other."""

    def __init__(
        self, nodes: Mapping[cst.CSTNode, Replacement], around: frozenset[cst.CSTNode] | None = None
    ) -> None:
        """``around`` holds the nodes in which these lie, if that is known: others are not searched then."""
        super().__init__()
        self.nodes = nodes
        self.around = around

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node not in self.nodes and (self.around is None or node in self.around)

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Replacement:  # type: ignore[override]
        return self.nodes.get(original_node, updated_node)


def exchanged(file: ParsedFile, nodes: Mapping[cst.CSTNode, Replacement]) -> cst.Module:
    """The module of a file with other nodes in the places of some that do not lie within each other."""
    around = frozenset(outer for node in nodes for outer in file.parents(node))
    exchange = Exchange(nodes, around)
    touched = around.union(nodes)
    if not touched.isdisjoint((*file.module.header, *file.module.footer)):
        result = file.module.visit(exchange)
        assert isinstance(result, cst.Module)
        return result
    body: list[Statement] = list(file.module.body)
    for number in sorted(file.numbers_of(touched), reverse=True):
        made = body[number].visit(exchange)
        if isinstance(made, cst.FlattenSentinel):
            body[number : number + 1] = made
        elif isinstance(made, cst.RemovalSentinel):
            del body[number]
        else:
            body[number] = made
    return file.module.with_changes(body=body)


def replaced(statement: Statement, nodes: Mapping[cst.CSTNode, Replacement]) -> Statement:
    """The statement with other nodes in the places of some that do not lie within each other."""
    result = statement.visit(Exchange(nodes))
    assert isinstance(result, cst.SimpleStatementLine | cst.BaseCompoundStatement)
    return result


def comments_of(*nodes: cst.CSTNode) -> Counter[str]:
    """The comments in these nodes, with how often each is there."""
    found: Counter[str] = Counter()

    class Comments(cst.CSTVisitor):
        def visit_Comment(self, node: cst.Comment) -> None:
            found[node.value] += 1

    for node in nodes:
        node.visit(Comments())
    return found


def statements_of(suite: cst.BaseSuite | cst.Module) -> list[Statement]:
    """The statements of a block; those on the line of a colon become lines of their own."""
    if isinstance(suite, cst.SimpleStatementSuite):
        line = cst.SimpleStatementLine(body=suite.body, trailing_whitespace=suite.trailing_whitespace)
        return list(apart(line))
    return [
        part for part in suite.body if isinstance(part, cst.SimpleStatementLine | cst.BaseCompoundStatement)
    ]


def apart(line: cst.SimpleStatementLine) -> list[cst.SimpleStatementLine]:
    """A line of statements that semicolons divide, as a line for each. The comment goes with the last."""
    parts = [
        cst.SimpleStatementLine(body=[part.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])
        for part in line.body
    ]
    parts[0] = parts[0].with_changes(leading_lines=line.leading_lines)
    parts[-1] = parts[-1].with_changes(trailing_whitespace=line.trailing_whitespace)
    return parts


def block(statements: Sequence[Statement], like: cst.BaseSuite | None = None) -> cst.IndentedBlock:
    """A block of statements, indented as another one is."""
    indent = like.indent if isinstance(like, cst.IndentedBlock) else None
    return cst.IndentedBlock(body=statements, indent=indent)


def footer_of(suite: cst.BaseSuite) -> Sequence[cst.EmptyLine]:
    """The comments below the last statement of a block."""
    return suite.footer if isinstance(suite, cst.IndentedBlock) else ()


def preceded(statement: Statement, lines: Iterable[cst.EmptyLine]) -> Statement:
    """A statement with further lines of comments above it."""
    above = tuple(lines)
    if not above:
        return statement
    return statement.with_changes(leading_lines=(*above, *statement.leading_lines))


def without_blanks(statement: Statement) -> Statement:
    """A statement with the comments above it, but not the blank lines above these."""
    lines = dropwhile(lambda line: line.comment is None, statement.leading_lines)
    return statement.with_changes(leading_lines=list(lines))


def indented(statement: Statement) -> Statement:
    """A statement of a module as it stands in a block, where blank lines are not indented."""
    lines = [line if line.comment else line.with_changes(indent=False) for line in statement.leading_lines]
    return statement.with_changes(leading_lines=lines)


def alone(file: ParsedFile, call: cst.Call) -> cst.SimpleStatementLine:
    """The statement that is nothing but a call. Raises Refusal."""
    statement = file.statement(call)
    if (
        not isinstance(statement, cst.SimpleStatementLine)
        or len(statement.body) > 1
        or not isinstance(file.parent(call), cst.Expr)
    ):
        raise Refusal(f"`{' '.join(file.code(call).split())}` is a part of a larger statement")
    return statement


def comment_line(comment: cst.Comment | None) -> list[cst.EmptyLine]:
    """A comment on a line of its own."""
    return [cst.EmptyLine(comment=comment)] if comment is not None else []


def spliced(
    file: ParsedFile,
    old: cst.CSTNode,
    new: Sequence[Statement],
    below: Sequence[cst.EmptyLine] = (),
    elsewhere: Sequence[cst.CSTNode] = (),
) -> dict[cst.CSTNode, Replacement]:
    """What to exchange for ``new`` to stand in the place of the statement ``old``, with the comment lines
    ``below`` after it, while the comments ``elsewhere`` go to another place. Raises Refusal where comments would be
    lost."""
    around = file.parent(old)
    if not isinstance(around, cst.Module | cst.IndentedBlock):
        raise Refusal("the statement stands in no block")
    lost = comments_of(old) - comments_of(*new, *below, *elsewhere)
    if lost:
        raise Refusal(f"the comment `{next(iter(lost))}` would be lost")
    if not below:
        return {old: cst.FlattenSentinel(new)}
    at = around.body.index(old)
    if at + 1 < len(around.body):
        after = around.body[at + 1]
        return {old: cst.FlattenSentinel(new), after: preceded(after, below)}  # type: ignore[arg-type]
    body = [*around.body[:at], *new]
    return {around: around.with_changes(body=body, footer=(*below, *around.footer))}

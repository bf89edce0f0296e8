from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplint.config import Settings
from amplint.findings import Claim, Edit, Fix
from amplint.fixes.imports import is_exported
from amplint.fixes.parsed import ParsedFile
from amplint.fixes.proposals import Proposal, flawed
from amplint.fixes.scopes import bindings
from amplint.gating import gate_of, gated
from amplint.source.cells import cells_of, crosses, line_name, marked, parts_of, restored
from amplint.source.decoding import Unreadable, split_lines
from amplint.source.magics import python_of
from amplint.source.notebooks import Unchangeable, read_notebook, written
from amplint.source.project import Project

# magics ------------------------------------------------------------------------------------------------------------

KEPT = {
    "plain": "x = 1\n",
    "remainders": "x %= 2\ny = x % 3\n",
    "a string with a magic in it": "s = '''\n%time\n!ls\n'''\n",
    "a question in a comment": "x = 1  # is it?\n",
    "a conversion in an f-string": "print(f'{x!r}')\n",
    "a semicolon at the end": "plot(x);",
    "await outside of functions": "await f()\nasync with g() as h:\n    pass\n",
    "nothing": "",
    "all lines indented, which IPython allows": "  x = 1\n  y = 2\n",
    "what IPython itself has": "get_ipython().run_line_magic('time', 'f()')\n",
}
CHANGED = {
    "a line magic": ("%matplotlib inline", "get_ipython('''%matplotlib inline''')"),
    "a magic in a block": ("if x:\n    %time f()\n", "if x:\n    get_ipython('''%time f()''')\n"),
    "a shell line": ("x = 1\n!pip install x\ny", "x = 1\nget_ipython('''!pip install x''')\ny"),
    "quotes that nobody closes": ("!echo 'it", r"get_ipython('''!echo \'it''')"),
    "a shell line that goes on": (
        "!pip install \\\n  torch\nx",
        "get_ipython('''!pip install \\\\''',\n'''  torch''')\nx",
    ),
    "line ends of Windows": ("!a \\\r\n b\r\nx", "get_ipython('''!a \\\\''',\r\n''' b''')\r\nx"),
    "what a shell line gives": ("files = !ls", "files = get_ipython('''!ls''')"),
    "what a magic gives": ("a, b = %who_ls", "a, b = get_ipython('''%who_ls''')"),
    "a type and a shell line": ("x: int = !ls", "x: int = get_ipython('''!ls''')"),
    "brackets before a command": ("f(\n  1,\n)\n!ls", "f(\n  1,\n)\nget_ipython('''!ls''')"),
    "a string over lines before it": ("s = '''\n!ls\n'''\n!ls", "s = '''\n!ls\n'''\nget_ipython('''!ls''')"),
    "help before": ("?f", "get_ipython('''?f''')"),
    "help behind": ("x = 1\n  \nmodel.fit??\n", "x = 1\n  \nget_ipython('''model.fit??''')\n"),
    "automatic calls": (
        ",f a b\n/g x\n;h y",
        "get_ipython(''',f a b''')\nget_ipython('''/g x''')\nget_ipython(''';h y''')",
    ),
    "a timed cell": ("%%time\nx = 1", "get_ipython('''%%time''')\nx = 1"),
    "one magic in another": (
        "\n%%capture out\n\n%%time\n!ls\nx = 1",
        "\nget_ipython('''%%capture out''')\n\nget_ipython('''%%time''')\nget_ipython('''!ls''')\nx = 1",
    ),
    "a magic without its sign": ("pip install torch\n", "get_ipython('''pip install torch''')\n"),
}
OTHERS = {
    "a shell": "%%bash\necho 1",
    "a page": "%%html\n<p>",
    "a file": "%%writefile a.py\nx = 1",
    "a magic that nobody knows": "%%unknown\nx = 1",
    "a shell that is timed": "%%time\n%%bash\nls",
    "blank lines above": "\n\n%%bash\nls",
}
BROKEN = {
    "unfinished": ("for x in", 1),
    "unfinished below magics": ("%time f()\n\nx = (1 +\n", 3),
    "a keyword is no magic": ("import a b", 1),
    "an assignment is no magic": ("x = (1 +", 1),
    "two cells' worth of a block": ("else:\n    pass", 1),
    "a shell line within a call": ("f(a=!ls)\ny", 1),
    "a null character": ("x = '\0'\ny", 1),
    "half a character": ("x = '\ud800'\ny", 1),
    "Python 2": ("x = 1\nprint 'a'\n", 2),
}


@pytest.mark.parametrize("source", KEPT.values(), ids=KEPT)
def test_python_stays_as_it_is(source: str) -> None:
    assert python_of(source) == source


@pytest.mark.parametrize(("source", "code"), CHANGED.values(), ids=CHANGED)
def test_what_only_ipython_knows_is_hidden(source: str, code: str) -> None:
    assert python_of(source) == code
    assert restored(code) == source
    assert len(split_lines(code)) == len(split_lines(source))


@pytest.mark.parametrize("source", OTHERS.values(), ids=OTHERS)
def test_cells_of_other_languages(source: str) -> None:
    assert python_of(source) is None


@pytest.mark.parametrize(("source", "line"), BROKEN.values(), ids=BROKEN)
def test_cells_that_cannot_be_parsed(source: str, line: int) -> None:
    with pytest.raises(Unreadable) as error:
        python_of(source)
    assert error.value.line == line


LINES = st.sampled_from(
    [
        "x = 1", "if x:", "    y = 2", "!ls", "    !ls 'it", "z = !ls", "%time f(", "f?", "??f", "f(", "  1,", ")",
        "'''", "s = '''", "# c ?", "'é?'", "!a \\", "x = \\", "", "  ", "\t%cd", "%%time", "%%bash", "await x", "a !b",
        "x = 'a' if !b", "get_ipython('a')", "'''%% cell 3'''", "\x0c", "print(f'{x!r}');",
    ]
)  # fmt: skip
ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"])


def joined(rows: list[tuple[str, str]], is_ended: bool) -> str:
    text = "".join(line + end for line, end in rows)
    return text if is_ended else text.rstrip("\r\n")


SOURCES = st.builds(joined, st.lists(st.tuples(LINES, ENDS), max_size=5), st.booleans())


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(SOURCES, max_size=3))
def test_all_lines_stay_and_come_back(sources: list[str]) -> None:
    notebook = read_notebook(json.dumps(made(*sources)).encode())
    cells = cells_of(notebook.text)
    assert [cell.number for cell in cells] == sorted(notebook.sources)
    for cell in cells:
        source = sources[cell.number - 1]
        piece = restored(notebook.text[cell.start : cell.end])
        assert piece.removesuffix("\n") == source.removesuffix("\n")
        assert split_lines(notebook.text)[cell.first - 2].startswith(("'''%% cell", "if '''%% cell"))
    ast.parse(notebook.text)
    data = json.dumps(made(*sources)).encode()
    assert written(notebook.text, data) == data


# JSON --------------------------------------------------------------------------------------------------------------


def made(*sources: Any, **more: Any) -> dict[str, Any]:
    """A notebook with code cells."""
    cells = [{"cell_type": "code", "metadata": {}, "source": source, "outputs": []} for source in sources]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}


def bytes_of(*sources: Any, **more: Any) -> bytes:
    return json.dumps(made(*sources, **more), indent=1).encode()


LAYOUTS = {
    "as Jupyter writes it": """{
 "cells": [
  {
   "cell_type": "code",
   "source": [
    "a = 1\\n",
    "OLD\\n",
    "b"
   ]
  }
 ],
 "nbformat": 4
}
""",
    "on one line": r'{"cells":[{"cell_type":"code","source":["a = 1\n","OLD\n","b"]}],"nbformat":4}',
    "one string": r'{"nbformat": 4, "cells": [{"source": "a = 1\nOLD\nb", "cell_type": "code"}]}' + "\r\n",
    "line ends of Windows, tabs, no line end": '{\r\n\t"cells": [{\r\n\t"source": [\r\n\t\t"a = 1\\r\\n",'
    '\r\n\t\t"OLD\\n",\r\n\t\t"b"\r\n\t],\r\n\t"cell_type": "code"}]}',
    "odd escapes": r'{"cells":[{"cell_type":"code","source":["a = 1 # \u003c\/\u00e9\ud83d\ude00\n", "OLD\n", "b"]}],'
    r' "metadata": {"\u00e9": NaN}}',
    "other characters, other keys, keys twice": r'{"cells":[{"outputs":["OLD \"source\": é"],"cell_type":"code",'
    r'"source":1,"source":["# é😀\n" , "OLD\n" , "b"],"id":"x"},{"cell_type":"markdown","source":"OLD"}]}',
    "among others": r'{"cells":[{"cell_type":"code","source":"%%bash\nOLD"},{"cell_type":"code","source":"!x \u00e9"},'
    r'{"cell_type":"code","source":"a = 1\nOLD\nb"},{"cell_type":"code","source":"for OLD in"}]}',
}


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_only_the_line_that_changes_is_written(layout: str, mark: str) -> None:
    data = (mark + layout).encode()
    text = read_notebook(data).text
    assert text.count("\nOLD\n") == 1
    assert written(text.replace("\nOLD\n", '\nnew("")\n'), data) == data.replace(rb"OLD\n", rb"new(\"\")\n")
    assert written(text, data) == data


def test_pieces_that_are_no_lines_stay_where_they_can() -> None:
    data = bytes_of(["a =", " 1\nOLD\n", "", "b = ", "2"])
    text = read_notebook(data).text
    assert json.loads(written(text.replace("OLD", "new"), data))["cells"][0]["source"] == [
        "a =",
        " 1\nnew\n",
        "b = ",
        "2",
    ]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('{"cells":[{"cell_type":"code","source":["OLD"]}]}', '["# é\\n", "b"]'),
        ('{"cells":[{"cell_type":"code","source":[\n  "OLD"\n ]}]}', '[\n  "# é\\n",\n  "b"\n ]'),
        ('{"cells":[{"cell_type":"code","source":"OLD"}]}', '"# é\\nb"'),
        ('{"cells":[{"cell_type":"code","source":"OLD"}], "a": "\\u00fc"}', '"# \\u00e9\\nb"'),
        ('{"cells":[{"cell_type":"code","source":"OLD"}], "a": "ü\\u00fc"}', '"# é\\nb"'),
        ('{"cells":[{"cell_type":"code","source":"OLD"}], "a": "\\u001b"}', '"# é\\nb"'),
    ],
)
def test_lines_come_as_the_file_has_them(data: str, expected: str) -> None:
    """A list stays a list, with the indentation that it has; characters are escaped where the file escapes them."""
    notebook = read_notebook(data.encode())
    result = written(notebook.text.replace("OLD", "# é\nb"), data.encode()).decode()
    old = data[data.index('"source":') + 9 : data.index("}]")]
    assert result == data.replace(old, expected)


@pytest.mark.parametrize(
    ("sources", "old", "new", "expected"),
    [
        (["a\n", "b\n", "c"], "c\n", "", ["a\n", "b"]),
        (["a\n", "b"], "b\n", "b\nc\n", ["a\n", "b\n", "c"]),
        (["a\n", "b\n"], "b\n", "b\nc\n", ["a\n", "b\n", "c\n"]),
        (["a"], "a\n", "", []),
        ("a", "a\n", "", ""),
        ("a\n", "a\n", "", ""),
        (["\n", "a"], "a\n", "", ["\n"]),
    ],
)
def test_the_last_line_ends_as_it_did(sources: Any, old: str, new: str, expected: Any) -> None:
    data = bytes_of(sources)
    text = read_notebook(data).text
    result = written(text.replace(old, new), data)
    assert json.loads(result)["cells"][0]["source"] == expected


@pytest.mark.parametrize("source", [[], "", ["\n"]])
def test_a_cell_may_be_filled(source: Any) -> None:
    data = bytes_of(source)
    text = read_notebook(data).text
    result = json.loads(written(marked(1, "x\ny"), data))["cells"][0]["source"]
    assert text.startswith(marked(1, "")) and "".join(result) in ("x\ny", "x\ny\n")


def test_no_change_reaches_into_another_cell() -> None:
    data = bytes_of("a = 1\n", "b = 2\n!ls")
    text = read_notebook(data).text
    for changed in (
        text.replace("'''%% cell 2'''\n", ""),
        text.replace("%% cell 2", "%% cell 3"),
        text + marked(3, "x"),
    ):
        with pytest.raises(Unchangeable, match="from one cell into another"):
            written(changed, data)
    with pytest.raises(Unchangeable, match="IPython would not read"):
        written(text.replace("get_ipython('''!ls''')", "x = 1 + get_ipython('''!ls''')"), data)


def test_a_fix_that_reaches_into_another_cell_is_flawed() -> None:
    text = read_notebook(bytes_of("a = 1\n", "b = 2\n")).text
    start, border, end = text.index("a"), text.index("'''%% cell 2"), text.index("b =")

    def reasons(*edits: Edit) -> list[str]:
        fix = Fix("safe", "x", edits, (Claim("a.ipynb", 1, 4),))
        return list(flawed([Proposal(fix, ())], {"a.ipynb": text}.__getitem__).values())

    assert reasons(Edit("a.ipynb", start, end, f"c\n{text[border:end]}")) == [
        "it would reach from one cell into another"
    ]
    assert reasons(Edit("a.ipynb", start, border, "c\n"), Edit("a.ipynb", end, len(text), "d\n")) == []
    assert not crosses(text, border, border)
    assert crosses(text, border, end)


def test_a_magic_may_use_a_name() -> None:
    for source, is_used in (("%timeit autocast()", True), ("%timeit f()", False)):
        text = read_notebook(bytes_of("from torch.cuda.amp import autocast", source)).text
        file = ParsedFile("a.ipynb", text)
        (binding,) = bindings(file)
        assert is_exported(file, binding) == is_used


def test_each_cell_is_compiled_by_itself() -> None:
    """As IPython does it: each may begin with imports from ``__future__``, and wait."""
    text = read_notebook(bytes_of("x = 1", "from __future__ import annotations\nawait f()", "  y")).text
    assert [part.count("\n") for part in parts_of("a.ipynb", text)] == [2, 3, 2]
    assert parts_of("a.py", text) == [text]
    at = text.index("await")
    for new, flaws in (("await g()", 0), ("yield 1; x = (", 1), ("return", 1)):
        fix = Fix("safe", "x", (Edit("a.ipynb", at, at + 9, new),))
        assert len(flawed([Proposal(fix, ())], {"a.ipynb": text}.__getitem__)) == flaws


# what is read ------------------------------------------------------------------------------------------------------


def test_cells_are_numbered_as_they_are_seen() -> None:
    document = made("%%bash\nls", "x = 1\ny", "", "z")
    document["cells"].insert(0, {"cell_type": "markdown", "source": "# A"})
    text = read_notebook(json.dumps(document).encode()).text
    assert [(cell.number, cell.first) for cell in cells_of(text)] == [(3, 2), (4, 5), (5, 6)]
    assert line_name("a.ipynb", text, 3) == "line 2 of cell 3"
    assert line_name("a.ipynb", text, 6) == "line 1 of cell 5"
    assert line_name("a.py", text, 3) == "line 3"


def test_a_cell_that_cannot_be_parsed_is_said_and_the_others_are_read() -> None:
    notebook = read_notebook(bytes_of("a = 1", "\nfor x in\n", "b = 2"))
    (flaw,) = notebook.flaws
    assert flaw.message.startswith("this cell is not read: ")
    assert (flaw.line, restored(split_lines(notebook.text)[flaw.line - 1])) != (1, "")
    assert split_lines(notebook.text)[flaw.line - 1] == "'''for x in''')\n"
    names = [node.id for node in ast.walk(ast.parse(notebook.text)) if isinstance(node, ast.Name)]
    assert [name for name in names if name != "get_ipython"] == ["a", "b"]


@pytest.mark.parametrize(
    "source", ["get_ipython('''!ls''')", "x = 1\n'''%% cell 7'''\n", "if '''%% cell 7''':\n    x"]
)
def test_cells_that_look_like_the_text_of_a_notebook(source: str) -> None:
    notebook = read_notebook(bytes_of("a = 1", source))
    assert [flaw.message for flaw in notebook.flaws] == [
        "this cell is not read: it has marks of amplint's own in it"
    ]
    assert [cell.number for cell in cells_of(notebook.text)] == [1, 2]


@pytest.mark.parametrize(
    ("metadata", "is_read"),
    [
        ({}, True),
        (None, True),
        ({"kernelspec": {"language": "python"}}, True),
        ({"kernelspec": {"name": "conda"}, "language_info": {"name": "Python"}}, True),
        ({"language_info": {"name": "ipython"}}, True),
        ({"kernelspec": {"language": "R"}}, False),
        ({"kernelspec": {"language": "python"}, "language_info": {"name": "scala"}}, False),
        ({"language_info": "julia"}, True),
    ],
)
def test_the_language_of_the_kernel(metadata: Any, is_read: bool) -> None:
    data = bytes_of("autocast <- (", metadata=metadata)
    assert bool(read_notebook(data).text) == is_read
    assert bool(read_notebook(data).flaws) == is_read


def test_the_language_of_a_cell() -> None:
    document = made("select *", "x = 1")
    document["cells"][0]["metadata"] = {"vscode": {"languageId": "sql"}}
    document["cells"][1]["metadata"] = {"vscode": {"languageId": "python"}}
    assert read_notebook(json.dumps(document).encode()).text == marked(2, "x = 1")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is no JSON"),
        (b"{", "is no JSON"),
        (b'{"cells": []} x', "is no JSON"),
        (b"<<<<<<< HEAD\n{}", "is no JSON"),
        (b"[]", "is no object"),
        (b"{}", "no list of cells"),
        (b'{"cells": 1}', "no list of cells"),
        (b'{"nbformat": 3, "worksheets": []}', "format of version 3"),
        (b'{"nbformat": "x", "cells": []}', "format of version x"),
        (b'{"cells": [], "a": ' + b"[" * 200_000, "nested too deeply"),
        (b'{"cells": ["\xff"]}', "0xff"),
        ("{}".encode("utf-16"), "UTF-16"),
        (b'{"cells": [' + b"1" * 5000 + b"]}", "cannot be read"),
    ],
)
def test_files_that_are_no_notebooks(data: bytes, message: str) -> None:
    with pytest.raises(Unreadable, match=message):
        read_notebook(data)


@pytest.mark.parametrize(
    "cell",
    [1, None, "x", {}, {"cell_type": "code"}, {"cell_type": "code", "source": 1}, {"source": ["x", 1]}, []],
)
def test_cells_that_are_none(cell: Any) -> None:
    document = made("x = 1")
    document["cells"].insert(0, cell)
    assert read_notebook(json.dumps(document).encode()).text == marked(2, "x = 1")


# among other files -------------------------------------------------------------------------------------------------


def test_no_import_means_a_notebook(tmp_path: Path) -> None:
    for name in (
        "main.py",
        "x/steps.ipynb",
        "y/steps.py",
        "alone.ipynb",
        "pkg/__init__.py",
        "pkg/inner.ipynb",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(
            bytes_of("import alone") if name.endswith(".ipynb") else b"import inner\n"
        )
    project = Project(sorted(path for path in tmp_path.rglob("*") if path.is_file()), tmp_path)
    assert project.find_module("alone") is None
    assert project.find_module("pkg.inner") is None
    assert project.modules.absolute(tmp_path / "main.py", "alone") == ()
    (found,) = project.modules.absolute(tmp_path / "main.py", "steps")
    assert found.path == tmp_path / "y" / "steps.py"
    notebooks = [project.load(tmp_path / name) for name in ("alone.ipynb", "pkg/inner.ipynb")]
    assert [file is None or project.may_be_imported(file.display) for file in notebooks] == [False, False]


def test_only_code_takes_a_notebook_through_the_gate(tmp_path: Path) -> None:
    document = made("x = 1")
    document["cells"][0]["outputs"] = ["autocast"]
    (tmp_path / "a.ipynb").write_text(json.dumps(document))
    (tmp_path / "b.ipynb").write_bytes(bytes_of("autocast()"))
    (tmp_path / "c.ipynb").write_bytes(b'{"autocast"')
    files = [str(tmp_path / name) for name in ("a.ipynb", "b.ipynb", "c.ipynb")]
    for refined in (True, False):
        assert gated(files, gate_of(Settings(root=tmp_path)), refined=refined) == (files[1:], files[:1])


# places ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("indent", [1, None])
@pytest.mark.parametrize("lines", [True, False])
def test_places_in_the_json(indent: int | None, lines: bool) -> None:
    source = "é = '\\\\\\u0041\U0001f600'\n!ls\nx\tNEEDLE\n%time"
    document = made("a = 1", source.splitlines(True) if lines else source)
    document["cells"][1]["source"] = source.splitlines(True) if lines else source
    for ascii_only in (True, False):
        raw = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
        notebook = read_notebook(raw.encode())
        notebook_line = next(
            number for number, line in enumerate(split_lines(notebook.text), 1) if "NEEDLE" in line
        )
        start = notebook.on_disk(notebook_line, 3)
        end = notebook.on_disk(notebook_line, 9)
        line = raw.split("\n")[start[0] - 1]
        assert line[start[1] - 1 : end[1] - 1] == "NEEDLE"
        assert notebook.on_disk(1, 1) == (1, 1)
        assert notebook.on_disk(notebook_line, 99) >= end

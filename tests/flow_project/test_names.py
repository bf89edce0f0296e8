from __future__ import annotations

from itertools import permutations

import pytest
from drawing import Draw

from amplint.flow.project.names import Names
from amplint.source.project import Project

PACKAGE = {"pack/__init__.py": "", "pack/engine.py": "def run(): ...\n", "pack/inner/__init__.py": ""}


@pytest.mark.parametrize(
    ("statement", "name", "meaning"),
    [
        ("import torch", "torch.cuda.amp.autocast", "torch.cuda.amp.autocast"),
        ("import torch.cuda.amp as mixed", "mixed.autocast", "torch.cuda.amp.autocast"),
        ("from torch import amp", "amp.autocast", "torch.amp.autocast"),
        ("from torch.amp import autocast as cast", "cast", "torch.amp.autocast"),
        ("import pack.engine", "pack.engine.run", "pack/engine.py:run"),
        ("import pack.engine", "pack", "pack/__init__.py"),
        ("import pack.engine as engine", "engine.run", "pack/engine.py:run"),
        ("from pack import engine", "engine.run", "pack/engine.py:run"),
        ("from pack.engine import run", "run", "pack/engine.py:run"),
        ("from pack.engine import nothing", "nothing", "?pack.engine.nothing"),
        ("", "len", "builtins.len"),
        ("", "nothing", None),
    ],
)
def test_imports(draw: Draw, statement: str, name: str, meaning: str | None) -> None:
    assert draw({**PACKAGE, "main.py": statement}).means("main.py", name) == meaning


@pytest.mark.parametrize(
    ("file", "statement", "meaning"),
    [
        ("pack/a.py", "from .engine import run", "pack/engine.py:run"),
        ("pack/a.py", "from . import engine as run", "pack/engine.py"),
        ("pack/inner/a.py", "from ..engine import run", "pack/engine.py:run"),
        ("pack/inner/a.py", "from .. import engine as run", "pack/engine.py"),
        ("pack/inner/a.py", "from ... import engine as run", "?...engine"),
        ("pack/a.py", "from .gone import run", "?.gone.run"),
        ("loose/a.py", "from .b import run", "loose/b.py:run"),
        ("loose/deep/a.py", "from ..b import run", "loose/b.py:run"),
    ],
)
def test_relative_imports(draw: Draw, file: str, statement: str, meaning: str) -> None:
    tree = draw({**PACKAGE, "loose/b.py": "def run(): ...", "loose/deep/x.py": "", file: statement})
    assert tree.means(file, "run") == meaning


def test_folders_without_init_are_packages(draw: Draw) -> None:
    tree = draw(
        {
            "train.py": "from lib_a.models.net import Net\nimport lib_a.models.net\nimport lib_a",
            "lib_a/models/net.py": "from lib_a.losses import loss\nclass Net: ...",
            "lib_a/losses.py": "def loss(): ...",
        }
    )
    assert tree.means("train.py", "Net") == "lib_a/models/net.py:Net"
    assert tree.means("train.py", "lib_a.models.net.Net") == "lib_a/models/net.py:Net"
    assert tree.means("train.py", "lib_a") == "lib_a/"
    assert tree.means("lib_a/models/net.py", "loss") == "lib_a/losses.py:loss"


def test_a_folder_that_lacks_what_is_imported_is_no_package(draw: Draw) -> None:
    tree = draw({"train.py": "import torch\nfrom torch import nn", "torch/example.py": ""})
    assert tree.means("train.py", "nn.Linear") == "torch.nn.Linear"
    assert tree.means("train.py", "torch.nn.Linear") == "torch.nn.Linear"


@pytest.mark.parametrize("layout", ["src/", "python/", "code/lib/", ""])
def test_packages_below_folders_of_sources(draw: Draw, layout: str) -> None:
    tree = draw(
        {
            f"{layout}pack/__init__.py": "",
            f"{layout}pack/net.py": "class Net: ...",
            "tools/train.py": "from pack.net import Net",
        }
    )
    assert tree.means("tools/train.py", "Net") == f"{layout}pack/net.py:Net"


def test_scripts_import_neighbours_and_from_the_root(draw: Draw) -> None:
    tree = draw(
        {
            "utils.py": "def at_root(): ...",
            "tools/near.py": "def close(): ...",
            "tools/train.py": "from near import close\nfrom utils import at_root",
        }
    )
    assert tree.means("tools/train.py", "close") == "tools/near.py:close"
    assert tree.means("tools/train.py", "at_root") == "utils.py:at_root"


def test_of_two_modules_the_one_that_has_the_name_is_meant(draw: Draw) -> None:
    tree = draw(
        {
            "utils.py": "def at_root(): ...\ndef both(): ...",
            "tools/utils.py": "def close(): ...\ndef both(): ...",
            "tools/train.py": "from utils import at_root\nfrom utils import close, both",
        }
    )
    assert tree.means("tools/train.py", "at_root") == "utils.py:at_root"
    assert tree.means("tools/train.py", "close") == "tools/utils.py:close"
    assert tree.means("tools/train.py", "both") == "tools/utils.py:both"


def test_a_module_of_a_package_is_no_module_of_its_bare_name(draw: Draw) -> None:
    tree = draw(
        {
            "pack/__init__.py": "",
            "pack/wandb.py": "import wandb\nimport logging",
            "pack/logging.py": "def getLogger(): ...",
            "pack/train.py": "import wandb\nimport logging\nwandb.init()\nlogging.getLogger()",
        }
    )
    assert tree.means("pack/train.py", "wandb.init") == "wandb.init"
    assert tree.means("pack/train.py", "logging.getLogger") == "logging.getLogger"
    assert tree.means("pack/wandb.py", "wandb") == "wandb"


def test_scripts_in_folders_with_init_import_neighbours_too(draw: Draw) -> None:
    tree = draw(
        {
            "exp/__init__.py": "",
            "exp/helper.py": "def close(): ...",
            "exp/train.py": "import helper\nhelper.close()",
            "exp/eval.py": "from helper import close",
        }
    )
    assert tree.means("exp/train.py", "helper.close") == "exp/helper.py:close"
    assert tree.means("exp/eval.py", "close") == "exp/helper.py:close"


def test_a_function_hides_the_submodule_of_its_name(draw: Draw) -> None:
    tree = draw(
        {
            "pack/__init__.py": "from .loss import loss\nfrom . import other",
            "pack/loss.py": "def loss(): ...\ndef more(): ...",
            "pack/other.py": "",
            "main.py": "from pack import loss, other\nimport pack\nfrom pack.loss import more",
        }
    )
    assert tree.means("main.py", "loss") == "pack/loss.py:loss"
    assert tree.means("main.py", "pack.loss") == "pack/loss.py:loss"
    assert tree.means("main.py", "other") == "pack/other.py"
    assert tree.means("main.py", "more") == "pack/loss.py:more"


def test_names_are_handed_on_through_packages(draw: Draw) -> None:
    tree = draw(
        {
            "a/__init__.py": "from a.b import Net as Model",
            "a/b/__init__.py": "from .c import *",
            "a/b/c.py": "from ..d import Net",
            "a/d.py": "class Net: ...",
            "main.py": "from a import Model",
        }
    )
    assert tree.means("main.py", "Model") == "a/d.py:Net"


@pytest.mark.parametrize(
    ("module", "name", "meaning"),
    [
        ("def f(): ...", "f", "a.py:f"),
        ("def _f(): ...", "_f", None),
        ("__all__ = ['_f']\ndef _f(): ...", "_f", "a.py:_f"),
        ("__all__ = ['g']\ndef f(): ...", "f", None),
        ("__all__ = ['g']\n__all__ += ['f']\ndef f(): ...", "f", "a.py:f"),
        ("__all__ = ['g'] + other\ndef f(): ...", "f", "a.py:f"),
    ],
)
def test_star_imports(draw: Draw, module: str, name: str, meaning: str | None) -> None:
    tree = draw({"a.py": module, "main.py": "from a import *"})
    assert tree.means("main.py", name) == meaning


def test_a_later_statement_hides_a_star_and_a_later_star_a_statement(draw: Draw) -> None:
    tree = draw(
        {
            "a.py": "def f(): ...\ndef g(): ...",
            "main.py": "def f(): ...\nfrom a import *\ndef g(): ...",
        }
    )
    assert tree.means("main.py", "f") == "a.py:f"
    assert tree.means("main.py", "g") == "main.py:g"


def test_stars_of_packages_outside(draw: Draw) -> None:
    known = {"torch.float16", "torch.sum"}
    tree = draw(
        {
            "a.py": "from torch import *\nfrom math import *",
            "b.py": "from a import *",
            "c.py": "from numpy import *",
        },
        known.__contains__,
    )
    assert tree.means("a.py", "float16") == "torch.float16"
    assert tree.means("b.py", "float16") == "torch.float16"
    assert tree.means("a.py", "sum") == "torch.sum"
    assert tree.means("a.py", "len") == "builtins.len"
    assert tree.means("c.py", "float16") == "numpy.float16"


def test_circles(draw: Draw) -> None:
    tree = draw(
        {
            "a.py": "from b import *\nfrom b import x\nfrom a import y\ndef f(): ...",
            "b.py": "from a import *\nfrom a import x\ndef g(): ...",
        }
    )
    assert tree.means("a.py", "g") == "b.py:g"
    assert tree.means("b.py", "f") == "a.py:f"
    assert tree.means("b.py", "x") == tree.means("a.py", "x") == "?a circle of imports"


def test_what_is_asked_before_does_not_matter(draw: Draw) -> None:
    files = {
        "a.py": "from b import *\nfrom c import *\n",
        "b.py": "from c import *\nfrom a import *\ndef f(): ...",
        "c.py": "from a import *\nfrom b import *\ndef g(): ...",
    }
    tree = draw(files)
    questions = [(file, name) for file in files for name in ("f", "g", "h")]
    answers = set()
    for order in list(permutations(questions))[::5000]:
        tree.names = Names(Project([tree.root / name for name in reversed(files)], tree.root))
        told = {question: tree.means(*question) for question in order}
        answers.add(tuple(told[question] for question in questions))
    assert answers == {("b.py:f", "c.py:g", None) * 3}


@pytest.mark.parametrize(
    ("text", "meanings"),
    [
        ("try:\n from torch.amp import f\nexcept ImportError:\n from apex import f", ["torch.amp.f"]),
        ("try:\n from torch.amp import f\nexcept ImportError:\n f = None", ["torch.amp.f"]),
        ("f = None\ntry:\n from torch.amp import f\nexcept ImportError:\n pass", ["torch.amp.f"]),
        ("if x:\n from a import f\nelse:\n from b import f", ["a.f", "b.f"]),
        ("if x:\n from a import f\nelif y:\n from b import f", ["a.f", "b.f"]),
        ("def f(): ...\nif x:\n from a import f", ["main.py:f", "a.f"]),
        ("from a import f\nfrom b import f", ["b.f"]),
        ("from a import f\nf = wrap(f)", ["main.py=f"]),
        ("for f in range(3): ...", ["main.py=f"]),
        ("with open() as (f, g): ...", ["main.py=f"]),
        ("print(f := 1)", ["main.py=f"]),
        ("match x:\n case [f, *_]: ...", ["main.py=f"]),
        ("f: int", []),
    ],
)
def test_alternatives(draw: Draw, text: str, meanings: list[str]) -> None:
    assert draw({"main.py": text}).all_meanings("main.py", "f") == meanings


def test_names_in_functions(draw: Draw) -> None:
    tree = draw(
        {
            "main.py": """
                import torch
                def helper(): ...
                def f(torch):
                    from apex import amp
                    def inner():
                        return helper, amp
                    helper = 1
                def g():
                    global helper
                    helper = 2
                class C:
                    def helper(self): ...
                    def m(self): ...
            """
        }
    )
    assert tree.means("main.py", "torch.amp", "f") is None
    assert tree.means("main.py", "amp.initialize", "f") == "apex.amp.initialize"
    assert tree.means("main.py", "amp.initialize", "f.<locals>.inner") == "apex.amp.initialize"
    assert tree.means("main.py", "helper", "f.<locals>.inner") is None
    assert tree.means("main.py", "inner", "f") == "main.py:f.<locals>.inner"
    assert tree.means("main.py", "helper", "g") == "main.py:helper"
    assert tree.means("main.py", "helper", "C.m") == "main.py:helper"
    assert tree.means("main.py", "helper", "C") == "main.py:C.helper"


def test_names_that_are_set_to_names(draw: Draw) -> None:
    tree = draw(
        {
            "a.py": "import torch\ncast = torch.autocast\nmade = torch.autocast('cuda')\nx = y\ny = x",
            "main.py": "from a import cast, made, x",
        }
    )
    meanings = {name: tree.names.resolve(tree.file("main.py"), name) for name in ("cast", "made", "x")}
    followed = {name: tree.told(tree.names.followed(one)) for name, one in meanings.items() if one}
    assert followed["cast"] == "torch.autocast"
    assert followed["made"] == "a.py=made"
    assert followed["x"] in ("a.py=x", "a.py=y")


def test_everything_that_binds_a_name_is_told_in_order(draw: Draw) -> None:
    tree = draw({"main.py": "from a import f\nif x:\n    def f(): ...\nf += 1"})
    found = tree.names.global_bindings(tree.file("main.py"), "f")
    assert [(type(one).__name__, one.line) for one in found] == [
        ("ImportBinding", 1),
        ("FunctionBinding", 3),
        ("StatementBinding", 4),
    ]


def test_files_that_cannot_be_parsed_are_unseen(draw: Draw) -> None:
    tree = draw({"broken.py": "def (", "main.py": "import broken\nfrom broken import f"})
    assert tree.means("main.py", "broken") == "?broken"
    assert tree.means("main.py", "f") == "?broken.f"

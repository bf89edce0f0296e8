"""Runs programs one after the other in this process, which pays for importing torch once.

    python tests/run_programs.py PROGRAM...

A program is a file, or a folder with a main.py. Prints one line of JSON for each: its path and the traceback
of what it raised, or null.
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
import traceback
from pathlib import Path

import torch

APEX = Path(__file__).with_name("apex_stub")
"""What programs import as apex, which is not in any registry."""


def run(program: Path) -> str | None:
    """Runs a program as ``__main__``; the traceback of what it raised, or None."""
    main = program if program.is_file() else program / "main.py"
    modules, path, arguments = set(sys.modules), list(sys.path), list(sys.argv)
    torch.manual_seed(0)
    sys.path.insert(0, str(main.parent))
    if "apex-amp" in main.parts:
        sys.path.append(str(APEX))
    sys.argv = [str(main)]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(main), run_name="__main__")
        if torch.is_autocast_enabled("cpu"):
            return "autocast is still enabled at the end"
    except BaseException:
        return traceback.format_exc()
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.clear_autocast_cache()
        sys.path[:], sys.argv[:] = path, arguments
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and {main.parent, APEX} & set(Path(file).parents):
                del sys.modules[name]
    return None


def main() -> None:
    """Each result is flushed, so that a crash of the interpreter shows where it happened."""
    torch.set_num_threads(1)
    for name in sys.argv[1:]:
        print(json.dumps([name, run(Path(name).absolute())]), flush=True)


if __name__ == "__main__":
    main()

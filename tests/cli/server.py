"""Runs the command line in forks of one process that has imported it, so that a test takes a fraction of a second.

Reads one line of JSON for each run from standard input: its arguments, directory, environment, the files for its
input and output, and whether the analysis is the fake one. Answers with its wait status.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))


def main() -> None:
    import amplint.analysis
    import amplint.cli.main
    import amplint.fixing
    from amplint.flow.driver import registry
    from amplint.rules import all_rules

    registry(), all_rules()
    gc.freeze()  # or each fork looks at all of that once more before it ends
    for line in sys.stdin:
        wanted = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(wanted)
            if wanted["fake"]:
                import fake_analysis

                sys.modules["amplint.analysis"] = fake_analysis
            amplint.cli.main.main()
            sys.exit(0)
        print(json.dumps(os.waitpid(child, 0)[1]), flush=True)


def _become(wanted: dict[str, Any]) -> None:
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    for number, name in enumerate(wanted["streams"]):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.argv = ["-c", *wanted["arguments"]]


if __name__ == "__main__":
    main()

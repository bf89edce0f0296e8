"""Runs programs under the probe in forks of one process that has imported torch, so that a test takes a fraction of
a second. What runs in the fork is all that a probed process runs.

Reads one line of JSON for each program from standard input: its command, directory, order and the files for its
output. Answers with its wait status.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any


def main() -> None:
    import torch
    import torch._dynamo  # the first optimizer would import it

    import amplint.confirm.child
    import amplint.confirm.probe
    import amplint.confirm.simulation
    import amplint.rules

    amplint.rules.all_rules()
    torch.set_num_threads(1)
    gc.freeze()  # or each fork looks at all of that once more before it ends
    for line in sys.stdin:
        wanted = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(wanted)
            amplint.confirm.child.main(wanted["command"])
            sys.exit(0)
        print(json.dumps(os.waitpid(child, 0)[1]), flush=True)


def _become(wanted: dict[str, Any]) -> None:
    os.setsid()
    os.chdir(wanted["cwd"])
    os.environ.update(wanted["environment"])
    for number, name in ((0, os.devnull), (1, wanted["stdout"]), (2, wanted["stderr"])):
        opened = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.path[:] = [part for part in sys.path if part != os.path.dirname(os.path.abspath(__file__))]  # noqa: PTH100, PTH120


if __name__ == "__main__":
    main()

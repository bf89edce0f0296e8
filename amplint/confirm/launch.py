"""The first file of a probed process: finds amplint and hands over. It is run by its path, so that the module search
path of the program does not have to know amplint."""

import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120

if __name__ == "__main__":
    # Python put the directory of this file first; the program's modules must not be taken for ours
    if sys.path and os.path.abspath(sys.path[0] or ".") == _HERE:  # noqa: PTH100
        del sys.path[0]
    if importlib.util.find_spec("amplint") is None:
        sys.path.append(os.path.dirname(os.path.dirname(_HERE)))  # noqa: PTH120
    from amplint.confirm.child import main

    main(sys.argv[1:])

"""``python -m amplint``."""

import sys

from amplint.cli.main import main

sys.exit(main())

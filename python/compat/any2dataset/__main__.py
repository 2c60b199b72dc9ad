"""python -m any2dataset"""

import sys

from . import main

sys.exit(main())

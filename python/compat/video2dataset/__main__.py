"""python -m video2dataset"""

import sys

from . import main

sys.exit(main())

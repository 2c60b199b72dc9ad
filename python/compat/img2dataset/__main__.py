"""python -m img2dataset"""

import sys

from . import main

sys.exit(main())

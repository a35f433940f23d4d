"""The tests of the proxy share the mount tests' harness; the matrix (matrix.py) is a program of its own."""

import sys
from pathlib import Path

for place in (Path(__file__).parent, Path(__file__).parents[1] / "mount"):
    sys.path.insert(0, str(place))

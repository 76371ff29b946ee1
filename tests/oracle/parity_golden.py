"""The golden files of tests/parity still say what the installed torchvision says."""

import pathlib
import runpy
import sys

PARITY = pathlib.Path(__file__).resolve().parents[1] / "parity"
sys.path.insert(0, str(PARITY))
sys.argv = ["make_golden.py", "--check"]
runpy.run_path(str(PARITY / "make_golden.py"), run_name="__main__")

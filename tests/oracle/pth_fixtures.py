"""The .pth files of tests/convert/fixtures still read as the installed torch reads them."""

import pathlib
import runpy
import sys

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "convert" / "fixtures"
sys.argv = ["make_fixtures.py", "--check"]
runpy.run_path(str(FIXTURES / "make_fixtures.py"), run_name="__main__")

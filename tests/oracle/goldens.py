"""The goldens of tests/parity and the .pth files of tests/convert/fixtures are what the installed torch makes."""
import pathlib
import subprocess
import sys

for script in ("parity/make_golden.py", "convert/fixtures/make_fixtures.py"):
    subprocess.run([sys.executable, pathlib.Path(__file__).resolve().parents[1] / script, "--check"], check=True)

"""docs/options.md is what docs/site/options.py makes of the programs' own tables."""
import os
import pathlib
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("RETINA_BUILD", SOURCE / "build")) / "bin"


class OptionsPage(unittest.TestCase):
    def test_is_that_of_the_programs(self):
        made = subprocess.check_output([SOURCE / "docs/site/options.py", PROGRAMS], text=True)
        self.assertEqual((SOURCE / "docs/options.md").read_text(), made, "docs/site/options.py build/bin > docs/options.md")


if __name__ == "__main__":
    unittest.main()

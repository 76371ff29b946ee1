"""Prints a regular expression of the suites of a build that passed whole elsewhere: once.py BUILD CTEST_OUTPUT.
What is for `make test-all` alone does not count."""
import collections
import re
import subprocess
import sys
from pathlib import Path


def suites_of(names):
    suites = collections.defaultdict(set)
    for name in names:
        suites[name.split(".")[0]].add(name)
    return suites


listed = subprocess.run(["ctest", "--test-dir", sys.argv[1], "-N", "-LE", "gpu|long"], check=True, text=True,
                        stdout=subprocess.PIPE).stdout
names = re.findall(r"Test +#\d+: (\S+)", listed)
here = suites_of(names)
# Two suites of one name in two programs: it is not known which passed.
unclear = {name.split(".")[0] for name, count in collections.Counter(names).items() if count > 1}
# What was skipped there has not passed.
passed = suites_of(re.findall(r"Test +#\d+: (\S+) \.* +Passed", Path(sys.argv[2]).read_text(errors="replace")))
done = [suite for suite, cases in sorted(here.items()) if suite not in unclear and cases <= passed.get(suite, set())]
print(f"^({'|'.join(map(re.escape, done))})([.]|$)")

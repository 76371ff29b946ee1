"""Prints a regular expression of the suites that two builds both have whole: once.py BUILD OTHER."""
import collections
import re
import subprocess
import sys


def suites_of(build):
    listed = subprocess.run(["ctest", "--test-dir", build, "-N"], check=True, text=True, stdout=subprocess.PIPE).stdout
    suites = collections.defaultdict(set)
    for name in re.findall(r"Test +#\d+: (\S+)", listed):
        suites[name.split(".")[0]].add(name)
    return suites


here, there = (suites_of(build) for build in sys.argv[1:])
both = [suite for suite, names in sorted(here.items()) if names == there.get(suite)]
print(f"^({'|'.join(map(re.escape, both))})([.]|$)")

"""The Content-Security-Policy of the pages: a page with a script allows that script alone, by its
hash, which is taken here by other means than the build's; the browser tests show that it then runs."""
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import class_page_test
import report_page_test

BUILD = pathlib.Path(os.environ["RETINA_BUILD"]) / "bin"
POLICY = re.compile('<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


class PagePolicyTest(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)

    def check(self, page, script_count):
        """Nothing runs but the page's one script, and no policy comes later than what it rules."""
        text = page.read_bytes().decode()
        (policy,) = POLICY.findall(text)
        self.assertLess(text.index(policy), text.index("<style"))
        rules = dict(rule.split(maxsplit=1) for rule in policy.split("; "))
        scripts = re.findall("<script>(.*?)</script>", text, re.DOTALL)
        self.assertEqual(len(scripts), script_count)
        hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
        self.assertEqual(rules.pop("script-src", ""), "".join(f"'sha256-{one}'" for one in hashes))
        self.assertEqual(rules, {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'",
                                 "img-src": "data:", "style-src": "'unsafe-inline'"})

    def run_eval(self, *words):
        subprocess.run([BUILD / "retina-eval", *words], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def test_a_detectors_page_and_a_comparison(self):
        report_page_test.make_set(self.room, report_page_test.HOSTILE, 6)
        for name in ("a", "b"):
            self.run_eval("--detections", self.room / "results.json", "--annotations",
                          self.room / "truth.json", "--output", self.room / name)
        self.check(self.room / "a/report.html", 1)
        self.run_eval("--compare", self.room / "a", self.room / "b", "--output", self.room / "compared")
        self.check(self.room / "compared/compare.html", 0)

    def test_a_classifiers_page_and_the_data_sets(self):
        class_page_test.make_shards(BUILD, self.room, class_page_test.HOSTILE)
        class_page_test.make_scores(self.room, len(class_page_test.HOSTILE))
        class_page_test.run(BUILD / "score_classifier", self.room, self.room / "shards", self.room / "out")
        self.check(self.room / "out/report.html", 1)
        self.check(self.room / "shards/report.html", 0)


if __name__ == "__main__":
    unittest.main()

"""The Content-Security-Policy of the pages: a page allows its two scripts alone, by their hashes, which
are taken here by other means than the build's. Where there is a browser, it shows that a page
breaks no rule of its own, that what is smuggled into it neither runs nor reaches the network, and that no
page is wider than a telephone."""
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
sys.dont_write_bytecode = True
import class_page_test
import report_page_test
from browser import HOSTILE, Browser, find_browser

BUILD = pathlib.Path(os.environ["RETINA_BUILD"]) / "bin"
# A string; what a page does that may not happen makes it another one.
SMUGGLED = """(async () => {
  const script = document.createElement("script");
  script.textContent = "window.smuggled = 'ran'";
  document.head.append(script);
  const image = new Image();
  const loaded = new Promise((tell) => { image.onload = image.onerror = tell; });
  image.src = "http://localhost:8/pixel.png";
  await loaded;
  const fetched = await fetch("http://localhost:8/").then(() => "answered", () => "refused");
  return `${window.smuggled ?? "did not run"}, ${fetched}`;
})()"""
POLICY = re.compile('<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


class PagePolicyTest(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name) / ("a_long_name" * 8)
        self.room.mkdir()

    def check(self, page):
        """Nothing runs but the page's two scripts, and no policy comes later than what it rules."""
        text = page.read_bytes().decode()
        (policy,) = POLICY.findall(text)
        self.assertLess(text.index(policy), text.index("<style"))
        rules = dict(rule.split(maxsplit=1) for rule in policy.split("; "))
        scripts = re.findall("<script>(.*?)</script>", text, re.DOTALL)
        self.assertEqual(len(scripts), 2)
        hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
        self.assertEqual(rules.pop("script-src", ""), " ".join(f"'sha256-{one}'" for one in hashes))
        self.assertEqual(rules, {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'",
                                 "img-src": "data:", "style-src": "'unsafe-inline'"})
        if path := find_browser():
            with Browser(path, width=400) as browser:
                self.check_in(browser, page)

    def check_in(self, browser, page):
        browser.open(page.as_uri())
        self.assertEqual(browser.problems, [])
        self.assertEqual([url for url in browser.requests if not url.startswith("data:")], [page.as_uri()])
        self.assertEqual(browser.evaluate("document.documentElement.scrollWidth"), 400, page)
        # As the report of a training has it.
        self.assertTrue(browser.evaluate("""[...document.querySelectorAll(".metric .value")].every((value) => {
            value.textContent = "7 min 38 s";
            return value.scrollWidth <= value.clientWidth;
        })"""))
        self.assertEqual(browser.evaluate(SMUGGLED), "did not run, refused")
        told = "\n".join(browser.problems)
        for directive in ("script", "image", "Connecting"):
            self.assertRegex(told, f"{directive}.*violates the following Content Security Policy")

        browser.send("Emulation.setScriptExecutionDisabled", value=True)
        browser.open("about:blank#")
        browser.open(page.as_uri())
        self.assertRegex(browser.evaluate("document.querySelector('noscript').innerText"), r"\n.*\d")
        self.assertEqual(browser.evaluate("document.documentElement.scrollWidth"), 400, page)

    def run_eval(self, *words):
        subprocess.run([BUILD / "retina-eval", *words], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def test_a_detectors_page_and_a_comparison(self):
        report_page_test.make_set(self.room, HOSTILE, 6)
        for name in ("a", "b"):
            self.run_eval("--detections", self.room / "results.json", "--annotations",
                          self.room / "truth.json", "--output", self.room / name)
        self.check(self.room / "a/report.html")
        self.run_eval("--compare", self.room / "a", self.room / "b", "--output", self.room / "compared")
        self.check(self.room / "compared/compare.html")

    def test_a_classifiers_page_and_the_data_sets(self):
        class_page_test.make_shards(BUILD, self.room, HOSTILE)
        class_page_test.make_scores(self.room, len(HOSTILE))
        class_page_test.run(BUILD / "score_classifier", self.room, self.room / "shards", self.room / "out")
        self.check(self.room / "out/report.html")
        self.check(self.room / "shards/report.html")


if __name__ == "__main__":
    unittest.main()

"""The documentation as a site (docs/site): every page is in its navigation, every link and anchor of the
built site leads somewhere, and MkDocs reads the pages as GitHub does. Without mkdocs, only the
navigation is checked."""
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/cli"))
import readme_commands  # noqa: E402


class SitePage(html.parser.HTMLParser):
    """What a page of the site holds: ids, links to its own files, blocks of code, rows of tables."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), []
        self.tags, self.is_text = [], False
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        # The theme has tables of its own below the text.
        self.is_text = tag != "footer" and (self.is_text or values.get("role") == "main")
        self.tags += [tag] if self.is_text else []
        self.ids.add(values.get("id"))
        target = values.get("href") or values.get("src") or ""
        if target and "://" not in target and not target.startswith(("mailto:", "data:", "#")):
            self.links.append(urllib.parse.unquote(target.partition("?")[0]))
        elif target.startswith("#") and target != "#":
            self.links.append(urllib.parse.unquote(target))


class Navigation(unittest.TestCase):
    def test_every_page_of_the_project_is_in_the_navigation_once(self):
        lines = (SOURCE / "docs/site/mkdocs.yml").read_text().partition("\nnav:\n")[2].splitlines()
        named = [line.rsplit(": ", 1)[1] for line in lines if line.endswith(".md")]
        self.assertEqual(sorted(named), readme_commands.all_pages(SOURCE))


@unittest.skipIf(shutil.which("mkdocs") is None, "mkdocs is not installed")
class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        room = tempfile.TemporaryDirectory()
        cls.addClassCleanup(room.cleanup)
        cls.site = pathlib.Path(room.name) / "site"
        done = subprocess.run([sys.executable, SOURCE / "docs/site/build.py", cls.site],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        cls.pages = {path: SitePage(path) for path in cls.site.rglob("*.html")
                     if path.name != "404.html"}

    def page(self, name):
        path = self.site / name
        return self.pages[path.with_name("index.html") if path.name == "README.md"
                          else path.with_suffix(".html")]

    def test_every_link_leads_to_a_file_and_an_anchor_of_the_site(self):
        for path, page in self.pages.items():
            for link in page.links:
                with self.subTest(page=str(path.relative_to(self.site)), link=link):
                    name, _, anchor = link.partition("#")
                    target = (path.parent / name).resolve() if name else path
                    self.assertTrue(target.is_file())
                    if anchor:
                        self.assertIn(anchor, self.pages[target].ids)

    def test_headings_have_githubs_anchors(self):
        for name in readme_commands.all_pages(SOURCE):
            with self.subTest(name):
                anchors = readme_commands.anchors_of((SOURCE / name).read_text())
                self.assertEqual(anchors - self.page(name).ids, set())

    def test_code_and_tables_are_read_as_such(self):
        for name in readme_commands.all_pages(SOURCE):
            with self.subTest(name):
                text = (SOURCE / name).read_text()
                tags = self.page(name).tags
                # Indented lines are one block, whatever is empty between them.
                whole = re.sub(r"(?m)^(    .*\n)\n+(?=    )", r"\1", text)
                self.assertEqual(tags.count("pre"), len(readme_commands.blocks_of(whole)))
                self.assertEqual(tags.count("tr"), len(readme_commands.table_rows(text)))

    def test_a_linked_source_file_is_a_page(self):
        self.assertIn("shared/image/warp.h", (self.site / "shared/image/warp.h.html").read_text())


if __name__ == "__main__":
    unittest.main()

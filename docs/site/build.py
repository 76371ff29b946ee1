#!/usr/bin/env python3
"""The documentation as a site: build.py OUTPUT

Gathers every page of the repository, with the images and source files that pages link to, into
OUTPUT.pages, and runs MkDocs on them. A source file becomes a page of its own, so that a browser
shows it instead of saving it. A link that leads nowhere ends the build.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
IMAGES = {".jpg", ".png", ".svg"}
LINK = re.compile(r"(?<=\]\()([^)\s:#]+)(?=[)#])")  # a target in the repository, without its anchor
CELL_PIPE = re.compile(r"(?<=\w)\\\|(?=\w)")  # GitHub wants a table's `a|b` as `a\|b`, MkDocs does not


def listed_pages():
    """Every Markdown file of the repository, relative to its root."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard", "*.md"], capture_output=True, text=True, check=True)
    return [pathlib.PurePosixPath(name) for name in listed.stdout.split("\0")
            if name and not name.startswith(".") and (ROOT / name).is_file()]


def site_page(path):
    """The page that shows a source file: NAME.md beside it."""
    return path.with_name(path.name + ".md")


class Gatherer:
    def __init__(self, pages):
        self.pages = pages

    def write(self, path, text):
        (self.pages / path).parent.mkdir(parents=True, exist_ok=True)
        (self.pages / path).write_text(text)

    def add_page(self, path):
        text = CELL_PIPE.sub("|", (ROOT / path).read_text())
        self.write(path, LINK.sub(lambda link: self.linked(path, link[0]), text))

    def linked(self, page, target):
        """Adds what a page links to, unless it is a page; returns the link's target on the site."""
        path = pathlib.PurePosixPath(os.path.normpath(page.parent / target))
        source = ROOT / path
        if path.suffix == ".md" or not source.is_file():
            return target  # MkDocs checks it
        if path.suffix in IMAGES:
            (self.pages / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, self.pages / path)
            return target
        self.write(site_page(path), f"# {path}\n\n~~~~text\n{source.read_text()}\n~~~~\n")
        return target + ".md"


def main():
    output = pathlib.Path(sys.argv[1]).resolve()
    if shutil.which("mkdocs") is None:
        print("mkdocs is missing: apt-get install mkdocs, or pip install mkdocs", file=sys.stderr)
        return 69
    pages = output.with_name(output.name + ".pages")
    shutil.rmtree(pages, ignore_errors=True)
    gatherer = Gatherer(pages)
    for path in listed_pages():
        gatherer.add_page(path)
    gatherer.write("docs/site/style.css", (HERE / "style.css").read_text())
    return subprocess.run(["mkdocs", "build", "--quiet", "--strict", "--clean", "--config-file",
                           HERE / "mkdocs.yml", "--site-dir", output],
                          env=os.environ | {"RETINA_SITE_PAGES": str(pages)}).returncode


if __name__ == "__main__":
    sys.exit(main())

"""The messages that docs/troubleshooting.md quotes are those of the sources, word for word."""
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PAGE = SOURCE / "docs/troubleshooting.md"
FOLDERS = ("preprocess", "train", "evaluate", "convert", "shared")
ANYTHING = "…"  # a name or a number


def quoted_messages(page):
    """The code that begins an item of a list, up to the colon after it: messages as printed."""
    items = re.findall(r"(?m)^ *- (`.*(?:\n +(?![- ]).*)*)", page)
    messages = []
    for item in items:
        head = re.match(r"(?:`[^`]*`|[^`:])*", item)[0]
        messages += [re.sub(r"\s+", " ", span) for span in re.findall(r"`([^`]*)`", head)]
    return messages


def fragments_of(message):
    """The parts that never change."""
    return [part for part in message.split(ANYTHING) if part]


def literals_of(source):
    """The string literals of a C++ file, those that follow each other joined as cat() joins them."""
    joined = re.sub(r'(?<!\\)"\s*,?\s*"', "", source)
    return "\n".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', joined)).replace('\\"', '"')


def sources():
    for folder in FOLDERS:
        for path in sorted((SOURCE / folder).rglob("*")):
            if path.suffix in (".cpp", ".h"):
                yield literals_of(path.read_text())
    yield (SOURCE / "Makefile").read_text()


class Messages(unittest.TestCase):
    def test_the_page_quotes_only_messages_of_the_sources(self):
        texts = list(sources())
        messages = quoted_messages(PAGE.read_text())
        self.assertGreater(len(messages), 50)
        for message in messages:
            fragments = fragments_of(message)
            with self.subTest(message):
                self.assertGreater(max(map(len, fragments)), 4, "too short to be told from others")
                self.assertTrue(any(all(part in text for part in fragments) for text in texts),
                                "no source has all parts of it")


if __name__ == "__main__":
    unittest.main()

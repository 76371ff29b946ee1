"""Commands are found wherever a page may show them, and nothing else is taken for one; every page
is looked at, and its links lead somewhere."""
import pathlib
import sys
import unittest

import readme_commands as readme

SOURCE = pathlib.Path(__file__).resolve().parents[2]


class ReadmeCommands(unittest.TestCase):
    def lines(self, page):
        return [line for _, line, _ in readme.commands_of(page)]

    def test_fenced_and_indented_blocks_hold_commands(self):
        page = ("Text:\n\n    make one   # why\n    make two\n\n    make three\n\nMore\n"
                "```bash\nmake four\n```\n~~~\nmake five\n~~~\n")
        self.assertEqual(self.lines(page), ["make one   # why", "make two", "make three",
                                            "make four", "make five"])

    def test_drawings_other_languages_and_continued_list_items_hold_none(self):
        page = ("\n    a --run--> b\n      |\n\n```json\n{}\n```\n```python\nimport torch\n```\n"
                "- an item\n    that goes on\n")
        self.assertEqual(self.lines(page), [])

    def test_only_prompted_lines_of_a_console_are_commands(self):
        self.assertEqual(self.lines("```console\n$ make demo\noutput\n```\n"), ["make demo"])

    def test_an_unknown_language_is_an_error(self):
        self.assertRaises(ValueError, readme.commands_of, "```zsh\nmake\n```\n")

    def test_a_continued_line_is_one_command(self):
        commands = readme.commands_of("```sh\ncoco-pack --a 1 \\\n  --b 2\n```\n")
        self.assertEqual(commands[0][2], [["coco-pack", "--a", "1", "--b", "2"]])

    def test_variables_pipes_redirections_and_quotes_are_the_shells(self):
        self.assertEqual(
            readme.commands_of_line("A=1 B='x y' mpirun -np 2 p --q 'a b' 2>err | tee log && q"),
            [["mpirun", "-np", "2", "p", "--q", "a b"], ["tee", "log"], ["q"]])
        self.assertEqual(readme.commands_of_line("make x DATA=y # z"), [["make", "x", "DATA=y"]])

    def test_every_page_of_the_project_is_looked_at(self):
        self.assertEqual(readme.pages_below(SOURCE), sorted(readme.PAGES))

    def test_rows_of_tables_are_found(self):
        page = "| a | b |\n|---|---|\n| `x` | `--y\\|z` |\n\n```text\n| no |\n```\n"
        self.assertEqual(readme.table_rows(page), [["a", "b"], ["`x`", "`--y\\|z`"]])
        self.assertEqual(readme.options_in_text(readme.without_first_column("| `--their` | `--our` |\n")),
                         ["our"])

    def test_links_and_headings_are_found(self):
        page = "# A *b*, `c-d`\n[x](y.md#z) ![p](q.jpg)\n```text\n# no\n```\n[w](https://e.org)\n"
        self.assertEqual(readme.links_of(page), ["y.md#z", "q.jpg"])
        self.assertEqual(readme.anchors_of(page), {"a-b-c-d"})

    def test_every_link_of_the_pages_leads_somewhere(self):
        for page in [SOURCE / name for name in readme.all_pages(SOURCE)]:
            for link in readme.links_of(page.read_text()):
                with self.subTest(page=page.relative_to(SOURCE), link=link):
                    path, _, anchor = link.partition("#")
                    target = page.parent / path if path else page
                    self.assertTrue(target.exists())
                    if anchor:
                        self.assertIn(anchor, readme.anchors_of(target.read_text()))

    def test_options_of_the_running_text_are_found(self):
        page = "Say `--norm frozen\n--head-norm none`, or `p --keep 3`.\n```sh\nx --no\n```\n"
        self.assertEqual(readme.options_in_text(page), ["head-norm", "keep", "norm"])
        self.assertEqual(readme.options_in_text("`A=1 b --c`, `A=1 p --keep`", {"b"}), ["keep"])
        self.assertEqual(readme.commands_in_text("Do `make demo`, not `x`.", {"make"}),
                         [["make", "demo"]])


if __name__ == "__main__":
    sys.exit(unittest.main())

"""The pages that show commands, and the commands that a page shows: what readme_test.py runs.

A block of code is a fenced one, or lines indented by four spaces after an empty line. Fences of
sh, bash, shell, console or no language hold commands (in `console` only the lines after `$ `);
other languages hold none, nor does a drawing (a paragraph with `-->` in a block without language).
"""
import pathlib
import re
import shlex

# Their commands run in this order. The pages of jobs/ have tests of their own (tests/jobs).
PAGES = ["README.md", "preprocess/README.md", "train/README.md", "evaluate/README.md",
         "convert/README.md", "python/README.md", "docker/README.md", "tests/README.md",
         "docs/README.md", "docs/programs.md", "docs/measurements.md",
         "docs/coming-from-ultralytics.md", "docs/coming-from-torchvision.md",
         "docs/coming-from-detectron2.md", "docs/coming-from-keras-retinanet.md", "docs/large-images.md", "docs/faq.md",
         "docs/troubleshooting.md"]

COMMAND_LANGUAGES = {"", "sh", "bash", "shell", "console"}
OTHER_LANGUAGES = {"text", "json", "python", "cpp", "c++", "cmake", "yaml", "dockerfile"}


def all_pages(root):
    """Every Markdown file of the project at `root`."""
    found = [page.relative_to(root) for depth in ("", "*/", "*/*/")
             for page in pathlib.Path(root).glob(f"{depth}*.md")]
    return sorted(str(page) for page in found if not page.parts[0].startswith((".", "build")))


def pages_below(root):
    """Those that show commands: every README.md but those of jobs/, and docs/ but the generated page of options;
    for comparing with PAGES."""
    return [page for page in all_pages(root) if (page.startswith("docs/") and page != "docs/options.md")
            or (page.endswith("README.md") and not page.startswith("jobs/"))]


def blocks_of(page):
    """(line number, language, lines) of every code block; indented ones end at an empty line."""
    blocks, fence, is_open, after_empty = [], "", False, True
    for number, line in enumerate(page.splitlines(), 1):
        mark = re.match(r"\s{0,3}(```+|~~~+)\s*([\w+-]*)", line)
        if fence:
            if mark and mark.group(1).startswith(fence) and not mark.group(2):
                fence = ""
            else:
                blocks[-1][2].append(line)
        elif mark:
            fence, is_open = mark.group(1), False
            blocks.append((number, mark.group(2).lower(), []))
        elif line.startswith("    ") and (is_open or after_empty):
            if not is_open:
                blocks.append((number, "", []))
            blocks[-1][2].append(line[4:])
            is_open = True
        else:
            is_open = False
        after_empty = not line.strip() or (is_open and not fence)
    return blocks


def paragraphs(lines):
    return [part.splitlines() for part in re.split(r"\n\s*\n", "\n".join(lines))]


def commands_of_line(line):
    """A line's simple commands, as lists of words, without redirections and leading NAME=value."""
    line = re.sub(r"(?<=\s)[12](?=>)", "", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    commands, skip = [[]], False
    for word in lexer:
        if skip:
            skip = False
        elif set(word) <= set("|&;"):
            commands.append([])
        elif set(word) <= set("<>&"):
            skip = True
        elif commands[-1] or not re.fullmatch(r"[A-Za-z_]\w*=.*", word, re.DOTALL):
            commands[-1].append(word)
    return [command for command in commands if command]


def commands_of(page):
    """(line of the page's block, text of the shell line, its simple commands) of every command."""
    found = []
    for number, language, content in blocks_of(page):
        if language in OTHER_LANGUAGES:
            continue
        if language not in COMMAND_LANGUAGES:
            raise ValueError(f"line {number}: is ```{language} a shell? Add it to a list of "
                             "languages in readme_commands.py")
        for lines in paragraphs(content):
            if language == "" and any("-->" in line for line in lines):
                continue  # a drawing
            for line in "\n".join(lines).replace("\\\n", " ").splitlines():
                line = line.strip()
                if language == "console" and not line.startswith("$ "):
                    continue
                line = line.removeprefix("$ ")
                if commands := commands_of_line(line):
                    found.append((number, line, commands))
    return found


def spans_of(page):
    """Every `code` of the running text and tables, which may go on over one line's end."""
    text = re.sub(r"(?ms)^(```+|~~~+).*?^\1", "", page)
    return re.findall(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)", text)


def links_of(page):
    """The targets of all links and images, without those that leave the project."""
    text = re.sub(r"(?ms)^(```+|~~~+).*?^\1", "", page)
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]


def anchors_of(page):
    """What a link may name after #: the headings as GitHub spells them."""
    text = re.sub(r"(?ms)^(```+|~~~+).*?^\1", "", page)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"(?m)^#+ +(.+?) *$", text)}


def table_rows(page):
    """The rows of all tables, as lists of cells, without the lines below the headings."""
    text = re.sub(r"(?ms)^(```+|~~~+).*?^\1", "", page)
    rows = [re.split(r"(?<!\\)\|", line.strip().strip("|"))
            for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if not set("".join(row)) <= set("-: ")]


def without_first_column(page):
    """A page whose tables begin with what is another tool's."""
    return re.sub(r"(?m)^\|[^|\n]*\|", "|", page)


def program_of(span):
    """The first word behind variables that it sets."""
    return next((word for word in span.split() if not re.match(r"[A-Z_]+=", word)), "")


def options_in_text(page, foreign=()):
    """Every --option of those, without the spans that begin with a `foreign` program."""
    return sorted({option for span in spans_of(page) if program_of(span) not in foreign
                   for option in re.findall(r"(?<![\w-])--([a-z][a-z0-9-]+)", span)})


def commands_in_text(page, programs):
    """Those that begin with one of `programs`, as words."""
    return [span.split() for span in spans_of(page) if span.split()[0] in programs]

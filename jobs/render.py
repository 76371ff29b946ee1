#!/usr/bin/env python3
"""Makes the job files from job.toml and templates/, and those of classify/ from job-classify.toml.

    jobs/render.py            write every file beside its template's name (what `make jobs` does)
    jobs/render.py --check    list those that differ from what would be written; exit 1 if any does.
                              classify/ is not kept in git: it counts where it was made
    jobs/render.py --image NAME
                              put the name into job.toml first (what `make jobs IMAGE=NAME` does)
    jobs/render.py --output DIR [--nodes N] [--gpus-per-node G] [--image NAME]
                              write them elsewhere, for a job of another size

A template is Jinja2: templates/batchai/train.json.j2 becomes batchai/train.json and
classify/batchai/train.json. It sees the tables of its job by their names (image, size, train, storage,
commands) and calls `command(STAGE, nodes=..., data=..., shards=..., weights=..., runs=..., models=...,
scratch=...)`, which returns the words of the stage's command. `here` is the folder of its files,
`made_from` its table.
"""
import argparse
import pathlib
import re
import sys
import tomllib

try:
    import jinja2
except ImportError:
    print("render.py: error: Jinja2 is missing; hint: apt-get install python3-jinja2",
          file=sys.stderr)
    sys.exit(69)

JOBS = pathlib.Path(__file__).resolve().parent
TABLE = JOBS / "job.toml"
# Other jobs: their folder, below that of the job files, and their table.
OTHERS = {"classify": JOBS / "job-classify.toml"}
# Sections that another job takes from job.toml, key by key, unless its own table sets the key.
SHARED = ("image", "size", "storage", "azure_sizes")
# Table and key that a template needs, by the start of its name; a job without it has no such file.
ABOUT = {"weights": ("commands", "weights"), "endpoint": ("serving", "image"),
         "deployment": ("serving", "image"), "serve": ("serving", "image")}
TEMPLATES = JOBS / "templates"
USAGE, BAD_DATA, CANNOT_CREATE, CONTRADICTION = 64, 65, 73, 78


def fail(code, problem):
    print(f"render.py: error: {problem}", file=sys.stderr)
    sys.exit(code)


def registry_and_path(image):
    """Splits a name into ("registry.example.com:5000", "me/retina:1"); the first is "" for Docker Hub.
    As in Docker, the first component is a registry if it has a dot or a port, or is localhost."""
    first, slash, rest = image.partition("/")
    if slash and (re.search(r"[.:]", first) or first == "localhost"):
        return ("" if first == "docker.io" else first), rest
    return "", image


def put_image(name):
    """Writes the name to job.toml."""
    if not re.fullmatch(r"[A-Za-z0-9][\w./:@-]*", name):
        fail(USAGE, f"--image: not the name of an image (got {name!r})")
    text = TABLE.read_text()
    changed, count = re.subn(r'^(\[image\]\n(?:(?!\[).*\n)*?name = )".*"$', rf'\g<1>"{name}"', text,
                             flags=re.MULTILINE)
    if count != 1:
        fail(BAD_DATA, f'{TABLE}: no line name = "..." below [image]; hint: write it there')
    try:
        TABLE.write_text(changed)
    except OSError as error:
        fail(CANNOT_CREATE, f"{TABLE}: {error.strerror}")


def shell_word(word):
    """Quotes a word where a shell needs it; keeps $NAME, ${NAME} and ${{ expressions }}."""
    plain = re.fullmatch(r"(?:[\w@%+=:,./-]|\$\w+|\$\{\w+\}|\$\{\{[\w. ]+\}\})+", word)
    return word if plain else '"' + re.sub(r'(["\\`])', r"\\\1", word) + '"'


def by_option(words):
    """Groups the words: each group is an option with its value, for one line."""
    groups = [[words[0]]]
    for word in words[1:]:
        if word.startswith("--") or len(groups[-1]) == 2:
            groups.append([])
        groups[-1].append(word)
    return groups


def on_one_line(words):
    return " ".join(map(shell_word, words))


def on_lines(words, indent=2, end=" \\"):
    """Formats a shell command over several lines: the program and its first option, then an option a
    line."""
    lines = [" ".join(map(shell_word, group)) for group in by_option(words)]
    return (end + "\n" + " " * indent).join(lines)


def yaml_list(words, indent=0):
    """Formats a YAML block sequence, a word a line; the first is not indented."""
    def quoted(word):
        if re.fullmatch(r"[A-Za-z/-][\w@%+=,./-]*", word):
            return word
        return f"'{word}'" if '"' in word else f'"{word}"'
    items = ["- " + quoted(word) for word in words]
    return ("\n" + " " * indent).join(items)


def read_tables():
    """Returns {folder: table} of every job."""
    first = tomllib.loads(TABLE.read_text())
    tables = {"": first}
    for folder, path in OTHERS.items():
        own = tomllib.loads(path.read_text())
        tables[folder] = own | {key: first[key] | own.get(key, {}) for key in SHARED}
    return tables


class Job:
    """The values and functions that a template sees."""

    def __init__(self, folder, table, changes):
        self.folder = pathlib.Path(folder)
        self.table = table
        for section, key in (("size", "nodes"), ("size", "gpus_per_node"), ("image", "name")):
            if changes.get(key) is not None:
                table[section][key] = changes[key]

    def command(self, stage, nodes=None, **places):
        """Returns the words of a stage's command; `nodes` if it runs on fewer than the training."""
        train, size = self.table["train"], self.table["size"]
        values = places | {
            "name": train["name"], "epochs": train["epochs"],
            "ranks": (nodes or size["nodes"]) * size["gpus_per_node"],
            "images_per_step":
                train["images_per_rank"] * size["nodes"] * size["gpus_per_node"],
        }
        # An empty {scratch} means that the stage builds its output in place.
        words = [word.format_map(values) for word in self.table["commands"][stage]]
        while "" in words:
            place = words.index("")
            del words[place - 1:place + 1]
        return words

    def has_use_for(self, name):
        """Returns whether the job has the table and key that a template of that name needs."""
        for start, (section, key) in ABOUT.items():
            if name.startswith(start) and key not in self.table.get(section, {}):
                return False
        return True

    def files(self):
        """Yields (path below jobs/, content) of every file."""
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined,
            keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True)
        registry, path = registry_and_path(self.table["image"]["name"])
        environment.globals.update(
            self.table, command=self.command, registry=registry, image_path=path,
            here=(pathlib.Path("jobs") / self.folder).as_posix(),
            made_from=f"jobs/{OTHERS.get(self.folder.name, TABLE).name}")
        environment.filters.update(on_one_line=on_one_line, on_lines=on_lines, yaml_list=yaml_list)
        for template in sorted(TEMPLATES.rglob("*.j2")):
            name = template.relative_to(TEMPLATES)
            if not self.has_use_for(template.name):
                continue
            made = environment.get_template(name.as_posix()).render()
            yield self.folder / name.with_suffix(""), made


def main():
    parser = argparse.ArgumentParser(description="Makes the job files from job.toml and templates/.")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--output", type=pathlib.Path, default=JOBS)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--gpus-per-node", type=int)
    parser.add_argument("--image", dest="name")
    options = parser.parse_args()
    changes = {key: value for key, value in vars(options).items()
               if key in ("nodes", "gpus_per_node", "name") and value is not None}
    if set(changes) == {"name"} and options.output == JOBS and not options.check:
        put_image(changes.pop("name"))
    if changes and options.output == JOBS:
        fail(USAGE, "the files of jobs/ are made from job.toml alone; hint: give --output DIR, or "
                    "change job.toml")
    if min(options.nodes or 1, options.gpus_per_node or 1) < 1:
        fail(USAGE, "--nodes and --gpus-per-node want at least 1")
    jobs = [Job(folder, table, changes) for folder, table in read_tables().items()]
    size, machines = jobs[0].table["size"], jobs[0].table["azure_sizes"]
    gpus = size["gpus_per_node"]
    if str(gpus) not in machines:
        fail(CONTRADICTION, f"gpus_per_node: Azure ML has no such machine (got {gpus}, want "
                            f"{', '.join(machines)}); hint: add one to [azure_sizes] in {TABLE}")
    differing = 0
    if options.check:
        jobs = jobs[:1] + [job for job in jobs[1:] if (options.output / job.folder).is_dir()]
    for name, content in (made for job in jobs for made in job.files()):
        path = options.output / name
        if path.is_file() and path.read_text() == content:
            continue
        if options.check:
            print(f"{path}: differs from its template; run `make jobs`")
            differing += 1
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        except OSError as error:
            fail(CANNOT_CREATE, f"{path}: {error.strerror}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

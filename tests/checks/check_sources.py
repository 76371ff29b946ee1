"""Checks of the source tree: check_sources.py RULE ROOT. Prints each violation, exits 1 on any.

format     clang-format 14 would change nothing
layers     a folder includes only the folders that it may
names      no two types of the product share a name: linked into one program, one would silently
           get the other's functions (C++'s one-definition rule)
readme     CONTRIBUTING.md's map of folders names exactly the folders there are, as do a folder's maps of folders
leftovers  no unfinished business in the sources
options    every option that a message names is a row of a program's table; its name as a key stands there alone
budget     code lines, options and words of pages are at most those of tests/checks/budget.txt
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

# Folder -> folders whose headers it includes or whose types it declares, besides its own: all of
# them, so that a new arrow is a decision. Lowest first; what has no row of its own belongs to the
# folder around it.
LAYERS = {
    "shared/numeric": [],
    "shared/base": [],
    "shared/cli": ["shared/base"],
    "shared/coco": ["shared/base"],
    "shared/remote": ["shared/base"],
    "shared/shard": ["shared/base", "shared/coco", "shared/remote"],
    "shared/image": ["shared/base", "shared/numeric"],
    "shared/anchor": ["shared/base"],
    "shared/comm": ["shared/base", "shared/numeric"],
    "shared/watch": ["shared/base", "shared/comm"],
    "shared/job": ["shared/base", "shared/cli", "shared/comm", "shared/watch"],
    "shared/data": ["shared/base", "shared/numeric", "shared/coco", "shared/shard", "shared/image"],
    "shared/ops": ["shared/base", "shared/numeric", "shared/image", "shared/anchor", "shared/comm", "shared/data"],
    "shared/model": ["shared/base", "shared/numeric", "shared/image", "shared/anchor", "shared/ops"],
    "shared/onnx": ["shared/base", "shared/numeric", "shared/coco", "shared/image", "shared/anchor", "shared/comm",
        "shared/model"],
    "shared/checkpoint/foreign": ["shared/base"],
    "shared/checkpoint": ["shared/base", "shared/coco", "shared/ops", "shared/onnx",
        "shared/checkpoint/foreign"],
    "shared/evaluation/score": ["shared/base", "shared/numeric", "shared/coco", "shared/shard"],
    "shared/evaluation/draw": ["shared/base", "shared/coco", "shared/shard", "shared/image",
        "shared/data", "shared/evaluation/score"],
    "shared/evaluation/predict": ["shared/base", "shared/coco", "shared/shard", "shared/image",
        "shared/comm", "shared/data", "shared/ops", "shared/model", "shared/onnx",
        "shared/checkpoint", "shared/evaluation/score"],
    "shared/report": ["shared/base", "shared/cli", "shared/image"],
    "preprocess": ["shared/base", "shared/cli", "shared/numeric", "shared/remote", "shared/coco", "shared/shard", "shared/image", "shared/anchor",
        "shared/data", "shared/evaluation/score", "shared/report"],
    "train/augment": ["shared/base", "shared/cli", "shared/numeric", "shared/image"],
    "train/plan": ["shared/base", "shared/numeric", "shared/shard", "shared/image", "shared/data", "train/augment"],
    "train/schedule": ["shared/base"],
    "train/reduce": ["shared/base", "shared/comm", "shared/ops", "shared/model"],
    "train/step": ["shared/base", "shared/shard", "shared/comm", "shared/data", "shared/ops",
        "shared/model", "shared/checkpoint", "train/reduce"],
    "train/run": ["shared/base", "shared/cli", "shared/coco", "shared/shard", "shared/comm", "shared/model",
        "shared/checkpoint", "train/schedule", "train/step"],
    "train/monitor": ["shared/base", "shared/shard", "shared/comm", "shared/data", "shared/model",
        "shared/evaluation/score", "shared/evaluation/draw", "shared/evaluation/predict",
        "shared/report", "train/reduce", "train/step"],
    "train/report": ["shared/base", "shared/cli", "shared/shard", "shared/image", "shared/anchor",
        "shared/evaluation/score", "shared/report", "train/plan", "train/monitor"],
    "train/start": ["shared/base", "shared/cli", "shared/shard", "shared/image", "shared/anchor", "shared/comm", "shared/watch",
        "shared/job", "shared/data", "shared/model", "shared/checkpoint", "train/augment", "train/plan", "train/schedule",
        "train/reduce", "train/step", "train/run"],
    "train": ["shared/base", "shared/cli", "shared/shard", "shared/image", "shared/anchor", "shared/comm",
        "shared/watch", "shared/job", "shared/data", "shared/ops", "shared/model", "shared/checkpoint",
        "shared/evaluation/score", "shared/report", "train/augment", "train/plan", "train/schedule", "train/reduce",
        "train/step", "train/run", "train/monitor", "train/report", "train/start"],
    "evaluate": ["shared/base", "shared/cli", "shared/numeric", "shared/coco", "shared/shard", "shared/image", "shared/comm",
        "shared/watch", "shared/job", "shared/data", "shared/ops", "shared/model", "shared/onnx",
        "shared/checkpoint", "shared/evaluation/score", "shared/evaluation/draw",
        "shared/evaluation/predict", "shared/report"],
    "convert/import": ["shared/base", "shared/coco", "shared/anchor", "shared/ops", "shared/model",
        "shared/onnx", "shared/checkpoint/foreign", "shared/checkpoint"],
    "convert/verification": ["shared/base", "shared/numeric", "shared/shard", "shared/image", "shared/anchor",
        "shared/comm", "shared/data", "shared/ops", "shared/model", "shared/evaluation/score",
        "shared/evaluation/predict"],
    "convert": ["shared/anchor", "shared/base", "shared/cli", "shared/shard", "shared/image", "shared/comm", "shared/ops", "shared/model",
        "shared/onnx", "shared/checkpoint", "shared/evaluation/predict", "convert/import",
        "convert/verification"],
}
# Folders that must build without LibTorch, and so must not include it.
WITHOUT_TORCH = ["shared/numeric", "shared/base", "shared/cli", "shared/coco", "shared/remote", "shared/shard", "shared/image", "shared/anchor",
                 "shared/comm", "shared/watch", "shared/job", "shared/data",
                 "shared/checkpoint/foreign", "shared/onnx", "shared/evaluation/score",
                 "shared/evaluation/draw", "shared/report", "train/augment", "train/plan", "train/schedule", "preprocess"]
CPP_SUFFIXES = [".cpp", ".cu", ".h", ".cuh"]


def sources(root, *suffixes):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], capture_output=True, text=True)
    if listed.returncode == 0:
        names = [Path(name) for name in listed.stdout.split("\0") if name]
    else:
        names = [path.relative_to(root) for path in root.rglob("*")]
    return sorted({name for name in names if name.suffix in suffixes and (root / name).is_file()
                   and not any(part.startswith((".", "build")) for part in name.parts)})


def folder_of(name):
    """The innermost folder around a file that has a row in the table, else its top folder."""
    folders = [str(folder) for folder in name.parents]
    return next((folder for folder in folders if folder in LAYERS), name.parts[0])


def check_format(root):
    tool = shutil.which("clang-format-14")
    if tool is None:
        print("skipped: clang-format-14 is not installed")
        sys.exit(77)
    names = sources(root, *CPP_SUFFIXES)
    result = subprocess.run([tool, "--dry-run", "--Werror", *names], cwd=root, capture_output=True,
                            text=True)
    return sorted({f"{line.split(':')[0]}: clang-format-14 -i would change it"
                   for line in result.stderr.splitlines() if "clang-format" in line})


def check_layers(root):
    folder_of_type = {defined: folder_of(name) for name, defined in types_of(root)}
    for name in sources(root, *CPP_SUFFIXES):
        folder = folder_of(name)
        if folder == "tests":
            continue
        if folder not in LAYERS:
            yield f"{name}: the folder {folder} has no row in the table of layers"
            continue
        for line in (root / name).read_text().splitlines():
            own = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if own:
                target = folder_of(Path(own.group(1)))
                if target != folder and target not in LAYERS[folder]:
                    yield f"{name}: may not include {own.group(1)}"
            declared = re.match(r"(?:class|struct) (\w+);", line)
            if declared:
                target = folder_of_type.get(f"retina::{declared.group(1)}", folder)
                if target != folder and target not in LAYERS[folder]:
                    yield f"{name}: may not declare {declared.group(1)} of {target}"
            foreign = re.match(r"\s*#\s*include\s+<((?:torch|ATen|c10|caffe2)/[^>]+)>", line)
            if foreign and folder in WITHOUT_TORCH:
                yield f"{name}: must do without LibTorch, includes <{foreign.group(1)}>"
            if foreign and name.suffix == ".cu":
                yield f"{name}: .cu files take raw pointers, includes <{foreign.group(1)}>"


def types_of(root):
    """(file, full name) of each type of the product outside of anonymous namespaces."""
    for name in sources(root, *CPP_SUFFIXES):
        if name.parts[0] == "tests":
            continue
        namespaces = []
        for line in (root / name).read_text().splitlines():
            if opened := re.match(r"namespace ?([\w:]*) ?\{", line):
                namespaces.append(opened.group(1))
            elif line.startswith("}  // namespace"):
                namespaces.pop()
            defined = re.match(r"(?:template .*> )?(?:struct|class|union|enum(?: class)?) (\w+)"
                               r"(?: final)?(?: : [^;]*)? \{", line)
            if defined and "" not in namespaces:
                yield name, "::".join([*namespaces, defined.group(1)])


def check_names(root):
    first = {}
    for name, defined in types_of(root):
        if defined in first:
            yield f"{name}: {defined} is defined in {first[defined]}, too"
        first[defined] = name


def check_readme(root):
    rows = re.findall(r"^\| `([a-z/]+)/?` \|", (root / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    named = [row.rstrip("/") for row in rows]
    there = {name for name in LAYERS
             if not any(str(folder) in LAYERS for folder in Path(name).parents)}
    there |= {"docker", "docs", "jobs", "python", "tests"}
    for folder in sorted(there - set(named)):
        yield f"CONTRIBUTING.md: the map of folders lacks {folder}"
    for folder in sorted(set(named) - there):
        yield f"CONTRIBUTING.md: the map of folders names {folder}, which is no folder of the project"
    for folder in named:
        if not (root / folder).is_dir():
            yield f"CONTRIBUTING.md: {folder} does not exist"
    order = [folder for folder in named if folder in LAYERS]
    for place, folder in enumerate(order):
        for lower in LAYERS[folder]:
            if lower in order[place + 1:]:
                yield f"CONTRIBUTING.md: {folder} comes before {lower}, which it uses"
    for folder in ("train", "convert"):
        yield from check_own_map(root, folder)


def check_own_map(root, folder):
    page = root / folder / "README.md"
    text = page.read_text() if page.is_file() else ""
    named = {row.rstrip("/") for row in re.findall(r"^\| `([a-z/]+)` \|", text, re.MULTILINE)}
    there = {"/".join(name.parts[:2]) for name in sources(root, *CPP_SUFFIXES)
             if name.parts[0] == folder and len(name.parts) > 2}
    for name in sorted(there - named):
        yield f"{folder}/README.md: the map of folders lacks {name}"
    for name in sorted(named - there):
        yield f"{folder}/README.md: the map of folders names {name}, which is not a folder of the project"


def check_leftovers(root):
    unfinished = re.compile("TO" "DO|FIX" "ME|\\bXX" "X\\b|#if " "0|DISABLED" "_|not " "implemented"
                            "|^(<<<<<<<|=======|>>>>>>>)( |$)")
    for name in sources(root, *CPP_SUFFIXES, ".py", ".sh", ".cmake", ".txt"):
        for number, line in enumerate((root / name).read_text().splitlines(), 1):
            if unfinished.search(line):
                yield f"{name}:{number}: {line.strip()[:80]}"


TABLES = ("preprocess/app.cpp", "train/start/declare_options.cpp", "train/augment/augment_choice.cpp",
          "evaluate/options.cpp", "convert/options.cpp", "shared/cli/cli.cpp")
# Of other programs: retina-launch, docker run, srun, tensorboard.
FOREIGN_OPTIONS = {"restarts", "gpus", "mpi", "logdir"}
# Files whose formats have settings under the options' names.
KEYS_OF_FILES = ("convert/convert.cpp", "convert/import/import.cpp", "evaluate/", "preprocess/output_folder.cpp")


def check_options(root):
    row = re.compile(r'(?:option|option_or_auto|choice|on_off|flag|list|bytes|pair|preset)\(\s*"([a-z0-9-]+)"')
    names = {name for table in TABLES for name in row.findall((root / table).read_text())}
    for path in sources(root, ".cpp", ".h"):
        if path.parts[0] not in PROGRAMS:
            continue
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            for text in re.findall(r'"((?:[^"\\]|\\.)*)"', line.split("// ")[0]):
                for name in re.findall(r"(?<![\w-])--([a-z][a-z0-9-]*)", text):
                    if name not in names | FOREIGN_OPTIONS:
                        yield f"{path}:{number}: names --{name}, which is not an option"
                if "-" in text and text in names and str(path) not in TABLES and not str(path).startswith(KEYS_OF_FILES):
                    yield f"{path}:{number}: the name \"{text}\" stands in an option's row alone"


PROGRAMS = ("preprocess", "train", "evaluate", "convert", "shared")


def measures(root):
    """Code lines (no blanks, no comments) of each program's folder and in all, options on command lines, words of pages."""
    code = {f"code {folder}": 0 for folder in (*PROGRAMS, "all")}
    options = 0
    row = re.compile(r'(?:cli\.|^ +)(?:option|option_or_auto|choice|on_off|flag|list|bytes|pair|preset)\(\s*"[a-z0-9-]+",'
                     r'(?:[^;]|;(?!\n))*;\n', re.MULTILINE)
    for name in sources(root, *CPP_SUFFIXES):
        if name.parts[0] not in PROGRAMS:
            continue
        text = (root / name).read_text()
        lines = [line.strip() for line in re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).splitlines()]
        count = sum(1 for line in lines if line and not line.startswith("//"))
        code[f"code {name.parts[0]}"] += count
        code["code all"] += count
        options += sum(1 for one in row.findall(text) if ".part_of" not in one and ".file_only" not in one)
    made = "docs/options.md"  # by the programs
    words = sum(len((root / name).read_text().split()) for name in sources(root, ".md")
                if name.parts[0] != "tests" and str(name) != made)
    return code | {"options": options, "words": words}


def check_budget(root):
    budget = dict(re.findall(r"^([a-z ]+?) +([0-9]+)$", (root / "tests/checks/budget.txt").read_text(), re.MULTILINE))
    found = measures(root)
    for name in sorted(found.keys() ^ budget.keys()):
        yield f"tests/checks/budget.txt: {name} is only in {'the tree' if name in found else 'the file'}"
    for name in sorted(found.keys() & budget.keys()):
        if found[name] > int(budget[name]):
            yield f"{name}: {found[name]}, at most {budget[name]}: make room, or raise the number and say why in the commit"


def main():
    rule, root = sys.argv[1], Path(sys.argv[2])
    checks = {"format": check_format, "layers": check_layers, "names": check_names, "readme": check_readme,
              "leftovers": check_leftovers, "options": check_options, "budget": check_budget}
    violations = list(checks[rule](root))
    for violation in violations:
        print(violation)
    print(f"{rule}: {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())

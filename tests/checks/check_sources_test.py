"""The checker finds mistakes planted in a small tree, and finds nothing once they are gone."""

import subprocess
import sys
import tempfile
from pathlib import Path

CHECKER = Path(__file__).with_name("check_sources.py")


def run(rule, root):
    result = subprocess.run([sys.executable, CHECKER, rule, root], capture_output=True, text=True)
    return result.returncode, result.stdout


def expect(rule, root, code, *fragments):
    got, text = run(rule, root)
    assert got == code, f"{rule}: exit {got}, want {code}\n{text}"
    for fragment in fragments:
        assert fragment in text, f"{rule}: no {fragment!r} in\n{text}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("shared/base", "shared/image", "shared/shard"):
            (root / name).mkdir(parents=True)
        image = root / "shared/image/a.cpp"

        image.write_text('#include "shared/base/a.h"\n#include "shared/image/a.h"\n')
        expect("layers", root, 0)
        image.write_text('#include "shared/shard/a.h"\n#include <ATen/ops/add.h>\n')
        expect("layers", root, 1, "may not include shared/shard/a.h", "must do without LibTorch")
        plan, run = root / "train/schedule/a.h", root / "train/run/a.h"
        for room in (plan, run):
            room.parent.mkdir(parents=True)
        run.write_text('#include "train/schedule/a.h"\n')
        plan.write_text('#include "shared/base/a.h"\n#include "train/run/a.h"\n')
        image.write_text("\n")
        expect("layers", root, 1, "train/schedule/a.h: may not include train/run/a.h", "1 violations")
        plan.write_text("\n")
        expect("layers", root, 0)
        run.write_text("namespace retina {\nclass Run {\n};\n}  // namespace retina\n")
        plan.write_text("namespace retina {\nclass Run;\n}  // namespace retina\n")
        expect("layers", root, 1, "train/schedule/a.h: may not declare Run of train/run", "1 violations")
        plan.write_text("\n")
        (root / "stray").mkdir()
        (root / "stray/a.h").write_text("\n")
        expect("layers", root, 1, "no row in the table")

        table, other = "struct Table {\n  int a;\n};\n", root / "shared/shard/a.h"
        image.write_text(f"namespace retina {{\n{table}}}  // namespace retina\n")
        other.write_text(f"namespace retina {{\nnamespace {{\n{table}}}  // namespace\nstruct Table;\n"
                         "}  // namespace retina\n")
        expect("names", root, 0)
        other.write_text(image.read_text())
        expect("names", root, 1, "retina::Table is defined in shared/image/a.cpp, too", "1 violations")
        other.unlink()

        image.write_text("int a;  // TO" + "DO later\n")
        expect("leftovers", root, 1, "a.cpp:1")
        image.write_text("int a;\n")
        expect("leftovers", root, 0)

        (root / "CONTRIBUTING.md").write_text("| `shared/image/` | images |\n| `shared/base/` | x |\n")
        expect("readme", root, 1, "lacks shared/shard", "comes before shared/base")
        (root / "train/step").mkdir(parents=True)
        (root / "train/step/a.h").write_text("\n")
        (root / "train/README.md").write_text("| `train/steps/` | x |\n")
        expect("readme", root, 1, "folders lacks train/step\n", "folders names train/steps,")

        (root / "tests/checks").mkdir(parents=True)
        rows = [f"code {one} 9\n" for one in ("preprocess", "train", "evaluate", "convert", "all")]
        (root / "tests/checks/budget.txt").write_text("# most\n" + "".join(rows) + "code shared 1\noptions 0\nwords 90\n")
        image.write_text("int a;\n\n// no code\nint b;\n")
        expect("budget", root, 1, "code shared: 2, at most 1")
        image.write_text('int a(Cli& cli) { cli.flag("x", y,\n "z");\n}\n')
        expect("budget", root, 1, "options: 1, at most 0")
    print("ok")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""retina-eval's error split against the installed tidecv, on fresh random sets and real ones.

    python3 tests/oracle/tide_split.py BUILD_DIR
Also makes tests/evaluation/golden/tide_splits.json again and compares it with the committed file.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/evaluation/golden"))
import make_goldens  # noqa: E402
import random_sets  # noqa: E402
import tide_splits  # noqa: E402

TOLERANCE = 1e-9


def differences(ours, theirs):
    """`ours` as metrics.json has it, `theirs` as tide_splits.split makes it."""
    yield ours["ap"], theirs["ap"]
    yield ours["false_positive_cost"], theirs["false_positive_cost"]
    yield ours["false_negative_cost"], theirs["false_negative_cost"]
    for kind, name, count, cost in zip(ours["kinds"], tide_splits.KINDS, theirs["counts"],
                                       theirs["costs"], strict=True):
        assert kind["kind"] == name
        yield kind["count"], count
        yield kind["ap_cost"], cost


def compare(name, build, folder, truth, results):
    theirs = tide_splits.split(truth, results)
    (folder / "truth.json").write_text(json.dumps(truth))
    (folder / "results.json").write_text(json.dumps(results))
    done = subprocess.run([build / "bin/retina-eval", "--annotations", folder / "truth.json",
                           "--detections", folder / "results.json", "--output", folder / "out",
                           "--overwrite", "--log-level", "error"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ours = json.loads((folder / "out/metrics.json").read_text())["error_split"]
    if theirs is None:
        assert ours["ap"] == 0, name
        return 0.0
    worst = max(abs(a - b) for a, b in differences(ours, theirs))
    assert worst <= TOLERANCE, f"{name}: differs by {worst}"
    return worst


def goldens_are_current():
    committed = json.loads((ROOT / "tests/evaluation/golden/tide_splits.json").read_text())
    for number, old in enumerate(committed["splits"]):
        new = tide_splits.split(*random_sets.random_set(number))
        assert old["counts"] == new["counts"], number
        assert np.allclose([old["ap"], *old["costs"]], [new["ap"], *new["costs"]], rtol=0,
                           atol=1e-12), number


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    data = pathlib.Path(os.environ.get("RETINA_TEST_DATA", ROOT.parent / "shared/data"))
    goldens_are_current()
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    worst, count = 0.0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for case in range(40):
            made = make_goldens.fresh_case(rng, case)
            worst = max(worst, compare(made["name"], build, folder, made["truth"],
                                       made["results"]))
            count += 1
        for sample in tide_splits.FIXTURES:
            if not (data / "eval" / sample).is_dir():
                print(f"skipped {sample}: not in {data}/eval")
                continue
            truth = json.loads((data / "eval" / sample / "gt.json").read_text())
            results = json.loads((data / "eval" / sample / "dt_bbox.json").read_text())
            worst = max(worst, compare(sample, build, folder, truth, results))
            count += 1
    print(f"tide_split: {count} sets, largest difference {worst:.1e}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""retina-eval's 12 numbers against the installed pycocotools, on fresh random sets and real ones.

    python3 tests/oracle/coco_metrics.py BUILD_DIR
Also makes the golden cases of tests/evaluation again and compares them with the committed file.
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

TOLERANCE = 1e-12


def retina_eval(build, folder, truth, results):
    command = [build / "bin/retina-eval", "--annotations", truth, "--detections", results,
               "--output", folder / "out", "--overwrite", "--log-level", "error"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "out/metrics.json").read_text()), done.stdout


def compare(name, build, folder, truth, results):
    (folder / "truth.json").write_text(json.dumps(truth))
    (folder / "results.json").write_text(json.dumps(results))
    metrics, text = retina_eval(build, folder, folder / "truth.json", folder / "results.json")
    stats, per_class, summary = make_goldens.score(truth, results)
    worst = float(np.max(np.abs(np.array(stats) - metrics["stats"])))
    order = np.argsort([c["id"] for c in truth["categories"]])
    keys = ["AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large", "AR1", "AR10", "AR100",
            "AR_small", "AR_medium", "AR_large"]
    for ours, place in zip(metrics["per_class"], order):
        theirs = np.array(per_class[place])
        worst = max(worst, float(np.max(np.abs(theirs - [ours[k] for k in keys]))))
    assert worst <= TOLERANCE, f"{name}: differs by {worst}"
    assert text.startswith(summary), f"{name}: the 12 lines differ:\n{text}\n{summary}"
    return worst


def goldens_are_current(folder):
    made = folder / "coco_cases.json"
    subprocess.run([sys.executable, ROOT / "tests/evaluation/golden/make_goldens.py", made],
                   check=True, stdout=subprocess.DEVNULL)
    committed = json.loads((ROOT / "tests/evaluation/golden/coco_cases.json").read_text())
    again = json.loads(made.read_text())
    for old, new in zip(committed["cases"], again["cases"], strict=True):
        assert np.allclose(old["stats"], new["stats"], rtol=0, atol=TOLERANCE), old["name"]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    data = pathlib.Path(os.environ.get("RETINA_TEST_DATA", ROOT.parent / "shared/data"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        goldens_are_current(folder)
        seed = int.from_bytes(os.urandom(4), "little")
        print(f"seed {seed}")
        rng = np.random.default_rng(seed)
        worst, count = 0.0, 0
        for case in range(40):
            made = make_goldens.random_case(
                rng, f"random {case}", images=int(rng.integers(1, 25)),
                categories=int(rng.integers(1, 8)), objects=int(rng.integers(0, 9)),
                found=int(rng.choice([1, 10, 40, 160])), crowd=float(rng.choice([0, .1, .7])),
                score_steps=int(rng.choice([0, 3, 20])), whole_pixels=bool(rng.integers(0, 2)),
                first_id=int(rng.choice([-5, 0, 1])), unknown=int(rng.integers(0, 3)),
                category_gap=int(rng.integers(1, 9)), area_edges=bool(rng.integers(0, 2)))
            if not made["results"]:
                continue
            worst = max(worst, compare(made["name"], build, folder, made["truth"],
                                       made["results"]))
            count += 1
        for sample in ("cocoapi_val2014_100", "tinycoco_val"):
            if not (data / "eval" / sample).is_dir():
                print(f"skipped {sample}: not in {data}/eval")
                continue
            truth = json.loads((data / "eval" / sample / "gt.json").read_text())
            results = json.loads((data / "eval" / sample / "dt_bbox.json").read_text())
            worst = max(worst, compare(sample, build, folder, truth, results))
            count += 1
    print(f"coco_metrics: {count} sets, largest difference {worst:.1e}")


if __name__ == "__main__":
    main()

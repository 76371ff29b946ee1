#!/usr/bin/env python3
"""retina-eval's 12 numbers against the installed pycocotools, on fresh random sets and real ones.

    python3 tests/oracle/coco_metrics.py BUILD_DIR
Also makes the goldens of tests/evaluation again and compares them with the committed files, and gives
the 200 random sets to the program as JSON.
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

TOLERANCE = 1e-12


def retina_eval(build, folder, truth, results):
    command = [build / "bin/retina-eval", "--annotations", truth, "--detections", results,
               "--output", folder / "out", "--overwrite", "--log-level", "error"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "out/metrics.json").read_text()), done.stdout


def warnings_of(build, folder, truth, results):
    (folder / "truth.json").write_text(json.dumps(truth))
    (folder / "results.json").write_text(json.dumps(results))
    done = subprocess.run([build / "bin/retina-eval", "--annotations", folder / "truth.json",
                           "--detections", folder / "results.json", "--output", folder / "out",
                           "--overwrite"], capture_output=True, text=True)
    return done.returncode, [line for line in done.stderr.splitlines() if "warning" in line]


def compare(name, build, folder, truth, results):
    (folder / "truth.json").write_text(json.dumps(truth))
    (folder / "results.json").write_text(json.dumps(results))
    metrics, text = retina_eval(build, folder, folder / "truth.json", folder / "results.json")
    stats, per_class, summary = make_goldens.score(truth, results)
    precision = make_goldens.evaluate(truth, results)[0].eval["precision"][:, :, :, 0, -1]  # [T, R, K]
    worst = float(np.max(np.abs(np.array(stats) - metrics["stats"])))
    keys = ["AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large", "AR1", "AR10", "AR100",
            "AR_small", "AR_medium", "AR_large"]
    for place, (ours, theirs) in enumerate(zip(metrics["per_class"], per_class, strict=True)):  # ascending ids
        worst = max(worst, float(np.max(np.abs(np.subtract(theirs, [ours[k] for k in keys])))))
        curves = precision[:, :, place]
        if ours["curve_50"] is None:
            assert np.all(curves == -1), name
            continue
        for key, curve in (("curve_50", curves[0]), ("curve_75", curves[5]), ("curve_mean", curves.mean(0))):
            worst = max(worst, float(np.max(np.abs(np.subtract(curve, ours[key])))))
    assert worst <= TOLERANCE, f"{name}: differs by {worst}"
    # Without objects a sentence stands for the numbers.
    for ours, theirs in zip(text.splitlines() if metrics["object_count"] else [], summary.splitlines()):
        # A number that ends in 5 after 1e-16 of rounding may print either way.
        same = ours == theirs or (ours[:-5] == theirs[:-5]
                                  and abs(float(ours[-5:]) - float(theirs[-5:])) < 0.0011)
        assert same, f"{name}: the 12 lines differ:\n{ours}\n{theirs}"
    return worst


def goldens_are_current(folder):
    made = folder / "coco_cases.json"
    subprocess.run([sys.executable, ROOT / "tests/evaluation/golden/make_goldens.py", made],
                   check=True, stdout=subprocess.DEVNULL)
    committed = json.loads((ROOT / "tests/evaluation/golden/coco_cases.json").read_text())
    again = json.loads(made.read_text())
    for old, new in zip(committed["cases"], again["cases"], strict=True):
        assert np.allclose(old["stats"], new["stats"], rtol=0, atol=TOLERANCE), old["name"]


def random_sets_are_current(folder):
    made = folder / "random_sets.json"
    subprocess.run([sys.executable, ROOT / "tests/evaluation/golden/random_sets.py", made],
                   check=True, stdout=subprocess.DEVNULL)
    committed = json.loads((ROOT / "tests/evaluation/golden/random_sets.json").read_text())
    again = json.loads(made.read_text())
    assert np.allclose(committed["stats"], again["stats"], rtol=0, atol=TOLERANCE)


def hand_made():
    """Cases that random sets may miss: (name, truth, results)."""
    image = [{"id": 5, "file_name": "5.jpg", "width": 200, "height": 200},
             {"id": 2, "file_name": "2.jpg", "width": 200, "height": 200}]
    kinds = [{"id": 3, "name": "cat"}, {"id": 1, "name": "dog"}, {"id": 90, "name": "rare"}]

    def truth(*objects):
        return {"images": image, "categories": kinds, "annotations": [
            {"id": first, "image_id": where, "category_id": kind, "bbox": box, "area": area,
             "iscrowd": crowd} for first, where, kind, box, area, crowd in objects]}

    def found(*boxes):
        return [{"image_id": where, "category_id": kind, "bbox": box, "score": score}
                for where, kind, box, score in boxes]

    yield ("an object with id 0 beside others", truth(
        (0, 5, 3, [0, 0, 40, 40], 1600, 0), (1, 5, 3, [60, 60, 40, 40], 1600, 0)),
        found((5, 3, [0, 0, 40, 40], .9), (5, 3, [60, 60, 40, 40], .8), (5, 3, [1, 0, 40, 40], .7)))
    yield ("a crowd takes several, an object one", truth(
        (1, 5, 3, [0, 0, 200, 200], 4e4, 1), (2, 5, 3, [10, 10, 30, 30], 900, 0)),
        found(*[(5, 3, [10 + i, 10, 30, 30], .9 - i / 100) for i in range(9)]))
    yield ("areas of exactly 32^2 and 96^2", truth(
        (1, 5, 3, [0, 0, 32, 32], 1024, 0), (2, 2, 3, [0, 0, 96, 96], 9216, 0),
        (3, 2, 1, [0, 100, 96, 96], 9216.000001, 0), (4, 5, 1, [50, 50, 32, 32], 1023.999999, 0)),
        found((5, 3, [0, 0, 32, 32], .5), (2, 3, [0, 0, 96, 96], .5), (2, 1, [0, 100, 96, 96], .5),
              (5, 1, [50, 50, 32, 32], .5), (5, 1, [0, 50, 96, 96], .4)))
    yield ("integers where JSON may have them", truth((7, 2, 1, [10, 10, 20, 20], 400, 0)),
           found((2, 1, [10, 10, 20, 20], 1), (2, 1, [11, 10, 20, 20], 0)))
    yield ("boxes of no size", truth(
        (1, 5, 3, [10, 10, 0, 0], 0, 0), (2, 5, 3, [50, 50, 20, 20], 400, 0)),
        found((5, 3, [10, 10, 0, 0], .9), (5, 3, [70, 70, 0, 20], .8), (5, 3, [50, 50, 20, 20], .7)))
    yield ("one object, 150 copies of one detection", truth((1, 5, 3, [0, 0, 50, 50], 2500, 0)),
           found(*[(5, 3, [0, 0, 50, 50], .5) for _ in range(150)]))
    yield ("only categories that nobody annotated", truth((1, 5, 3, [0, 0, 50, 50], 2500, 0)),
           found((5, 90, [0, 0, 50, 50], .9), (2, 1, [0, 0, 50, 50], .8)))


def refusals_and_warnings(build, folder):
    """What pycocotools asserts is bad data here; what it takes silently costs one warning."""
    name, truth, results = next(hand_made())
    foreign = results + [dict(results[0], image_id=77)]
    try:
        make_goldens.score(truth, foreign)
        raise SystemExit("pycocotools took a detection on an image that is not in the set")
    except AssertionError:
        pass
    assert warnings_of(build, folder, truth, foreign)[0] == 65
    low = [dict(one, score=-one["score"]) for one in results] + [dict(results[0], category_id=44)]
    code, warnings = warnings_of(build, folder, truth, low)
    assert code == 0 and len(warnings) == 1, warnings
    assert " 1 detection has a category" in warnings[0] and " 3 detections" in warnings[0], warnings


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    data = pathlib.Path(os.environ.get("RETINA_TEST_DATA", ROOT.parent / "shared/data"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        goldens_are_current(folder)
        random_sets_are_current(folder)
        refusals_and_warnings(build, folder)
        seed = int.from_bytes(os.urandom(4), "little")
        print(f"seed {seed}")
        rng = np.random.default_rng(seed)
        worst, count = 0.0, 0
        for name, truth, results in hand_made():
            worst = max(worst, compare(name, build, folder, truth, results))
            count += 1
        for number in range(random_sets.SETS):
            worst = max(worst, compare(f"set {number}", build, folder,
                                       *random_sets.random_set(number)))
            count += 1
        for case in range(40):
            made = make_goldens.fresh_case(rng, case)
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

"""report.html in a real browser: every number on it is metrics.json's, and what can be clicked,
sorted, filtered, moved or printed works, with names that would break out of careless HTML."""
import json
import os
import pathlib
import random
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.dont_write_bytecode = True
from browser import HOSTILE, PageTest, number, shown

SEED = 7
KINDS = ["classification", "localisation", "both", "duplicate", "background", "missed"]


def moved(rng, box, by):
    return [box[0] + rng.gauss(0, by) * box[2], box[1] + rng.gauss(0, by) * box[3],
            max(1, box[2] * (1 + rng.gauss(0, by))), max(1, box[3] * (1 + rng.gauss(0, by)))]


def make_set(folder, names, image_count):
    """Ground truth and results with faults of every kind. The last of many classes has no object."""
    rng = random.Random(SEED)
    images, annotations, results = [], [], []
    filled = len(names) - 1 if len(names) > 3 else len(names)
    for image in range(1, image_count + 1):
        width, height = rng.choice([(640, 480), (480, 640), (1000, 300)])
        images.append({"id": image, "file_name": f"{image:06}.jpg", "width": width, "height": height})

        def add(category, box, score=None):
            box = [round(side, 2) for side in box]
            if score is not None:
                results.append({"image_id": image, "category_id": category, "bbox": box,
                                "score": round(score, 4)})
                return
            annotations.append({"id": len(annotations) + 1, "image_id": image, "iscrowd": 0,
                                "category_id": category, "bbox": box, "area": box[2] * box[3]})

        for place in range(rng.randint(1, 5)):
            category = rng.randrange(filled) + 1
            other = category % filled + 1
            size = rng.choice([20, 60, 150])
            box = [rng.uniform(0, width - size), rng.uniform(0, height - size), size, size * .8]
            add(category, box)
            fate = rng.random()
            if fate < .6:
                add(category, moved(rng, box, .04), rng.uniform(.3, 1))
            elif fate < .75:
                add(other, moved(rng, box, .02), rng.uniform(.3, 1))
            elif fate < .85:
                add(category, [box[0] + size * .45, *box[1:]], rng.uniform(.3, 1))
            if rng.random() < .15:
                add(category, moved(rng, box, .03), rng.uniform(.05, .5))
        for _ in range(rng.randint(0, 2)):
            add(rng.randrange(filled) + 1, [rng.uniform(0, width - 90), rng.uniform(0, height - 90),
                                            rng.uniform(20, 90), rng.uniform(20, 90)], rng.random())
    truth = {"images": images, "annotations": annotations, "categories": [
        {"id": i, "name": name} for i, name in enumerate(names, 1)]}
    for name, content in (("truth.json", truth), ("results.json", results)):
        (folder / name).write_text(json.dumps(content))


class ReportPageTest(PageTest):
    @classmethod
    def make_pages(cls):
        cls.pages = {}
        for count, names in (("3", HOSTILE), ("80", [f"class {i:02}" for i in range(80)])):
            room = cls.folder / count
            room.mkdir()
            make_set(room, names, 60 if count == "3" else 300)
            subprocess.run([os.environ["RETINA_BUILD"] + "/bin/retina-eval",
                            "--detections", room / "results.json", "--annotations",
                            room / "truth.json", "--output", room / "out",
                            "--count-best", "100" if count == "3" else "2000"], check=True,
                           stdout=subprocess.DEVNULL)
            cls.pages[count] = room / "out"

    def show(self, count, address=""):
        """Opens the page of that many classes; its metrics.json."""
        self.open(self.pages[count] / "report.html", address)
        return json.loads((self.pages[count] / "metrics.json").read_text())

    def name(self, place):
        return self.browser.evaluate(f"className({place})")

    def set_slider(self, selector, place):
        """Moves the slider with the keyboard from its left end."""
        self.browser.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        self.browser.press("Home")
        for _ in range(place):
            self.browser.press("ArrowRight")

    def test_the_metrics_are_those_of_metrics_json(self):
        for count in ("3", "80"):
            metrics = self.show(count)
            stats = [shown(value) for value in metrics["stats"]]
            self.assertEqual(self.texts("#metrics .value"),
                             [stats[0], stats[1], stats[2], stats[8], number(metrics["image_count"])])
            self.assertEqual(self.texts("#metrics .metric")[3],
                             f"AR100{stats[8]}100 detections per image" if count == "3" else
                             f"AR2000{stats[8]}2,000 detections per image")
            self.assertIn(number(metrics["object_count"]) + " objects", self.text("#metrics :last-child .detail"))
            self.assertEqual(self.rows("#sizes tbody tr"), [
                ["AP", stats[0], *stats[3:6]], 
                [f"AR, {'100' if count == '3' else '2,000'} detections", stats[8], *stats[9:12]],
                ["AR, 10 detections", stats[7], "", "", ""], ["AR, 1 detection", stats[6], "", "", ""],
                ["AP at IoU .50", stats[1], "", "", ""], ["AP at IoU .75", stats[2], "", "", ""]])
            self.assertEqual(self.texts("#sizes .bar-line .number"), stats[3:6] + stats[9:12])

    def class_row(self, one, place, count_best):
        row = [self.name(place)] + [shown(one[key]) for key in (
            "AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large", f"AR{count_best}")]
        row += [number(one["object_count"]), number(one["detection_count"])]
        if "best_threshold" in one:
            best = one["best_threshold"] or {}
            row += [shown(best.get("score")), shown(best.get("f1"))]
        return row

    def test_the_table_of_classes_sorts_and_filters(self):
        for count in ("3", "80"):
            per_class = self.show(count)["per_class"]
            expected = [self.class_row(one, i, 100 if count == "3" else 2000) for i, one in enumerate(per_class)]
            self.assertEqual(self.rows("#class-table tbody tr"), expected)
            self.browser.click("#class-table th:nth-child(2) button")
            down = self.rows("#class-table tbody tr")
            self.assertEqual(sorted(down), sorted(expected))
            aps = [row[1] for row in down if row[1] != "–"]
            self.assertEqual(aps, sorted(aps, reverse=True))
            self.assertEqual([row[1] for row in down[len(aps):]], ["–"] * (len(down) - len(aps)))
            self.browser.click("#class-table th:nth-child(2) button")
            up = self.rows("#class-table tbody tr")
            self.assertEqual([row[1] for row in up[:len(aps)]], sorted(aps))
            self.assertEqual(self.browser.evaluate(
                "document.querySelector('#class-table th:nth-child(2)').ariaSort"), "ascending")
            self.browser.click("input[type=search]")
            self.browser.type(expected[1][0][:8].upper())
            left = [row for row in up if expected[1][0][:8].upper() in row[0].upper()]
            self.assertLess(0, len(left))
            self.assertEqual(self.rows("#class-table tbody tr"), left)

    def test_names_stay_text(self):
        self.show("3")
        self.check_names_stay_text()

    def test_numbers_round_as_the_programs_table_does(self):
        self.show("3")
        rng = random.Random(SEED)
        values = [i / 16 for i in range(-16, 17)] + [i / 2000 for i in range(2001)]
        values += [rng.random() for _ in range(2000)] + [-.0001, 0, 1, 1e-9]
        self.assertEqual(self.browser.evaluate(f"{json.dumps(values)}.map(num)"),
                         [shown(value) for value in values])
        self.assertEqual(self.browser.evaluate("[null, undefined, -1].map(num)"), ["–"] * 3)
        big = 2 ** 53 + 1
        self.assertEqual(self.browser.evaluate(
            f"""parseExactly('{{"id": {big}, "a": [1, -0.12345678901234567, "x {big}"]}}')"""),
            {"id": str(big), "a": [1, -0.12345678901234567, f"x {big}"]})

    def test_a_class_opens_with_its_numbers_and_closes_again(self):
        for count in ("3", "80"):
            per_class = self.show(count)["per_class"]
            one = per_class[1]
            self.browser.click("#class-table tbody tr[data-place='1'] td:nth-child(3)")
            self.browser.wait_for("document.getElementById('sheet').open")
            self.assertEqual(self.text("#sheet-title"), self.name(1))
            sizes = " · ".join(shown(one["AP_" + size]) for size in ("small", "medium", "large"))
            expected = [shown(one["AP"]), shown(one["AP50"]), shown(one["AP75"]), sizes,
                        shown(one[f"AR{100 if count == '3' else 2000}"])]
            if "best_threshold" in one:
                expected.append(shown(one["best_threshold"]["score"]))
            self.assertEqual(self.texts("#sheet .metric .value"), expected)
            if "faults" in one:
                self.assertEqual(self.texts("#sheet .bars .number"),
                                 [number(one["faults"][kind]) for kind in KINDS])
            if "curve_50" in one:
                self.assertEqual(self.texts("#sheet .legend:not(.boxes) b"),
                                 [shown(one[key]) for key in ("AP50", "AP75", "AP")])
                self.check_curves(one)
            address = f"#class={one['category_id']}"
            self.assertEqual(self.browser.evaluate("location.hash"), address)
            self.browser.press("Escape")
            self.browser.wait_for("!document.getElementById('sheet').open && location.hash === ''")
            self.show(count, address=address)
            self.assertEqual(self.text("#sheet-title"), self.name(1))

    def check_curves(self, one):
        """The drawn lines go through the precisions of metrics.json."""
        paths = self.browser.evaluate("""[...document.querySelectorAll('#sheet .line')].map((path) =>
            path.getAttribute('d').slice(1).split('L').map((pair) => pair.split(',').map(Number)))""")
        left, right, top, bottom = self.browser.evaluate(
            "(({px, py}) => [px(0), px(1), py(1), py(0)])(unitPlot('', '', ''))")
        for points, key in zip(paths, ("curve_50", "curve_75", "curve_mean"), strict=True):
            drawn = [(bottom - y) / (bottom - top) for _, y in points]
            full = drawn if len(drawn) == 101 else drawn[:-1]
            for i, precision in enumerate(one[key]):
                self.assertAlmostEqual(full[i] if i < len(full) else 0, precision, delta=.001)
            for i, (x, _) in enumerate(points[:len(full)]):
                self.assertAlmostEqual((x - left) / (right - left), i / 100, delta=.001)

    def test_the_error_split_is_sorted_by_what_it_costs(self):
        for count in ("3", "80"):
            split = self.show(count)["error_split"]
            kinds = sorted(split["kinds"], key=lambda kind: -kind["ap_cost"])
            self.assertEqual(
                self.browser.evaluate("[...document.querySelectorAll('.fault')].map((one) => "
                                      "one.dataset.kind)"), [kind["kind"] for kind in kinds])
            self.assertEqual(self.texts(".fault .number"), [
                text for kind in kinds for text in (shown(kind["ap_cost"]), number(kind["count"]))])
            self.assertEqual(len([hint for hint in self.texts(".fault .hint") if hint]), len(KINDS))
            note = self.text("#faults .note")
            for key in ("ap", "false_positive_cost", "false_negative_cost", "iou", "background_iou"):
                self.assertIn(shown(split[key]), note)

    def test_curves_and_calibration_are_drawn_from_metrics_json(self):
        for count in ("3", "80"):
            metrics = self.show(count)
            with_objects = sum(one["curve_mean"] is not None for one in metrics["per_class"])
            for key in ("curve_50", "curve_75", "curve_mean"):
                self.browser.click(f"#overall-curves [data-value={key}]")
                self.assertEqual(len(self.texts("#overall-curves .class-line")), with_objects)
                self.assertEqual(len(self.texts("#overall-curves .mean-line")), 1)
            calibration = metrics["calibration"]
            self.assertEqual(self.text("#calibration .legend b"), shown(calibration["error"]))
            filled = [one for one in calibration["bins"] if one["count"]]
            self.assertEqual(self.texts("#calibration .count"),
                             [number(one["count"]) for one in filled])
            for text, one in zip(self.texts("#calibration .bin title"), filled, strict=True):
                self.assertIn(f"mean score {shown(one['mean_score'])}, precision {shown(one['precision'])}", text)

    def test_what_is_said_of_calibration_is_said_by_ranges_of_scores(self):
        def sentence(*bins):
            made = [{"low": low / 10, "high": (low + 1) / 10, "count": n, "mean_score": low / 10 + .05,
                     "precision": precision} for low, n, precision in bins]
            return self.browser.evaluate(
                f"calibrationSentence({json.dumps(made)}, {{many: 'detections', score: 'score'}})")
        self.show("3")
        # Many weak detections, few confident ones: each is described.
        self.assertEqual(
            sentence((0, 9000, 0), (1, 4000, .03), (3, 900, .34), (4, 0, 0), (7, 300, .95), (8, 200, .99)),
            "Detections of score 0.1 to 0.2 are right less often than their score says (below the dashed line), "
            "those of score 0.7 to 0.9 more often (above it).")
        self.assertEqual(sentence((1, 500, .02), (2, 500, .03), (5, 500, .2)),
                         "Detections of score 0.1 to 0.3, 0.5 to 0.6 are right less often than their score says "
                         "(below the dashed line).")
        self.assertEqual(sentence((8, 500, 1)), "Detections of score 0.8 to 0.9 are right more often than "
                         "their score says (above the dashed line).")
        # One detection says nothing.
        self.assertEqual(sentence((2, 400, .26), (8, 1, 0), (9, 1, 1)),
                         "Detections are right about as often as their score says.")

    def check_matrix(self, metrics, at):
        """Every count of the matrix, of its sums and of the list beside it."""
        confusion = metrics["confusion"]
        counts = {(cell["truth"], cell["found"]): cell["counts"][at] for cell in confusion["cells"]}
        labels = self.browser.evaluate("""[...document.querySelectorAll('.matrix td[aria-label]')].map(
            (td) => [+td.dataset.truth, +td.dataset.found, td.ariaLabel.split(': ').at(-1), td.className])""")
        self.assertEqual({(t, f): text for t, f, text, _ in labels if text != "0" or (t, f) in counts},
                         {cell: number(count) for cell, count in counts.items()})
        self.assertTrue(all((style.strip() == "") == (text == "0") for _, _, text, style in labels))
        right = sum(count for (t, f), count in counts.items() if t == f)
        wrong = sum(count for (t, f), count in counts.items() if t != f and min(t, f) >= 0)
        nothing = sum(count for (t, _), count in counts.items() if t < 0)
        missed = sum(count for (_, f), count in counts.items() if f < 0)
        self.assertEqual(self.text(".sums"),
                         f"{number(right)} right, {number(wrong)} found as another class, "
                         f"{number(nothing)} where nothing is, {number(missed)} missed at this score")
        listed = self.rows(".list-area li")
        best = sorted((count for (t, f), count in counts.items() if t != f and min(t, f) >= 0 and count),
                      reverse=True)[:50]
        self.assertEqual([row[1] for row in listed], [number(count) for count in best])
        return counts

    def test_the_slider_moves_the_confusion_matrix(self):
        for count in ("3", "80"):
            metrics = self.show(count)
            confusion = metrics["confusion"]
            self.check_matrix(metrics, confusion["chosen"])
            self.assertEqual(self.text("#confusion output"),
                             shown(confusion["scores"][confusion["chosen"]]) + " (best F1)")
            for at in (0, 5, len(confusion["scores"]) - 1):
                self.set_slider("#score-slider", at)
                self.assertEqual(self.text("#confusion output").split()[0], shown(confusion["scores"][at]))
                self.check_matrix(metrics, at)

    def test_a_cell_of_the_matrix_shows_its_images(self):
        for count in ("3", "80"):
            metrics = self.show(count)
            confusion, at = metrics["confusion"], metrics["confusion"]["chosen"]
            drawn = {image["image_id"] for image in metrics["images"]}
            cell = max((one for one in confusion["cells"]
                        if one["truth"] != one["found"] and min(one["truth"], one["found"]) >= 0),
                       key=lambda one: (bool(drawn & set(one["images"])), one["counts"][at]))
            selector = f"td[data-truth='{cell['truth']}'][data-found='{cell['found']}']"
            self.browser.click(selector)
            self.browser.wait_for("document.getElementById('sheet').open")
            truth, found = self.name(cell["truth"]), self.name(cell["found"])
            self.assertEqual(self.text("#sheet-title"), f"{truth} found as {found}")
            objects = confusion["truth_counts"][cell["truth"]]
            self.assertTrue(self.text("#sheet-count").startswith(
                f"{number(cell['counts'][at])} of {number(objects)} objects of the class, "
                f"share {shown(cell['counts'][at] / objects)}"), self.text("#sheet-count"))
            images = self.browser.evaluate(
                "[...document.querySelectorAll('#sheet .tile')].map((one) => +one.dataset.image)")
            self.assertEqual(images, [one for one in cell["images"] if one in drawn])
            self.assertTrue(images)
            self.browser.press("Escape")
            # The same by keyboard: the cell has the focus; Enter opens it.
            self.browser.evaluate(f"document.querySelector(\"{selector}\").focus()")
            self.assertIn(f"truth {truth}, found {found}: {number(cell['counts'][at])} of",
                          self.text(".cell-info"))
            self.browser.press("Enter")
            self.browser.wait_for("document.getElementById('sheet').open")
            self.browser.press("Escape")

    def test_worst_images_are_drawn_and_enlarged(self):
        for count in ("3", "80"):
            metrics = self.show(count)
            images = {image["image_id"]: image for image in metrics["images"]}
            for kind, ids in metrics["worst"].items():
                if not ids:
                    continue
                self.browser.click(f"#worst [data-value={kind}]")
                panel = f"#worst-{kind}"
                self.assertEqual(self.browser.evaluate(
                    f"[...document.querySelectorAll('{panel} .tile')].map((one) => +one.dataset.image)"),
                    [one for one in ids if one in images])
                self.set_slider("#draw-slider", 0)
                self.check_boxes(f"{panel} .tile:first-child", images[ids[0]])
            self.browser.click("#worst [data-value=ap_lost]")
            worst = images[metrics["worst"]["ap_lost"][0]]
            self.assertIn(f"AP lost {shown(worst['ap_lost'])}",
                          self.text("#worst-ap_lost .tile:first-child figcaption"))
            self.browser.click("#worst-ap_lost .tile:first-child .open")
            self.browser.wait_for("document.getElementById('viewer').open")
            self.assertEqual(self.text("#viewer-title"), worst["file_name"])
            self.check_boxes("#viewer .panes", worst)
            self.browser.press("ArrowRight")
            following = images[metrics["worst"]["ap_lost"][1]]
            self.assertEqual(self.text("#viewer-title"), following["file_name"])
            self.browser.press("Escape")

    def check_boxes(self, selector, image):
        """The boxes under `selector`: as many as there are, each where it belongs."""
        boxes = self.browser.evaluate(f"""[...document.querySelectorAll('{selector} .box')].map((box) =>
            [box.className, ...['left', 'top', 'width', 'height'].map((s) => parseFloat(box.style[s]))])""")
        sides = [image["width"], image["height"]] * 2
        found = [(["found", one["fault"] or "right"], one["bbox"]) for one in image["found"]]
        truth = [(["truth", "missed"] if one["missed"] else ["truth"], one["bbox"])
                 for one in image["truths"]]
        expected = sorted((sorted(style), [side / whole * 100 for side, whole in zip(bbox, sides)])
                          for style, bbox in found + truth)
        drawn = sorted((sorted(set(style.split()) - {"box", "faint", "crowd"}), place)
                       for style, *place in boxes)
        self.assertEqual([style for style, _ in drawn], [style for style, _ in expected])
        for (_, got), (_, want) in zip(drawn, expected, strict=True):
            for a, b in zip(got, want):
                self.assertAlmostEqual(a, b, delta=.002)

    def test_suspects_are_listed_by_reason(self):
        for count in ("3", "80"):
            metrics = self.show(count)
            for why in ("unlabelled", "wrong_class", "never_found"):
                wanted = [one for one in metrics["suspects"] if one["why"] == why]
                rows = self.rows(f"[data-why={why}] tbody tr")
                self.assertEqual([[row[1], row[3], row[4]] for row in rows], [
                    [str(one["annotation_id"] or "–"), shown(one["score"]), shown(one["iou"])]
                    for one in wanted])

    def test_it_prints_takes_the_dark_and_fits_any_window(self):
        for count in ("3", "80"):
            self.show(count)
            self.check_print_and_windows()


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()

"""report.html of a classifier's evaluation in a real browser: every number on it is metrics.json's,
and what can be clicked, sorted or moved works, with names that would break out of careless HTML."""
import array
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

SEED = 9
IMAGES = 60


def make_shards(build, folder, names):
    """Rendered images, packed with categories of these names and ids 10, 20, ..."""
    run(build / "render_scenes", "--output", folder / "scenes", "--train", IMAGES, "--validation", 1, "--intact")
    images = json.loads((folder / "scenes/annotations/instances_train2017.json").read_text())["images"]
    (folder / "truth.json").write_text(json.dumps({"images": images, "annotations": [], "categories": [
        {"id": 10 * (i + 1), "name": name} for i, name in enumerate(names)]}))
    run(build / "coco-pack", "--annotations", folder / "truth.json", "--images", folder / "scenes/images/train2017",
        "--output", folder / "shards")


def make_scores(folder, class_count):
    """Random scores that are right about seven times in ten. The last of many classes has no image."""
    rng = random.Random(SEED)
    labels, scores = array.array("i"), array.array("f")
    for image in range(IMAGES):
        label = rng.randrange(class_count - (class_count > 3))
        row = [rng.gauss(0, 1) for _ in range(class_count)]
        row[label if rng.random() < .7 else (label + rng.choice([1, 1, 1, 2])) % class_count] += rng.uniform(2, 6)
        labels.append(label)
        scores.extend(row)
    (folder / "labels.i32").write_bytes(labels.tobytes())
    (folder / "scores.f32").write_bytes(scores.tobytes())


def run(*command):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


class ClassPageTest(PageTest):
    @classmethod
    def make_pages(cls):
        build = pathlib.Path(os.environ["RETINA_BUILD"]) / "bin"
        cls.pages = {}
        for names in (HOSTILE, [f"class {i:02}" for i in range(40)]):
            room = cls.folder / str(len(names))
            room.mkdir()
            make_shards(build, room, names)
            make_scores(room, len(names))
            subprocess.run([build / "score_classifier", room, room / "shards", room / "out"], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            cls.pages[len(names)] = room / "out"

    def show(self, count, address=""):
        """Opens the page of that many classes; its metrics.json."""
        self.open(self.pages[count] / "report.html", address)
        self.metrics = json.loads((self.pages[count] / "metrics.json").read_text())
        return self.metrics

    def names(self):
        return {one["category_id"]: self.browser.evaluate(f"className({place})")
                for place, one in enumerate(self.metrics["per_class"])}

    def tiles(self, selector):
        return self.browser.evaluate(
            f"[...document.querySelectorAll('{selector} .tile')].map((one) => +one.dataset.image)")

    def test_the_metrics_are_those_of_metrics_json(self):
        for count in self.pages:
            metrics = self.show(count)
            values = [metrics["top1"], metrics["top5"] if count > 5 else None, metrics["balanced_accuracy"],
                      metrics["loss"], metrics["calibration"]["error"]]
            self.assertEqual(self.texts("#metrics .value"), [
                *(shown(value) for value in values if value is not None), number(IMAGES)])
            low, high = metrics["top1_interval"]
            self.assertEqual(self.texts("#metrics .detail")[0], f"95 %: {shown(low)} to {shown(high)}")

    def test_the_table_of_classes_sorts_and_opens_a_class(self):
        for count in self.pages:
            metrics = self.show(count)
            names = self.names()
            expected = [[names[one["category_id"]], shown(one["recall"]),
                         " – ".join(map(shown, one["recall_interval"])) if one["recall_interval"] else "–",
                         shown(one["precision"]), shown(one["f1"]), number(one["image_count"]),
                         number(one["predicted_count"])] for one in metrics["per_class"]]
            self.assertEqual(self.rows("#class-table tbody tr"), expected)
            self.browser.click("#class-table th:nth-child(2) button")
            down = [row[1] for row in self.rows("#class-table tbody tr")]
            there = [text for text in down if text != "–"]
            self.assertEqual(there, sorted(there, reverse=True))
            self.assertEqual(down[len(there):], ["–"] * (count - len(there)))
            one = metrics["per_class"][1]
            self.browser.click("#class-table tr[data-place='1'] td:nth-child(2)")
            self.browser.wait_for("document.getElementById('sheet').open")
            self.assertEqual(self.text("#sheet-title"), names[one["category_id"]])
            self.assertEqual(self.texts("#sheet .metric .value"), [
                shown(one["recall"]), shown(one["precision"]), shown(one["f1"]), number(one["image_count"])])
            taken = sorted((n for t, p, n in metrics["confusion"] if t == one["category_id"] != p), reverse=True)
            mistaken = sorted((n for t, p, n in metrics["confusion"] if p == one["category_id"] != t), reverse=True)
            self.assertEqual(self.texts("#sheet .confusions li .number:nth-child(2)"),
                             [number(n) for n in taken + mistaken])
            self.assertEqual(self.browser.evaluate("location.hash"), f"#class={one['category_id']}")
            self.browser.press("Escape")
            self.show(count, f"#class={one['category_id']}")
            self.assertEqual(self.text("#sheet-title"), names[one["category_id"]])

    def test_the_matrix_is_whole_up_to_20_classes_and_a_list_beyond(self):
        for count in self.pages:
            metrics = self.show(count)
            names = self.names()
            wrong = sorted((n for t, p, n in metrics["confusion"] if t != p), reverse=True)[:50]
            self.assertEqual(self.texts("#confusion .confusions li .number:nth-child(2)"),
                             [number(n) for n in wrong])
            cells = self.browser.evaluate("""[...document.querySelectorAll('.matrix td[aria-label]')].map(
                (td) => [td.ariaLabel, td.className.trim()])""")
            if count > 20:
                self.assertEqual(cells, [])
                continue
            counts = {(t, p): n for t, p, n in metrics["confusion"]}
            self.assertEqual(cells, [
                [f"truth {names[t]}, predicted {names[p]}: {number(counts.get((t, p), 0))}",
                 style if counts.get((t, p)) else style.replace("right", "").replace("wrong", "").strip()]
                for (t, p), (_, style) in zip(((t, p) for t in names for p in names), cells)])
            for (label, style), (t, p) in zip(cells, ((t, p) for t in names for p in names)):
                self.assertEqual("right" in style, t == p and (t, p) in counts, label)
                self.assertEqual("wrong" in style, t != p and (t, p) in counts, label)

    def test_a_cell_shows_its_numbers_and_images(self):
        for count in self.pages:
            metrics = self.show(count)
            names, pair = self.names(), metrics["most_confused"][0]
            ids = [one["category_id"] for one in metrics["per_class"]]
            key = f"{ids.index(pair['truth'])},{ids.index(pair['predicted'])}"
            self.browser.click(f"#confusion .link[data-cell='{key}']")
            self.browser.wait_for("document.getElementById('sheet').open")
            self.assertEqual(self.text("#sheet-title"), f"{names[pair['truth']]} taken for {names[pair['predicted']]}")
            images = metrics["per_class"][ids.index(pair["truth"])]["image_count"]
            self.assertIn(f"{pair['count']} of {things(images)} of the class, share "
                          f"{shown(pair['count'] / images)}", self.text("#sheet-count"))
            self.assertEqual(self.tiles("#sheet")[:len(pair["images"])], pair["images"])
            self.browser.press("Escape")
            if count <= 20:  # the same by keyboard
                truth, found = key.split(",")
                self.browser.evaluate(
                    f"document.querySelector(\"td[data-truth='{truth}'][data-found='{found}']\").focus()")
                self.assertIn(f"{pair['count']} of {things(images)}", self.text(".cell-info"))
                self.browser.press("Enter")
                self.browser.wait_for("document.getElementById('sheet').open")
                self.browser.press("Escape")

    def test_confident_mistakes_are_shown_and_enlarged(self):
        for count in self.pages:
            metrics = self.show(count)
            names, images = self.names(), {one["image_id"]: one for one in metrics["images"]}
            worst = metrics["confident_wrong"]
            self.assertEqual(self.tiles("#mistakes"), worst)
            self.assertEqual(self.browser.evaluate(
                "[...document.querySelectorAll('#mistakes img')].filter((one) => one.naturalWidth > 0).length"),
                len(worst))
            first = images[worst[0]]
            caption = self.text("#mistakes .tile:first-child figcaption")
            self.assertIn(f"{names[first['category_id']]} → {names[first['top5'][0][0]]}", caption)
            self.assertIn(f"confidence {shown(first['top5'][0][1])}", caption)
            self.browser.click("#mistakes .tile:first-child .open")
            self.browser.wait_for("document.getElementById('viewer').open")
            self.assertEqual(self.texts("#viewer .bars .number"), [shown(p) for _, p in first["top5"]])
            self.assertEqual(self.texts("#viewer .bars .name"), [names[id_] for id_, _ in first["top5"]])
            self.browser.press("ArrowRight")
            self.assertEqual(self.text("#viewer-title"), images[worst[1]]["file_name"])
            self.browser.press("Escape")

    def test_confused_pairs_have_up_to_three_images(self):
        for count in self.pages:
            metrics = self.show(count)
            shown_pairs = metrics["most_confused"][:24]
            self.assertEqual(self.browser.evaluate(
                "[...document.querySelectorAll('.pair')].map((one) => one.querySelectorAll('img').length)"),
                [min(3, pair["count"]) for pair in shown_pairs])

    def test_names_stay_text_and_it_fits(self):
        self.show(3)
        self.check_names_stay_text()
        self.check_print_and_windows()


def things(count):
    return f"{number(count)} image{'' if count == 1 else 's'}"


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main()

"""compare.html in a real browser, of two detectors and of two classifiers: every number is compare.json's."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
sys.dont_write_bytecode = True
import class_page_test
import report_page_test
from browser import PageTest, shown

BUILD = pathlib.Path(os.environ["RETINA_BUILD"]) / "bin"


def signed(value, digits=3):
    return "–" if value is None else ("+" if value > 0 else "") + f"{value:.{digits}f}"


def interval(ends):
    return "" if ends is None else f"{signed(ends[0])} to {signed(ends[1])}"


def marked(ends):
    return ends is not None and (ends[0] > 0 or ends[1] < 0)


class ComparePageTest(PageTest):
    def evaluate(self, *words):
        subprocess.run([BUILD / "retina-eval", *words], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def compare(self, name):
        """Compares a and b of the folder `name`, opens the page; compare.json."""
        folder = self.folder / name
        self.evaluate("--compare", folder / "a", folder / "b", "--output", folder / "compared")
        self.open(folder / "compared/compare.html")
        return json.loads((folder / "compared/compare.json").read_text())

    def tables(self):
        return self.browser.evaluate("""Object.fromEntries([...document.querySelectorAll(".table")].map((card) =>
            [card.querySelector("h3").textContent, [...card.querySelectorAll("tbody tr")].map((row) =>
                [...row.children].map((cell) => cell.textContent))]))""")

    def change(self, name, one, *more):
        return [name, shown(one["a"]), shown(one["b"]), signed(one["difference"]),
                ("● " if marked(one["interval"]) else "") + interval(one["interval"]), *more]

    def by_change(self, classes):
        return sorted((one for one in classes if one["difference"] is not None),
                      key=lambda one: -abs(one["difference"]))

    def check_plot(self, classes):
        """A row a class, with its interval where it has one, coloured by its sign where that is clear."""
        styles = self.browser.evaluate("[...document.querySelectorAll('.intervals g')].map((one) => "
                                       "[one.getAttribute('class'), one.querySelectorAll('.span').length])")
        self.assertEqual(styles, [
            [("s2" if one["difference"] > 0 else "s1") if marked(one["interval"]) else "s7",
             int(one["interval"] is not None)] for one in classes])
        self.assertEqual(self.texts(".intervals g title"), [
            f"{one['name']}: {signed(one['difference'])}" +
            (f" ({interval(one['interval'])})" if one["interval"] else "") for one in classes])

    def test_two_detectors(self):
        folder = self.folder / "detectors"
        folder.mkdir()
        report_page_test.make_set(folder, [f"class {i:02}" for i in range(8)], 120)
        results = json.loads((folder / "results.json").read_text())
        (folder / "fewer.json").write_text(json.dumps([one for i, one in enumerate(results) if i % 5 or i % 3]))
        for name, file in (("a", "results.json"), ("b", "fewer.json")):
            self.evaluate("--detections", folder / file, "--annotations", folder / "truth.json", "--output",
                          folder / name)
        found = self.compare("detectors")
        ap, classes = found["stats"][0], self.by_change(found["per_class"])
        with_interval = [one for one in found["per_class"] if one["interval"]]
        self.assertEqual(self.texts("#metrics .value"), [
            shown(ap["a"]), shown(ap["b"]), signed(ap["difference"]),
            str(sum(marked(one["interval"]) for one in with_interval)), str(found["better_count"])])
        self.assertEqual(self.texts("#metrics .detail")[2:], [
            interval(ap["interval"]), f"of {len(with_interval)} with an interval", f"{found['worse_count']} worse"])
        tables, images = self.tables(), {one["image_id"]: one for one in found["images"]}
        self.assertEqual(tables["The 12 numbers"], [self.change(one["name"], one) for one in found["stats"]])
        self.assertEqual(tables["AP by class, the largest change first"],
                         [self.change(one["name"], one, str(one["object_count"])) for one in classes])
        for title, ids in (("Images that got better", found["better"]), ("Images that got worse", found["worse"])):
            self.assertTrue(ids)
            self.assertEqual(tables[title], [
                [f"{images[id_]['file_name']} (image {id_})", f"{images[id_]['a']:.1f}", f"{images[id_]['b']:.1f}",
                 signed(-images[id_]["gain"], 1)] for id_ in ids])
        self.assertEqual(self.texts("#metrics .label")[:2], ["AP of A: a", "AP of B: b"])
        links = self.browser.evaluate("[...document.querySelectorAll('td a')].map((one) => one.getAttribute('href'))")
        self.assertEqual(links, [f"../{side}/report.html#image={id_}" for id_ in found["better"] + found["worse"]
                                 for side in "bab"])
        self.assertEqual(len(self.texts("#notes li")), 2)
        self.check_plot(classes)
        page, fragment = links[0].split("#")
        self.open(folder / "compared" / page, "#" + fragment)
        self.browser.wait_for("document.querySelector('dialog[open] h2') !== null")
        self.assertIn(images[found["better"][0]]["file_name"], self.texts("dialog[open] h2")[0])

    def test_two_classifiers(self):
        folder = self.folder / "classifiers"
        folder.mkdir()
        names = [f"class {i}" for i in range(7)]
        class_page_test.make_shards(BUILD, folder, names)
        class_page_test.make_scores(folder, len(names))
        class_page_test.run(BUILD / "score_classifier", folder, folder / "shards", folder / "a")
        scores = folder / "scores.f32"
        scores.write_bytes(scores.read_bytes()[4:] + scores.read_bytes()[:4])  # everybody's mistakes
        class_page_test.run(BUILD / "score_classifier", folder, folder / "shards", folder / "b")
        found = self.compare("classifiers")
        top1, classes = found["top1"], self.by_change(found["per_class"])
        self.assertEqual(self.texts("#metrics .value"), [
            shown(top1["a"]), shown(top1["b"]), signed(top1["difference"]),
            "p < 0.001" if top1["p"] < .0005 else f"p {top1['p']:.3f}", str(top1["only_b"])])
        tables = self.tables()
        self.assertEqual(tables["Metrics"], [self.change("top-1", top1), self.change("top-5", found["top5"]),
                                             self.change("loss", found["loss"])])
        self.assertEqual(tables["Recall by class, the largest change first"],
                         [self.change(one["name"], one, str(one["image_count"])) for one in classes])
        name = {one["category_id"]: one["name"] for one in found["per_class"]}
        self.assertTrue(found["only_a"])
        for title, images in (("Only A is right", found["only_a"]), ("Only B is right", found["only_b"])):
            self.assertEqual(tables.get(title, []), [
                [f"{one['file_name']} (image {one['image_id']})", name[one["category_id"]],
                 name[one["predicted_id"]], shown(one["confidence"])] for one in images[:10]])
        self.check_plot(classes)


if __name__ == "__main__":
    unittest.main()

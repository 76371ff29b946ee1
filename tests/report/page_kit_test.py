"""The page kit in a real browser: what its charts and tables draw from a report's JSON."""
import json
import math
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
sys.dont_write_bytecode = True
from browser import PageTest

EMPTY = {"metrics": [], "findings": [], "curves": [], "histograms": [], "tables_title": "Results", "tables": [],
         "galleries": []}
BAD = "<script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'>&\"'"


def kit_files():
    """The kit's scripts in the order in which the build joins them."""
    listed = re.search(r"kPageKit ([^)]*)\)", (ROOT / "shared/report/CMakeLists.txt").read_text())[1]
    return [ROOT / "shared/report" / name for name in listed.split()]


def page_text(data, images=None, notes=(), settings=(), scripts=(ROOT / "shared/report/report.js",)):
    """As render_page (shared/report/page.cpp) makes it, with the scripts of the source tree."""
    elements = {"page": {"notes": notes, "settings": settings, "data": data}, "images": images or {}}
    return "".join([
        "<!DOCTYPE html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<style>{(ROOT / 'shared/report/kit/page.css').read_text()}</style>",
        "<main><header><h1>title</h1></header><footer></footer></main>",
        "<dialog id='sheet' aria-labelledby='sheet-title'></dialog>",
        "<dialog id='viewer' aria-labelledby='viewer-title'></dialog>",
        *(f"<script type='application/json' id='{id_}'>{json.dumps(json_).replace('<', chr(92) + 'u003c')}</script>"
          for id_, json_ in elements.items()),
        *("<script>" + "".join(file.read_text() for file in files) + "</script>" for files in (kit_files(), scripts))])


class PageKitTest(PageTest):
    def show(self, images=None, notes=(), settings=(), **parts):
        (self.folder / "page.html").write_text(page_text(EMPTY | parts, images, notes, settings))
        self.open(self.folder / "page.html")

    def of(self, script):
        return self.browser.evaluate(script)

    def attributes(self, selector, *names):
        """Of each element: its attributes, numbers as numbers."""
        number = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
        rows = self.of(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => "
                       f"{json.dumps(names)}.map((name) => one.getAttribute(name)))")
        return [[float(text) if text and number.fullmatch(text) else text for text in row] for row in rows]

    def show_curve(self, *series, **options):
        self.show(curves=[{"title": "loss", "x_label": "step", "y_label": "mean", **options, "series": [
            {"name": f"line {i}", "xs": list(range(1, len(one["ys"]) + 1)), **one} for i, one in enumerate(series)]}])

    # Axes.

    def axis(self, low, high, **options):
        return self.of(f"(() => {{ const axis = makeAxis({low}, {high}, {json.dumps(options)}); return {{...axis, "
                       f"labels: axis.ticks.map(shortNumber).join(' '), ends: [{low}, {high}].map(axis.place), "
                       "places: axis.ticks.map(axis.place)}; })()")

    def test_ticks_are_round_numbers(self):
        self.show()
        self.assertEqual(self.axis(0, .83, round=True)["labels"], "0 0.2 0.4 0.6 0.8 1")
        self.assertEqual(self.axis(1, 600, ticks=6)["labels"], "100 200 300 400 500 600")
        self.assertEqual(self.axis(-3, 7)["labels"], "-2 0 2 4 6")
        self.assertEqual(self.axis(0, 90000)["labels"], "0 20k 40k 60k 80k")

    def test_logarithmic_ticks_are_decades(self):
        self.show()
        axis = self.axis(.02, 700, log=True, round=True)
        self.assertEqual(axis["labels"], "0.01 0.1 1 10 100 1000")
        for place, want in zip(axis["places"], (0, .2, .4, .6, .8, 1), strict=True):
            self.assertAlmostEqual(place, want, delta=1e-12)

    def test_every_range_has_ticks_inside(self):
        self.show()
        for low in (-1e12, -5.0, -1e-9, 0.0, 1e-9, 3.0, 1e6, 1e12):
            for width in (0.0, 1e-9, .3, 4.0, 1e5, 1e13):
                axis = self.axis(low, low + width, round=True)
                self.assertLess(axis["low"], axis["high"], (low, width))
                self.assertTrue(2 <= len(axis["ticks"]) <= 14, (low, width))
                for place in axis["places"] + axis["ends"]:
                    self.assertTrue(-1e-6 <= place <= 1 + 1e-6, (low, width, place))

    def test_numbers_read_short(self):
        self.show()
        self.assertEqual(self.of("[0, 0.123456, 5e-5, 9999, 118287, 2.5e6, 3e12, 1.25e-7, Infinity].map(shortNumber)"),
                         ["0", "0.1235", "5e-5", "9999", "118.3k", "2.5M", "3e12", "1.25e-7", "n/a"])

    # Curves.

    def test_missing_values_break_a_line(self):
        self.show_curve({"ys": [1, 2, None, 2, 1]})
        (path,), = self.attributes(".line", "d")
        self.assertEqual((path.count("M"), path.count("L")), (2, 2))
        self.assertNotIn("NaN", path)

    def test_a_logarithmic_axis_has_even_decades_and_no_place_for_zero(self):
        self.show_curve({"xs": [0, 1, 10, 100], "ys": [1, 1, 1, 1]}, log_x=True)
        (path,), = self.attributes(".line", "d")
        self.assertEqual([float(point.split(" ")[0]) for point in re.split("[ML]", path)[1:]], [52, 299, 546])

    def test_marks_are_asked_for_or_of_single_points(self):
        self.show_curve({"ys": [1, 2, 3]})
        self.assertEqual(self.texts(".mark title"), [])
        self.show_curve({"ys": [1, 2, 3], "points": True})
        self.assertEqual(self.texts(".mark title"), [f"step {i}: line 0 {i}" for i in (1, 2, 3)])
        self.show_curve({"ys": [.5]})
        self.assertEqual(len(self.texts(".mark title")), 1)

    def test_a_faint_line_has_the_colour_of_its_smoothed_form(self):
        self.show_curve({"ys": [1, 2], "faint": True}, {"ys": [1, 2]}, {"ys": [2, 1]})
        self.assertEqual(self.attributes(".line", "class"), [["line s0 faint"], ["line s0"], ["line s1"]])
        self.assertEqual(self.texts(".legend span"), ["line 12", "line 21"])  # name and last value

    def test_marks_are_rules_within_the_values(self):
        self.show_curve({"ys": [1, 2, 3]}, marks=[{"x": 2, "text": "longer"}, {"x": 9, "text": "away"}])
        self.assertEqual(self.texts(".plot .rule + text"), ["longer"])
        (x, again), = zip(*self.attributes(".plot .rule", "x1"), *self.attributes(".plot .rule", "x2"))
        self.assertEqual((float(x), float(again)), (299, 299))  # the middle

    def test_nothing_to_draw_is_said(self):
        for series, options in (([], {}), ([{"ys": [None]}], {}), ([{"ys": [0, -1]}], {"log_y": True})):
            self.show_curve(*series, **options)
            self.assertEqual(self.texts(".curve .none"), ["no values"])
        self.show(histograms=[{"title": "none", "bars": [{"label": "", "detail": "", "count": 0}]}])
        self.assertEqual(self.texts(".none"), ["no values"])
        self.show_intervals()
        self.assertEqual(self.texts(".none"), ["no values"])

    def test_a_long_run_is_drawn_with_its_extremes(self):
        ys = [math.sin(i / 100) for i in range(4000)]
        ys[1234], ys[3210] = 99, -99
        self.show_curve({"ys": ys})
        (path,), = self.attributes(".line", "d")
        self.assertEqual(len(re.split("[ML]", path)) - 1, 4000)
        heights = [float(point.split(" ")[1]) for point in re.split("[ML]", path)[1:]]
        self.assertEqual((heights.index(min(heights)), heights.index(max(heights))), (1234, 3210))

    # Histograms.

    def test_bars_are_as_long_as_their_counts(self):
        self.show(histograms=[{"title": "few", "bars": [
            {"label": "", "detail": str(n), "count": n} for n in (0, 100, 50)], "marks": [{"place": 1.5, "text": "32"}]}])
        self.assertEqual([row[0] for row in self.attributes(".column", "height")], [0, 180, 90])
        self.assertEqual(self.texts(".column title"), ["0", "100", "50"])
        x, width = self.attributes(".column:nth-of-type(2)", "x", "width")[0]
        self.assertAlmostEqual(self.attributes(".rule", "x1")[0][0], x + width / 2)

    def test_many_bars_take_the_whole_width_and_their_names_are_cut(self):
        self.show(histograms=[
            {"title": "few", "bars": [{"label": "a name that is long", "detail": "", "count": 1}]},
            {"title": "many", "wide": True, "bars": [{"label": "ä & fifteen more", "detail": "", "count": 1}]}])
        self.assertIn("a name that is long", self.texts(".curve:not(.wide) text"))
        self.assertEqual(self.texts(".curve.wide text[transform*='rotate(-60)']"), ["ä & fifteen mo…"])

    # Values with intervals. The axis goes from -.1 to .2 over 680 pixels that begin at 200.

    def show_intervals(self, *rows):
        self.show()
        self.add_intervals("change", *rows)

    def add_intervals(self, text, *rows):
        card = {"title": text, "x_label": text, "note": text, "rows": [
            {"label": "a", "detail": "", "low": None, "high": None, "marked": False, **row} for row in rows]}
        self.of(f"(() => {{ section('changes', 'changes', intervalCard({json.dumps(card)})); }})()")

    def test_each_value_is_drawn_with_its_interval(self):
        self.show_intervals({"detail": "dog: +0.1", "value": .1, "low": .05, "high": .2, "marked": True},
                            {"detail": "cat: -0.05", "value": -.05, "low": -.1, "high": .05})
        self.assertEqual(self.attributes("g", "class"), [["s2"], ["s7"]])
        self.assertEqual(self.texts("g title"), ["dog: +0.1", "cat: -0.05"])
        spans = [round(x, 3) for row in self.attributes(".span", "x1", "x2") for x in row]
        self.assertEqual(spans, [540, 880, 200, 540])
        self.assertAlmostEqual(self.attributes(".dot", "cx")[0][0], 653.333, delta=.001)
        self.assertAlmostEqual(self.attributes(".axis", "x1")[0][0], 426.667, delta=.001)

    def test_a_marked_loss_has_another_colour_than_a_gain(self):
        self.show_intervals({"value": -.1, "low": -.2, "high": -.05, "marked": True})
        self.assertEqual(self.attributes("g", "class"), [["s1"]])

    def test_a_value_without_an_interval_is_a_mark_alone_even_at_zero(self):
        self.show_intervals({"value": 0, "label": "ä" * 29})
        self.assertEqual(self.attributes(".span", "x1"), [])
        self.assertEqual(self.attributes("circle", "class", "cx"), [["mark", 540]])
        self.assertEqual(self.texts("g text"), ["ä" * 28 + "…"])

    # Tables, galleries, texts.

    def test_a_tables_bars_have_their_own_lengths(self):
        self.show(tables=[{"title": "t", "columns": ["class", "boxes", "why"], "rows": [["cat", "1,234", "is <b>"], ["dog"]],
                           "note": "n", "bar_column": 1, "bars": [.25], "text_column": 2, "wide": True}])
        self.assertEqual(self.attributes("td.bar", "style"), [["--w: 25%;"]])
        self.assertEqual(self.texts("td"), ["cat", "1,234", "is <b>", "dog"])
        self.assertEqual(self.texts(".sentence"), ["why", "is <b>"])
        self.assertEqual(self.texts(".table.wide .note"), ["n"])

    def test_images_have_their_captions_and_are_enlarged(self):
        pixel = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
        self.show(images={"0": pixel, "1": pixel}, galleries=[{"title": "Samples", "note": "n", "images": [
            {"caption": "one", "image": 0}, {"caption": "two", "image": 1}]}])
        self.assertEqual(self.attributes("#gallery-0 img", "alt", "src"), [["one", pixel], ["two", pixel]])
        self.assertEqual(self.texts("#gallery-0 figcaption"), ["one", "two"])
        self.browser.click("#gallery-0 .tile:nth-child(2) .open")
        self.assertEqual(self.texts("#viewer-title"), ["two"])
        self.browser.press("ArrowRight")
        self.assertEqual(self.texts("#viewer-title"), ["one"])
        self.browser.press("Escape")

    def test_empty_parts_leave_no_headings(self):
        self.show()
        self.assertEqual(self.texts("h2, section, nav a"), [])

    def test_names_stay_text_everywhere_and_a_phone_shows_all(self):
        row = {"label": BAD, "detail": BAD, "value": .5, "low": .4, "high": .6, "marked": True}
        self.show(
            images={}, notes=[BAD], settings=[[BAD, BAD]], metrics=[{"label": BAD, "value": BAD, "detail": BAD}],
            findings=[{"text": BAD, "options": BAD}], tables_title=BAD,
            curves=[{"title": BAD, "x_label": BAD, "y_label": BAD, "series": [
                {"name": BAD, "xs": [1, 2], "ys": [3, 4], "points": True}]}],
            histograms=[{"title": BAD, "x_label": BAD, "y_label": BAD, "bars": [
                {"label": BAD, "detail": BAD, "count": 1}], "marks": [{"place": .5, "text": BAD}], "wide": wide}
                for wide in (True, False)],
            tables=[{"title": BAD, "columns": [BAD, "AP"], "rows": [[BAD, "0.25"]], "note": BAD, "bar_column": -1,
                     "bars": [], "text_column": 0}],
            galleries=[{"title": BAD, "note": BAD, "images": [{"caption": BAD, "image": 0}]}])
        self.add_intervals(BAD, row)
        self.assertEqual(self.of("[window.hurt, document.querySelectorAll('main script, img').length]"), [None, 0])
        for selector in ("#metrics .label", "#findings li", "#findings code", ".curve h3", ".legend span", ".mark title",
                         ".column title", ".rule + text", "th", "td", ".note", "g title", "figcaption", ".notes li",
                         "#settings td", "nav a"):
            texts = self.texts(selector)
            self.assertTrue(any(BAD in text for text in texts), selector)
        self.browser.resize(400, 900)
        self.assertEqual(self.of("document.documentElement.scrollWidth"), 400)
        self.browser.resize(1440, 1000)


if __name__ == "__main__":
    unittest.main()

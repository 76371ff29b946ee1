// The page of a Report (report.h): each of its parts that is not empty.

const report = page.data;

function viewImage({caption, image}) {
  return {title: caption, content: make("div", {class: "pane whole"}, photograph(image, caption))};
}

if (report.metrics.length) {
  metricsSection(report.metrics.map(({label, value, detail}) => metric(label, value, detail)));
}
if (report.findings.length) {
  section("findings", "What to look at", make("ol", {class: "card findings"},
    report.findings.map(({text, options}) =>
      make("li", {}, text, options ? make("code", {}, options) : null))));
}
if (report.curves.length) {
  section("curves", "Curves", make("div", {class: "curves"}, report.curves.map(curveCard)));
}
if (report.histograms.length) {
  section("distributions", "Distributions",
    make("div", {class: "curves"}, report.histograms.map(histogramCard)));
}
if (report.tables.length) {
  section("tables", report.tables_title, make("div", {class: "tables"}, report.tables.map(tableCard)));
}
report.galleries.filter((one) => one.images.length).forEach(({title, note: text, images}, i) =>
  section(`gallery-${i}`, title, note(text, "gallery-note"),
    make("div", {class: "gallery"}, images.map((one) => tile({
      id: one.image, label: one.caption, view: photograph(one.image, one.caption), lines: one.caption,
      style: "card", open: () => openViewer(one, images, viewImage),
    })))));
finishPage();

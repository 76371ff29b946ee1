// The page of a comparison of two detectors or of two classifiers; renders compare.json.

const comparison = page.data;
const isClassification = Boolean(comparison.task);
const MOST_LABELS = 5;  // top-5 needs more classes than that to mean anything

const exists = (value) => value !== null && value !== undefined;
const signed = (value, text = threeDecimals) => (exists(value) ? `${value > 0 ? "+" : ""}${text(value)}` : NONE);
const excludesZero = (interval) => Boolean(interval) && (interval[0] > 0 || interval[1] < 0);
const intervalText = (interval) => (interval ? interval.map((end) => signed(end)).join(" to ") : "");
const nameOf = ({name, category_id: id}) => plain(name) || `category ${id}`;
const imageName = ({file_name: name, image_id: id}) => (name ? `${plain(name)} (image ${id})` : `image ${id}`);

// Names that tell the two folders apart: "A: base" and "B: new" for runs/base/eval and
// runs/new/eval.
const paths = [comparison.a, comparison.b].map((path) => path.split("/").filter(Boolean));
let last = -1;
while (paths[0].at(last) && paths[0].at(last) === paths[1].at(last)) last -= 1;
const [A, B] = ["a", "b"].map((side, i) => `${side.toUpperCase()}: ${plain(paths[i].at(last) || comparison[side])}`);

// Returns a link to an image on the page of a side, where that has one.
function link(side, id, text) {
  const path = comparison[`page_${side}`]?.split("/").map(encodeURIComponent).join("/");
  return path ? make("a", {href: `${path}#image=${id}`}, text) : text;
}

// Returns a row. Its mark stands in front, so that the numbers stay below each other.
function changeRow(name, {a, b, difference, interval}, ...more) {
  return [name, num(a), num(b), signed(difference),
    `${excludesZero(interval) ? "● " : ""}${intervalText(interval)}`, ...more];
}

const changed = comparison.per_class.filter((one) => exists(one.difference))
  .sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference));
const COLUMNS = [A, B, "B − A", "95 % interval"];

// Returns the images that only one of the two has right, the most confident mistakes of the other
// first.
function flipsTable(title, images) {
  const names = new Map(comparison.per_class.map((one) => [String(one.category_id), nameOf(one)]));
  const name = (id) => names.get(String(id)) || `category ${id}`;
  return images.length ? {
    title, columns: ["image", "truth", "taken for", "confidence"],
    rows: images.slice(0, 10).map((one) =>
      [link("b", one.image_id, imageName(one)), name(one.category_id), name(one.predicted_id), num(one.confidence)]),
    note: "The most confident mistakes of the other one first.",
  } : null;
}

function imagesTable(title, ids) {
  const images = new Map(comparison.images.map((one) => [String(one.image_id), one]));
  const one = (value) => value.toFixed(1);
  return ids.length ? {
    title, columns: ["image", `mistakes of ${A}`, `of ${B}`, "change"],
    rows: ids.map((id) => images.get(String(id))).map((image) =>
      [link("b", image.image_id, imageName(image)), link("a", image.image_id, one(image.a)),
        link("b", image.image_id, one(image.b)), signed(-image.gain, one)]),
  } : null;
}

function ofDetectors() {
  const [ap] = comparison.stats, withInterval = comparison.per_class.filter((one) => one.interval);
  return {
    metrics: [[`AP of ${A}`, num(ap.a), "IoU .50 to .95"], [`AP of ${B}`, num(ap.b), "IoU .50 to .95"],
      ["B − A", signed(ap.difference), intervalText(ap.interval) || "no interval"],
      ["classes that differ", count(withInterval.filter((one) => excludesZero(one.interval)).length),
       `of ${count(withInterval.length)} with an interval`],
      ["images better", count(comparison.better_count), `${count(comparison.worse_count)} worse`]],
    tables: [
      {title: "The 12 numbers", columns: ["", ...COLUMNS],
       rows: comparison.stats.map((one) => changeRow(one.name, one))},
      {title: "AP by class, the largest change first", columns: ["class", ...COLUMNS, "objects"],
       rows: changed.map((one) => changeRow(nameOf(one), one, count(one.object_count)))},
      imagesTable("Images that got better", comparison.better),
      imagesTable("Images that got worse", comparison.worse)],
    metric: "AP", note: " Without a line: objects on too few images for an interval.",
  };
}

function ofClassifiers() {
  const {top1, top5, loss} = comparison, images = things(comparison.image_count, "image");
  return {
    metrics: [[`top-1 of ${A}`, num(top1.a), images], [`top-1 of ${B}`, num(top1.b), images],
      ["B − A", signed(top1.difference), intervalText(top1.interval)],
      ["McNemar's test", top1.p < .0005 ? "p < 0.001" : `p ${num(top1.p)}`, "mid-p, two-sided"],
      ["only B is right", count(top1.only_b), `only A on ${count(top1.only_a)}`]],
    tables: [
      {title: "Metrics", columns: ["", ...COLUMNS], rows: [changeRow("top-1", top1),
        ...(comparison.per_class.length > MOST_LABELS ? [changeRow("top-5", top5)] : []), changeRow("loss", loss)]},
      {title: "Recall by class, the largest change first", columns: ["class", ...COLUMNS, "images"],
       rows: changed.map((one) => changeRow(nameOf(one), one, count(one.image_count)))},
      flipsTable("Only B is right", comparison.only_b), flipsTable("Only A is right", comparison.only_a)],
    metric: "recall", note: "",
  };
}

const shown = isClassification ? ofClassifiers() : ofDetectors();
shown.tables[0].note = "●: the interval excludes 0.";
metricsSection(shown.metrics.map((one) => metric(...one)));
section("tables", "Results", make("div", {class: "tables"}, shown.tables.filter(Boolean).map(tableCard)));
section("changes", `Change of each class's ${shown.metric}`, intervalCard({
  title: `Change of each class's ${shown.metric}`, x_label: `${shown.metric} of B − ${shown.metric} of A`,
  note: `Coloured: the interval excludes 0.${shown.note}`,
  rows: changed.map((one) => ({
    label: nameOf(one), value: one.difference, low: one.interval?.[0], high: one.interval?.[1],
    detail: `${nameOf(one)}: ${signed(one.difference)}${one.interval ? ` (${intervalText(one.interval)})` : ""}`,
    marked: excludesZero(one.interval),
  })),
}));
finishPage();

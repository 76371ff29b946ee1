// The page of a classifier's evaluation.

const CLASS_COLUMNS = [
  {title: "recall", value: (one) => one.recall, show: num, bar: true},
  {title: "95 % interval", value: (one) => one.recall_interval?.[0],
   text: (one) => (one.recall_interval ? one.recall_interval.map(num).join(" – ") : NONE),
   hint: "Of the recall; sorts by its lower end"},
  {title: "precision", value: (one) => one.precision, show: num},
  {title: "F1", value: (one) => one.f1, show: num},
  {title: "images", value: (one) => one.image_count, show: count},
  {title: "predicted", value: (one) => one.predicted_count, show: count,
   hint: "Images taken for the class"},
];
const MOST_PAIRS = 24;
const MOST_CLASSES = 20;  // with more, only the list of confusions is shown

// Mistaken images with their true and their predicted class.

const firstOf = (image) => image.top5[0];
const mistakeText = (image) => `${categoryName(image.category_id)} → ${categoryName(firstOf(image)[0])}`;
const photo = (image) => photograph(image.image_id, `${imageName(image)}: ${mistakeText(image)}`);
const confidence = (image) => `confidence ${num(firstOf(image)[1])}`;
const byConfidence = (list) => list.sort((a, b) => firstOf(b)[1] - firstOf(a)[1]);

function mistakeTile(image, list, lines, style = "") {
  return tile({id: image.image_id, label: `${imageName(image)}: ${mistakeText(image)}`, view: photo(image),
    lines, style, open: () => openViewer(image, list, viewImage)});
}

function gallery(list) {
  return make("div", {class: "gallery small"}, list.map((image) => mistakeTile(image, list, [
    make("b", {title: mistakeText(image)}, mistakeText(image)),
    make("span", {}, `${confidence(image)} · ${imageName(image)}`)], "card")));
}

// Shows the image beside its best classes.
function viewImage(image) {
  const isTrue = (id) => String(id) === String(image.category_id);
  return {title: imageName(image), content: [
    make("p", {}, `Truth ${categoryName(image.category_id)}, at place ${count(image.rank + 1)}; ` +
      `predicted ${categoryName(firstOf(image)[0])}. Cross-entropy ${num(image.loss)}.`),
    make("div", {class: "panes"},
      make("div", {class: "pane whole"}, photo(image)),
      make("div", {class: "pane stack"}, headed("Best classes", make("div", {class: "bars"},
        image.top5.map(([id, probability], i) => barRow(isTrue(id) ? "ok" : i ? "recall" : "background",
          categoryName(id), probability, [num(probability)]))))))]};
}

// Confusion.

const countAt = (cell) => cell.number;
const rowSum = (truth) => classes[truth].image_count;
const describeCell = (truth, found) => `truth ${className(truth)}, predicted ${className(found)}`;

function cellText(truth, found) {
  return `${count(countOf(truth, found))} of ${things(rowSum(truth), "image")} of the ` +
    `class, share ${num(share(truth, found))}`;
}

function cellTitle(truth, found) {
  return truth === found ? `${className(truth)}, rightly` : `${className(truth)} taken for ${className(found)}`;
}

function cellImages(truth, found) {
  const list = byConfidence([...drawnImages.values()].filter((image) =>
    String(image.category_id) === idOf(truth) && String(firstOf(image)[0]) === idOf(found)));
  return list.length ? gallery(list) : note(truth === found ?
    "Images are shown of mistakes alone." : "Its images are not among those shown.", "soft");
}

function confusionSection() {
  for (const [truth, found, number] of metrics.confusion) {
    const [row, column] = [truth, found].map((id) => placeOfCategory.get(String(id)));
    cells.set(cellKey(row, column), {truth: row, found: column, number});
  }
  const {draw, elements} = confusionView(classes.length > MOST_CLASSES ? null : {
    places: classes.map((_, place) => place), corner: "truth ↓ predicted →",
    row: className, column: className, has: () => true,
  });
  draw();
  const shade = elements.length > 1 ? "A cell's shade is its share of the row. " : "";
  return make("div", {class: "card"}, elements,
    note(`${shade}Truth → predicted, images, share of the true class's images.`));
}

// One class, and the most confused pairs with their images.

const range = (interval) => (interval ? `95 %: ${num(interval[0])} to ${num(interval[1])}` : "");

function classDetails(place) {
  const one = classes[place], id = String(one.category_id);
  const confusions = (title, wanted, text) => make("div", {class: "stack"},
    headed(title, confusionList(confusionsOf((cell) => isConfusion(cell) && wanted(cell)), text)));
  const list = byConfidence([...drawnImages.values()].filter((image) =>
    String(image.category_id) === id || String(firstOf(image)[0]) === id)).slice(0, MOST_EXAMPLES);
  return [note(`Category ${id}`, "soft"),
    make("div", {class: "metrics"},
      metric("Recall", num(one.recall), range(one.recall_interval)),
      metric("Precision", num(one.precision), range(one.precision_interval)),
      metric("F1", num(one.f1)),
      metric("Images", count(one.image_count), `${count(one.predicted_count)} taken for the class`)),
    make("div", {class: "halves"},
      confusions("Images of this class", (cell) => cell.truth === place,
        (cell) => `taken for ${className(cell.found)}`),
      confusions("Taken for this class", (cell) => cell.found === place,
        (cell) => `images of ${className(cell.truth)}`)),
    list.length ? headed("Mistakes, the most confident first", gallery(list)) :
      note("No mistake with this class is among those shown.", "soft")];
}

function pairCard(pair) {
  const [truth, found] = [pair.truth, pair.predicted].map((id) => placeOfCategory.get(String(id)));
  const list = imagesOf(pair.images);
  return make("div", {class: "card pair", "data-cell": cellKey(truth, found)},
    button("link", () => openCell(truth, found), pairText({truth, found})),
    make("span", {class: "soft"}, `${things(pair.count, "image")}, share ${num(share(truth, found))}`),
    make("div", {class: "crops"}, list.map((image) => mistakeTile(image, list, confidence(image)))));
}

metricsSection([
  metric("top-1", num(metrics.top1), range(metrics.top1_interval)),
  metrics.class_count > metrics.top5_labels ?
    metric("top-5", num(metrics.top5), range(metrics.top5_interval)) : null,
  metric("balanced accuracy", num(metrics.balanced_accuracy), "mean over classes"),
  metric("loss", num(metrics.loss), "cross-entropy, mean"),
  metric("calibration error", num(metrics.calibration.error), "expected, 15 bins"),
  metric("images", count(metrics.image_count), things(metrics.class_count, "class", "classes")),
]);
section("classes", "Classes", classTable(CLASS_COLUMNS,
  "recall: the share of the class's images that is right. precision: the share of the images taken " +
  "for the class that is. A click on a class shows its confusions and images."));
section("confusion", "Confusion", confusionSection());
section("curves", "Calibration", make("div", {class: "curves single"}, calibrationChart(metrics.calibration, {
  one: "image", many: "images", score: "confidence", right: "accuracy",
})));
if (metrics.confident_wrong.length) {
  section("mistakes", "Most confident mistakes", gallery(imagesOf(metrics.confident_wrong)));
}
if (metrics.most_confused.length) {
  section("pairs", "Images of the most confused classes",
    make("div", {class: "pairs"}, metrics.most_confused.slice(0, MOST_PAIRS).map(pairCard)));
}
finishEvaluation();

// Puts the page of a classifier's evaluation together.

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

function showMetrics() {
  part("figures").append(...[
    figure("top-1", num(metrics.top1), range(metrics.top1_interval)),
    metrics.class_count > metrics.top5_labels ?
      figure("top-5", num(metrics.top5), range(metrics.top5_interval)) : null,
    figure("balanced accuracy", num(metrics.balanced_accuracy), "mean over classes"),
    figure("loss", num(metrics.loss), "cross-entropy, mean"),
    figure("calibration error", num(metrics.calibration.error), "expected, 15 bins"),
    figure("images", count(metrics.image_count), things(metrics.class_count, "class", "classes")),
  ].filter(Boolean));
}

function showMistakes() {
  const list = imagesOf(metrics.confident_wrong);
  part("mistakes").hidden = !list.length;
  part("mistakes").append(gallery(list));
}

// The pairs of the list with their images.
function showPairs() {
  const pairs = metrics.most_confused.slice(0, MOST_PAIRS);
  part("pairs").hidden = !pairs.length;
  part("pairs").append(make("div", {class: "pairs"}, pairs.map((pair) => {
    const [truth, found] = [pair.truth, pair.predicted].map((id) => placeOfCategory.get(String(id)));
    const list = imagesOf(pair.images);
    return make("div", {class: "card pair", "data-cell": cellKey(truth, found)},
      make("button", {type: "button", class: "link", click: () => openCell(truth, found)},
        pairText({truth, found})),
      make("span", {class: "soft"}, `${things(pair.count, "image")}, share ${num(share(truth, found))}`),
      make("div", {class: "crops"}, list.map((image) => make("figure", {class: "tile"},
        make("button", {
          type: "button", class: "open", "aria-label": `${imageName(image)}. Enlarge`,
          click: () => openViewer(image, list),
        }, photo(image)),
        make("figcaption", {}, `confidence ${num(firstOf(image)[1])}`)))));
  })));
}

showMetrics();
part("classes").querySelector(".card").append(...classTable(CLASS_COLUMNS,
  "recall: the share of the class's images that is right. precision: the share of the images taken " +
  "for the class that is. A click on a class shows its confusions and images.", openClass));
part("confusion").querySelector(".card").append(...confusionSection());
part("curves").querySelector(".curves").append(calibrationChart(metrics.calibration, {
  one: "image", many: "images", score: "confidence", right: "accuracy",
}));
showMistakes();
showPairs();
showNotesAndSettings();
showContents();
showAddressed();

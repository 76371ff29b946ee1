// What the sheet shows of a class and of a cell of the confusion matrix.

const MOST_EXAMPLES = 12;

function range(interval) {
  return interval ? `95 %: ${num(interval[0])} to ${num(interval[1])}` : "";
}

function classMetrics(one) {
  return make("div", {class: "figures"},
    figure("Recall", num(one.recall), range(one.recall_interval)),
    figure("Precision", num(one.precision), range(one.precision_interval)),
    figure("F1", num(one.f1)),
    figure("Images", count(one.image_count), `${count(one.predicted_count)} taken for the class`));
}

function showClass(place) {
  const one = classes[place], id = String(one.category_id);
  const neighbour = (by) => (place + by + classes.length) % classes.length;
  const taken = confusionsOf((cell) => cell.truth === place);
  const mistaken = confusionsOf((cell) => cell.found === place);
  const list = [...drawnImages.values()].filter((image) =>
    String(image.category_id) === id || String(firstOf(image)[0]) === id)
    .sort((a, b) => firstOf(b)[1] - firstOf(a)[1]).slice(0, MOST_EXAMPLES);
  showSheet(
    dialogHead(sheet, "sheet-title", className(place), classes.length > 1 ? [
      make("button", {
        type: "button", "aria-label": "Previous class", click: () => openClass(neighbour(-1)),
      }, "‹"),
      make("button", {type: "button", "aria-label": "Next class", click: () => openClass(neighbour(1))}, "›"),
    ] : []),
    make("p", {class: "soft"}, `Category ${id}`),
    classMetrics(one),
    make("div", {class: "halves"},
      make("div", {class: "stack"}, headed("Images of this class",
        confusionList(taken, (cell) => `taken for ${className(cell.found)}`))),
      make("div", {class: "stack"}, headed("Taken for this class",
        confusionList(mistaken, (cell) => `images of ${className(cell.truth)}`)))),
    list.length ? headed("Mistakes, the most confident first", gallery(list)) :
      make("p", {class: "soft"}, "No mistake with this class is among those shown."));
}

function showCell(truth, found) {
  const ids = [truth, found].map(idOf);
  const list = [...drawnImages.values()].filter((image) =>
    String(image.category_id) === ids[0] && String(firstOf(image)[0]) === ids[1])
    .sort((a, b) => firstOf(b)[1] - firstOf(a)[1]);
  const link = (place) => make("button", {
    type: "button", class: "link", click: () => openClass(place),
  }, `All about ${className(place)}`);
  showSheet(
    dialogHead(sheet, "sheet-title", truth === found ? `${className(truth)}, rightly` :
      `${className(truth)} taken for ${className(found)}`),
    make("p", {class: "soft", id: "sheet-count"}, cellText(truth, found)),
    make("p", {class: "links"}, link(truth), truth === found ? null : link(found)),
    list.length ? gallery(list) : make("p", {class: "soft"}, truth === found ?
      "Images are shown of mistakes alone." : "Its images are not among those shown."));
}

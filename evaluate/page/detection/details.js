// What the sheet shows of a class and of a cell of the confusion matrix.

function showClass(place) {
  const one = classes[place], id = String(one.category_id);
  const neighbour = (by) => (place + by + classes.length) % classes.length;
  const parts = [];
  if (one.curve_50) parts.push(make("div", {}, headed("Precision and recall", classCurves(one))));
  parts.push(make("div", {class: "stack"}, one.faults ? headed("Faults", faultCounts(one.faults)) : null,
    metrics.confusion ? classConfusions(place) : null));
  showSheet(
    dialogHead(sheet, "sheet-title", className(place), classes.length > 1 ? [
      make("button", {
        type: "button", "aria-label": "Previous class", click: () => openClass(neighbour(-1)),
      }, "‹"),
      make("button", {type: "button", "aria-label": "Next class", click: () => openClass(neighbour(1))}, "›"),
    ] : []),
    make("p", {class: "soft"}, `Category ${id}: ${things(one.object_count, "object")}` +
      (one.crowd_count ? `, ${things(one.crowd_count, "crowd region")}` : "") +
      `, ${things(one.detection_count, "detection")}`),
    classMetrics(one),
    make("div", {class: "halves"}, parts),
    classImages(id));
}

function classMetrics(one) {
  const best = one.best_threshold;
  return make("div", {class: "figures"},
    figure("AP", num(one.AP), "IoU .50 to .95"), figure("AP50", num(one.AP50), "IoU .50"),
    figure("AP75", num(one.AP75), "IoU .75"),
    figure("AP by object size", [one.AP_small, one.AP_medium, one.AP_large].map(num).join(" · "),
      "small · medium · large", "wide"),
    figure("AR100", num(one.AR100), "100 detections per image"),
    "best_threshold" in one ? figure("Best score", num(best?.score), best ?
      `F1 ${num(best.f1)}, precision ${num(best.precision)}, recall ${num(best.recall)}` : "") : null);
}

function faultCounts(faults) {
  const most = Math.max(1, ...Object.values(faults));
  return make("div", {class: "bars"}, Object.entries(FAULTS).map(([key, {name, what}]) =>
    barRow(key, make("span", {title: what}, name), faults[key] / most, [count(faults[key])])));
}

function classConfusions(place) {
  const taken = confusionsOf((cell) => cell.truth === place && cell.found !== place);
  const mistaken = confusionsOf((cell) => cell.found === place && cell.truth !== place);
  const at = `at score ${num(metrics.confusion.scores[scorePlace])}`;
  return [
    headed(`Objects of this class, ${at}`, confusionList(taken, (cell) =>
      (cell.found === BACKGROUND ? "missed" : `found as ${className(cell.found)}`))),
    headed(`Detections of this class, ${at}`, confusionList(mistaken, (cell) =>
      (cell.truth === BACKGROUND ? "where nothing is" : `on ${className(cell.truth)}`)))];
}

const MOST_EXAMPLES = 12;

function classImages(id) {
  const mine = (one) => String(one.category_id) === id;
  const faulty = (image) => image.found.filter((one) => mine(one) && isWrong(one)).length +
    image.truths.filter((one) => mine(one) && one.missed).length;
  const list = [...drawnImages.values()]
    .filter((image) => image.truths.some(mine) || image.found.some((one) => mine(one) && isDrawn(one)))
    .map((image) => ({image, faults: faulty(image)})).sort((a, b) => b.faults - a.faults)
    .slice(0, MOST_EXAMPLES).map(({image}) => image);
  if (!list.length) return make("p", {class: "soft"}, "No image with this class is among those drawn.");
  return headed("Images, the most faults first", boxLegend(), gallery(list, {concerns: mine}));
}

function showCell(truth, found) {
  const cell = cellAt(truth, found);
  const title = truth === BACKGROUND ? `${className(found)} found where nothing is` :
    found === BACKGROUND ? `${className(truth)} missed` : truth === found ?
      `${className(truth)} found` : `${className(truth)} found as ${className(found)}`;
  const ids = cell ? cell.images.map(String) : [];
  const list = ids.map((id) => drawnImages.get(id)).filter(Boolean);
  const others = ids.filter((id) => !drawnImages.has(id));
  const involved = [truth, found].filter((place) => place !== BACKGROUND).map(idOf);
  const link = (place) => place !== BACKGROUND && make("button", {
    type: "button", class: "link", click: () => openClass(place),
  }, `All about ${className(place)}`);
  showSheet(
    dialogHead(sheet, "sheet-title", title),
    make("p", {class: "soft", id: "sheet-count"}, cellText(truth, found)),
    make("p", {class: "links"}, [link(truth), found !== truth && link(found)].filter(Boolean)),
    list.length ? [boxLegend(), gallery(list, {
      concerns: (one) => involved.includes(String(one.category_id)),
    })] : make("p", {class: "soft"}, ids.length ? "Its images are not among those drawn." : "No images."),
    others.length ? make("p", {class: "soft"}, `Seen also on ${others.map(nameOfImage).join(", ")}.`) : "");
}

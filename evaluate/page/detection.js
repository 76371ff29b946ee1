// The page of a detector's evaluation.

// The kinds of errors: their names, and advice against them.

const FAULTS = {
  classification: {
    name: "Classification",
    what: "wrong class",
    hint: "The box is right, the class is wrong. Look at the confusions below: are the two classes " +
      "labelled alike, and does the rarer one have enough examples?",
  },
  localisation: {
    name: "Localisation",
    what: "box is off",
    hint: "The class is right, the box is too far off. Check that the annotations draw boxes alike; " +
      "a larger input size or longer training tightens boxes.",
  },
  both: {
    name: "Both",
    what: "wrong class, box is off",
    hint: "Wrong class and a box that is off. A fix of either kind above fixes this one, too.",
  },
  duplicate: {
    name: "Duplicate",
    what: "found twice",
    hint: "An object that was found already. A lower --nms-threshold removes more of these.",
  },
  background: {
    name: "Background",
    what: "nothing there",
    hint: "Found where no object is labelled. Are objects unlabelled (see the list of annotations " +
      "that look wrong)? If not, add images that show what is mistaken for an object.",
  },
  missed: {
    name: "Missed",
    what: "missed",
    hint: "Objects that no detection accounts for. Look at the largest ones below; small ones want " +
      "a larger input size.",
  },
};

// The number of detections of an image and class, best first, that the metrics count: COCO's 100,
// or --count-best.
const countBest = metrics.count_best;
const AR_NAME = `AR${countBest}`, AR_DETAIL = `${count(countBest)} detections per image`;

// Precision-recall curves.

// Draws the line through the precisions at recall 0, .01, ..., 1, on a unitPlot. It ends where
// recall does.
function curvePath({px, py}, precisions, style) {
  const last = precisions.length - 1 - [...precisions].reverse().findIndex((p) => p > 0);
  const points = last === precisions.length ? [[0, 0]] :
    precisions.slice(0, last + 1).map((p, i) => [i / 100, p]);
  if (points.length && points.length < precisions.length) points.push([points.at(-1)[0], 0]);
  const text = points.map(([x, y]) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`);
  return svg("path", {class: style, d: "M" + text.join("L")});
}

const CURVES = {
  curve_50: {name: "IoU .50", stat: "AP50", style: "s0"},
  curve_75: {name: "IoU .75", stat: "AP75", style: "s1"},
  curve_mean: {name: "mean of IoU .50 to .95", stat: "AP", style: "s2"},
};

// Draws the three curves of one class, with the best threshold's point.
function classCurves(one) {
  const chart = unitPlot("recall", "precision", `Precision over recall of ${plain(one.name)}`), {plot} = chart;
  for (const [key, {style}] of Object.entries(CURVES)) {
    plot.append(curvePath(chart, one[key], `line ${style}`));
  }
  const best = one.best_threshold;
  if (best) {
    plot.append(svg("circle", {
      class: "mark s0", cx: chart.px(best.recall), cy: chart.py(best.precision), r: 4.5,
    }, svg("title", {}, `score ${num(best.score)}: F1 ${num(best.f1)}`)));
  }
  const entries = Object.values(CURVES).map(({name, stat, style}) => [style, name, num(one[stat])]);
  return [legend(entries), plot];
}

// Draws all classes faint, their mean bold; pointing at a line names its class.
function overallCurves() {
  const area = make("div", {});
  const caption = make("p", {class: "note", "aria-live": "polite"});
  let shown = [], key = "curve_mean", picked = null;

  function idle() {
    caption.textContent = shown.length > 1 ?
      `Bold: mean of ${shown.length} classes. Thin: one class each; point at a line for its name.` :
      "One class with objects to find.";
  }
  function pick(entry) {
    if (picked === entry) return;
    picked?.path.classList.remove("picked");
    picked = entry;
    if (!entry) return idle();
    entry.path.classList.add("picked");
    entry.path.parentNode.append(entry.path);  // above the others
    const {stat} = CURVES[key];
    caption.textContent = `${className(entry.place)}: ${stat} ${num(classes[entry.place][stat])}`;
  }
  function draw(chosen) {
    key = chosen;
    picked = null;
    const chart = unitPlot("recall", "precision", `Precision over recall, ${CURVES[key].name}`), {plot} = chart;
    const lines = svg("g", {});
    shown = classes.map((one, place) => ({place, values: one[key]})).filter((one) => one.values);
    for (const entry of shown) {
      entry.path = curvePath(chart, entry.values, "line class-line");
      lines.append(entry.path);
    }
    const mean = Array.from({length: 101}, (_, i) =>
      shown.reduce((sum, entry) => sum + entry.values[i], 0) / shown.length);
    plot.append(lines);
    if (shown.length) plot.append(curvePath(chart, mean, "line mean-line"));
    plot.addEventListener("mousemove", (event) => pick(nearest(chart, event)));
    plot.addEventListener("mouseleave", () => pick(null));
    plot.addEventListener("click", () => picked && openClass(picked.place));
    area.replaceChildren(plot);
    idle();
  }
  function nearest({plot, width, px, py}, event) {
    const box = plot.getBoundingClientRect(), scale = width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    const recall = Math.round((x - px(0)) / (px(1) - px(0)) * 100);
    if (recall < 0 || recall > 100) return null;
    const distance = (entry) => Math.abs(py(entry.values[recall]) - y);
    const best = shown.reduce((a, b) => (a && distance(a) <= distance(b) ? a : b), null);
    return best && distance(best) < 12 ? best : null;
  }
  const options = Object.entries(CURVES).map(([value, {name}]) => [value, name]);
  const buttons = choice("IoU of the curves", options, key, draw);
  return make("div", {class: "card curve", id: "overall-curves"},
    make("h3", {}, "Precision and recall"), buttons, area, caption);
}

// Images with their boxes: ground truth dashed, detections solid and coloured by fault.

// Lowest score of drawn detections; the slider over the worst images moves it.
let drawnScore = metrics.confusion ? metrics.confusion.scores[metrics.confusion.chosen] : .3;

const FEW_BOXES = 12;

const isWrong = (found) => found.fault !== null && found.fault !== "ignored";
const isDrawn = (found) => found.score >= drawnScore;
const area = ({bbox}) => bbox[2] * bbox[3];

// Returns a box. Detections are named above it, ground truth below: they often lie on one another.
function boxElement(image, {bbox, text, style, faint}) {
  const [x, y, width, height] = bbox;
  const percent = (part, whole) => `${(part / whole * 100).toFixed(3)}%`;
  const label = text && make("span", {
    class: `${y < image.height * .09 ? "high " : ""}${y + height > image.height * .91 ? "low " : ""}` +
      (x > image.width * .7 ? "to-left" : ""),
  }, text);
  const element = make("div", {class: `box ${style}${faint ? " faint" : ""}`}, label || null);
  element.style.left = percent(x, image.width);
  element.style.top = percent(y, image.height);
  element.style.width = percent(width, image.width);
  element.style.height = percent(height, image.height);
  return element;
}

// Returns the image, or a plain panel of its proportions. Options: `truths`, `found` (draw them;
// default both), `labels` ("all", or only where they say something), `concerns` (all else is
// faint), `crop` (a box: only it and its surroundings).
function frame(image, options = {}) {
  const {truths = true, found = true, labels = "some", concerns = () => true, crop} = options;
  const source = imageUrls[image.image_id];
  const shown = image.found.filter(isDrawn);
  // Without an image only names identify boxes, as long as they leave room for these.
  const named = labels === "all" || (!source && shown.length <= FEW_BOXES);
  const inner = make("div", {class: "inner"});
  if (source) inner.append(make("img", {src: source, alt: "", draggable: "false"}));
  if (found) {
    for (const one of shown.reverse()) {  // the best on top
      const text = named || one.fault !== null ?
        `${categoryName(one.category_id)} ${one.score.toFixed(2)}` : one.score.toFixed(2);
      inner.append(boxElement(image, {
        bbox: one.bbox, text, style: `found ${one.fault || "right"}`, faint: !concerns(one),
      }));
    }
  }
  if (truths) {
    for (const one of image.truths) {
      const text = labels === "all" || one.missed ?
        categoryName(one.category_id) + (one.crowd ? " (crowd)" : "") : "";
      inner.append(boxElement(image, {
        bbox: one.bbox, text, style: `truth${one.missed ? " missed" : ""}${one.crowd ? " crowd" : ""}`,
        faint: !concerns(one),
      }));
    }
  }
  const element = make("div", {class: `frame${source ? " photo" : ""}`}, inner);
  element.style.setProperty("--shape", `${image.width} / ${image.height}`);
  element.style.setProperty("--ratio", image.width / image.height);
  if (crop) cropTo(element, inner, image, crop);
  return element;
}

// Shows the box and about its own size around it.
function cropTo(element, inner, image, [x, y, width, height]) {
  const side = Math.min(Math.max(image.width, image.height), 2.2 * Math.max(width, height, 24));
  const left = Math.max(0, Math.min(x + width / 2 - side / 2, image.width - side));
  const top = Math.max(0, Math.min(y + height / 2 - side / 2, image.height - side));
  element.classList.add("crop");
  inner.style.width = `${image.width / side * 100}%`;
  inner.style.height = `${image.height / side * 100}%`;
  inner.style.left = `${-left / side * 100}%`;
  inner.style.top = `${-top / side * 100}%`;
}

// Returns a text like "5 objects, 2 missed; 6 found, 1 wrong".
function tally(image) {
  const objects = image.truths.filter((one) => !one.crowd);
  const missed = objects.filter((one) => one.missed).length;
  const found = image.found.filter(isDrawn), wrong = found.filter(isWrong).length;
  return `${things(objects.length, "object")}${missed ? `, ${count(missed)} missed` : ""}; ` +
    `${count(found.length)} found${wrong ? `, ${count(wrong)} wrong` : ""}`;
}

function gallery(list, options = {}, remark = () => null) {
  return make("div", {class: "gallery"}, list.map((image) => tile({
    id: image.image_id, label: `${imageName(image)}: ${tally(image)}`, view: frame(image, options), style: "card",
    lines: [make("b", {}, imageName(image)), remark(image) ? make("span", {}, remark(image)) : null,
      make("span", {}, tally(image))],
    open: () => openViewer(image, list, (one) => viewImage(one, options)),
  })));
}

function boxLegend() {
  const entry = (style, text) => make("span", {}, make("i", {class: `swatch ${style}`}), text);
  return make("div", {class: "legend boxes", "aria-label": "Colours of the boxes"},
    entry("truth", "ground truth"), entry("truth missed", "missed"), entry("found right", "right"),
    Object.entries(FAULTS).filter(([key]) => key !== "missed")
      .map(([key, {what}]) => entry(`found ${key}`, what)),
    entry("found ignored", "ignored"));
}

// Shows ground truth and detections side by side; all that does not concern `options` is faint.
function viewImage(image, options = {}) {
  const pane = (title, what) => make("div", {class: "pane"}, make("h3", {}, title),
    frame(image, {...what, labels: "all", concerns: options.concerns}));
  return {title: imageName(image), content: [
    note(`Image ${image.image_id}, ${image.width} × ${image.height} px; AP lost ` +
      `${num(image.ap_lost)}; ${tally(image)}. Detections from score ${num(drawnScore)}.`, "soft"),
    make("div", {class: "panes"}, pane("Ground truth", {found: false}), pane("Found", {truths: false})),
    boxLegend()]};
}

// The confusion matrix at a score that a slider chooses: truth in rows, detections in columns; the
// last column has missed objects, the last row detections where nothing is.

const confusion = metrics.confusion;
let scorePlace = confusion ? confusion.chosen : 0;
const MOST_CLASSES = 120;  // a larger matrix is not readable: the classes with most confusions are shown
const countAt = (cell) => cell.counts[scorePlace];
(confusion?.cells || []).forEach((cell) => cells.set(cellKey(cell.truth, cell.found), cell));

// rowSum() returns the objects of a class or, as nothingFound counts them, the detections where
// nothing is.
let nothingFound = 0;
function rowSum(truth) {
  return truth === BACKGROUND ? nothingFound : confusion.truth_counts[truth];
}

function cellText(truth, found) {
  const number = countOf(truth, found), sum = rowSum(truth);
  const whole = truth === BACKGROUND ? "detections where nothing is" : "objects of the class";
  return `${count(number)} of ${count(sum)} ${whole}, share ${num(share(truth, found))}, at score ` +
    `${num(confusion.scores[scorePlace])} or more`;
}

function describeCell(truth, found) {
  const name = (place) => (place === BACKGROUND ? "nothing" : className(place));
  return `truth ${name(truth)}, found ${name(found)}`;
}

function cellTitle(truth, found) {
  return truth === BACKGROUND ? `${className(found)} found where nothing is` :
    found === BACKGROUND ? `${className(truth)} missed` : truth === found ?
      `${className(truth)} found` : `${className(truth)} found as ${className(found)}`;
}

function cellImages(truth, found) {
  const ids = (cellAt(truth, found)?.images || []).map(String);
  const list = imagesOf(ids), others = ids.filter((id) => !drawnImages.has(id));
  const involved = [truth, found].filter((place) => place !== BACKGROUND).map(idOf);
  return [
    list.length ? [boxLegend(), gallery(list, {
      concerns: (one) => involved.includes(String(one.category_id)),
    })] : note(ids.length ? "Its images are not among those drawn." : "No images.", "soft"),
    others.length ? note(`Seen also on ${others.map(nameOfImage).join(", ")}.`, "soft") : null];
}

function shownClasses() {
  const all = classes.map((_, place) => place);
  if (all.length <= MOST_CLASSES) return all;
  const confused = all.map(() => 0);
  for (const cell of cells.values()) {
    if (cell.truth === cell.found || cell.truth < 0 || cell.found < 0) continue;
    confused[cell.truth] += cell.counts[confusion.chosen];
    confused[cell.found] += cell.counts[confusion.chosen];
  }
  const kept = new Set([...all].sort((a, b) => confused[b] - confused[a]).slice(0, MOST_CLASSES));
  return all.filter((place) => kept.has(place));
}

function confusionSection() {
  const places = [...shownClasses(), BACKGROUND];
  const output = make("output", {});
  const sums = make("p", {class: "soft sums"});
  const {draw, elements} = confusionView({
    places, corner: "truth ↓ found →",
    row: (place) => (place === BACKGROUND ? "nothing there" : className(place)),
    column: (place) => (place === BACKGROUND ? "missed" : className(place)),
    has: (truth, found) => truth !== BACKGROUND || found !== BACKGROUND,
  });

  function showScore(place) {
    scorePlace = place;
    const at = confusion.scores[place];
    output.textContent = num(at) + (place === confusion.chosen ? " (best F1)" : "");
    slider.setAttribute("aria-valuetext", output.textContent);
    const total = {right: 0, confused: 0, background: 0, missed: 0};
    for (const cell of cells.values()) {
      const kind = cell.truth === BACKGROUND ? "background" : cell.found === BACKGROUND ? "missed" :
        cell.truth === cell.found ? "right" : "confused";
      total[kind] += countAt(cell);
    }
    nothingFound = total.background;
    sums.textContent = `${count(total.right)} right, ${count(total.confused)} found as another class, ` +
      `${count(total.background)} where nothing is, ${count(total.missed)} missed at this score`;
    draw();
  }

  const slider = make("input", {
    type: "range", id: "score-slider", min: 0, max: confusion.scores.length - 1, step: 1,
    value: confusion.chosen, input: (event) => showScore(+event.target.value),
  });
  showScore(confusion.chosen);
  return make("div", {class: "card"},
    make("div", {class: "bar-row"}, make("label", {for: "score-slider"}, "Detections from score"),
      slider, output, sums),
    elements,
    note("A cell's shade is its share of the row; truth and found overlap with " +
      `an IoU of at least ${num(confusion.iou)}.` + (places.length <= classes.length ?
      ` The ${MOST_CLASSES} classes with the most confusions are shown.` : "")));
}

// One class.

function classDetails(place) {
  const one = classes[place], id = String(one.category_id);
  return [
    note(`Category ${id}: ${things(one.object_count, "object")}` +
      (one.crowd_count ? `, ${things(one.crowd_count, "crowd region")}` : "") +
      `, ${things(one.detection_count, "detection")}`, "soft"),
    classMetrics(one),
    make("div", {class: "halves"},
      one.curve_50 ? make("div", {}, headed("Precision and recall", classCurves(one))) : null,
      make("div", {class: "stack"}, one.faults ? headed("Faults, of all detections", faultCounts(one.faults)) : null,
        confusion ? classConfusions(place) : null)),
    classImages(id)];
}

function classMetrics(one) {
  const best = one.best_threshold;
  return make("div", {class: "metrics"},
    metric("AP", num(one.AP), "IoU .50 to .95"), metric("AP50", num(one.AP50), "IoU .50"),
    metric("AP75", num(one.AP75), "IoU .75"),
    metric("AP by object size", [one.AP_small, one.AP_medium, one.AP_large].map(num).join(" · "),
      "small · medium · large", "wide"),
    metric(AR_NAME, num(one[AR_NAME]), AR_DETAIL),
    "best_threshold" in one ? metric("Best score", num(best?.score), best ?
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
  const at = `at score ${num(confusion.scores[scorePlace])}`;
  return [
    headed(`Objects of this class, ${at}`, confusionList(taken, (cell) =>
      (cell.found === BACKGROUND ? "missed" : `found as ${className(cell.found)}`))),
    headed(`Detections of this class, ${at}`, confusionList(mistaken, (cell) =>
      (cell.truth === BACKGROUND ? "where nothing is" : `on ${className(cell.truth)}`)))];
}

function classImages(id) {
  const mine = (one) => String(one.category_id) === id;
  const faulty = (image) => image.found.filter((one) => mine(one) && isWrong(one)).length +
    image.truths.filter((one) => mine(one) && one.missed).length;
  const list = [...drawnImages.values()]
    .filter((image) => image.truths.some(mine) || image.found.some((one) => mine(one) && isDrawn(one)))
    .map((image) => ({image, faults: faulty(image)})).sort((a, b) => b.faults - a.faults)
    .slice(0, MOST_EXAMPLES).map(({image}) => image);
  if (!list.length) return note("No image with this class is among those drawn.", "soft");
  return headed("Images, the most faults first", boxLegend(), gallery(list, {concerns: mine}));
}

// The page's sections.

const CLASS_COLUMNS = [
  {title: "AP", value: (one) => one.AP, show: num, bar: true},
  {title: "AP50", value: (one) => one.AP50, show: num},
  {title: "AP75", value: (one) => one.AP75, show: num},
  {title: "small", value: (one) => one.AP_small, show: num, hint: "AP of objects up to 32² px"},
  {title: "medium", value: (one) => one.AP_medium, show: num, hint: "AP of objects from 32² to 96² px"},
  {title: "large", value: (one) => one.AP_large, show: num, hint: "AP of objects above 96² px"},
  {title: AR_NAME, value: (one) => one[AR_NAME], show: num},
  {title: "objects", value: (one) => one.object_count, show: count},
  {title: "found", value: (one) => one.detection_count, show: count},
  {title: "best score", value: (one) => one.best_threshold?.score, show: num,
   hint: "The score threshold with the highest F1", explained: true},
  {title: "F1", value: (one) => one.best_threshold?.f1, show: num,
   hint: "F1 at the best score threshold, IoU .50", explained: true},
];

function classesSection() {
  const explained = classes.some((one) => "best_threshold" in one);
  return classTable(
    CLASS_COLUMNS.filter((column) => explained || !column.explained),
    "small, medium, large: AP by object size. objects: without crowd regions. found: all " +
      "detections, whatever their score." + (explained ?
      " best score: the threshold with the highest F1 at IoU .50." : "") +
      " A click on a class shows its curves, faults and images.");
}

function showMetrics() {
  const [ap, ap50, ap75] = metrics.stats;
  metricsSection([
    metric("AP", num(ap), "IoU .50 to .95"), metric("AP50", num(ap50), "IoU .50"),
    metric("AP75", num(ap75), "IoU .75"), metric(AR_NAME, num(metrics.stats[8]), AR_DETAIL),
    metric("images", count(metrics.image_count), things(metrics.object_count, "object") + ", " +
      things(metrics.detection_count, "detection"))]);
}

function sizesCard() {
  const s = metrics.stats.map(num);
  return make("div", {class: "card table"},
    table("Metrics by object size", ["", "all", "small", "medium", "large"], [
      ["AP", s[0], s[3], s[4], s[5]], [`AR, ${count(countBest)} detections`, s[8], s[9], s[10], s[11]],
      ["AR, 10 detections", s[7], "", "", ""], ["AR, 1 detection", s[6], "", "", ""],
      ["AP at IoU .50", s[1], "", "", ""], ["AP at IoU .75", s[2], "", "", ""]]),
    make("div", {class: "bars"}, sizeBars("AP", metrics.stats.slice(3, 6)),
      sizeBars("AR", metrics.stats.slice(9, 12))),
    note("small: area up to 32² px, medium: up to 96² px, large: above. AP and " +
      "AR are means over IoU .50 to .95."));
}

function sizeBars(metric, values) {
  return values.map((value, i) => barRow(metric === "AP" ? "precision" : "recall",
    `${metric} ${["small", "medium", "large"][i]}`, value, [num(value)]));
}

function faultsCard(split) {
  const most = Math.max(...split.kinds.map((one) => one.ap_cost), 1e-9);
  const rows = [...split.kinds].sort((a, b) => b.ap_cost - a.ap_cost).map(({kind, count: n, ap_cost}) =>
    make("div", {class: "fault", "data-kind": kind},
      barRow(kind, FAULTS[kind].name, ap_cost / most, [num(ap_cost), count(n)]),
      make("p", {class: "hint"}, FAULTS[kind].hint), faultClasses(kind)));
  return make("div", {class: "card"},
    make("div", {class: "bars"},
      make("div", {class: "bar-line head"}, make("div", {class: "name"}, "kind of error"),
        make("div", {}), make("div", {class: "number"}, "AP50 cost"), make("div", {class: "number"}, "count")),
      rows),
    note(`AP50 that each kind costs: what fixing it alone would add to ${num(split.ap)}. ` +
      `All false detections cost ${num(split.false_positive_cost)}, all missed objects ` +
      `${num(split.false_negative_cost)}; costs overlap. After TIDE (Bolya et al. 2020): IoU ` +
      `${num(split.iou)} is a hit, below ${num(split.background_iou)} is background, ` +
      `${split.max_detections} detections per image. COCO's AP50 keeps so many of each class, and may differ. ` +
      "Counts are of all detections, whatever their score; the confusions count from a score on, and miss more."));
}

// Returns the classes with the most errors of a kind.
function faultClasses(kind) {
  if (classes.length < 2) return null;
  const most = classes.map((one, place) => ({place, n: one.faults?.[kind] || 0}))
    .filter(({n}) => n > 0).sort((a, b) => b.n - a.n).slice(0, 4);
  if (!most.length) return null;
  return make("p", {class: "links"}, "Most: ", most.map(({place, n}) => [
    button("link", () => openClass(place), className(place)),
    ` ${count(n)}`]).flatMap((pair, i) => (i ? [" · ", ...pair] : pair)));
}

function showCurves() {
  const charts = [];
  if (classes.some((one) => one.curve_mean)) charts.push(overallCurves());
  if (metrics.calibration) charts.push(calibrationChart(metrics.calibration, {
    one: "detection", many: "detections", score: "score", right: "precision",
  }));
  if (charts.length) section("curves", "Curves", make("div", {class: "curves"}, charts));
}

const WORST = {
  ap_lost: {
    title: "Most AP lost",
    remark: (image) => `AP lost ${num(image.ap_lost)}`,
  },
  confident_wrong: {
    title: "Most confident wrong",
    remark: (image) => {
      const wrong = image.found.find(isWrong);  // the best come first
      return wrong ? `${categoryName(wrong.category_id)} ${num(wrong.score)}: ${FAULTS[wrong.fault].what}` : "";
    },
  },
  largest_missed: {
    title: "Largest missed",
    remark: (image) => {
      const missed = image.truths.filter((one) => one.missed).sort((a, b) => area(b) - area(a))[0];
      return missed ? `${categoryName(missed.category_id)} missed, ${Math.round(missed.bbox[2])} × ` +
        `${Math.round(missed.bbox[3])} px` : "";
    },
  },
};
const redrawWorst = {};  // kind -> function that fills its panel

function showWorst(worst) {
  const kinds = Object.keys(WORST).filter((kind) => worst?.[kind]?.length);
  if (!kinds.length) return;
  const panels = kinds.map((kind) => {
    const panel = make("div", {class: "worst-panel", id: `worst-${kind}`, "data-kind": kind});
    const list = imagesOf(worst[kind]);
    redrawWorst[kind] = () => panel.replaceChildren(
      make("h3", {class: "print-only"}, WORST[kind].title), gallery(list, {}, WORST[kind].remark));
    return panel;
  });
  let current = kinds[0];
  const show = (kind) => {
    current = kind;
    panels.forEach((panel) => { panel.hidden = panel.dataset.kind !== kind; });
    redrawWorst[kind]();
  };
  const output = make("output", {}, num(drawnScore));
  const slider = make("input", {
    type: "range", id: "draw-slider", min: .05, max: .95, step: .05, value: drawnScore,
    input: (event) => {
      drawnScore = +event.target.value;
      output.textContent = num(drawnScore);
      redrawWorst[current]();
    },
  });
  section("worst", "Worst images",
    make("div", {class: "bar-row"},
      choice("Which images", kinds.map((kind) => [kind, WORST[kind].title]), current, show),
      make("label", {for: "draw-slider"}, "Draw detections from score"), slider, output),
    boxLegend(), panels);
}

const SUSPECTS = {
  unlabelled: {
    title: "Probably not labelled",
    text: "Confident detections with no annotation near them.",
  },
  wrong_class: {
    title: "Probably another class",
    text: "Annotations that a confident detection of another class covers almost exactly.",
  },
  never_found: {
    title: "Found by nothing",
    text: "Annotations that no detection of any class and score reaches: odd boxes, hidden or tiny objects.",
  },
};
const MOST_CROPS = 12;

function suspectsCards(suspects) {
  if (!suspects.length) return note("None stands out.", "card note");
  return Object.entries(SUSPECTS).map(([why, {title, text}]) => {
    const list = suspects.filter((one) => one.why === why);
    return list.length ? make("div", {class: "card suspects", "data-why": why},
      make("h3", {}, `${title} `, make("span", {class: "soft"}, count(list.length))),
      note(text, "soft"), suspectCrops(list), suspectTable(list)) : null;
  });
}

function suspectClass(suspect) {
  const annotated = suspect.category_id === null ? "" : categoryName(suspect.category_id);
  const found = suspect.found_category_id === null ? "" : categoryName(suspect.found_category_id);
  return annotated && found ? `${annotated} → ${found}?` : found ? `${found}?` : annotated;
}

function suspectCrops(list) {
  const drawn = list.map((one) => ({...one, image: drawnImages.get(String(one.image_id))}))
    .filter(({image}) => image && imageUrls[image.image_id]).slice(0, MOST_CROPS);
  const images = [...new Set(drawn.map(({image}) => image))];
  return make("div", {class: "crops"}, drawn.map((one) => {
    const view = frame({...one.image, truths: [], found: []}, {crop: one.bbox});
    view.firstChild.append(boxElement(one.image, {
      bbox: one.bbox, text: "", style: one.why === "unlabelled" ? "found background" : "truth missed",
    }));
    return tile({
      id: one.image_id, label: `${imageName(one.image)}: ${suspectClass(one)}`, view,
      lines: [make("b", {}, suspectClass(one)),
        make("span", {}, one.score === null ? imageName(one.image) : `score ${num(one.score)}`)],
      open: () => openViewer(one.image, images, viewImage),
    });
  }));
}

function suspectTable(list) {
  const box = (bbox) => bbox.map((side) => Math.round(side * 10) / 10).join(", ");
  const rows = list.map((one) => [
    imageLabel(one.image_id), one.annotation_id === null ? NONE : String(one.annotation_id),
    suspectClass(one), num(one.score), num(one.iou), box(one.bbox)]);
  return table("Suspect annotations",
    ["image", "annotation", "class", "score", "IoU", "box: x, y, width, height"], rows);
}

function imageLabel(id) {
  const image = drawnImages.get(String(id));
  if (!image) return nameOfImage(id);
  return button("link", () => openViewer(image, [image], viewImage), imageName(image));
}

showMetrics();
const split = metrics.error_split, overview = make("div", {id: "overview", class: split ? null : "single"});
overview.append(section("sizes", "By object size", sizesCard()));
if (split) overview.append(section("faults", "What to fix first", faultsCard(split)));
document.querySelector("footer").before(overview);
section("classes", "Classes", classesSection());
showCurves();
if (confusion && classes.length) section("confusion", "Confusion", confusionSection());
showWorst(metrics.worst);
if (metrics.suspects) section("suspects", "Annotations that look wrong", suspectsCards(metrics.suspects));
finishEvaluation();

window.addEventListener("beforeprint", () => {
  Object.values(redrawWorst).forEach((redraw) => redraw());
});

// Puts the page together.

const CLASS_COLUMNS = [
  {title: "AP", value: (one) => one.AP, show: num, bar: true},
  {title: "AP50", value: (one) => one.AP50, show: num},
  {title: "AP75", value: (one) => one.AP75, show: num},
  {title: "small", value: (one) => one.AP_small, show: num, hint: "AP of objects up to 32² px"},
  {title: "medium", value: (one) => one.AP_medium, show: num, hint: "AP of objects from 32² to 96² px"},
  {title: "large", value: (one) => one.AP_large, show: num, hint: "AP of objects above 96² px"},
  {title: "AR100", value: (one) => one.AR100, show: num},
  {title: "objects", value: (one) => one.object_count, show: count},
  {title: "found", value: (one) => one.detection_count, show: count},
  {title: "best score", value: (one) => one.best_threshold?.score, show: num,
   hint: "The score threshold with the highest F1", explained: true},
  {title: "F1", value: (one) => one.best_threshold?.f1, show: num,
   hint: "F1 at the best score threshold, IoU .50", explained: true},
];

function showClasses() {
  const explained = classes.some((one) => "best_threshold" in one);
  part("classes").querySelector(".card").append(...classTable(
    CLASS_COLUMNS.filter((column) => explained || !column.explained),
    "small, medium, large: AP by object size. objects: without crowd regions. found: all " +
      "detections, whatever their score." + (explained ?
      " best score: the threshold with the highest F1 at IoU .50." : "") +
      " A click on a class shows its curves, faults and images.", openClass));
}

function showMetrics() {
  const [ap, ap50, ap75] = metrics.stats;
  part("figures").append(
    figure("AP", num(ap), "IoU .50 to .95"), figure("AP50", num(ap50), "IoU .50"),
    figure("AP75", num(ap75), "IoU .75"), figure("AR100", num(metrics.stats[8]), "100 detections per image"),
    figure("images", count(metrics.image_count), things(metrics.object_count, "object") + ", " +
      things(metrics.detection_count, "detection")));
}

function showSizes() {
  const s = metrics.stats.map(num);
  part("sizes").querySelector(".card").append(
    make("div", {class: "scroll"}, table(["", "all", "small", "medium", "large"], [
      ["AP", s[0], s[3], s[4], s[5]], ["AR, 100 detections", s[8], s[9], s[10], s[11]],
      ["AR, 10 detections", s[7], "", "", ""], ["AR, 1 detection", s[6], "", "", ""],
      ["AP at IoU .50", s[1], "", "", ""], ["AP at IoU .75", s[2], "", "", ""]])),
    make("div", {class: "bars"}, sizeBars("AP", metrics.stats.slice(3, 6)),
      sizeBars("AR", metrics.stats.slice(9, 12))),
    make("p", {class: "note"}, "small: area up to 32² px, medium: up to 96² px, large: above. AP and " +
      "AR are means over IoU .50 to .95."));
}

function sizeBars(metric, values) {
  return values.map((value, i) => barRow(metric === "AP" ? "precision" : "recall",
    `${metric} ${["small", "medium", "large"][i]}`, value, [num(value)]));
}

function showFaults(split) {
  if (!split) return;
  const most = Math.max(...split.kinds.map((one) => one.ap_cost), 1e-9);
  const rows = [...split.kinds].sort((a, b) => b.ap_cost - a.ap_cost).map(({kind, count: n, ap_cost}) =>
    make("div", {class: "fault", "data-kind": kind},
      barRow(kind, FAULTS[kind].name, ap_cost / most, [num(ap_cost), count(n)]),
      make("p", {class: "hint"}, FAULTS[kind].hint), faultClasses(kind)));
  part("faults").hidden = false;
  part("faults").querySelector(".card").append(
    make("div", {class: "bars"},
      make("div", {class: "bar-line head"}, make("div", {class: "name"}, "kind of error"),
        make("div", {}), make("div", {class: "number"}, "AP50 cost"), make("div", {class: "number"}, "count")),
      rows),
    make("p", {class: "note"}, `AP50 that each kind costs: what curing it alone would add to ${num(split.ap)}. ` +
      `All false detections cost ${num(split.false_positive_cost)}, all missed objects ` +
      `${num(split.false_negative_cost)}; costs overlap. After TIDE (Bolya et al. 2020): IoU ` +
      `${num(split.iou)} is a hit, below ${num(split.background_iou)} is background, ` +
      `${split.max_detections} detections per image.`));
}

// The classes with the most errors of a kind.
function faultClasses(kind) {
  if (classes.length < 2) return null;
  const most = classes.map((one, place) => ({place, n: one.faults?.[kind] || 0}))
    .filter(({n}) => n > 0).sort((a, b) => b.n - a.n).slice(0, 4);
  if (!most.length) return null;
  return make("p", {class: "links"}, "Most: ", most.map(({place, n}) => [
    make("button", {type: "button", class: "link", click: () => openClass(place)}, className(place)),
    ` ${count(n)}`]).flatMap((pair, i) => (i ? [" · ", ...pair] : pair)));
}

function showCurves() {
  const charts = [];
  if (classes.some((one) => one.curve_mean)) charts.push(overallCurves(openClass));
  if (metrics.calibration) charts.push(calibrationChart(metrics.calibration, {
    one: "detection", many: "detections", score: "score", right: "precision",
  }));
  part("curves").hidden = !charts.length;
  part("curves").querySelector(".curves").append(...charts);
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
const redrawWorst = {};  // kind -> fills its panel

function showWorst(worst) {
  const kinds = Object.keys(WORST).filter((kind) => worst?.[kind]?.length);
  if (!kinds.length) return;
  const panels = kinds.map((kind) => {
    const panel = make("div", {class: "worst-panel", id: `worst-${kind}`, "data-kind": kind});
    const list = worst[kind].map((id) => drawnImages.get(String(id))).filter(Boolean);
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
  part("worst").hidden = false;
  part("worst").append(
    make("div", {class: "bar-row"},
      choice("Which images", kinds.map((kind) => [kind, WORST[kind].title]), current, show),
      make("label", {for: "draw-slider"}, "Draw detections from score"), slider, output),
    boxLegend(), ...panels);
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

function showSuspects(suspects) {
  if (!suspects) return;
  part("suspects").hidden = false;
  if (!suspects.length) part("suspects").append(make("p", {class: "card note"}, "None stands out."));
  for (const [why, {title, text}] of Object.entries(SUSPECTS)) {
    const list = suspects.filter((one) => one.why === why);
    if (!list.length) continue;
    part("suspects").append(make("div", {class: "card suspects", "data-why": why},
      make("h3", {}, `${title} `, make("span", {class: "soft"}, count(list.length))),
      make("p", {class: "soft"}, text), suspectCrops(list), suspectTable(list)));
  }
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
    return make("figure", {class: "tile"}, make("button", {
      type: "button", class: "open", "aria-label": `${imageName(one.image)}: ${suspectClass(one)}. Enlarge`,
      click: () => openViewer(one.image, images),
    }, view), make("figcaption", {}, make("b", {}, suspectClass(one)),
      make("span", {}, one.score === null ? imageName(one.image) : `score ${num(one.score)}`)));
  }));
}

function suspectTable(list) {
  const box = (bbox) => bbox.map((side) => Math.round(side * 10) / 10).join(", ");
  const rows = list.map((one) => [
    imageLabel(one.image_id), one.annotation_id === null ? NONE : String(one.annotation_id),
    suspectClass(one), num(one.score), num(one.iou), box(one.bbox)]);
  return make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Suspect annotations"},
    table(["image", "annotation", "class", "score", "IoU", "box: x, y, width, height"], rows));
}

function imageLabel(id) {
  const image = drawnImages.get(String(id));
  if (!image) return nameOfImage(id);
  return make("button", {type: "button", class: "link", click: () => openViewer(image, [image])},
    imageName(image));
}

showMetrics();
showSizes();
showFaults(metrics.error_split);
part("overview").classList.toggle("single", !metrics.error_split);
showClasses();
showCurves();
if (confusion && classes.length) {
  part("confusion").hidden = false;
  part("confusion").querySelector(".card").append(...confusionSection());
}
showWorst(metrics.worst);
showSuspects(metrics.suspects);
showNotesAndSettings();
showContents();
showAddressed();

window.addEventListener("beforeprint", () => {
  Object.values(redrawWorst).forEach((redraw) => redraw());
});

// Precision over recall.

// The line through the precisions at recall 0, .01, ..., 1. It ends where recall does.
function curvePath(precisions, style) {
  const last = precisions.length - 1 - [...precisions].reverse().findIndex((p) => p > 0);
  const points = last === precisions.length ? [[0, 0]] :
    precisions.slice(0, last + 1).map((p, i) => [i / 100, p]);
  if (points.length && points.length < precisions.length) points.push([points.at(-1)[0], 0]);
  const text = points.map(([x, y]) => `${plotX(x).toFixed(1)},${plotY(y).toFixed(1)}`);
  return svg("path", {class: style, d: "M" + text.join("L")});
}

const CURVES = {
  curve_50: {name: "IoU .50", stat: "AP50", style: "s0"},
  curve_75: {name: "IoU .75", stat: "AP75", style: "s1"},
  curve_mean: {name: "mean of IoU .50 to .95", stat: "AP", style: "s2"},
};

// The three curves of one class, with the best threshold's point.
function classCurves(one) {
  const plot = unitPlot("recall", "precision", `Precision over recall of ${plain(one.name)}`);
  for (const [key, {style}] of Object.entries(CURVES)) {
    plot.append(curvePath(one[key], `line ${style}`));
  }
  const best = one.best_threshold;
  if (best) {
    plot.append(svg("circle", {
      class: "mark s0", cx: plotX(best.recall), cy: plotY(best.precision), r: 4.5,
    }, svg("title", {}, `score ${num(best.score)}: F1 ${num(best.f1)}`)));
  }
  const entries = Object.values(CURVES).map(({name, stat, style}) => [style, name, num(one[stat])]);
  return [legend(entries), plot];
}

// All classes faint, their mean bold; pointing at a line names its class.
function overallCurves(openClass) {
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
    const plot = unitPlot("recall", "precision", `Precision over recall, ${CURVES[key].name}`);
    const lines = svg("g", {});
    shown = classes.map((one, place) => ({place, values: one[key]})).filter((one) => one.values);
    for (const entry of shown) {
      entry.path = curvePath(entry.values, "line class-line");
      lines.append(entry.path);
    }
    const mean = Array.from({length: 101}, (_, i) =>
      shown.reduce((sum, entry) => sum + entry.values[i], 0) / shown.length);
    plot.append(lines);
    if (shown.length) plot.append(curvePath(mean, "line mean-line"));
    plot.addEventListener("mousemove", (event) => pick(nearest(plot, event)));
    plot.addEventListener("mouseleave", () => pick(null));
    plot.addEventListener("click", () => picked && openClass(picked.place));
    area.replaceChildren(plot);
    idle();
  }
  function nearest(plot, event) {
    const box = plot.getBoundingClientRect(), scale = PLOT.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    const recall = Math.round((x - plotX(0)) / (plotX(1) - plotX(0)) * 100);
    if (recall < 0 || recall > 100) return null;
    const distance = (entry) => Math.abs(plotY(entry.values[recall]) - y);
    const best = shown.reduce((a, b) => (a && distance(a) <= distance(b) ? a : b), null);
    return best && distance(best) < 12 ? best : null;
  }
  const options = Object.entries(CURVES).map(([value, {name}]) => [value, name]);
  const buttons = choice("IoU of the curves", options, key, draw);
  return make("div", {class: "card curve", id: "overall-curves"},
    make("h3", {}, "Precision and recall"), buttons, area, caption);
}

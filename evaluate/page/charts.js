// Precision-recall and calibration, drawn as SVG.

const PLOT = {width: 560, height: 330, left: 48, right: 12, top: 10, bottom: 38};
const plotX = (x) => PLOT.left + x * (PLOT.width - PLOT.left - PLOT.right);
const plotY = (y) => PLOT.height - PLOT.bottom - y * (PLOT.height - PLOT.top - PLOT.bottom);

// Axes from 0 to 1 with a grid; the caller draws into it.
function unitPlot(xLabel, yLabel, description) {
  const plot = svg("svg", {
    class: "plot", viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, role: "img",
    "aria-label": description,
  });
  for (const tick of [0, .2, .4, .6, .8, 1]) {
    const x = plotX(tick), y = plotY(tick);
    plot.append(
      svg("line", {class: tick ? "grid" : "axis", x1: x, x2: x, y1: plotY(0), y2: plotY(1)}),
      svg("line", {class: tick ? "grid" : "axis", x1: plotX(0), x2: plotX(1), y1: y, y2: y}),
      svg("text", {class: "mid", x, y: plotY(0) + 17}, tick.toFixed(1)),
      svg("text", {class: "end", x: plotX(0) - 7, y: y + 4}, tick.toFixed(1)));
  }
  plot.append(
    svg("text", {class: "mid", x: plotX(.5), y: PLOT.height - 4}, xLabel),
    svg("text", {class: "mid", transform: `translate(10 ${plotY(.5)}) rotate(-90)`}, yLabel));
  return plot;
}

// The line through the precisions at recall 0, .01, ..., 1. It ends where recall does.
function curvePath(precisions, style) {
  const last = precisions.length - 1 - [...precisions].reverse().findIndex((p) => p > 0);
  const points = last === precisions.length ? [[0, 0]] :
    precisions.slice(0, last + 1).map((p, i) => [i / 100, p]);
  if (points.length && points.length < precisions.length) points.push([points.at(-1)[0], 0]);
  const text = points.map(([x, y]) => `${plotX(x).toFixed(1)},${plotY(y).toFixed(1)}`);
  return svg("path", {class: style, d: "M" + text.join("L")});
}

function legend(entries) {
  return make("div", {class: "legend"}, entries.map(([style, name, value]) =>
    make("span", {}, make("i", {class: style}), name, value ? make("b", {}, value) : null)));
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

// How often detections of a score are right.
function calibrationChart({bins, error}) {
  const plot = unitPlot("score", "precision",
    `Precision of detections by score; expected calibration error ${num(error)}`);
  plot.append(svg("line", {
    class: "ideal", x1: plotX(0), y1: plotY(0), x2: plotX(1), y2: plotY(1),
  }));
  let bias = 0;
  for (const bin of bins) {
    if (!bin.count) continue;
    bias += bin.count * (bin.mean_score - bin.precision);
    const x = plotX(bin.low), y = plotY(bin.precision), width = plotX(bin.high) - x;
    const text = `score ${bin.low} to ${bin.high}: ${things(bin.count, "detection")}, mean score ` +
      `${num(bin.mean_score)}, precision ${num(bin.precision)}`;
    plot.append(
      svg("rect", {
        class: "bin", x: x + 1.5, y, width: width - 3, height: Math.max(0, plotY(0) - y),
      }, svg("title", {}, text)),
      svg("circle", {class: "mark s0", cx: plotX(Math.min(1, Math.max(0, bin.mean_score))), cy: y, r: 3.5},
        svg("title", {}, text)),
      svg("text", {
        class: "mid count", x: x + width / 2, y: Math.max(y - 9, plotY(1) + 8),
      }, count(bin.count)));
  }
  const verdict = bias > 0 ? "Scores promise more than they keep: above the bars lies the dashed " +
    "line of a calibrated model." : "Scores promise less than they keep, or as much.";
  return make("div", {class: "card curve", id: "calibration"},
    make("h3", {}, "Calibration"),
    legend([["s0", "expected calibration error", num(error)]]), plot,
    make("p", {class: "note"}, bins.some((bin) => bin.count) ?
      `${verdict} Numbers: detections in the bin.` : "No detections to calibrate."));
}

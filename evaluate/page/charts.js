// Charts drawn as SVG: axes from 0 to 1, and calibration.

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

function legend(entries) {
  return make("div", {class: "legend"}, entries.map(([style, name, value]) =>
    make("span", {}, make("i", {class: style}), name, value ? make("b", {}, value) : null)));
}

// How often things of a score are right. `words`: what they are called (one, many), their score and
// the share of them that is right.
function calibrationChart({bins, error}, words) {
  const {one, many, score, right} = words;
  const plot = unitPlot(score, right,
    `${right} of ${many} by ${score}; expected calibration error ${num(error)}`);
  plot.append(svg("line", {
    class: "ideal", x1: plotX(0), y1: plotY(0), x2: plotX(1), y2: plotY(1),
  }));
  const end = (value) => +value.toFixed(3);
  let bias = 0;
  for (const bin of bins) {
    if (!bin.count) continue;
    bias += bin.count * (bin.mean_score - bin.precision);
    const x = plotX(bin.low), y = plotY(bin.precision), width = plotX(bin.high) - x;
    const text = `${score} ${end(bin.low)} to ${end(bin.high)}: ${things(bin.count, one, many)}, ` +
      `mean ${score} ${num(bin.mean_score)}, ${right} ${num(bin.precision)}`;
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
      `${verdict} Numbers: ${many} in the bin.` : `No ${many} to calibrate.`));
}

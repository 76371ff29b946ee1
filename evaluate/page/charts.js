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

const scoreRange = ({low, high}) => `${+low.toFixed(3)} to ${+high.toFixed(3)}`;

// Whether a bin's things are right more (1) or less often (-1) than their score says; 0 where the
// difference is small or no more than chance (two standard errors, corrected for continuity).
function calibrationLean({count: n, mean_score: score, precision}) {
  const noise = 2 * Math.sqrt(Math.max(0, score * (1 - score)) / n) + 1 / (2 * n);
  return Math.abs(precision - score) <= Math.max(.05, noise) ? 0 : Math.sign(precision - score);
}

// What the chart shows, as a sentence by ranges of scores: one for all scores would be that of the
// weak ones, which are most.
function calibrationVerdict(bins, {many, score}) {
  const ranges = [];  // of neighbouring bins that lean the same way
  for (const bin of bins.filter((one) => one.count)) {
    const lean = calibrationLean(bin), last = ranges.at(-1);
    if (last?.lean === lean && last.high === bin.low) last.high = bin.high;
    else ranges.push({lean, low: bin.low, high: bin.high});
  }
  const listed = (lean) => ranges.filter((one) => one.lean === lean).map(scoreRange).join(", ");
  const less = listed(-1), more = listed(1);
  const subject = many[0].toUpperCase() + many.slice(1);
  if (!less && !more) return `${subject} are right about as often as their ${score} says.`;
  const tail = `often than it says (${less ? "below" : "above"} the dashed line)`;
  return `${subject} of ${score} ${less || more} are right ${less ? "less" : "more"} ${tail}` +
    (less && more ? `, those of ${score} ${more} more often (above it).` : ".");
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
  for (const bin of bins) {
    if (!bin.count) continue;
    const x = plotX(bin.low), y = plotY(bin.precision), width = plotX(bin.high) - x;
    const text = `${score} ${scoreRange(bin)}: ${things(bin.count, one, many)}, ` +
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
  return make("div", {class: "card curve", id: "calibration"},
    make("h3", {}, "Calibration"),
    legend([["s0", "expected calibration error", num(error)]]), plot,
    make("p", {class: "note"}, bins.some((bin) => bin.count) ?
      `${calibrationVerdict(bins, words)} Numbers: ${many} in the bin.` : `No ${many} to calibrate.`));
}

// Charts drawn as SVG: axes, lines over steps, histograms, values with intervals, calibration.

// An axis that shows every value from `low` to `high`: its ticks, and `place`, which is 0 at its first
// pixel and 1 at its last. `round`: widened to whole ticks; `log`: decades; `ticks`: about as many.
function makeAxis(low, high, {log = false, round = false, ticks = 5} = {}) {
  const axis = log ? logAxis(low, high, round, ticks) : linearAxis(low, high, round, ticks);
  const scale = log ? Math.log : (value) => value;
  axis.place = (value) => (scale(value) - scale(axis.low)) / (scale(axis.high) - scale(axis.low));
  return axis;
}

function linearAxis(low, high, round, count) {
  if (!(high - low > 1e-12 * Math.max(Math.abs(low), Math.abs(high)))) {  // equal ends
    const around = low === 0 ? 1 : Math.abs(low) * .1;
    low -= around;
    high += around;
  }
  // 1, 2 or 5 times a power of ten.
  const size = (high - low) / count, power = 10 ** Math.floor(Math.log10(size));
  const step = power * ([[1.5, 1], [3.5, 2], [7.5, 5]].find(([limit]) => size / power < limit)?.[1] ?? 10);
  const axis = {low, high, ticks: []};
  if (round) {
    axis.low = Math.floor(low / step + 1e-9) * step;
    axis.high = Math.ceil(high / step - 1e-9) * step;
  }
  for (let k = Math.ceil(axis.low / step - 1e-9); k * step <= axis.high + step * 1e-9; ++k) {
    axis.ticks.push(k * step);
  }
  return axis;
}

function logAxis(low, high, round, count) {
  const first = Math.floor(Math.log10(low) + 1e-9);
  const last = Math.max(first + 1, Math.ceil(Math.log10(high) - 1e-9));
  const axis = round ? {low: 10 ** first, high: 10 ** last} : {low, high: Math.max(high, low * 1.01)};
  axis.ticks = [];
  for (let k = first; k <= last; k += Math.max(1, Math.ceil((last - first) / count))) {
    axis.ticks.push(...(last - first > 2 ? [1] : [1, 2, 5]).map((factor) => factor * 10 ** k)
      .filter((value) => value >= axis.low * .999 && value <= axis.high * 1.001));
  }
  return axis;
}

// An empty chart: `px` and `py` of values on the axes `x` and `y`, of which each may be null. Axis `x`
// has lines through the chart where `xGrid`, else notches.
function drawAxes({label, style = "", width = 560, height = 280, left = 52, right = 14, top = 12, bottom = 40,
                   x = null, y = null, xGrid = false, xLabel = "", yLabel = ""}) {
  const floor = height - bottom;
  const plot = svg("svg", {
    class: `plot ${style}`, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label,
  });
  const chart = {
    plot, width, floor, top,
    across: (part) => left + part * (width - left - right),
    px: (value) => chart.across(x.place(value)),
    py: (value) => floor - y.place(value) * (floor - top),
    line: (style, x1, y1, x2, y2) => plot.append(svg("line", {class: style, x1, y1, x2, y2})),
    text: (style, x, y, text) => plot.append(svg("text", {class: style, x, y}, text)),
  };
  for (const tick of y?.ticks || []) {
    chart.line("grid", left, chart.py(tick), width - right, chart.py(tick));
    chart.text("tick end", left - 8, chart.py(tick) + 4, shortNumber(tick));
  }
  for (const tick of x?.ticks || []) {
    if (xGrid) chart.line("grid", chart.px(tick), top, chart.px(tick), floor);
    else chart.line("notch", chart.px(tick), floor, chart.px(tick), floor + 4);
    chart.text("tick mid", chart.px(tick), floor + 17, shortNumber(tick));
  }
  if (y) chart.line("axis", left, floor, width - right, floor);
  chart.text("label mid", (left + width - right) / 2, height - 5, xLabel);
  if (yLabel) {
    plot.append(svg("text", {class: "mid", transform: `translate(10 ${(top + floor) / 2}) rotate(-90)`}, yLabel));
  }
  return chart;
}

const noValues = () => make("p", {class: "none"}, "no values");

function chartCard({title, y_label: unit, wide}, ...content) {
  return make("div", {class: `card curve${wide ? " wide" : ""}`},
    make("h3", {}, title, unit ? make("span", {class: "unit"}, ` ${unit}`) : null), content);
}

// `entries`: [style, name, value].
function legend(entries) {
  return make("div", {class: "legend"}, entries.map(([style, name, value]) =>
    make("span", {}, make("i", {class: style}), name, value ? make("b", {}, value) : null)));
}

const MOST_MARKS = 80;

// Lines over `xs`, a gap where a value is missing: `series` of {name, xs, ys, faint, points}. A faint one has
// the colour of the next that is not, since that is its smoothed form; `points` marks every value. `marks` of
// {x, text}: rules across the plot.
function curveCard(curve) {
  const {title, series, marks = [], x_label: xLabel, log_x: logX, log_y: logY, from_zero: fromZero,
    y_reaches: yReaches = 0} = curve;
  const has = (value, log) => Number.isFinite(value) && (!log || value > 0);
  const drawable = (x, y) => has(x, logX) && has(y, logY);
  let colour = 0;
  const styled = series.map((one) => ({
    ...one, style: `s${(one.faint ? colour : colour++) % 8}${one.faint ? " faint" : ""}`,
    points: one.xs.map((x, i) => (drawable(x, one.ys[i]) ? [x, one.ys[i]] : null)), marked: one.points,
  }));
  const all = styled.flatMap((one) => one.points.filter(Boolean));
  if (!all.length) return chartCard(curve, noValues());
  const ends = (values) => values.reduce(([low, high], value) =>
    [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  const [low, high] = ends(all.map(([, y]) => y).concat(fromZero && !logY ? [0, yReaches] : []));
  const chart = drawAxes({
    label: title, xLabel, ...(marks.length ? {top: 20} : {}), x: makeAxis(...ends(all.map(([x]) => x)), {log: logX, ticks: 6}),
    y: makeAxis(low, high, {log: logY, round: true}),
  });
  for (const {name, style, points, marked} of styled) {
    const places = points.map((one) => one && [chart.px(one[0]).toFixed(1), chart.py(one[1]).toFixed(1)]);
    const path = places.map((one, i) => (one ? `${places[i - 1] ? "L" : "M"}${one.join(" ")}` : "")).join("");
    if (path) chart.plot.append(svg("path", {class: `line ${style}`, d: path}));
    if (!(marked || points.length === 1) || points.length > MOST_MARKS) continue;
    places.forEach((one, i) => {
      if (!one) return;
      const text = `${xLabel} ${shortNumber(points[i][0])}: ${name} ${shortNumber(points[i][1])}`;
      chart.plot.append(
        svg("circle", {class: `mark ${style}`, cx: one[0], cy: one[1], r: 3}, svg("title", {}, text)));
    });
  }
  const xs = ends(all.map(([x]) => x));
  for (const mark of marks) {
    if (!has(mark.x, logX) || mark.x < xs[0] || mark.x > xs[1]) continue;
    chart.line("rule", chart.px(mark.x), chart.top, chart.px(mark.x), chart.floor);
    chart.text("tick mid", chart.px(mark.x), chart.top - 7, mark.text);
  }
  return chartCard(curve, legend(styled.filter((one) => !one.faint).map(({style, name, points}) =>
    [style, name, points.some(Boolean) ? shortNumber(points.findLast(Boolean)[1]) : null])), chart.plot);
}

const MOST_SLANTED = 14;  // characters

// Counts side by side: `bars` of {label, detail, count}; `marks` of {place, text}, the place in bars from the
// left; with `labels_edges` a label stands at its bar's left edge; `wide` is for many bars, their names slanted.
function histogramCard(histogram) {
  const {title, bars, marks = [], wide, labels_edges: edges, x_label: xLabel} = histogram;
  const most = Math.max(0, ...bars.map((bar) => bar.count));
  if (!most) return chartCard(histogram, noValues());
  const chart = drawAxes({
    label: title, xLabel, top: 20, y: makeAxis(0, most, {round: true}),
    ...(wide ? {style: "wide", width: 1140, height: 320, bottom: 108} : {height: 240}),
  });
  const place = (bar) => chart.across(bar / bars.length);
  bars.forEach(({label, detail, count: n}, i) => {
    const x = place(i), end = place(i + 1);
    const y = n > 0 ? Math.min(chart.py(n), chart.floor - 1) : chart.floor;  // what is not none stays visible
    chart.plot.append(svg("rect", {
      class: "column s0", x: x + .75, y, width: Math.max(.5, end - x - 1.5), height: chart.floor - y,
    }, svg("title", {}, detail)));
    if (!label) return;
    if (!wide) return chart.text("tick mid", edges ? x : (x + end) / 2, chart.floor + 17, label);
    chart.plot.append(svg("text", {
      class: "tick end", transform: `translate(${(x + end) / 2 + 4} ${chart.floor + 12}) rotate(-60)`,
    }, shortened(label, MOST_SLANTED)));
  });
  for (const mark of marks) {
    chart.line("rule", place(mark.place), chart.top, place(mark.place), chart.floor);
    chart.text("tick mid", place(mark.place), chart.top - 7, mark.text);
  }
  return chartCard(histogram, make("div", {class: "scroll"}, chart.plot));
}

const MOST_ROW_NAME = 28;  // characters

// Values with their intervals, one below the other: `rows` of {label, detail, value, low, high, marked}, without
// an interval where low is null. 0 is always on the axis; marked ones have a colour that says their sign.
function intervalCard({title, x_label: xLabel, rows, note: text}) {
  const ends = [0, ...rows.flatMap((row) => [row.value, row.low, row.high]).filter(Number.isFinite)];
  const height = 20 * rows.length;
  const chart = rows.length && drawAxes({
    label: title, style: "intervals", width: 900, height: height + 50, left: 200, right: 20, top: 0,
    bottom: 44, xGrid: true, x: makeAxis(Math.min(...ends), Math.max(...ends), {round: true, ticks: 7}), xLabel,
  });
  if (chart) chart.line("axis", chart.px(0), 0, chart.px(0), chart.floor);
  rows.forEach(({label, detail, value, low, high, marked}, i) => {
    const y = 20 * (i + .5);
    chart.plot.append(svg("g", {class: !marked ? "s7" : value > 0 ? "s2" : "s1"}, svg("title", {}, detail),
      svg("text", {class: "end", x: 188, y: y + 4}, shortened(label, MOST_ROW_NAME)),
      Number.isFinite(low) && Number.isFinite(high) ?
        svg("line", {class: "span", x1: chart.px(low), x2: chart.px(high), y1: y, y2: y}) : null,
      svg("circle", {class: marked ? "dot" : "mark", cx: chart.px(value), cy: y, r: 4})));
  });
  return make("div", {class: "card curve"},
    chart ? make("div", {class: "scroll"}, chart.plot) : noValues(), note(text));
}

// Axes from 0 to 1 with a grid; the caller draws into it.
function unitPlot(xLabel, yLabel, label) {
  return drawAxes({label, height: 330, left: 48, right: 12, top: 10, bottom: 38, xGrid: true, xLabel, yLabel,
    x: makeAxis(0, 1), y: makeAxis(0, 1)});
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
function calibrationSentence(bins, {many, score}) {
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
  const tail = `often than their ${score} says (${less ? "below" : "above"} the dashed line)`;
  return `${subject} of ${score} ${less || more} are right ${less ? "less" : "more"} ${tail}` +
    (less && more ? `, those of ${score} ${more} more often (above it).` : ".");
}

// How often things of a score are right. `words`: what they are called (one, many), their score and
// the share of them that is right.
function calibrationChart({bins, error}, words) {
  const {one, many, score, right} = words;
  const {plot, px, py, line} = unitPlot(score, right,
    `${right} of ${many} by ${score}; expected calibration error ${num(error)}`);
  line("ideal", px(0), py(0), px(1), py(1));
  for (const bin of bins) {
    if (!bin.count) continue;
    const x = px(bin.low), y = py(bin.precision), width = px(bin.high) - x;
    const text = `${score} ${scoreRange(bin)}: ${things(bin.count, one, many)}, ` +
      `mean ${score} ${num(bin.mean_score)}, ${right} ${num(bin.precision)}`;
    plot.append(
      svg("rect", {
        class: "bin", x: x + 1.5, y, width: width - 3, height: Math.max(0, py(0) - y),
      }, svg("title", {}, text)),
      svg("circle", {class: "mark s0", cx: px(Math.min(1, Math.max(0, bin.mean_score))), cy: y, r: 3.5},
        svg("title", {}, text)),
      svg("text", {
        class: "mid count", x: x + width / 2, y: Math.max(y - 9, py(1) + 8),
      }, count(bin.count)));
  }
  return make("div", {class: "card curve", id: "calibration"},
    make("h3", {}, "Calibration"),
    legend([["s0", "expected calibration error", num(error)]]), plot,
    note(bins.some((bin) => bin.count) ?
      `${calibrationSentence(bins, words)} Numbers: ${many} in the bin.` : `No ${many} to calibrate.`));
}

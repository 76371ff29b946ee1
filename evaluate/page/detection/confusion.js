// The confusion matrix at a score that a slider chooses: truth in rows, found in columns; the last
// column is what was missed, the last row what was found where nothing is.

const confusion = metrics.confusion;
let scorePlace = confusion ? confusion.chosen : 0;
const MOST_CLASSES = 120;  // more make no readable matrix: those with the most confusions are shown
const MOST_LISTED = 40;

const cells = new Map((confusion?.cells || []).map((cell) => [cellKey(cell.truth, cell.found), cell]));
const cellAt = (truth, found) => cells.get(cellKey(truth, found));
const countAt = (cell) => (cell ? cell.counts[scorePlace] : 0);

// All objects of a class, or all that was found where nothing is.
let nothingFound = 0;
function rowSum(truth) {
  return truth === BACKGROUND ? nothingFound : confusion.truth_counts[truth];
}

function share(truth, found) {
  const sum = rowSum(truth);
  return sum > 0 ? countAt(cellAt(truth, found)) / sum : null;
}

function cellText(truth, found) {
  const number = countAt(cellAt(truth, found)), sum = rowSum(truth);
  const whole = truth === BACKGROUND ? "detections where nothing is" : "objects of the class";
  return `${count(number)} of ${count(sum)} ${whole}, share ${num(share(truth, found))}, at score ` +
    `${num(confusion.scores[scorePlace])} or more`;
}

// Cells by falling count at the chosen score.
function confusionsOf(wanted) {
  return [...cells.values()].filter((cell) => wanted(cell) && countAt(cell) > 0)
    .sort((a, b) => countAt(b) - countAt(a));
}

function confusionList(list, text) {
  if (!list.length) return make("p", {class: "soft"}, "None.");
  return make("ol", {class: "confusions"}, list.slice(0, MOST_LISTED).map((cell) =>
    make("li", {}, make("button", {
      type: "button", class: "link", "data-cell": cellKey(cell.truth, cell.found),
      click: () => openCell(cell.truth, cell.found),
    }, text(cell)), make("span", {class: "number"}, count(countAt(cell))),
    make("span", {class: "number soft"}, num(share(cell.truth, cell.found))))));
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
  const info = make("p", {class: "cell-info", "aria-live": "polite"});
  const output = make("output", {});
  const sums = make("p", {class: "soft sums"});
  const list = make("div", {class: "list-area"});
  const {matrix, grid, size, point} = matrixGrid({
    places, corner: "truth ↓ found →",
    rowName: (place) => (place === BACKGROUND ? "nothing there" : className(place)),
    columnName: (place) => (place === BACKGROUND ? "missed" : className(place)),
    hasCell: (truth, found) => truth !== BACKGROUND || found !== BACKGROUND,
    tell: (truth, found) => {
      info.textContent = truth === null ? "Point at a cell for its numbers; click it for its images." :
        `${describe(truth, found)}: ${cellText(truth, found)}`;
    },
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
      `${count(total.background)} where nothing is, ${count(total.missed)} missed`;
    for (const [key, cell] of cells) {
      const td = grid.get(key);
      if (!td) continue;
      fillCell(td, {
        number: countAt(cell), share: share(cell.truth, cell.found) || 0, size,
        kind: cell.truth === cell.found ? "right" : cell.found === BACKGROUND ? "missed" : "wrong",
        text: describe(cell.truth, cell.found),
      });
    }
    list.replaceChildren(confusionList(
      confusionsOf((cell) => cell.truth !== cell.found && cell.truth >= 0 && cell.found >= 0),
      (cell) => `${className(cell.truth)} → ${className(cell.found)}`));
    point(null);
  }

  function describe(truth, found) {
    return `truth ${truth === BACKGROUND ? "nothing" : className(truth)}, ` +
      `found ${found === BACKGROUND ? "nothing" : className(found)}`;
  }

  const slider = make("input", {
    type: "range", id: "score-slider", min: 0, max: confusion.scores.length - 1, step: 1,
    value: confusion.chosen, input: (event) => showScore(+event.target.value),
  });
  showScore(confusion.chosen);
  return [
    make("div", {class: "bar-row"}, make("label", {for: "score-slider"}, "Detections from score"),
      slider, output, sums),
    info,
    make("div", {class: `confusion ${size}`},
      make("div", {class: "matrix-scroll"}, matrix),
      make("div", {class: "most-confused"}, make("h3", {}, "Most frequent confusions"), list)),
    make("p", {class: "note"}, "A cell's shade is its share of the row; truth and found overlap with " +
      `an IoU of at least ${num(confusion.iou)}.` + (places.length <= classes.length ?
      ` The ${MOST_CLASSES} classes with the most confusions are shown.` : ""))];
}

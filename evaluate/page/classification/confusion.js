// Which classes are taken for which: the matrix where it fits, and the most frequent confusions.

const MOST_CLASSES = 20;  // of more the list alone is shown
const MOST_LISTED = 50;

// All cells that occur, by place in `classes`.
const cells = new Map(metrics.confusion.map(([truth, found, number]) => {
  const [row, column] = [truth, found].map((id) => placeOfCategory.get(String(id)));
  return [cellKey(row, column), {truth: row, found: column, number}];
}));
const countOf = (truth, found) => cells.get(cellKey(truth, found))?.number || 0;

function share(truth, found) {
  const sum = classes[truth].image_count;
  return sum > 0 ? countOf(truth, found) / sum : null;
}

function cellText(truth, found) {
  return `${count(countOf(truth, found))} of ${things(classes[truth].image_count, "image")} of the ` +
    `class, share ${num(share(truth, found))}`;
}

// Cells by falling count.
function confusionsOf(wanted) {
  return [...cells.values()].filter((cell) => cell.truth !== cell.found && wanted(cell))
    .sort((a, b) => b.number - a.number);
}

function confusionList(list, text) {
  if (!list.length) return make("p", {class: "soft"}, "None.");
  return make("ol", {class: "confusions"}, list.slice(0, MOST_LISTED).map((cell) =>
    make("li", {}, make("button", {
      type: "button", class: "link", "data-cell": cellKey(cell.truth, cell.found),
      click: () => openCell(cell.truth, cell.found),
    }, text(cell)), make("span", {class: "number"}, count(cell.number)),
    make("span", {class: "number soft"}, num(share(cell.truth, cell.found))))));
}

const pairText = ({truth, found}) => `${className(truth)} → ${className(found)}`;

function confusionSection() {
  const list = confusionList(confusionsOf(() => true), pairText);
  const heading = make("h3", {}, "Most frequent confusions");
  const note = make("p", {class: "note"}, "Truth → predicted, images, share of the true class's images.");
  if (classes.length > MOST_CLASSES) {
    return [make("div", {class: "confusion listed"}, make("div", {class: "most-confused"}, heading, list)), note];
  }
  const info = make("p", {class: "cell-info", "aria-live": "polite"});
  const describe = (truth, found) => `truth ${className(truth)}, predicted ${className(found)}`;
  const places = classes.map((_, place) => place);
  const {matrix, grid, size, point} = matrixGrid({
    places, corner: "truth ↓ predicted →", rowName: className, columnName: className,
    tell: (truth, found) => {
      info.textContent = truth === null ? "Point at a cell for its numbers; click it for its images." :
        `${describe(truth, found)}: ${cellText(truth, found)}`;
    },
  });
  for (const [key, td] of grid) {
    const [truth, found] = key.split(",").map(Number);
    fillCell(td, {
      number: countOf(truth, found), share: share(truth, found) || 0, size,
      kind: truth === found ? "right" : "wrong", text: describe(truth, found),
    });
  }
  point(null);
  return [info,
    make("div", {class: `confusion ${size}`}, make("div", {class: "matrix-scroll"}, matrix),
      make("div", {class: "most-confused"}, heading, make("div", {class: "list-area"}, list))),
    make("p", {class: "note"}, "A cell's shade is its share of the row. " + note.textContent)];
}

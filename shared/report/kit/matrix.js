// A confusion matrix as a grid: truth in rows, found in columns, by place among the classes. Cells are
// pointed at, opened by a click or Enter, and walked through by the arrow keys.

const cellKey = (truth, found) => `${truth},${found}`;

// `places` of rows and columns; `corner` names the two; `name`, `row` and `column` name a place; `has(truth,
// found)`: whether there is such a cell; `tell(truth, found)` when a cell is pointed at, tell(null) when
// none is; `open(truth, found)` when it is chosen.
// The caller fills the cells of `grid` (cellKey -> td), and calls `point(null)` when it has.
function matrixGrid({places, corner, name, row: rowName, column: columnName, has}, tell, open) {
  const size = places.length <= 9 ? "roomy" : places.length <= 26 ? "middle" : "dense";
  const grid = new Map();
  const head = make("tr", {}, make("th", {class: "corner"}, make("span", {}, corner)),
    places.map((place) => make("th", {scope: "col", class: "column", "data-place": place,
      title: name(place)}, make("span", {}, columnName(place)))));
  const body = places.map((truth) => make("tr", {},
    make("th", {scope: "row", "data-place": truth, title: className(truth)}, rowName(truth)),
    places.map((found) => {
      const td = make("td", has(truth, found) ? {
        role: "gridcell", tabindex: "-1", "data-truth": truth, "data-found": found,
      } : {class: "void"});
      if (has(truth, found)) grid.set(cellKey(truth, found), td);
      return td;
    })));
  const matrix = make("table", {class: `matrix ${size}`, role: "grid", "aria-label": "Confusion matrix"},
    make("thead", {}, head), make("tbody", {}, body));
  grid.values().next().value.tabIndex = 0;

  let lit = [];
  function point(td) {
    lit.forEach((element) => element.classList.remove("lit"));
    lit = td ? [td, td.parentNode.firstChild, head.children[td.cellIndex]] : [];
    lit.forEach((element) => element.classList.add("lit"));
    if (td) tell(+td.dataset.truth, +td.dataset.found);
    else tell(null);
  }
  const cellOf = (event) => event.target.closest?.("td[data-truth]");
  matrix.addEventListener("mouseover", (event) => point(cellOf(event)));
  matrix.addEventListener("mouseleave", () => point(null));
  matrix.addEventListener("focusin", (event) => point(cellOf(event)));
  matrix.addEventListener("click", (event) => {
    const td = cellOf(event);
    if (td) open(+td.dataset.truth, +td.dataset.found);
  });
  matrix.addEventListener("keydown", (event) => {
    const td = cellOf(event);
    if (!td) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return td.click();
    }
    const column = td.cellIndex, row = td.parentNode;
    const next = {
      ArrowLeft: () => td.previousElementSibling, ArrowRight: () => td.nextElementSibling,
      ArrowUp: () => row.previousElementSibling?.children[column],
      ArrowDown: () => row.nextElementSibling?.children[column],
      Home: () => row.children[1], End: () => [...row.children].findLast((one) => one.dataset.truth),
    }[event.key]?.();
    if (!next) return;
    event.preventDefault();
    if (!next.dataset.truth) return;
    td.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  return {matrix, grid, size, point};
}

// A cell's number with its share of the row as shade: `kind` is "right", "wrong" or "missed".
function fillCell(td, {number, share, kind, size, text}) {
  td.className = number === 0 ? "" : kind;
  td.classList.toggle("strong", share > .45);
  td.style.setProperty("--share", `${(12 + 88 * Math.sqrt(share)).toFixed(1)}%`);  // rare ones too
  if (size !== "dense") {
    td.replaceChildren(...(number ? [count(number)] : []),
      ...(number && size === "roomy" ? [make("small", {}, num(share))] : []));
  }
  td.setAttribute("aria-label", `${text}: ${count(number)}`);
}

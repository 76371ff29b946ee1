// The table of classes: sorted by any column, filtered by name, a row opens its class.

// `numbers`: the columns after the name, each with its `title`, the `value` that it sorts by and how
// to `show` that, or the `text` of a class. `note` explains them.
function classTable(numbers, note, openClass) {
  const columns = [{title: "class", show: (text) => text}, ...numbers];
  const body = make("tbody", {}), state = {column: null, down: false};
  const places = new Map(classes.map((one, place) => [one, place]));
  columns[0].value = (one) => className(places.get(one));

  const rows = new Map(classes.map((one, place) => [one, make("tr", {
    "data-place": place, click: () => openClass(place),
  }, columns.map((column, i) => cell(column, one, place, i === 0)))]));

  function cell(column, one, place, first) {
    const text = column.text ? column.text(one) : column.show(column.value(one));
    if (first) {
      return make("td", {}, make("button", {type: "button", class: "link", title: text}, text));
    }
    const td = make("td", {class: column.bar ? "bar" : null}, text);
    if (column.bar) td.style.setProperty("--w", `${Math.max(0, column.value(one)) * 100}%`);
    return td;
  }

  const heads = columns.map((column) => make("th", {scope: "col"}, make("button", {
    type: "button", title: column.hint, click: () => sortBy(column),
  }, column.title)));

  // First click: text from A, numbers from the largest. What does not exist comes last.
  function sortBy(column) {
    state.down = state.column === column ? !state.down : column !== columns[0];
    state.column = column;
    heads.forEach((head, i) => {
      if (columns[i] === column) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const missing = (value) => value === null || value === undefined || value === -1;
    const order = (a, b) => {
      const left = column.value(a), right = column.value(b);
      if (missing(left) || missing(right)) return missing(left) - missing(right);
      const ascending = typeof left === "string" ? left.localeCompare(right) : left - right;
      return state.down ? -ascending : ascending;
    };
    body.append(...[...classes].sort(order).map((one) => rows.get(one)));
  }

  const shown = make("span", {class: "soft", "aria-live": "polite"});
  function filter(text) {
    let left = 0;
    for (const [one, row] of rows) {
      row.hidden = !columns[0].value(one).toLowerCase().includes(text.trim().toLowerCase());
      left += row.hidden ? 0 : 1;
    }
    shown.textContent = left === classes.length ? things(left, "class", "classes") :
      `${count(left)} of ${things(classes.length, "class", "classes")}`;
  }
  body.append(...rows.values());
  filter("");
  return [
    make("div", {class: "bar-row"},
      make("input", {
        type: "search", placeholder: "Filter by name", "aria-label": "Filter classes by name",
        input: (event) => filter(event.target.value),
      }), shown),
    make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of classes"},
      make("table", {id: "class-table"}, make("thead", {}, make("tr", {}, heads)), body)),
    make("p", {class: "note"}, note)];
}

// A table that is sorted by any column and filtered by its first, names; a row opens its item.

// `items`, which are called `one` or `many`; `columns`, each with its `title`, the `value` that it sorts by and
// how to `show` that, or the `text` of an item, `bar` for bars of the values; `explanation` stands below;
// `open(place)` of an item.
function sortedTable({id, items, one: oneName, many, columns, explanation, open}) {
  const body = make("tbody", {}), state = {column: null, down: false};
  const rows = new Map(items.map((one, place) => [one, make("tr", {
    "data-place": place, click: () => open(place),
  }, columns.map((column, i) => cell(column, one, i === 0)))]));

  function cell(column, one, first) {
    const text = column.text ? column.text(one) : column.show(column.value(one));
    if (first) {
      return make("td", {}, make("button", {type: "button", class: "link", title: text}, text));
    }
    return barCell(text, column.bar ? column.value(one) : null);
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
    body.append(...[...items].sort(order).map((one) => rows.get(one)));
  }

  const shown = make("span", {class: "soft", "aria-live": "polite"});
  function filter(text) {
    let left = 0;
    for (const [one, row] of rows) {
      row.hidden = !columns[0].value(one).toLowerCase().includes(text.trim().toLowerCase());
      left += row.hidden ? 0 : 1;
    }
    const all = things(items.length, oneName, many);
    shown.textContent = left === items.length ? all : `${count(left)} of ${all}`;
  }
  body.append(...rows.values());
  filter("");
  return make("div", {class: "card table"},
    make("div", {class: "bar-row"},
      make("input", {
        type: "search", placeholder: "Filter by name", "aria-label": `Filter ${many} by name`,
        input: (event) => filter(event.target.value),
      }), shown),
    make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": `Table of ${many}`},
      make("table", {id}, make("thead", {}, make("tr", {}, heads)), body)),
    note(explanation));
}

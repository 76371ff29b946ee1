// The table of classes: sorted by any column, filtered by name, a row opens its class.

const CLASS_COLUMNS = [
  {title: "AP", value: (one) => one.AP, show: num, bar: true},
  {title: "AP50", value: (one) => one.AP50, show: num},
  {title: "AP75", value: (one) => one.AP75, show: num},
  {title: "small", value: (one) => one.AP_small, show: num, hint: "AP of objects up to 32² px"},
  {title: "medium", value: (one) => one.AP_medium, show: num, hint: "AP of objects from 32² to 96² px"},
  {title: "large", value: (one) => one.AP_large, show: num, hint: "AP of objects above 96² px"},
  {title: "AR100", value: (one) => one.AR100, show: num},
  {title: "objects", value: (one) => one.object_count, show: count},
  {title: "found", value: (one) => one.detection_count, show: count},
  {title: "best score", value: (one) => one.best_threshold?.score, show: num,
   hint: "The score threshold with the highest F1", explained: true},
  {title: "F1", value: (one) => one.best_threshold?.f1, show: num,
   hint: "F1 at the best score threshold, IoU .50", explained: true},
];

function classTable(openClass) {
  const explained = classes.some((one) => "best_threshold" in one);
  const columns = [
    {title: "class", value: (one) => className(classes.indexOf(one)), show: (text) => text},
    ...CLASS_COLUMNS.filter((column) => explained || !column.explained)];
  const body = make("tbody", {}), state = {column: null, down: false};
  const places = new Map(classes.map((one, place) => [one, place]));
  columns[0].value = (one) => className(places.get(one));

  const rows = new Map(classes.map((one, place) => [one, make("tr", {
    "data-place": place, click: () => openClass(place),
  }, columns.map((column, i) => cell(column, one, place, i === 0)))]));

  function cell(column, one, place, first) {
    const text = column.show(column.value(one));
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
    make("p", {class: "note"}, "small, medium, large: AP by object size. objects: without crowd " +
      "regions. found: all detections, whatever their score." + (explained ?
      " best score: the threshold with the highest F1 at IoU .50." : "") +
      " A click on a class shows its curves, faults and pictures.")];
}

// Builds elements. Text enters the page as text only, whatever a name holds.

// make("p", {class: "note"}, "text", child, ...): attributes and children that are null or false are
// ignored, functions are event handlers.
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  const is = (value) => value !== null && value !== undefined && value !== false;
  for (const [name, value] of Object.entries(attributes)) {
    if (!is(value)) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(is));
  return element;
}

function button(style, click, ...content) {
  return make("button", {type: "button", class: style, click}, content);
}

function note(text, style = "note") {
  return text ? make("p", {class: style}, text) : null;
}

function headed(title, ...children) {
  return make("div", {}, make("h3", {}, title), children);
}

// A row of buttons of which one is pressed: `options` [[value, text]], `choose` gets the value.
function choice(label, options, chosen, choose) {
  const group = make("div", {class: "choice", role: "radiogroup", "aria-label": label});
  const buttons = options.map(([value, text]) => make("button", {
    type: "button", role: "radio", "data-value": value, click: () => press(value),
  }, text));
  function press(value) {
    buttons.forEach((one, i) => {
      const on = options[i][0] === value;
      one.setAttribute("aria-checked", on);
      one.tabIndex = on ? 0 : -1;
    });
    choose(value);
  }
  group.addEventListener("keydown", (event) => {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    press(options[next][0]);
    buttons[next].focus();
  });
  group.append(...buttons);
  press(chosen);
  return group;
}

// A headline number.
function metric(label, value, detail = "", style = "") {
  return make("div", {class: `card metric ${style}`}, make("div", {class: "label"}, label),
    make("div", {class: "value"}, value), make("div", {class: "detail"}, detail));
}

function metricsSection(list) {
  const section = make("section", {id: "metrics", class: "metrics", "aria-label": "Main metrics"}, list);
  document.querySelector("footer").before(section);
}

// Name, bar and numbers; `length` of 1 fills the bar.
function barRow(style, name, length, numbers) {
  const bar = make("div", {class: `fill ${style}`});
  bar.style.width = `${Math.max(0, Math.min(1, length)) * 100}%`;
  return make("div", {class: "bar-line"}, make("div", {class: "name"}, make("i", {class: `dot ${style}`}), name),
    make("div", {class: "track"}, bar), numbers.map((text) => make("div", {class: "number"}, text)));
}

// A cell with a bar of that length behind its text; of null without one.
function barCell(text, length) {
  const td = make("td", {class: length === null ? null : "bar"}, text);
  if (length !== null) td.style.setProperty("--w", `${Math.max(0, length) * 100}%`);
  return td;
}

// A scrolling table: the first column is text, numbers align right. `bars`: {column, lengths} of its
// bars; `sentences`: a column whose text wraps.
function table(label, columns, rows, {bars = {}, sentences = -1} = {}) {
  const style = (i) => ({class: i === sentences ? "sentence" : null});
  const cell = (text, i, row) => (i === bars.column ? barCell(text, bars.lengths[row]) : make("td", style(i), text));
  return make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": label},
    make("table", {},
      make("thead", {}, make("tr", {}, columns.map((text, i) => make("th", {scope: "col", ...style(i)}, text)))),
      make("tbody", {}, rows.map((row, r) => make("tr", {}, row.map((text, i) => cell(text, i, r)))))));
}

// A table as the card of a section, see table().
function tableCard({title, columns, rows, note: text, bar_column: column = -1, bars, text_column: sentences, wide}) {
  return make("div", {class: `card table${wide ? " wide" : ""}`}, title ? make("h3", {}, title) : null,
    table(title || columns[0], columns, rows, {bars: {column, lengths: bars}, sentences}), note(text));
}

// An image in a gallery or among crops: `view` opens it large, `lines` stand below.
function tile({id, label, view, lines, open, style = ""}) {
  return make("figure", {class: `tile ${style}`, "data-image": id},
    make("button", {type: "button", class: "open", "aria-label": `${label}. Enlarge`, click: open}, view),
    make("figcaption", {}, lines));
}

// A whole image; without its file a word instead.
function photograph(id, name) {
  const source = imageUrls[id];
  return source ? make("img", {class: "photograph", src: source, alt: name, draggable: "false"}) :
    make("span", {class: "soft"}, "no image");
}

// The head of a dialog, with buttons that step to its neighbours: `step(by)`, of `what`.
function dialogHead(dialog, title, what, step, between = null) {
  const to = (name, by, text) => make("button", {
    type: "button", "aria-label": `${name} ${what}`, click: () => step(by),
  }, text);
  return make("div", {class: "dialog-head"}, make("h2", {id: `${dialog.id}-title`}, title),
    step ? [to("Previous", -1, "‹"), between, to("Next", 1, "›")] : [],
    make("button", {type: "button", class: "close", "aria-label": "Close", click: () => dialog.close()}, "✕"));
}

function showDialog(dialog, ...content) {
  dialog.replaceChildren(...content.flat(Infinity).filter((one) => one));
  if (!dialog.open) dialog.showModal();
}

// An image as large as fits: `show(image)` gives a title and the content. The arrow keys step through
// `list`.
function openViewer(image, list, show) {
  const viewer = part("viewer"), place = list.indexOf(image), {title, content} = show(image);
  const step = list.length < 2 ? null : (by) =>
    openViewer(list[(place + by + list.length) % list.length], list, show);
  showDialog(viewer, dialogHead(viewer, title, "image", step,
    make("span", {class: "soft"}, `${place + 1} of ${list.length}`)), content);
  viewer.onkeydown = (event) => {
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!step || !by) return;
    event.preventDefault();
    step(by);
  };
}

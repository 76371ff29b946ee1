// Builds elements. Text enters the page as text only, whatever a name holds.

// make("p", {class: "note"}, "text", child, ...): attributes that are null or false are left out,
// functions are event handlers.
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

// table(["class", "AP"], [["cat", "0.500"]]): the first column is text, numbers align right.
function table(columns, rows) {
  const head = columns.map((column) => make("th", {scope: "col"}, column));
  const body = rows.map((row) => make("tr", {}, row.map((cell) => make("td", {}, cell))));
  return make("table", {}, make("thead", {}, make("tr", {}, head)), make("tbody", {}, body));
}

// A row of buttons of which one is pressed: `options` [[value, text]], `choose` gets the value.
function choice(label, options, chosen, choose) {
  const group = make("div", {class: "choice", role: "radiogroup", "aria-label": label});
  const buttons = options.map(([value, text]) => make("button", {
    type: "button", role: "radio", "data-value": value, click: () => press(value),
  }, text));
  function press(value) {
    buttons.forEach((button, i) => {
      const on = options[i][0] === value;
      button.setAttribute("aria-checked", on);
      button.tabIndex = on ? 0 : -1;
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

function headed(title, ...children) {
  return make("div", {}, make("h3", {}, title), children);
}

// The sheet over the page that shows one class or one cell of the confusion matrix, with what the
// page's own showClass(place) and showCell(truth, found) put on it. The address says which
// (#class=ID, #cell=TRUTH,FOUND by category id), so that it can be passed on.

const sheet = document.getElementById("sheet");

function idOf(place) {
  return place === BACKGROUND ? "background" : String(classes[place].category_id);
}

function openClass(place) {
  setAddress(`#class=${idOf(place)}`);
  showClass(place);
}

function openCell(truth, found) {
  setAddress(`#cell=${idOf(truth)},${idOf(found)}`);
  showCell(truth, found);
}

function setAddress(hash) {
  history.replaceState(null, "", hash || location.pathname + location.search);
}

function showAddressed() {
  const place = (id) => (id === "background" && !metrics.task ? BACKGROUND : placeOfCategory.get(id));
  const [, kind, text] = /^#(class|cell)=(.*)$/.exec(location.hash) || [];
  const places = (text || "").split(",").map(place);
  if (!kind || places.includes(undefined)) return;
  if (kind === "class" && places[0] !== BACKGROUND) showClass(places[0]);
  if (kind === "cell" && places.length === 2 && metrics.confusion) showCell(...places);
}

function showSheet(...content) {
  sheet.replaceChildren(...content.flat());
  if (!sheet.open) sheet.showModal();
  sheet.scrollTop = 0;
}

function figure(label, value, detail = "", style = "") {
  return make("div", {class: `card figure ${style}`}, make("div", {class: "label"}, label),
    make("div", {class: "value"}, value), make("div", {class: "detail"}, detail));
}

// Name, bar and numbers; `part` of 1 fills the bar.
function barRow(style, name, part, numbers) {
  const bar = make("div", {class: `fill ${style}`});
  bar.style.width = `${Math.max(0, Math.min(1, part)) * 100}%`;
  return make("div", {class: "bar-line"}, make("div", {class: "name"}, make("i", {class: `dot ${style}`}), name),
    make("div", {class: "track"}, bar), numbers.map((text) => make("div", {class: "number"}, text)));
}

function dialogHead(dialog, id, title, controls = []) {
  return make("div", {class: "dialog-head"}, make("h2", {id}, title), ...controls,
    make("button", {
      type: "button", class: "close", "aria-label": "Close", click: () => dialog.close(),
    }, "✕"));
}

sheet.addEventListener("close", () => setAddress(""));
window.addEventListener("hashchange", showAddressed);

// Shared by the pages of a detector's and of a classifier's evaluation: names, table of classes,
// confusion, the sheet over the page. Each page's own script adds: countAt(cell), rowSum(truth),
// cellText(truth, found), describeCell(truth, found), cellTitle(truth, found), cellImages(truth,
// found), classDetails(place).

const metrics = page.data;  // metrics.json
const classes = metrics.per_class;
const BACKGROUND = -1;  // index in place of a class: nothing is there, or nothing was found
const placeOfCategory = new Map(classes.map((one, place) => [String(one.category_id), place]));
const drawnImages = new Map((metrics.images || []).map((one) => [String(one.image_id), one]));
const MOST_LISTED = 50, MOST_EXAMPLES = 12;

const imagesOf = (ids) => ids.map((id) => drawnImages.get(String(id))).filter(Boolean);

function className(place) {
  if (place === BACKGROUND) return "background";
  return plain(classes[place].name) || `category ${classes[place].category_id}`;
}

function categoryName(id) {
  const place = placeOfCategory.get(String(id));
  return place === undefined ? `category ${id}` : className(place);
}

// Returns the name of the image's file; every image whose id stands in metrics.json has one.
function nameOfImage(id) {
  const listed = (metrics.file_names || {})[String(id)];
  return plain(listed || drawnImages.get(String(id))?.file_name || "") || `image ${id}`;
}

const imageName = (image) => nameOfImage(image.image_id);

// Returns the table of classes; a row opens its class.
function classTable(columns, explanation) {
  return sortedTable({
    id: "class-table", items: classes, one: "class", many: "classes", explanation, open: openClass,
    columns: [{title: "class", value: (one) => className(classes.indexOf(one)), show: (text) => text}, ...columns],
  });
}

// Cells of the confusion matrix that occur, by cellKey: {truth, found, ...}, indices into
// `classes`.
const cells = new Map();
const cellAt = (truth, found) => cells.get(cellKey(truth, found));
const countOf = (truth, found) => (cellAt(truth, found) ? countAt(cellAt(truth, found)) : 0);

function share(truth, found) {
  const sum = rowSum(truth);
  return sum > 0 ? countOf(truth, found) / sum : null;
}

// Returns cells by falling count.
function confusionsOf(wanted) {
  return [...cells.values()].filter((cell) => wanted(cell) && countAt(cell) > 0)
    .sort((a, b) => countAt(b) - countAt(a));
}

const isConfusion = ({truth, found}) => truth !== found && truth !== BACKGROUND && found !== BACKGROUND;
const pairText = ({truth, found}) => `${className(truth)} → ${className(found)}`;

function confusionList(list, text) {
  if (!list.length) return note("None.", "soft");
  return make("ol", {class: "confusions"}, list.slice(0, MOST_LISTED).map((cell) =>
    make("li", {}, make("button", {
      type: "button", class: "link", "data-cell": cellKey(cell.truth, cell.found),
      click: () => openCell(cell.truth, cell.found),
    }, text(cell)), make("span", {class: "number"}, count(countAt(cell))),
    make("span", {class: "number soft"}, num(share(cell.truth, cell.found))))));
}

// Returns the most frequent confusions, beside the matrix unless `names` is null: {places, corner,
// row, column, has} as matrixGrid takes them. `draw` must be called when the counts have changed.
function confusionView(names) {
  const list = make("div", {class: "list-area"});
  const most = make("div", {class: "most-confused"}, make("h3", {}, "Most frequent confusions"), list);
  const showList = () => list.replaceChildren(confusionList(confusionsOf(isConfusion), pairText));
  if (!names) return {draw: showList, elements: [make("div", {class: "confusion listed"}, most)]};
  const info = make("p", {class: "cell-info", "aria-live": "polite"});
  const {matrix, grid, size, point} = matrixGrid({...names, name: className}, (truth, found) => {
    info.textContent = truth === null ? "Point at a cell for its numbers; click it for its images." :
      `${describeCell(truth, found)}: ${cellText(truth, found)}`;
  }, openCell);
  function draw() {
    for (const [key, td] of grid) {
      const [truth, found] = key.split(",").map(Number);
      fillCell(td, {
        number: countOf(truth, found), share: share(truth, found) || 0, size, text: describeCell(truth, found),
        kind: truth === found ? "right" : found === BACKGROUND ? "missed" : "wrong",
      });
    }
    showList();
    point(null);
  }
  return {draw, elements: [info, make("div", {class: `confusion ${size}`},
    make("div", {class: "matrix-scroll"}, matrix), most)]};
}

// The sheet over the page shows one class or one cell. The address names it (#class=ID,
// #cell=TRUTH,FOUND by category id), so that it can be passed on.

const sheet = part("sheet");

function idOf(place) {
  return place === BACKGROUND ? "background" : String(classes[place].category_id);
}

function setAddress(hash) {
  history.replaceState(null, "", hash || location.pathname + location.search);
}

function openClass(place) {
  setAddress(`#class=${idOf(place)}`);
  showDialog(sheet, dialogHead(sheet, className(place), "class", classes.length > 1 ?
    (by) => openClass((place + by + classes.length) % classes.length) : null), classDetails(place));
  sheet.scrollTop = 0;
}

function openCell(truth, found) {
  setAddress(`#cell=${idOf(truth)},${idOf(found)}`);
  const places = [...new Set([truth, found])].filter((place) => place !== BACKGROUND);
  showDialog(sheet, dialogHead(sheet, cellTitle(truth, found)),
    make("p", {class: "soft", id: "sheet-count"}, cellText(truth, found)),
    make("p", {class: "links"}, places.map((place) =>
      button("link", () => openClass(place), `All about ${className(place)}`))),
    cellImages(truth, found));
  sheet.scrollTop = 0;
}

function showAddressed() {
  const [, id] = /^#image=(.*)$/.exec(location.hash) || [], image = drawnImages.get(id);  // a comparison links to it
  if (image) openViewer(image, [image], viewImage);
  else if (id) showDialog(sheet, dialogHead(sheet, nameOfImage(id)), note("Not among the images drawn here.", "soft"));
  const place = (id) => (id === "background" && !metrics.task ? BACKGROUND : placeOfCategory.get(id));
  const [, kind, text] = /^#(class|cell)=(.*)$/.exec(location.hash) || [];
  const places = (text || "").split(",").map(place);
  if (!kind || places.includes(undefined)) return;
  if (kind === "class" && places[0] !== BACKGROUND) openClass(places[0]);
  if (kind === "cell" && places.length === 2 && metrics.confusion) openCell(...places);
}

sheet.addEventListener("close", () => setAddress(""));
window.addEventListener("hashchange", showAddressed);

function finishEvaluation() {
  finishPage(true);
  showAddressed();
}

// Images with their boxes: ground truth dashed, detections solid and coloured by fault.

// Detections below are not drawn; the slider over the worst images moves it.
let drawnScore = metrics.confusion ? metrics.confusion.scores[metrics.confusion.chosen] : .3;

const FEW_BOXES = 12;

const isWrong = (found) => found.fault !== null && found.fault !== "ignored";
const isDrawn = (found) => found.score >= drawnScore;
const area = ({bbox}) => bbox[2] * bbox[3];

// Detections are named above their box, ground truth below: they often lie on one another.
function boxElement(image, {bbox, text, style, faint}) {
  const [x, y, width, height] = bbox;
  const percent = (part, whole) => `${(part / whole * 100).toFixed(3)}%`;
  const label = text && make("span", {
    class: `${y < image.height * .09 ? "high " : ""}${y + height > image.height * .91 ? "low " : ""}` +
      (x > image.width * .7 ? "to-left" : ""),
  }, text);
  const element = make("div", {class: `box ${style}${faint ? " faint" : ""}`}, label || null);
  element.style.left = percent(x, image.width);
  element.style.top = percent(y, image.height);
  element.style.width = percent(width, image.width);
  element.style.height = percent(height, image.height);
  return element;
}

// The image, or a plain panel of its proportions. Options: `truths`, `found` (draw them; default
// both), `labels` ("all", or only where they tell something), `concerns` (what is not is faint),
// `crop` (a box: only it and what is around).
function frame(image, options = {}) {
  const {truths = true, found = true, labels = "some", concerns = () => true, crop} = options;
  const source = imageUrls[image.image_id];
  const shown = image.found.filter(isDrawn);
  // Without an image only names tell what is there, as long as they leave room for the boxes.
  const named = labels === "all" || (!source && shown.length <= FEW_BOXES);
  const inner = make("div", {class: "inner"});
  if (source) inner.append(make("img", {src: source, alt: "", draggable: "false"}));
  if (found) {
    for (const one of shown.reverse()) {  // the best on top
      const text = named || one.fault !== null ?
        `${categoryName(one.category_id)} ${one.score.toFixed(2)}` : one.score.toFixed(2);
      inner.append(boxElement(image, {
        bbox: one.bbox, text, style: `found ${one.fault || "right"}`, faint: !concerns(one),
      }));
    }
  }
  if (truths) {
    for (const one of image.truths) {
      const text = labels === "all" || one.missed ?
        categoryName(one.category_id) + (one.crowd ? " (crowd)" : "") : "";
      inner.append(boxElement(image, {
        bbox: one.bbox, text, style: `truth${one.missed ? " missed" : ""}${one.crowd ? " crowd" : ""}`,
        faint: !concerns(one),
      }));
    }
  }
  const element = make("div", {class: `frame${source ? " photo" : ""}`}, inner);
  element.style.setProperty("--shape", `${image.width} / ${image.height}`);
  element.style.setProperty("--ratio", image.width / image.height);
  if (crop) cropTo(element, inner, image, crop);
  return element;
}

// Shows the box with about its own size around it.
function cropTo(element, inner, image, [x, y, width, height]) {
  const side = Math.min(Math.max(image.width, image.height), 2.2 * Math.max(width, height, 24));
  const left = Math.max(0, Math.min(x + width / 2 - side / 2, image.width - side));
  const top = Math.max(0, Math.min(y + height / 2 - side / 2, image.height - side));
  element.classList.add("crop");
  inner.style.width = `${image.width / side * 100}%`;
  inner.style.height = `${image.height / side * 100}%`;
  inner.style.left = `${-left / side * 100}%`;
  inner.style.top = `${-top / side * 100}%`;
}

// "5 objects, 2 missed; 6 found, 1 wrong"
function tally(image) {
  const objects = image.truths.filter((one) => !one.crowd);
  const missed = objects.filter((one) => one.missed).length;
  const found = image.found.filter(isDrawn), wrong = found.filter(isWrong).length;
  return `${things(objects.length, "object")}${missed ? `, ${count(missed)} missed` : ""}; ` +
    `${count(found.length)} found${wrong ? `, ${count(wrong)} wrong` : ""}`;
}

// An image in a gallery. `list` is what the viewer steps through.
function tile(image, list, options = {}, remark = "") {
  const name = imageName(image), text = tally(image);
  return make("figure", {class: "card tile", "data-image": image.image_id},
    make("button", {
      type: "button", class: "open", "aria-label": `${name}: ${text}. Enlarge`,
      click: () => openViewer(image, list, options),
    }, frame(image, options)),
    make("figcaption", {}, make("b", {}, name), remark ? make("span", {}, remark) : null,
      make("span", {}, text)));
}

function gallery(list, options = {}, remark = () => "") {
  return make("div", {class: "gallery"},
    list.map((image) => tile(image, list, options, remark(image))));
}

function boxLegend() {
  const entry = (style, text) => make("span", {}, make("i", {class: `swatch ${style}`}), text);
  return make("div", {class: "legend boxes", "aria-label": "Colours of the boxes"},
    entry("truth", "ground truth"), entry("truth missed", "missed"), entry("found right", "right"),
    Object.entries(FAULTS).filter(([key]) => key !== "missed")
      .map(([key, {what}]) => entry(`found ${key}`, what)),
    entry("found ignored", "ignored"));
}

// Ground truth and detections side by side, as large as fits; arrow keys step through `list`.
function openViewer(image, list, options = {}) {
  const viewer = document.getElementById("viewer");
  const place = list.indexOf(image);
  const step = (by) => openViewer(list[(place + by + list.length) % list.length], list, options);
  const pane = (title, what) => make("div", {class: "pane"}, make("h3", {}, title),
    frame(image, {...what, labels: "all", concerns: options.concerns}));
  viewer.replaceChildren(
    dialogHead(viewer, "viewer-title", imageName(image), list.length > 1 ? [
      make("button", {type: "button", "aria-label": "Previous image", click: () => step(-1)}, "‹"),
      make("span", {class: "soft"}, `${place + 1} of ${list.length}`),
      make("button", {type: "button", "aria-label": "Next image", click: () => step(1)}, "›"),
    ] : []),
    make("p", {class: "soft"}, `Image ${image.image_id}, ${image.width} × ${image.height} px; AP lost ` +
      `${num(image.ap_lost)}; ${tally(image)}. Detections from score ${num(drawnScore)}.`),
    make("div", {class: "panes"}, pane("Ground truth", {found: false}), pane("Found", {truths: false})),
    boxLegend());
  viewer.onkeydown = (event) => {
    if (list.length < 2 || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    event.preventDefault();
    step(event.key === "ArrowRight" ? 1 : -1);
  };
  if (!viewer.open) viewer.showModal();
}

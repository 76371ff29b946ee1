// Mistaken images with their true and their predicted class.

const firstOf = (image) => image.top5[0];
const verdictText = (image) =>
  `${categoryName(image.category_id)} → ${categoryName(firstOf(image)[0])}`;

function photo(image) {
  const source = imageUrls[image.image_id];
  const name = `${imageName(image)}: ${verdictText(image)}`;
  return source ? make("img", {class: "photograph", src: source, alt: name, draggable: "false"}) :
    make("span", {class: "soft"}, "no image");
}

// An image in a gallery; `list` is what the viewer steps through.
function tile(image, list) {
  return make("figure", {class: "card tile", "data-image": image.image_id},
    make("button", {
      type: "button", class: "open", "aria-label": `${imageName(image)}: ${verdictText(image)}. Enlarge`,
      click: () => openViewer(image, list),
    }, photo(image)),
    make("figcaption", {}, make("b", {title: verdictText(image)}, verdictText(image)),
      make("span", {}, `confidence ${num(firstOf(image)[1])} · ${imageName(image)}`)));
}

function gallery(list) {
  return make("div", {class: "gallery small"}, list.map((image) => tile(image, list)));
}

const imagesOf = (ids) => ids.map((id) => drawnImages.get(String(id))).filter(Boolean);

// The image beside the best classes; arrow keys step through `list`.
function openViewer(image, list) {
  const viewer = document.getElementById("viewer");
  const place = list.indexOf(image);
  const step = (by) => openViewer(list[(place + by + list.length) % list.length], list);
  const isTrue = (id) => String(id) === String(image.category_id);
  viewer.replaceChildren(
    dialogHead(viewer, "viewer-title", imageName(image), list.length > 1 ? [
      make("button", {type: "button", "aria-label": "Previous image", click: () => step(-1)}, "‹"),
      make("span", {class: "soft"}, `${place + 1} of ${list.length}`),
      make("button", {type: "button", "aria-label": "Next image", click: () => step(1)}, "›"),
    ] : []),
    make("p", {}, `Truth ${categoryName(image.category_id)}, at place ${count(image.rank + 1)}; ` +
      `predicted ${categoryName(firstOf(image)[0])}. Cross-entropy ${num(image.loss)}.`),
    make("div", {class: "panes"},
      make("div", {class: "pane whole"}, photo(image)),
      make("div", {class: "pane stack"}, headed("Best classes", make("div", {class: "bars"},
        image.top5.map(([id, probability], i) => barRow(isTrue(id) ? "ok" : i ? "recall" : "background",
          categoryName(id), probability, [num(probability)])))))));
  viewer.onkeydown = (event) => {
    if (list.length < 2 || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    event.preventDefault();
    step(event.key === "ArrowRight" ? 1 : -1);
  };
  if (!viewer.open) viewer.showModal();
}

"use strict";
// What the page shows: metrics.json, read without loss, and how its values become text.

// Ids may exceed 2^53, where JavaScript's numbers have gaps: long whole numbers become text.
function parseExactly(json) {
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
  return JSON.parse(json.replace(tokens, (t) => (/^-?\d{16,}$/.test(t) ? `"${t}"` : t)));
}

const read = (id) => document.getElementById(id).textContent;
const metrics = parseExactly(read("metrics"));
const extras = JSON.parse(read("extras"));      // settings and notes
const imageUrls = JSON.parse(read("pictures"));  // image id -> data URL

const classes = metrics.per_class;
const BACKGROUND = -1;  // in place of a class: nothing there, or nothing found
const placeOfCategory = new Map(classes.map((one, place) => [String(one.category_id), place]));
const drawnImages = new Map((metrics.images || []).map((one) => [String(one.image_id), one]));

const NONE = "–";

// A metric: three decimals, a dash for what does not exist.
function num(value) {
  if (value === null || value === undefined || value === -1) return NONE;
  // toFixed rounds halves up, printf to even. Only sixteenths lie halfway between thousandths.
  let shown = value;
  if (Math.abs((value * 16) % 2) === 1) {
    const below = Math.floor(value * 1000);
    shown = (below + (Math.abs(below) % 2)) / 1000;
  }
  return shown.toFixed(3).replace(/^-(0\.000)$/, "$1");
}

// A number of things: "12,345".
function count(value) {
  return value === null || value === undefined ? NONE : value.toLocaleString("en-US");
}

function things(value, one, many = one + "s") {
  return `${count(value)} ${value === 1 ? one : many}`;
}

// A name as it can be shown: without what would move the text around it.
function plain(name) {
  const invisible = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
  const hex = (c) => c.charCodeAt(0).toString(16).padStart(4, "0");
  return name.replace(invisible, (c) => `\\u${hex(c)}`).trim();
}

function className(place) {
  if (place === BACKGROUND) return "background";
  return plain(classes[place].name) || `category ${classes[place].category_id}`;
}

function categoryName(id) {
  const place = placeOfCategory.get(String(id));
  return place === undefined ? `category ${id}` : className(place);
}

// By its file's name, which every image has whose id stands in metrics.json; those of sets of earlier
// versions have none.
function nameOfImage(id) {
  const listed = (metrics.file_names || {})[String(id)];
  return plain(listed || drawnImages.get(String(id))?.file_name || "") || `image ${id}`;
}

function imageName(image) {
  return nameOfImage(image.image_id);
}

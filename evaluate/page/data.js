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
const pictures = JSON.parse(read("pictures"));  // image id -> data URL

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

function imageName(image) {
  return plain(image.file_name || "") || `image ${image.image_id}`;
}

const FAULTS = {
  classification: {
    name: "Classification",
    what: "wrong class",
    hint: "The box is right, the class is wrong. Look at the confusions below: are the two classes " +
      "labelled alike, and does the rarer one have enough examples?",
  },
  localisation: {
    name: "Localisation",
    what: "box is off",
    hint: "The class is right, the box is too far off. Check that the annotations draw boxes alike; " +
      "a larger input size or longer training tightens boxes.",
  },
  both: {
    name: "Both",
    what: "wrong class, box is off",
    hint: "Wrong class and a box that is off. What cures the two kinds above cures this one.",
  },
  duplicate: {
    name: "Duplicate",
    what: "found twice",
    hint: "An object that was found already. A lower --nms-threshold removes more of these.",
  },
  background: {
    name: "Background",
    what: "nothing there",
    hint: "Found where no object is labelled. Are objects unlabelled (see the list of annotations " +
      "that look wrong)? If not, add images that show what is mistaken for an object.",
  },
  missed: {
    name: "Missed",
    what: "missed",
    hint: "Objects that no detection accounts for. Look at the largest ones below; small ones want " +
      "a larger input size.",
  },
};

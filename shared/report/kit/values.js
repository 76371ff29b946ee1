"use strict";
// What the page shows, read without loss, and how its values become text.

// Ids may exceed 2^53, where JavaScript's numbers have gaps: long whole numbers become text.
function parseExactly(json) {
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
  return JSON.parse(json.replace(tokens, (t) => (/^-?\d{16,}$/.test(t) ? `"${t}"` : t)));
}

const part = (id) => document.getElementById(id);
const page = parseExactly(part("page").textContent);      // data, notes, settings
const imageUrls = JSON.parse(part("images").textContent);  // id -> data URL

const NONE = "–";

// A metric; a dash for what does not exist.
function num(value) {
  return value === null || value === undefined || value === -1 ? NONE : threeDecimals(value);
}

function threeDecimals(value) {
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

// A number as people write it on an axis or in a legend: "0.25", "1500", "20k", "1e-5".
function shortNumber(value) {
  if (!Number.isFinite(value)) return "n/a";
  const size = Math.abs(value), digits = (x) => String(+x.toPrecision(4));
  if (size < 1e-12) return "0";
  if (size < 1e-3 || size >= 1e9) return value.toExponential(2).replace(/\.?0*e\+?/, "e");
  return size >= 1e6 ? `${digits(value / 1e6)}M` : size >= 1e4 ? `${digits(value / 1e3)}k` : digits(value);
}

// Text cut after that many characters, with an ellipsis then.
function shortened(text, characters) {
  const all = [...text];
  return all.length > characters ? all.slice(0, characters).join("") + "…" : text;
}

// A name as it can be shown: without what would move the text around it.
function plain(name) {
  const invisible = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
  const hex = (c) => c.charCodeAt(0).toString(16).padStart(4, "0");
  return name.replace(invisible, (c) => `\\u${hex(c)}`).trim();
}

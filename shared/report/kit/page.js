// What every page has: sections, links to them, notes and settings.

// A section before the page's end; its title is a link at the top.
function section(id, title, ...content) {
  const element = make("section", {id, "aria-labelledby": title && `${id}-title`},
    title ? make("h2", {id: `${id}-title`}, title) : null, content);
  document.querySelector("footer").before(element);
  return element;
}

// After all other sections; where the notes are warnings they come first.
function finishPage(beginsWithNotes = false) {
  if (page.notes.length) {
    const notes = section("notes", "Notes",
      make("ul", {class: "card notes"}, page.notes.map((text) => make("li", {}, plain(text)))));
    if (beginsWithNotes) document.querySelector("header").after(notes);
  }
  if (page.settings.length) {
    section("settings", null, make("details", {class: "card"}, make("summary", {}, "Settings"),
      make("table", {}, make("tbody", {}, page.settings.map(([name, value]) =>
        make("tr", {}, make("td", {}, plain(name)), make("td", {}, plain(value))))))));
  }
  document.querySelector("header").after(make("nav", {"aria-label": "Sections"},
    [...document.querySelectorAll("main section > h2")].map((title) =>
      make("a", {href: `#${title.parentNode.id}`}, title.textContent))));
}

// On paper nothing can be opened: all is.
window.addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
});

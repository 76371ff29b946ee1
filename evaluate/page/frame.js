// What every page has: its parts, notes and settings, the links to its sections.

const part = (id) => document.getElementById(id);

function showNotesAndSettings() {
  part("notes").hidden = !extras.notes.length;
  part("notes").querySelector("ul").append(...extras.notes.map((text) => make("li", {}, plain(text))));
  part("settings").hidden = !extras.settings.length;
  part("settings").querySelector("tbody").append(...extras.settings.map(([name, value]) =>
    make("tr", {}, make("td", {}, name), make("td", {}, plain(value)))));
}

function showContents() {
  const sections = [...document.querySelectorAll("main section:not([hidden]) > h2")];
  part("contents").append(...sections.map((title) => make("a", {
    href: `#${title.parentNode.id}`,
  }, title.textContent)));
}

// On paper nothing can be opened: all is.
window.addEventListener("beforeprint", () => {
  part("settings").querySelector("details").open = true;
});

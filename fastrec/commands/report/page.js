"use strict";
// The page works without this script, which adds sorting, searching and a theme button, and unfolds details for print.
const root = document.documentElement;
root.classList.add("scripted");
const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));
const byText = new Intl.Collator(undefined, { numeric: true }).compare;

// Sorting: by number if the column has numbers, else by text. Cells without a value come last in both directions.
function numberOf(cell) {
  const text = cell.dataset.v ?? cell.textContent.replaceAll(",", "");
  const number = text === "Infinity" ? Infinity : parseFloat(text);
  return Number.isNaN(number) ? null : number;
}

function sort(table, column, head) {
  const numeric = head.matches(".num, .models th + th");
  const direction = head.ariaSort ? (head.ariaSort === "ascending" ? -1 : 1) : numeric ? -1 : 1;
  const rows = Array.from(table.tBodies[0].rows, (row) => {
    const cell = row.cells[column];
    return { row, value: numeric ? numberOf(cell) : cell.textContent };
  });
  rows.sort((a, b) => {
    if (a.value === null || b.value === null) return (a.value === null) - (b.value === null);
    return direction * (numeric ? (a.value < b.value ? -1 : a.value > b.value ? 1 : 0) : byText(a.value, b.value));
  });
  all("thead th", table).forEach((other) => other.removeAttribute("aria-sort"));
  head.ariaSort = direction > 0 ? "ascending" : "descending";
  table.tBodies[0].append(...rows.map(({ row }) => row));
}

const tables = [];
function addTable(table) {
  all("thead th", table).forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, column, head));
    head.append(button);
  });
  tables.push({ table, frame: table.closest(".frame"), rows: null });
}

function rowsOf(one) {
  const title = one.table.ariaLabel;
  one.rows ??= Array.from(one.table.tBodies[0].rows, (row) => (
    { row, text: `${Array.from(row.cells, (cell) => cell.textContent).join(" ")} ${title}`.toLowerCase() }));
  return one.rows;
}

all(".frame table").forEach(addTable);

// Searching: shows the rows that contain all words, in their cells or in the title of their table.
function search(wanted) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  let total = 0;
  for (const one of tables) {
    const { frame } = one;
    const rows = rowsOf(one);
    let here = 0;
    for (const { row, text } of rows) {
      const hit = words.every((word) => text.includes(word));
      row.hidden = !hit;
      here += hit;
    }
    frame.hidden = here === 0;
    found += here;
    total += rows.length;
    if (words.length && here) for (let folded = frame.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
  }
  for (const card of all("article")) {
    card.hidden = !words.every((word) => card.textContent.toLowerCase().includes(word));
    if (words.length && !card.hidden) card.closest("section > details")?.setAttribute("open", "");
  }
  for (const drawn of all(".pictures")) drawn.hidden = words.length > 0;
  for (const folded of all("details")) {
    const parts = all(".frame, article", folded);
    folded.hidden = words.length > 0 && parts.length > 0 && parts.every((part) => part.hidden);
  }
  for (const section of all("section")) {
    const parts = all(".frame, article", section);
    section.hidden = words.length > 0 && parts.every((part) => part.hidden);
    document.querySelector(`nav a[href="#${section.id}"]`).hidden = section.hidden;
  }
  document.getElementById("matches").textContent = words.length ? `${found.toLocaleString("en")} of ${total.toLocaleString("en")} rows` : "";
}

// A link to a section unfolds it.
for (const link of all("nav a")) {
  link.addEventListener("click", () => document.querySelector(`${link.hash} > details`)?.setAttribute("open", ""));
}

const input = document.getElementById("search");
input.addEventListener("input", () => search(input.value));

document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

addEventListener("beforeprint", () => {
  all("details").forEach((folded) => { folded.open = true; });
});

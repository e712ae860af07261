"use strict";
// Pages work without this script, which adds keys, the theme, and search within a page.
const root = document.documentElement;
root.classList.add("scripted");
const all = (selector) => Array.from(document.querySelectorAll(selector));

// The theme: the system's, until the button was used; then the chosen one, for all pages. The same of signs of Markdown.
function stored(name, value) {
  try {
    if (value) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch {
    return value; // no storage: the choice lasts until the next page
  }
}
const chosen = stored("theme");
if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

function switchTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  stored("theme", root.dataset.theme);
}

// Unfold everything around an element or a range, and scroll to it.
function reveal(element, target = element) {
  for (let around = element.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
  const box = target.getBoundingClientRect();
  if (box.top < 80 || box.bottom > innerHeight - 20) {
    element.scrollIntoView({ block: "center" });
    const now = target.getBoundingClientRect(); // the element may be much higher than the screen
    if (now.top < 80 || now.bottom > innerHeight - 20) scrollBy(0, now.top - innerHeight / 2);
  }
}

// Keys in a table: the focus moves from row to row.
function moveRow(step) {
  const rows = all(".list .row-link").filter((row) => row.checkVisibility());
  if (!rows.length) return false;
  const now = rows.indexOf(document.activeElement);
  const next = now < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(now + step, 0), rows.length - 1);
  rows[next].focus({ preventScroll: true });
  reveal(rows[next]);
  return true;
}

// Errors of a transcript, one after the other.
let error = -1;
function nextError() {
  const marks = all(".error-mark");
  if (!marks.length) return;
  error = (error + 1) % marks.length;
  history.replaceState(null, "", `#${marks[error].id}`);
  reveal(marks[error]);
  location.replace(`#${marks[error].id}`); // marks it with :target
}

function press(key) {
  const step = { j: 1, n: 1, k: -1, p: -1 }[key];
  if (step && moveRow(step)) return true;
  if (key === "t") switchTheme();
  else if (key === "e") nextError();
  else if (key === "?") document.getElementById("help").showModal();
  else {
    const target = document.querySelector(`[data-key~="${CSS.escape(key)}"]`);
    if (!target) return false;
    if (target.matches("input")) target.select();
    target[target.matches("input") ? "focus" : "click"]();
  }
  return true;
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const field = event.target.closest?.("input:not([type=checkbox]), select, textarea");
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  if (document.getElementById("help").open) return;
  if (event.key.length === 1 && press(event.key)) event.preventDefault();
});

// Search within the page. Hits are highlighted without changing the page, where the browser can do that.
const most = 5000;
let hits = [];
let current = -1;

// The text nodes of the page in groups: an answer is one text, whatever elements are in it.
function textsOf() {
  const groups = new Map();
  const walker = document.createTreeWalker(document.getElementById("content"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const around = node.parentElement.closest(".text") ?? node;
    if (!groups.has(around)) groups.set(around, []);
    groups.get(around).push(node);
  }
  return groups.values();
}

function rangesOf(wanted) {
  const found = [];
  for (const nodes of textsOf()) {
    const text = nodes.map((node) => node.data).join("");
    const lower = text.toLowerCase();
    if (lower.length !== text.length) continue; // lower case may be longer; then positions would be wrong
    let [number, before] = [0, 0]; // the node where the last end was, and the characters before it
    const place = (range, set, at) => {
      while (number < nodes.length - 1 && at > before + nodes[number].length) before += nodes[number++].length;
      range[set](nodes[number], at - before);
    };
    for (let at = lower.indexOf(wanted); at >= 0 && found.length < most; at = lower.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      place(range, "setStart", at);
      place(range, "setEnd", at + wanted.length);
      found.push(range);
    }
  }
  return found;
}

function highlight(name, ranges) {
  if (typeof Highlight === "undefined") return;
  CSS.highlights.set(name, new Highlight(...ranges));
}

function showHit(step) {
  if (!hits.length) return;
  current = (current + step + hits.length) % hits.length;
  highlight("hit-now", [hits[current]]);
  reveal(hits[current].startContainer.parentElement, hits[current]);
  document.getElementById("hits").textContent = `${current + 1} of ${hits.length}${hits.length === most ? "+" : ""}`;
}

function search(text) {
  const wanted = text.toLowerCase();
  hits = wanted ? rangesOf(wanted) : [];
  current = -1;
  highlight("hits", hits);
  highlight("hit-now", []);
  document.getElementById("hits").textContent = wanted && !hits.length ? "none" : "";
  showHit(1);
}

// What the table was searched for is marked in its rows, questions and answers.
function markSearched(within) {
  const wanted = new URLSearchParams(location.search).get("text");
  if (!wanted) return;
  if (!within) return highlight("hits", rangesOf(wanted.toLowerCase()));
  within.value = wanted;
  search(wanted);
}

// A box that hides models with other names; a folded list with a match is unfolded.
function filterNames(box) {
  const wanted = box.value.toLowerCase();
  for (const one of all(box.dataset.filter)) {
    const named = one.querySelector(".model") ?? one;
    one.hidden = !(named.title || named.textContent).toLowerCase().includes(wanted);
    if (wanted && !one.hidden) for (const fold of all(".unjudged")) fold.open ||= fold.contains(one);
  }
}

addEventListener("DOMContentLoaded", () => {
  for (const box of all("[data-filter]")) box.addEventListener("input", () => filterNames(box));
  document.getElementById("theme").addEventListener("click", switchTheme);
  document.getElementById("help-button").addEventListener("click", () => document.getElementById("help").showModal());
  const marks = document.getElementById("marks");
  if (marks) {
    marks.checked = stored("marks") === "true";
    marks.addEventListener("change", () => stored("marks", String(marks.checked)));
  }
  const within = document.getElementById("within");
  markSearched(within);
  if (!within) return;
  within.addEventListener("input", () => search(within.value));
  within.addEventListener("keydown", (event) => {
    if (event.key === "Enter") showHit(event.shiftKey ? -1 : 1);
  });
});

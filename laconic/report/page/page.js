"use strict";
// The page works without this script too: only sorting, themes, copying and the words of dots need it.

const THEMES = ["system", "light", "dark"];

function setUpThemes() {
  const button = document.getElementById("theme");
  if (!button) return;
  let at = 0;
  button.addEventListener("click", () => {
    at = (at + 1) % THEMES.length;
    if (THEMES[at] === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = THEMES[at];
    button.textContent = `theme: ${THEMES[at]}`;
  });
}

function valueOf(cell, numbers) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  return numbers ? Number(text) : text.toLowerCase();
}

function sortBy(table, place, heading) {
  const numbers = heading.dataset.type === "number";
  const up = heading.getAttribute("aria-sort") !== "ascending";
  table.querySelectorAll("thead th").forEach((one) => one.setAttribute("aria-sort", "none"));
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [valueOf(row.cells[place], numbers), row]);
  rows.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (up ? 1 : -1));
  body.append(...rows.map(([, row]) => row));
}

function setUpSorting() {
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.querySelectorAll("thead th")].forEach((heading, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      heading.replaceChildren(button);
      heading.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => sortBy(table, place, heading));
    });
  }
}

function setUpCopying() {
  for (const button of document.querySelectorAll(".copy")) {
    const text = button.parentElement.querySelector("code");
    button.addEventListener("click", () => {
      // Pages opened from a file may not have a clipboard; selecting the text always works.
      getSelection().selectAllChildren(text);
      navigator.clipboard?.writeText(text.textContent).then(
        () => { button.textContent = "copied"; },
        () => { button.textContent = "selected"; },
      );
    });
  }
}

function setUpPrinting() {
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((one) => { one.open = false; }));
}

function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
}

// The words of a dot, beside it, for whoever points at it or reaches it by keyboard.
function setUpTips() {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  document.body.append(tip);
  const show = (event) => {
    const dot = event.target.closest?.("[data-tip]");
    tip.hidden = !dot;
    if (!dot) return;
    tip.textContent = dot.dataset.tip;
    const box = dot.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(box.right + 8 + scrollX, scrollX + innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${box.bottom + 6 + scrollY}px`;
  };
  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, show);
  addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
  performance.mark("laconic-drawn");
}

setUpThemes();
setUpSorting();
setUpCopying();
setUpPrinting();
openTarget();
addEventListener("hashchange", openTarget);
setUpTips();

"use strict";
// The page works without this script too: tables are there, only sorting, themes, copying and charts need it.

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

function inBytes(count) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (count < 1000) return `${+count.toPrecision(3)} ${unit}`;
    count /= 1000;
  }
  return `${+count.toPrecision(3)} TB`;
}

function logAxis(values) {
  const low = Math.min(...values) / 1.7, high = Math.max(...values) * 1.7;
  const ticks = [];
  for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high); power += 1) ticks.push(10 ** power);
  return { domain: [low, high], ticks };
}

// Labels beside their dots, moved up or down until none covers another.
function placeLabels(points, x, y, width) {
  const placed = [];
  for (const one of [...points].sort((a, b) => y(b.score) - y(a.score))) {
    const wide = brief(one.label).length * 7 + 14;
    const right = x(one.key) + wide < width;
    const box = { left: right ? x(one.key) : x(one.key) - wide, wide, y: y(one.score) };
    const over = (other) => Math.abs(other.y - box.y) < 17 && box.left < other.left + other.wide && other.left < box.left + wide;
    for (let moves = 0; moves < 40 && placed.some(over); moves += 1) box.y -= 3;
    placed.push(box);
    one.right = right;
    one.dy = box.y - y(one.score);
  }
}

// A method has the same colour in every chart.
const colours = (data) => ({ domain: data.points.map((one) => one.label), range: data.points.map((_, at) => `var(--c${at % 8})`) });

const brief = (label) => (label.length > 24 ? `${label.slice(0, 22)}…` : label);

function scatter(data, key, heading, format) {
  return (width) => {
    const points = data.points.filter((one) => one[key] > 0).map((one) => ({ ...one, key: one[key] }));
    const curves = data.curves.map((one) => ({ ...one, key: one[key] }));
    if (!points.length) return null;
    const height = Math.max(300, Math.min(400, width * 0.66));
    const edge = { left: 58, right: 16, top: 30, bottom: 44 };
    const { domain, ticks } = logAxis([...points, ...curves].map((one) => one.key));
    const [low, high] = data.range;
    const across = (v) => edge.left + (Math.log(v / domain[0]) / Math.log(domain[1] / domain[0])) * (width - edge.left - edge.right);
    const down = (v) => height - edge.bottom - ((v - low) / (high - low)) * (height - edge.top - edge.bottom);
    placeLabels(points, across, down, width - edge.right);
    const rules = [data.alone, key === "bytes" ? null : data.pooled].filter(Boolean);
    const frontier = key === "bytes" && data.frontier.length
      ? [...data.frontier, { bytes: domain[1], score: data.frontier.at(-1).score }] : [];
    const dots = (role, options) => Plot.dot(points.filter((one) => one.role === role), { x: "key", y: "score", fill: "label", stroke: "var(--paper)", strokeWidth: 1.5, ...options });
    return Plot.plot({
      width, height, marginLeft: edge.left, marginRight: edge.right, marginTop: edge.top, marginBottom: edge.bottom,
      style: { fontSize: "13px" },
      x: { type: "log", domain, ticks, tickFormat: format, label: heading, labelAnchor: "center", labelArrow: "none", grid: true },
      y: { domain: [low, high], label: `${data.metric} (${data.lower ? "lower" : "higher"} is better)`, labelArrow: "none", ticks: 6, grid: true },
      color: colours(data),
      marks: [
        Plot.ruleY(rules, { y: "score", stroke: "currentColor", strokeOpacity: 0.55, strokeDasharray: "5,4" }),
        Plot.line(frontier, { x: "bytes", y: "score", curve: "step-after", stroke: "currentColor", strokeWidth: 1.6, strokeOpacity: 0.75, className: "frontier" }),
        Plot.line(curves, { x: "key", y: "score", z: "label", stroke: "label", strokeWidth: 1.4, strokeOpacity: 0.8, clip: true }),
        Plot.ruleX(points, { x: "key", y1: "low", y2: "high", stroke: "label", strokeWidth: 2, strokeOpacity: 0.7 }),
        dots("pooled", { r: 6, symbol: "square" }),
        dots("other", { r: 6 }),
        dots("chosen", { r: 9 }),
        ...points.map((one) => Plot.text([one], { x: "key", y: "score", text: (point) => brief(point.label), textAnchor: one.right ? "start" : "end", dx: one.right ? 12 : -12, dy: one.dy, fill: "label", fontWeight: one.role === "chosen" ? 700 : 500, stroke: "var(--paper)", strokeWidth: 4 })),
        Plot.text(rules, { y: "score", text: "label", frameAnchor: "right", textAnchor: "end", dx: -2, dy: 9, fontStyle: "italic", fill: "currentColor", stroke: "var(--paper)", strokeWidth: 4 }),
        Plot.tip(points, Plot.pointer({ x: "key", y: "score", title: "tip" })),
      ],
    });
  };
}

function importance(data) {
  return (width) => {
    const shown = data.importance;
    const measures = [...new Set(shown.map((one) => one.measure))];
    const methods = [...new Set(shown.map((one) => one.label))];
    const parties = [...new Set(shown.map((one) => one.party))];
    const box = document.createElement("div");
    box.className = "charts";
    for (const measure of measures) {
      const bars = shown.filter((one) => one.measure === measure);
      const title = document.createElement("p");
      title.className = "note";
      title.textContent = measure;
      const cell = document.createElement("div");
      cell.append(title, Plot.plot({
        width: width > 700 ? (width - 40) / 2 : width, marginLeft: 92, marginRight: methods.length > 1 ? 16 + 7.2 * Math.max(...methods.map((one) => brief(one).length)) : 20, marginTop: 4, marginBottom: 28,
        height: 36 + methods.length * parties.length * 20 + methods.length * 10,
        style: { fontSize: "12.5px" },
        x: { label: null, grid: true, ticks: Math.max(2, Math.min(6, Math.round(width / 130))) }, y: { label: null, domain: parties }, fy: { label: null, domain: methods, axis: methods.length > 1 ? "right" : null, tickFormat: brief },
        color: colours(data),
        marks: [
          Plot.barX(bars, { x: "value", y: "party", fy: "label", fill: "label", title: (one) => `${one.label}, ${one.party}: ${one.text}` }),
          Plot.ruleX([0]),
          Plot.text(methods.flatMap((label) => parties.filter((party) => !bars.some((one) => one.label === label && one.party === party)).map((party) => ({ label, party }))),
            { x: 0, y: "party", fy: "label", text: () => "not known", textAnchor: "start", dx: 4, fillOpacity: 0.7, fontStyle: "italic" }),
        ],
      }));
      box.append(cell);
    }
    return box;
  };
}

function drawCharts() {
  const source = document.getElementById("charts-data");
  if (!source || !window.Plot) return;
  const parts = JSON.parse(source.textContent);
  const kinds = {
    bytes: (data) => scatter(data, "bytes", "bytes sent while fitting", inBytes),
    rounds: (data) => scatter(data, "rounds", "rounds of fitting", (count) => count.toLocaleString("en")),
    importance,
  };
  for (const box of document.querySelectorAll(".chart")) {
    const draw = kinds[box.dataset.chart](parts[Number(box.dataset.part)]);
    let drawn = 0;
    const redraw = () => {
      const width = Math.floor(box.clientWidth);
      if (width < 240 || width === drawn) return; // Too narrow to read: hidden, or on its way to paper.
      drawn = width;
      const chart = draw(width);
      if (chart) box.replaceChildren(chart);
      else box.textContent = "Nothing crossed, so there is nothing to draw.";
    };
    redraw();
    new ResizeObserver(redraw).observe(box);
  }
  performance.mark("laconic-drawn");
}

setUpThemes();
setUpSorting();
setUpCopying();
setUpPrinting();
openTarget();
addEventListener("hashchange", openTarget);
drawCharts();

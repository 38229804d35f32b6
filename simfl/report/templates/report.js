"use strict";
// Tables: a heading sorts, a second time the other way; what has no value stays last.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const numeric = head.classList.contains("n");
    const before = head.getAttribute("aria-sort");
    const direction = before ? (before === "ascending" ? "descending" : "ascending") : (numeric ? "descending" : "ascending");
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const value = (row) => {
      const cell = row.cells[column];
      return numeric ? (cell.dataset.v === "" ? null : Number(cell.dataset.v)) : cell.textContent.trim();
    };
    const words = new Intl.Collator("en", { numeric: true });
    const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
    rows.sort(([a], [b]) => a === null || a === "" ? (b === null || b === "" ? 0 : 1) : b === null || b === "" ? -1
      : sign * (numeric ? a - b : words.compare(a, b)));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }));
}
// Wide tables say how many columns lie outside.
for (const scroll of document.querySelectorAll(".scroll")) {
  const cue = scroll.previousElementSibling?.querySelector(".cue");
  const heads = [...scroll.querySelectorAll("th")];
  const tell = () => {
    const border = scroll.getBoundingClientRect().right;
    const hidden = heads.filter((head) => head.getBoundingClientRect().right > border + 1).length;
    cue.textContent = hidden ? `${hidden} more column${hidden > 1 ? "s" : ""} to the right →` : "";
  };
  if (!cue) continue;
  scroll.addEventListener("scroll", tell, { passive: true });
  new ResizeObserver(tell).observe(scroll);
}
// Filter: rows that contain every word where they are named, a number only as a whole.
for (const input of document.querySelectorAll("input[data-table]")) {
  const table = document.getElementById(input.dataset.table);
  const rows = [...table.tBodies[0].rows], heads = [...table.tHead.rows[0].cells];
  const named = heads.some((head) => "key" in head.dataset);
  const parts = rows.map((row) => [...row.cells].filter((_, i) => !named || "key" in heads[i].dataset)
    .map((cell) => cell.textContent.toLowerCase()));
  const has = (cells, word) => /^[-+.\d]/.test(word)
    ? cells.some((cell) => cell.split(/[^-+.\w]+/).includes(word))
    : cells.some((cell) => cell.includes(word));
  const count = document.querySelector(`output[data-count="${input.dataset.table}"]`);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !words.every((word) => has(parts[i], word));
      shown += !row.hidden;
    });
    count.textContent = `${shown} of ${rows.length}`;
  });
}
// Names of groups: pointing at one, or selecting some, fades the others in every figure.
const keys = [...document.querySelectorAll(".keys button")];
const main = document.querySelector("main");
const show = (numbers) => {
  main.classList.toggle("focused", numbers.length > 0);
  for (const series of document.querySelectorAll("svg.plot .series")) {
    series.style.opacity = numbers.some((number) => series.classList.contains(`series-${number}`)) ? "1" : "";
  }
};
const selected = () => keys.filter((key) => key.getAttribute("aria-pressed") === "true").map((key) => key.dataset.series);
for (const key of keys) {
  key.addEventListener("click", () => {
    key.setAttribute("aria-pressed", String(key.getAttribute("aria-pressed") !== "true"));
    show(selected());
  });
  key.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") show([...selected(), key.dataset.series]); });
  key.addEventListener("pointerleave", () => show(selected()));
}

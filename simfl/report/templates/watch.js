"use strict";
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const make = (parent, name, values = {}, text = "") => {
  const made = parent.appendChild(name.startsWith("svg:") ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name));
  for (const [key, value] of Object.entries(values)) made.setAttribute(key, value);
  if (text !== "") made.textContent = text;
  return made;
};
const share = (value) => `${(100 * value).toFixed(1)}\u202f%`;
const plain = (value) => Number(value.toPrecision(3)).toString();
let begin = null;

function drawn(columns) {  // accuracy also against time
  return columns.flatMap(({ name, heading, unit }) => {
    const written = unit === "share" ? share : plain;
    const rounds = [name, "round", `${heading}, by round`, written];
    return unit === "share" ? [rounds, [name, "time_s", `${heading}, by simulated second`, written]] : [rounds];
  });
}

function draw(curves, columns) {
  $("curves").replaceChildren();
  for (const [y, x, title, written] of drawn(columns)) {
    const points = curves[x].map((place, i) => [x === "round" ? place + 1 : place, curves[y][i]]).filter(([a, b]) => a !== null && b !== null);
    if (points.length < 2) continue;
    const figure = make($("curves"), "figure");
    const bar = make(figure, "div", { class: "bar" });
    make(bar, "h3", {}, title);
    make(bar, "span", { class: "now" }, written(points.at(-1)[1]));
    const svg = make(figure, "svg:svg", { class: "curve", viewBox: "0 0 460 190", role: "img", "aria-label": title });
    const xs = points.map(([a]) => a), ys = points.map(([, b]) => b);
    const [x0, x1, y0, y1] = [xs[0], xs.at(-1), Math.min(...ys), Math.max(...ys)];
    const at = (a, b) => `${48 + 400 * (a - x0) / (x1 - x0 || 1)} ${165 - 150 * (b - y0) / (y1 - y0 || 1)}`;
    for (const value of new Set([y0, y1])) {
      const height = at(x0, value).split(" ")[1];
      make(svg, "svg:line", { x1: 48, x2: 448, y1: height, y2: height });
      make(svg, "svg:text", { x: 42, y: Number(height) + 4, "text-anchor": "end" }, written(value));
    }
    make(svg, "svg:text", { x: 48, y: 184 }, plain(x0));
    make(svg, "svg:text", { x: 448, y: 184, "text-anchor": "end" }, plain(x1));
    make(svg, "svg:path", { d: `M${points.map(([a, b]) => at(a, b)).join("L")}` });
  }
}

function table(runs) {
  $("many").hidden = runs.length < 2;
  $("runs").replaceChildren();
  const order = ["playing", "failed", "waiting", "done"];
  for (const run of [...runs].sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state))) {
    const row = make($("runs"), "tr");
    make(row, "td", {}, run.error ? `${run.label}: ${run.error}` : run.label);
    make(row, "td", { class: run.state }, run.diverged === null ? run.state : `${run.state}, diverged at round ${run.diverged}`);
    const meter = make(make(row, "td"), "div", { class: "meter small" });
    make(meter, "i").style.width = `${run.rounds ? 100 * run.round / run.rounds : 0}%`;
    make(row, "td", { class: "n" }, run.rounds ? `${run.round} / ${run.rounds}` : String(run.round));
    make(row, "td", { class: "n" }, run.time_s === null ? "" : plain(run.time_s));
    make(row, "td", { class: "n" }, run.accuracy === null ? "" : share(run.accuracy));
  }
}

function left(done) {
  const now = performance.now() / 1000;
  begin ??= [now, done];
  const speed = (done - begin[1]) / (now - begin[0]);
  if (!(speed > 0) || now - begin[0] < 3) return "";
  const seconds = (1 - done) / speed;
  return seconds < 90 ? `about ${Math.round(seconds)} s left` : seconds < 5400 ? `about ${Math.round(seconds / 60)} min left` : `about ${(seconds / 3600).toFixed(1)} h left`;
}

async function look() {
  let state;
  try {
    state = await (await fetch("/state.json")).json();
  } catch {
    $("status").textContent = "simfl watch has ended";
    return;
  }
  if (state.error) { $("status").textContent = state.error; setTimeout(look, 1000); return; }
  const { runs } = state;
  const part = (run) => run.state === "done" || run.state === "failed" ? 1 : run.rounds ? Math.min(run.round / run.rounds, 1) : 0;
  const done = runs.reduce((sum, run) => sum + part(run), 0) / runs.length;
  const count = (name) => runs.filter((run) => run.state === name).length;
  $("title").textContent = state.title;
  document.title = `${Math.round(100 * done)} % · ${state.title}`;
  $("status").textContent = state.finished ? "finished" : "playing";
  $("meter").style.width = `${100 * done}%`;
  $("facts").replaceChildren();
  const one = runs[0];
  const facts = runs.length > 1
    ? ["done", "playing", "failed", "waiting"].filter(count).map((name) => `${count(name)} ${name}`)
    : [`round ${one.round}${one.rounds ? ` of ${one.rounds}` : ""}`, one.time_s === null ? "" : `${plain(one.time_s)} simulated seconds`];
  if (!state.finished) facts.push(left(done));
  for (const fact of facts.filter(Boolean)) make($("facts"), "li", {}, fact);
  $("shown").textContent = runs.length > 1 ? state.shown : "";
  draw(state.curves, state.columns);
  table(runs);
  setTimeout(look, state.finished ? 5000 : 1000);
}
look();

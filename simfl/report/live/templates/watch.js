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
const chosen = new Set(location.hash.slice(1).split(",").filter(Boolean));  // kept when the page is loaded again
const MOST = 8;
let begin = null, timer = null;

function choose(digest, wanted) {
  if (wanted) chosen.add(digest); else chosen.delete(digest);
  history.replaceState(null, "", chosen.size ? `#${[...chosen].join(",")}` : location.pathname);
  clearTimeout(timer);
  look();
}

const UNITS = { share: [" (%)", 0.01], seconds: [" (s)", 1], bytes: [" (MB)", 1e6] };  // behind a heading; divisor of values

function drawn(columns) {  // accuracy also against time
  return columns.flatMap(({ name, heading, unit, final }) => {
    const [behind, divisor] = UNITS[unit] ?? ["", 1];
    const rounds = { y: name, x: "round", title: heading + behind, divisor, final, most: unit === "share" ? 100 : Infinity, whole: unit === "count" };
    return unit === "share" ? [rounds, { ...rounds, x: "time_s", title: `${heading}${behind} against simulated time` }] : [rounds];
  });
}

function ticks(low, high, whole) {  // three to six round numbers
  const size = 10 ** Math.floor(Math.log10((high - low) / 3));
  const step = Math.max([1, 2, 5, 10].map((times) => times * size).find((wide) => (high - low) / wide <= 5), whole ? 1 : 0);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

function points(curves, x, y, divisor) {
  return curves[x].map((place, i) => [place, curves[y][i]]).filter(([a, b]) => a !== null && b !== null && b !== undefined).map(([a, b]) => [a, b / divisor]);
}

function range(values, most) {  // a little room, but none beyond what is possible
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = 0.05 * (high - low) || 0.1 * Math.abs(high) || 1;
  return [low >= 0 ? Math.max(0, low - room) : low - room, Math.min(most, high + room)];
}

const LEFT = 48, RIGHT = 448, TOP = 12, BOTTOM = 160;

function axes(svg, [x0, x1], [y0, y1], x, whole) {
  const place = (a, b) => [LEFT + (RIGHT - LEFT) * (a - x0) / (x1 - x0), BOTTOM - (BOTTOM - TOP) * (b - y0) / (y1 - y0)];
  for (const value of ticks(y0, y1, whole)) {
    const [, height] = place(x0, value);
    make(svg, "svg:line", { x1: LEFT, x2: RIGHT, y1: height, y2: height });
    make(svg, "svg:text", { x: LEFT - 6, y: height + 4, "text-anchor": "end" }, plain(value));
  }
  for (const value of ticks(x0, x1, x === "round")) {
    const [across] = place(value, y0);
    make(svg, "svg:line", { x1: across, x2: across, y1: BOTTOM, y2: BOTTOM + 4 });
    make(svg, "svg:text", { x: across, y: BOTTOM + 16, "text-anchor": "middle" }, plain(value));
  }
  make(svg, "svg:text", { x: (LEFT + RIGHT) / 2, y: BOTTOM + 31, "text-anchor": "middle" }, x === "round" ? "Round" : "Simulated time (s)");
  return place;
}

function draw(shown, columns) {
  $("curves").replaceChildren();
  for (const { y, x, title, divisor, final, most, whole } of drawn(columns)) {
    const lines = shown.map(({ curves }) => points(curves, x, y, divisor));
    const all = lines.flat();
    if (lines.every((line) => line.length < 2)) continue;
    const figure = make($("curves"), "figure");
    const bar = make(figure, "div", { class: "bar" });
    make(bar, "h3", {}, title);
    if (shown.length === 1) make(bar, "span", { class: "now" }, final === "end" && shown[0].curves[y].at(-1) === null ? "infinite" : plain(all.at(-1)[1]));
    const svg = make(figure, "svg:svg", { class: "curve", viewBox: "0 0 460 196", role: "img", "aria-label": title });
    const xs = all.map(([a]) => a), first = Math.min(...xs), last = Math.max(...xs);
    const place = axes(svg, [first, last > first ? last : first + 1], range(all.map(([, b]) => b), most), x, whole);
    lines.forEach((line, i) => {
      if (line.length > 1) make(svg, "svg:path", { class: `r${i}`, d: `M${line.map(([a, b]) => place(a, b).join(" ")).join("L")}` });
    });
  }
}

function legend(shown, runs) {
  $("shown").replaceChildren();
  if (runs.length < 2) return;
  shown.forEach(({ label }, i) => {
    const item = make($("shown"), "li");
    const svg = make(item, "svg:svg", { viewBox: "0 0 36 10", "aria-hidden": "true" });
    make(svg, "svg:path", { class: `key r${i}`, d: "M0 5H36" });
    make(item, "span", {}, label);
  });
}

function table(runs) {
  $("many").hidden = runs.length < 2;
  $("runs").replaceChildren();
  const order = ["running", "failed", "waiting", "done"];
  for (const run of [...runs].sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state))) {
    const row = make($("runs"), "tr");
    const box = make(make(row, "td"), "input", { type: "checkbox", "aria-label": `show ${run.label}`, id: `show-${run.digest}` });
    box.checked = chosen.has(run.digest);
    box.disabled = !box.checked && chosen.size >= MOST;
    box.addEventListener("change", () => choose(run.digest, box.checked));
    make(row, "td", { class: "label" }, run.error ? `${run.label}: ${run.error}` : run.label);
    const told = run.ending ? "ending" : run.state;
    const notes = [told, run.diverged === null ? "" : `diverged at round ${run.diverged}`, infinite(run)];
    make(row, "td", { class: run.state }, notes.filter(Boolean).join(", "));
    const meter = make(make(row, "td"), "div", { class: "meter small" });
    make(meter, "i").style.width = `${run.rounds ? 100 * run.round / run.rounds : 0}%`;
    make(row, "td", { class: "n" }, run.rounds ? `${run.round} / ${run.rounds}` : String(run.round));
    make(row, "td", { class: "n" }, run.time_s === null ? "" : plain(run.time_s));
    make(row, "td", { class: "n" }, run.accuracy === null ? "" : share(run.accuracy));
  }
}

const infinite = (run) => run.infinite.length ? `infinite: ${run.infinite.join(", ")}` : "";

const unit = (others) => others === null ? "not known" : others.length === 0 ? "\u2013" : others.length > 6 ? `${others.slice(0, 6).join(", ")} and ${others.length - 6} more` : others.join(", ");

function exposure({ exposed, unknown_after }) {  // not exposed, exposed, or not known whether
  if (exposed !== null) return `from round ${exposed}`;
  return unknown_after === null ? "\u2013" : unknown_after === 0 ? "not known" : `not in the first ${unknown_after.toLocaleString("en")} rounds`;
}

function people(clients) {
  $("people").hidden = clients.length === 0;
  $("clients").replaceChildren();
  const outside = clients.some(({ seen_s }) => seen_s !== undefined);
  for (const head of document.querySelectorAll("#people th:nth-child(n+6)")) head.hidden = !outside;
  for (const one of clients) {
    const row = make($("clients"), "tr");
    make(row, "td", {}, one.name ? `${one.client} ${one.name}` : String(one.client));
    make(row, "td", { class: "n" }, String(one.samples));
    make(row, "td", { class: "n" }, one.rounds === null ? "not known" : String(one.rounds));
    make(row, "td", {}, unit(one.unit));
    make(row, "td", one.exposed === null ? {} : { class: "failed" }, exposure(one));
    if (!outside) continue;
    make(row, "td", {}, one.seen_s === undefined ? "" : `${Math.max(0, Math.round(Date.now() / 1000 - one.seen_s))} s ago`);
    make(row, "td", { class: "n" }, one.updates === undefined ? "" : one.refused ? `${one.updates}, ${one.refused} refused` : String(one.updates));
    make(row, "td", {}, Object.entries(one.scores ?? {}).map(([name, value]) => `${name} ${plain(value)}`).join(", "));
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
    state = await (await fetch(`/state.json?${[...chosen].map((digest) => `run=${encodeURIComponent(digest)}`).join("&")}`)).json();
  } catch {
    $("status").textContent = "watching has ended";
    return;
  }
  if (state.error) { $("status").textContent = state.error; timer = setTimeout(look, 1000); return; }
  const { runs } = state;
  const one = runs[0];
  const part = (run) => run.state === "done" || run.state === "failed" ? 1 : run.rounds ? Math.min(run.round / run.rounds, 1) : 0;
  const done = runs.reduce((sum, run) => sum + part(run), 0) / runs.length;
  const count = (name) => runs.filter((run) => run.state === name).length;
  $("title").textContent = state.title;
  document.title = `${Math.round(100 * done)} % · ${state.title}`;
  $("status").textContent = state.finished ? "finished" : runs.length === 1 && one.ending ? "working out what the sums gave away" : "running";
  $("meter").style.width = `${100 * done}%`;
  $("facts").replaceChildren();
  const facts = runs.length > 1
    ? ["done", "running", "failed", "waiting"].filter(count).map((name) => `${count(name)} ${name}`)
    : [`${one.round}${one.rounds ? ` of ${one.rounds}` : ""} rounds`, one.time_s === null ? "" : `${plain(one.time_s)} simulated seconds`, infinite(one)];
  if (!state.finished && !runs.some((run) => run.ending)) facts.push(left(done));
  for (const fact of facts.filter(Boolean)) make($("facts"), "li", {}, fact);
  legend(state.shown, runs);
  draw(state.shown, state.columns);
  $("bases").replaceChildren();
  for (const line of state.bases) make($("bases"), "p", { class: "hint" }, line);
  const focused = document.activeElement?.id;
  table(runs);
  people(state.clients);
  if (focused) $(focused)?.focus();
  timer = setTimeout(look, state.finished ? 5000 : 1000);
}
look();

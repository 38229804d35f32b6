// Pointing into a figure reads its lines: the values that hold there, and a thin line at the place.
{
  const box = document.body.appendChild(document.createElement("div"));
  box.className = "hover";
  box.setAttribute("role", "status");
  const names = Object.fromEntries(keys.map((key) => [key.dataset.series, key.textContent.trim()]));

  const lines = (svg) => svg.lines ??= [...svg.querySelectorAll("g.series:not(.thin) > path")]
    .filter((path) => path.style.fill === "none" && path.getAttribute("d").includes("L"))
    .map((path) => {
      const numbers = path.getAttribute("d").match(/-?\d+(\.\d+)?/g).map(Number);
      const own = path.parentNode.dataset.name;
      const number = (path.parentNode.className.baseVal.match(/series-(\d+)/) ?? [])[1];
      return { x: numbers.filter((_, i) => i % 2 === 0), y: numbers.filter((_, i) => i % 2), name: own ?? names[number],
        number, color: path.style.stroke };
    });

  const last = (xs, x) => {  // the last point at or before x
    let low = -1, high = xs.length;
    while (high - low > 1) { const middle = (low + high) >> 1; if (xs[middle] <= x) low = middle; else high = middle; }
    return low;
  };

  const written = (value, panel) => {
    if (panel.share) return `${(100 * value).toFixed(1)}\u202f%`;
    const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
    return String(Number(value.toFixed(digits)));
  };

  const hide = (svg) => { box.style.display = "none"; svg.querySelector(".cross")?.remove(); };

  const at = (event, svg) => {
    hide(svg);
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const panel = JSON.parse(svg.dataset.panels).find((p) =>
      point.x >= p.left && point.x <= p.right && point.y >= p.top && point.y <= p.bottom);
    if (!panel) return;
    const scaled = (y) => panel.low + (panel.bottom - y) / (panel.bottom - panel.top) * (panel.high - panel.low);
    const found = [];
    for (const line of lines(svg)) {
      const place = last(line.x, point.x + 0.5);
      const inside = line.x[0] >= panel.left - 1 && line.x[0] <= panel.right + 1;
      if (!inside || place < 0 || line.x.at(-1) < point.x - 3 || !line.name) continue;
      found.push({ ...line, px: line.x[place], py: line.y[place], value: panel.log ? 2 ** scaled(line.y[place]) : scaled(line.y[place]) });
    }
    if (!found.length) return;
    const x = panel.whole ? Math.max(...found.map((line) => line.px)) : point.x;
    const where = panel.from + (x - panel.left) / (panel.right - panel.left) * (panel.to - panel.from);
    const cross = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "g"));
    cross.setAttribute("class", "cross");
    const rule = cross.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "path"));
    rule.setAttribute("d", `M${x} ${panel.top}V${panel.bottom}`);
    box.replaceChildren();
    const head = box.appendChild(document.createElement("b"));
    head.textContent = panel.whole ? `${panel.label} ${Math.round(where)}` : `${panel.label}: ${where.toPrecision(3)}`;
    found.sort((a, b) => b.value - a.value);
    for (const line of found) {
      const dot = cross.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "circle"));
      dot.setAttribute("cx", x); dot.setAttribute("cy", line.py); dot.setAttribute("r", 2.4); dot.style.fill = line.color;
      const row = box.appendChild(document.createElement("div"));
      row.appendChild(document.createElement("i")).style.background = line.color;
      row.appendChild(document.createElement("span")).textContent = line.name;
      row.appendChild(document.createElement("span")).textContent = written(line.value, panel);
    }
    box.style.display = "block";
    const wide = box.offsetWidth, room = document.documentElement.clientWidth;
    box.style.left = `${Math.max(8, Math.min(event.clientX + 16, room - wide - 8) - (event.clientX + 16 + wide > room - 8 && event.clientX > wide + 24 ? wide + 8 : 0))}px`;
    box.style.top = `${Math.max(8, Math.min(event.clientY + 12, innerHeight - box.offsetHeight - 8))}px`;
  };

  for (const svg of document.querySelectorAll("svg.plot[data-panels]")) {
    svg.addEventListener("pointermove", (event) => at(event, svg));
    svg.addEventListener("pointerdown", (event) => at(event, svg));
    svg.addEventListener("pointerleave", () => hide(svg));
  }
}

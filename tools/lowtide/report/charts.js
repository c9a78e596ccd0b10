// SPDX-License-Identifier: Apache-2.0
// Memory over time, and a treemap of sizes, as SVG.

// ---- Memory ----

// Round values for an axis.
function ticks(most, about) {
  const rough = most / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough);
  const out = [];
  for (let value = 0; value <= most * 1.0001; value += step) out.push(value);
  return out;
}

function memoryChart(report) {
  const MIB = 1024 * 1024;
  const samples = report.memory.samples;
  const holder = element("div", { class: "chart" });
  const readout = element("p", { class: "readout" });
  const total = (sample) => sample[1] + sample[2];
  const end = Math.max(report.seconds, samples.length ? samples[samples.length - 1][0] : 0) || 1e-6;
  const highest = Math.max(report.peak_rss, report.memory.limit, ...samples.map(total)) * 1.06 || 1;
  const phaseAt = (time) => {
    const inside = report.phases.filter((phase) => phase.begin <= time && time <= phase.begin + phase.seconds);
    return inside.length ? inside[inside.length - 1].name : "";
  };

  function draw(width) {
    const left = 58, right = 12, top = 10, height = 210, band = 24;
    const bottom = top + height;
    const x = (time) => left + ((width - left - right) * time) / end;
    const y = (bytes) => bottom - (height * bytes) / highest;
    const svg = shape("svg", {
      viewBox: `0 0 ${width} ${bottom + band + 26}`,
      height: bottom + band + 26,
      role: "img",
      "aria-label":
        `Resident memory over ${seconds(end)}: at most ${memorySize(report.peak_rss)}` +
        (report.memory.limit ? `, of a limit of ${memorySize(report.memory.limit)}` : ""),
    });
    for (const value of ticks(highest / MIB, 5)) {
      svg.append(shape("line", { class: "grid", x1: left, x2: width - right, y1: y(value * MIB), y2: y(value * MIB) }));
      svg.append(shape("text", { x: left - 8, y: y(value * MIB) + 4, "text-anchor": "end" }, `${+value.toPrecision(6)} MiB`));
    }
    const area = (from, to) =>
      samples.map((s, i) => `${i ? "L" : "M"}${x(s[0]).toFixed(1)},${y(to(s)).toFixed(1)}`).join("") +
      [...samples].reverse().map((s) => `L${x(s[0]).toFixed(1)},${y(from(s)).toFixed(1)}`).join("") + "Z";
    if (samples.length) {
      svg.append(shape("path", { class: "anonymous", d: area(() => 0, (s) => s[1]) }));
      svg.append(shape("path", { class: "file", d: area((s) => s[1], total) }));
    }
    if (report.memory.limit) {
      const at = y(report.memory.limit);
      svg.append(shape("path", { class: "limit", d: `M${left},${at}H${width - right}` }));
      svg.append(shape("text", { class: "limit-text", x: width - right, y: at - 5 < top + 6 ? at + 14 : at - 5, "text-anchor": "end" }, `limit ${memorySize(report.memory.limit)}`));
    }
    for (const phase of report.phases) {
      const begin = x(phase.begin);
      const wide = Math.max(x(phase.begin + phase.seconds) - begin, 0.5);
      svg.append(
        shape("rect", { class: phase.bytes ? "phase stage" : "phase", x: begin, y: bottom + 4, width: wide, height: band - 4 },
          shape("title", null, `${visible(phase.name)}: ${seconds(phase.seconds)}`))
      );
      if (wide > visible(phase.name).length * 7 + 8)
        svg.append(shape("text", { x: begin + wide / 2, y: bottom + band - 6, "text-anchor": "middle" }, visible(phase.name)));
    }
    for (const value of ticks(end, width < 500 ? 3 : 8))
      svg.append(shape("text", { x: x(value), y: bottom + band + 18, "text-anchor": value === 0 ? "start" : x(value) > width - 30 ? "end" : "middle" }, value === 0 ? "0 s" : `${+value.toPrecision(6)} s`));
    const cursor = shape("line", { class: "cursor", y1: top, y2: bottom, visibility: "hidden" });
    svg.append(cursor);
    svg.addEventListener("pointermove", (event) => {
      if (!samples.length) return;
      const at = ((event.clientX - svg.getBoundingClientRect().left - left) / (width - left - right)) * end;
      const sample = samples.reduce((best, s) => (Math.abs(s[0] - at) < Math.abs(best[0] - at) ? s : best));
      cursor.setAttribute("x1", x(sample[0]));
      cursor.setAttribute("x2", x(sample[0]));
      cursor.setAttribute("visibility", "visible");
      readout.textContent =
        `${seconds(sample[0])} (${visible(phaseAt(sample[0])) || "end"}): ${memorySize(total(sample))} resident, ` +
        `${memorySize(sample[1])} anonymous, ${memorySize(sample[2])} file`;
    });
    svg.addEventListener("pointerleave", () => {
      cursor.setAttribute("visibility", "hidden");
      readout.textContent = "";
    });
    holder.replaceChildren(svg);
  }
  drawAtWidth(holder, draw);
  const swatch = (kind, text) => element("span", null, element("span", { class: "swatch " + kind }), text);
  return [
    element("div", { class: "key" }, swatch("anonymous", "anonymous: heap, stacks, tiles"), swatch("file", "file: the program, windows of the model"), report.memory.limit ? swatch("limit", "limit") : null),
    holder,
    readout,
    comparison([
      ["model", report.memory.model, fileSize(report.memory.model), "bar"],
      ["peak memory", report.peak_rss, memorySize(report.peak_rss), "bar strong"],
    ]),
  ];
}

// Bars on one scale: [label, value, text, class].
function comparison(rows) {
  const most = Math.max(...rows.map((row) => row[1]), 1);
  return element(
    "div",
    { class: "scale" },
    rows.map(([label, value, text, kind]) => {
      const bar = element("div", { class: kind });
      bar.style.width = (100 * value) / most + "%";
      return [element("span", null, label), element("div", { class: "track" }, bar), element("span", null, text)];
    })
  );
}

// ---- Operators ----

function countBars(title, counts) {
  const entries = Object.entries(counts);
  const most = Math.max(...entries.map((entry) => entry[1]), 1);
  const shown = entries.slice(0, 24);
  return element(
    "div",
    null,
    element("h3", null, `${title}: ${count(entries.reduce((sum, entry) => sum + entry[1], 0))}`),
    element(
      "dl",
      { class: "bars" },
      shown.map(([name, number]) => {
        const bar = element("div", { class: "bar strong" });
        bar.style.width = (100 * number) / most + "%";
        return [element("dt", null, visible(name, 80)), element("dd", { class: "track" }, bar), element("dd", null, count(number))];
      })
    ),
    entries.length > shown.length ? element("p", { class: "note" }, `and ${entries.length - shown.length} more kinds`) : null
  );
}

// ---- Sizes ----

// The parts of a name, between slashes and dots.
function scopes(name) {
  const parts = name.slice(0, 1000).split(/[/.]+/).filter((part) => part !== "");
  return parts.length > 12 ? [...parts.slice(0, 11), parts.slice(11).join("/")] : parts;
}

// A tree of {name, bytes, children: Map, tensor}, of the constants of all graphs.
function sizeTree(graphs) {
  const root = { name: "all", bytes: 0, children: new Map(), parent: null };
  graphs.forEach((graph, index) => {
    for (const tensor of graph.tensors) {
      if (!tensor.bytes) continue;
      let at = root;
      at.bytes += tensor.bytes;
      const path = scopes(tensor.name);
      if (graphs.length > 1) path.unshift(graph.name || `graph ${index}`);
      for (const part of path) {
        let next = at.children.get(part);
        if (!next) at.children.set(part, (next = { name: part, bytes: 0, children: new Map(), parent: at }));
        next.bytes += tensor.bytes;
        at = next;
      }
      at.tensor = tensor;
    }
  });
  return root;
}

// Scopes with one child are drawn as that child.
function withoutChains(node) {
  let name = node.name;
  while (node.children.size === 1 && !node.tensor) {
    node = node.children.values().next().value;
    name += "/" + node.name;
  }
  return { node, name };
}

// Squarified: rectangles of areas as `items` have bytes, as near to squares as a greedy choice gives.
function squarify(items, box) {
  const out = [];
  let { x, y, w, h } = box;
  let rest = items.reduce((sum, item) => sum + item.bytes, 0);
  const worst = (bytes, line, side, scale) => {
    const total = line.reduce((sum, item) => sum + item.bytes, 0) * scale;
    const thick = total / side;
    return Math.max(...line.map((item) => { const long = (item.bytes * scale) / thick; return Math.max(long / thick, thick / long); }));
  };
  let at = 0;
  while (at < items.length && rest > 0 && w > 0.5 && h > 0.5) {
    const scale = (w * h) / rest;
    const side = Math.min(w, h);
    let line = [items[at]];
    let last = worst(0, line, side, scale);
    while (at + line.length < items.length) {
      const longer = [...line, items[at + line.length]];
      const now = worst(0, longer, side, scale);
      if (now > last) break;
      line = longer;
      last = now;
    }
    const bytes = line.reduce((sum, item) => sum + item.bytes, 0);
    const thick = (bytes * scale) / side;
    let along = 0;
    for (const item of line) {
      const long = (item.bytes * scale) / thick;
      out.push(w < h ? { item, x: x + along, y, w: long, h: thick } : { item, x, y: y + along, w: thick, h: long });
      along += long;
    }
    if (w < h) { y += thick; h -= thick; } else { x += thick; w -= thick; }
    rest -= bytes;
    at += line.length;
  }
  return out;
}

function treemap(graphs, showTensor) {
  const MOST = 160;
  let here = sizeTree(graphs);
  if (here.bytes === 0) return null;
  const holder = element("div", { class: "treemap" });
  const path = element("p", { class: "chips" });
  const chips = element("div", { class: "chips" });
  let width = 0;

  function childrenOf(node) {
    const all = [...node.children.values()].map((child) => ({ ...withoutChains(child), bytes: child.bytes }));
    all.sort((a, b) => b.bytes - a.bytes);
    if (all.length <= MOST) return all;
    const others = all.splice(MOST);
    all.push({ name: `${count(others.length)} others`, bytes: others.reduce((sum, item) => sum + item.bytes, 0), node: null });
    return all;
  }
  function open(item) {
    if (!item.node) return;
    if (item.node.children.size > 0) { here = item.node; draw(); }
    else if (item.node.tensor) showTensor(item.node.tensor);
  }
  function box(item, { x, y, w, h }, kind, isOneLine) {
    const label = visible(item.name, 200);
    const group = shape("g", { click: () => open(item) },
      shape("title", null, `${item.path ? visible(item.path, 200) + "/" : ""}${label}: ${fileSize(item.bytes)}`),
      shape("rect", { class: kind, x, y, width: w, height: h, rx: 3 }));
    const fitting = (text) => (text.length * 7 > w - 10 ? text.slice(0, Math.max(1, Math.floor((w - 16) / 7))) + "…" : text);
    if (h > 18 && w > 30) group.append(shape("text", { x: x + 6, y: y + 15 }, fitting(isOneLine ? `${label} · ${fileSize(item.bytes)}` : label)));
    if (!isOneLine && h > 36 && w > 60) group.append(shape("text", { x: x + 6, y: y + 31 }, fileSize(item.bytes)));
    return group;
  }
  function draw() {
    const height = Math.max(220, Math.min(380, width * 0.45));
    const items = here.children.size ? childrenOf(here) : [];
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `Sizes of the constants in ${visible(pathText(here))}: ${fileSize(here.bytes)}` });
    for (const [index, outer] of squarify(items, { x: 0, y: 0, w: width, h: height }).entries()) {
      const { item, x, y, w, h } = outer;
      const isDivided = item.node && item.node.children.size > 1 && w > 70 && h > 56;
      svg.append(box(item, outer, "k" + (index % 8), isDivided));
      if (!isDivided) continue;
      // What is inside, below a line with the name.
      for (const inner of squarify(childrenOf(item.node), { x: x + 3, y: y + 21, w: w - 6, h: h - 24 }))
        svg.append(box({ ...inner.item, path: item.name }, inner, `inner k${index % 8}`, false));
    }
    holder.replaceChildren(svg);
    const trail = [];
    for (let node = here; node; node = node.parent) trail.unshift(node);
    path.replaceChildren(...trail.map((node) => element("button", { type: "button", "aria-current": node === here ? "true" : undefined, click: () => { here = node; draw(); } }, `${visible(node.name, 60)} ${fileSize(node.bytes)}`)));
    chips.replaceChildren(...items.slice(0, 12).filter((item) => item.node).map((item) => element("button", { type: "button", click: () => open(item) }, `${visible(item.name, 60)} · ${fileSize(item.bytes)}`)));
  }
  const pathText = (node) => (node.parent ? pathText(node.parent) + "/" : "") + node.name;
  drawAtWidth(holder, (now) => { width = now; draw(); });
  return [path, holder, chips];
}

// SPDX-License-Identifier: Apache-2.0
// The graph as rows with lanes, as version control shows a history: an operator is a row, a tensor is a lane from the row
// that computes it to the last one that reads it. All of it is linear in the number of operators. Only the rows in view
// are elements of the page.

const ROW = 26; // pixels, as in page.css
const LANE = 12;
const MOST_LANES = 14;
const MOST_DEPTH = 8;

// What is known of a graph of the report besides its rows: who computes and who reads each tensor.
class Graph {
  constructor(graph) {
    this.tensors = graph.tensors;
    this.operators = graph.operators;
    this.nodes = graph.nodes || [];
    this.producer = new Int32Array(this.tensors.length).fill(-1);
    const readers = new Int32Array(this.tensors.length + 1);
    this.operators.forEach((op, i) => {
      for (const tensor of op.outputs) if (tensor >= 0) this.producer[tensor] = i;
      for (const tensor of op.inputs) if (tensor >= 0) readers[tensor + 1]++;
    });
    for (let i = 0; i < this.tensors.length; ++i) readers[i + 1] += readers[i];
    this.firstReader = readers;
    this.readers = new Int32Array(readers[this.tensors.length]);
    const filled = readers.slice();
    this.operators.forEach((op, i) => {
      for (const tensor of op.inputs) if (tensor >= 0) this.readers[filled[tensor]++] = i;
    });
    this.isInput = new Set(graph.inputs);
    this.isOutput = new Set(graph.outputs);
    this.texts = null;
  }
  readersOf(tensor) {
    return this.readers.subarray(this.firstReader[tensor], this.firstReader[tensor + 1]);
  }
  // The operators that compute what operator i reads.
  sources(i) {
    return this.operators[i].inputs.filter((t) => t >= 0 && this.producer[t] >= 0).map((t) => this.producer[t]);
  }
  users(i) {
    return this.operators[i].outputs.filter((t) => t >= 0).flatMap((t) => [...this.readersOf(t)]);
  }
  // The name of an operator: of its ONNX node, or of its first result.
  name(i) {
    const op = this.operators[i];
    if (op.name) return op.name;
    if (op.nodes && op.nodes.length) return this.nodes[op.nodes[0]].name;
    const first = op.outputs.find((tensor) => tensor >= 0);
    return first === undefined ? "" : this.tensors[first].name;
  }
  weightBytes(i) {
    return this.operators[i].inputs.reduce((sum, tensor) => sum + this.constantBytes(tensor), 0);
  }
  constantBytes(tensor) {
    if (tensor < 0) return 0;
    const { bytes, same_bytes_as: other } = this.tensors[tensor];
    return bytes !== undefined ? bytes : other !== undefined ? this.tensors[other].bytes || 0 : 0;
  }
  isConstant(tensor) {
    return this.tensors[tensor].bytes !== undefined || this.tensors[tensor].same_bytes_as !== undefined;
  }
  // Bytes of an operator's results; 0 where only the run knows them.
  resultBytes(i) {
    let sum = 0;
    for (const tensor of this.operators[i].outputs) {
      if (tensor < 0) continue;
      const { type, shape: extents } = this.tensors[tensor];
      const bits = /(\d+)$/.exec(type.replace(/^bool$/, "u8"));
      if (!bits || extents.some((extent) => typeof extent !== "number")) continue;
      sum += (extents.reduce((product, extent) => product * extent, 1) * Number(bits[1])) / 8;
    }
    return sum;
  }
  // What a search looks through, in small letters.
  text(i) {
    if (!this.texts) {
      this.texts = this.operators.map((op) =>
        [op.op, op.name || "", ...(op.nodes || []).flatMap((n) => [this.nodes[n].name, this.nodes[n].operator]), ...op.outputs.filter((t) => t >= 0).map((t) => this.tensors[t].name)]
          .join("\n").toLowerCase()
      );
    }
    return this.texts[i];
  }
}

// Scopes: runs of neighbouring operators whose names begin alike. {first, last (exclusive), depth, name, parent, open}.
function scopeRuns(graph) {
  const runs = [];
  const open = [];
  const close = (depth, at) => { while (open.length > depth) open.pop().last = at; };
  for (let i = 0; i < graph.operators.length; ++i) {
    const path = scopes(graph.name(i)).slice(0, -1).slice(0, MOST_DEPTH);
    let depth = 0;
    while (depth < path.length && depth < open.length && open[depth].name === path[depth]) ++depth;
    close(depth, i);
    for (; depth < path.length; ++depth) {
      const run = { first: i, last: i, depth, name: path[depth], parent: open[depth - 1] || null, open: true, row: -1 };
      open.push(run);
      runs.push(run);
    }
  }
  close(0, graph.operators.length);
  return runs.filter((run) => run.last - run.first > 1);
}

// The rows that are shown, and the lanes between them.
class Rows {
  constructor(graph) {
    this.graph = graph;
    this.runs = scopeRuns(graph); // by first operator, outer before inner
    // A scope of one operator is not shown: the nearest outer one that is takes its place.
    const shown = new Set(this.runs);
    for (const run of this.runs) {
      while (run.parent && !shown.has(run.parent)) run.parent = run.parent.parent;
      run.depth = run.parent ? run.parent.depth + 1 : 0;
    }
    this.update();
  }
  // Entries: an operator's index, or -1 - index of a scope.
  update() {
    const count = this.graph.operators.length;
    const entries = [];
    this.rowOf = new Int32Array(count);
    this.scopeOf = new Array(count).fill(null);
    let next = 0;
    const stack = [];
    for (let i = 0; i < count; ) {
      while (stack.length && stack[stack.length - 1].last <= i) stack.pop();
      let closed = null;
      while (next < this.runs.length && this.runs[next].first === i && !closed) {
        const run = this.runs[next];
        run.row = entries.length;
        entries.push(-1 - next++);
        stack.push(run);
        if (!run.open) closed = run;
      }
      if (closed) {
        for (let inside = i; inside < closed.last; ++inside) { this.rowOf[inside] = entries.length - 1; this.scopeOf[inside] = closed; }
        while (next < this.runs.length && this.runs[next].first < closed.last) this.runs[next++].row = -1;
        i = closed.last;
        continue;
      }
      this.rowOf[i] = entries.length;
      this.scopeOf[i] = stack.length ? stack[stack.length - 1] : null;
      entries.push(i++);
    }
    this.entries = Int32Array.from(entries);
    this.layOut();
  }
  // One lane for each row whose results are read further down: from it to the last reader.
  layOut() {
    const { graph, rowOf } = this;
    const rows = this.entries.length;
    const end = new Int32Array(rows).fill(-1);
    const from = []; // [row, row of a source], in order of the rows
    for (let i = 0; i < graph.operators.length; ++i) {
      const row = rowOf[i];
      for (const tensor of graph.operators[i].inputs) {
        if (tensor < 0 || graph.producer[tensor] < 0) continue;
        const source = rowOf[graph.producer[tensor]];
        if (source >= row) continue;
        from.push(row, source);
        if (end[source] < row) end[source] = row;
      }
    }
    this.end = end;
    this.lane = new Int8Array(rows).fill(-1);
    this.starts = Array.from({ length: MOST_LANES }, () => []); // by lane: rows, ascending
    const until = new Int32Array(MOST_LANES).fill(-1);
    this.lanes = 1;
    for (let row = 0; row < rows; ++row) {
      if (end[row] < 0) continue;
      const lane = until.findIndex((last) => last <= row);
      if (lane < 0) continue; // too many at once: not drawn
      until[lane] = end[row];
      this.lane[row] = lane;
      this.starts[lane].push(row);
      this.lanes = Math.max(this.lanes, lane + 1);
    }
    // The sources of each row.
    this.firstSource = new Int32Array(rows + 1);
    for (let i = 0; i < from.length; i += 2) this.firstSource[from[i] + 1]++;
    for (let row = 0; row < rows; ++row) this.firstSource[row + 1] += this.firstSource[row];
    this.sources = new Int32Array(from.length / 2);
    const filled = this.firstSource.slice();
    for (let i = 0; i < from.length; i += 2) this.sources[filled[from[i]]++] = from[i + 1];
    // Where a row's dot is: on its own lane, or on that of a source.
    this.dot = new Int8Array(rows);
    for (let row = 0; row < rows; ++row) {
      let lane = this.lane[row];
      for (let i = this.firstSource[row]; lane < 0 && i < this.firstSource[row + 1]; ++i) lane = this.lane[this.sources[i]];
      this.dot[row] = Math.max(lane, 0);
    }
  }
  sourcesOf(row) {
    return new Set(this.sources.subarray(this.firstSource[row], this.firstSource[row + 1]));
  }
  // Calls visit(first row, last row, lane) for each lane that touches the rows from `first` to `last`.
  eachLane(first, last, visit) {
    for (let lane = 0; lane < this.lanes; ++lane) {
      const starts = this.starts[lane];
      let low = 0, high = starts.length;
      while (low < high) { const middle = (low + high) >> 1; if (starts[middle] <= first) low = middle + 1; else high = middle; }
      for (let i = Math.max(low - 1, 0); i < starts.length && starts[i] <= last; ++i)
        if (this.end[starts[i]] >= first) visit(starts[i], this.end[starts[i]], lane);
    }
  }
}

// ---- The view ----

class GraphView {
  constructor(graphs) {
    this.graphs = graphs;
    this.made = new Map();
    this.timings = null; // by name of tensor or operator
    this.colour = "operator";
    this.found = [];
    this.chosen = 0;
    this.canvas = element("div");
    this.list = element("div", { class: "rows", id: "rows", role: "tree", tabindex: "0", "aria-label": "Operators in the order in which they run", scroll: () => this.draw(), keydown: (event) => this.key(event) }, this.canvas);
    this.head = element("div", { class: "head", "aria-hidden": "true" });
    this.about = element("div", { class: "about", tabindex: "0", role: "region", "aria-label": "The operator that is chosen" });
    this.counter = element("span", { class: "count", role: "status" });
    this.field = element("input", { type: "search", id: "search", placeholder: "operator, node or tensor", "aria-label": "Search the graph", autocomplete: "off", spellcheck: "false", input: () => this.searchSoon(), keydown: (event) => { if (event.key === "Enter") { event.preventDefault(); this.step(event.shiftKey ? -1 : 1); } } });
    this.show(0);
    new ResizeObserver(() => this.draw()).observe(this.list);
  }

  elements() {
    const option = (value, text) => element("option", { value }, text);
    const file = element("input", { type: "file", accept: ".json,application/json", class: "hidden", id: "timings", tabindex: "-1", "aria-label": "File of run times", change: () => this.readTimings(file) });
    const colours = element("select", { id: "colour", "aria-label": "Colour by", change: () => { if (colours.value === "time" && !this.timings) file.click(); this.colour = colours.value; this.prepareColours(); this.draw(); } },
      option("operator", "operator"), option("weights", "bytes of weights"), option("results", "bytes of results"), option("time", "run time (from a file)"));
    const chooser = this.graphs.length > 1
      ? element("select", { id: "which", "aria-label": "Graph", change: () => this.show(Number(chooser.value)) }, this.graphs.map((graph, i) => option(String(i), `${visible(graph.name, 60)} (${count(graph.operators.length)})`)))
      : null;
    const button = (text, click, label) => element("button", { type: "button", click, "aria-label": label }, text);
    return [
      element("div", { class: "tools" }, chooser, this.field,
        button("↑", () => this.step(-1), "Previous match"), button("↓", () => this.step(1), "Next match"), this.counter,
        button("Collapse all", () => this.setAll(false)), button("Expand all", () => this.setAll(true)),
        element("label", null, "Colour by", colours), file),
      element("div", { class: "graph" }, element("div", null, this.head, this.list), this.about),
      element("p", { class: "note keys" }, element("kbd", null, "↑"), " ", element("kbd", null, "↓"), " choose, ", element("kbd", null, "←"), " ", element("kbd", null, "→"), " collapse and expand, ", element("kbd", null, "i"), " to the first input, ", element("kbd", null, "o"), " to the first user, ", element("kbd", null, "/"), " search, ", element("kbd", null, "n"), " ", element("kbd", null, "p"), " next and previous match. Run times are read from a file in the form of Model Explorer's node data."),
      element("p", { class: "only-print" }, `The graph has ${count(this.graphs.reduce((sum, graph) => sum + graph.operators.length, 0))} operators, which the page shows on a screen.`),
    ];
  }

  show(index) {
    if (!this.made.has(index)) {
      const graph = new Graph(this.graphs[index]);
      this.made.set(index, { graph, rows: new Rows(graph) });
    }
    ({ graph: this.graph, rows: this.rows } = this.made.get(index));
    this.index = index;
    this.found = [];
    this.foundRows = new Set();
    this.prepareColours();
    this.chosen = 0;
    this.resize();
    this.choose(this.rows.rowOf.length ? this.rows.rowOf[0] : 0, false);
    if (this.field.value) this.search();
  }
  resize() {
    this.canvas.style.height = this.rows.entries.length * ROW + "px";
    for (const part of [this.list, this.head]) part.style.setProperty("--lanes", Math.min(this.rows.lanes, innerWidth < 640 ? 6 : MOST_LANES) * LANE + 14 + "px");
    this.draw();
  }

  // ---- Colours ----

  value(i) {
    if (this.colour === "results") return this.graph.resultBytes(i);
    if (this.colour === "time") return this.timeOf(i);
    return this.graph.weightBytes(i);
  }
  timeOf(i) {
    if (!this.timings) return 0;
    const op = this.graph.operators[i];
    for (const tensor of op.outputs) if (tensor >= 0 && this.timings.has(this.graph.tensors[tensor].name)) return this.timings.get(this.graph.tensors[tensor].name);
    return this.timings.get(this.graph.name(i)) || 0;
  }
  prepareColours() {
    const { operators } = this.graph;
    this.values = new Float64Array(operators.length);
    this.before = new Float64Array(operators.length + 1); // sums, for scopes
    let most = 0;
    for (let i = 0; i < operators.length; ++i) {
      this.values[i] = this.value(i);
      this.before[i + 1] = this.before[i] + this.values[i];
      most = Math.max(most, this.values[i]);
    }
    this.most = most;
    const titles = { weights: "weights", operator: "weights", results: "results", time: "run time" };
    this.head.replaceChildren(...["operator", "ONNX node or tensor", "first result", titles[this.colour]].map((text) => element("span", null, text)));
    if (!this.kinds) this.kinds = new Map();
    for (const op of operators) if (!this.kinds.has(op.op)) this.kinds.set(op.op, this.kinds.size);
  }
  classOf(i) {
    if (this.colour === "operator") return "k" + (this.kinds.get(this.graph.operators[i].op) % 8);
    return "h" + (this.most > 0 ? Math.min(4, Math.ceil(4 * Math.sqrt(this.values[i] / this.most))) : 0);
  }
  valueText(value) {
    if (value === 0) return "";
    return this.colour === "time" ? String(+value.toPrecision(6)) : fileSize(value);
  }
  async readTimings(file) {
    if (!file.files.length) return;
    try {
      const data = JSON.parse(await file.files[0].text());
      const timings = new Map();
      for (const graph of Object.values(data))
        for (const [name, result] of Object.entries((graph && graph.results) || {}))
          if (result && Number.isFinite(result.value)) timings.set(name, result.value);
      if (timings.size === 0) throw new Error("it has no results");
      this.timings = timings;
      this.counter.textContent = `${count(timings.size)} run times`;
    } catch (error) {
      this.counter.textContent = `not node data: ${visible(error.message, 200)}`;
    }
    this.prepareColours();
    this.draw();
  }

  // ---- Rows in view ----

  draw() {
    const { rows } = this;
    const height = this.list.clientHeight;
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW) - 4);
    const last = Math.min(rows.entries.length - 1, Math.ceil((this.list.scrollTop + height) / ROW) + 4);
    const near = this.nearRows();
    const made = [];
    for (let row = first; row <= last; ++row) made.push(this.rowElement(row, near));
    this.canvas.replaceChildren(this.laneDrawing(first, last, near), ...made);
    const active = document.getElementById("row-" + this.chosen);
    if (active) this.list.setAttribute("aria-activedescendant", active.id);
    else this.list.removeAttribute("aria-activedescendant");
  }
  // Rows that the chosen one reads from, and that read it.
  nearRows() {
    const entry = this.rows.entries[this.chosen];
    if (entry === undefined || entry < 0) return new Set();
    return new Set([...this.graph.sources(entry), ...this.graph.users(entry)].map((i) => this.rows.rowOf[i]));
  }
  rowElement(row, near) {
    const entry = this.rows.entries[row];
    const chosen = row === this.chosen;
    const classes = ["row", chosen ? "chosen" : near.has(row) ? "near" : this.foundRows.has(row) ? "found" : ""];
    const attributes = { id: "row-" + row, role: "treeitem", "aria-selected": String(chosen) };
    let parts, value, depth;
    if (entry < 0) {
      const run = this.rows.runs[-1 - entry];
      classes.push("scope");
      depth = run.depth;
      attributes["aria-expanded"] = String(run.open);
      value = this.before[run.last] - this.before[run.first];
      parts = [element("span", { class: "op" }, (run.open ? "▾ " : "▸ ") + visible(run.name, 200)), element("span", { class: "name" }, `${count(run.last - run.first)} operators`), element("span", { class: "shape" })];
    } else {
      const op = this.graph.operators[entry];
      const scope = this.rows.scopeOf[entry];
      depth = scope ? scope.depth + 1 : 0;
      value = this.values[entry];
      const result = op.outputs.find((tensor) => tensor >= 0);
      parts = [element("span", { class: "op" }, visible(op.op, 100)), element("bdi", { class: "name" }, visible(this.graph.name(entry), 300)), element("span", { class: "shape" }, result === undefined ? "" : visible(typed(this.graph.tensors[result]), 200))];
    }
    attributes["aria-level"] = String(depth + 1);
    attributes.class = classes.join(" ").trim();
    const bar = element("i");
    const most = entry < 0 ? this.before[this.before.length - 1] : this.most;
    bar.style.width = (most > 0 ? Math.round((100 * value) / most) : 0) + "%";
    const made = element("div", { ...attributes, click: () => { this.choose(row, false); if (entry < 0) this.toggle(this.rows.runs[-1 - entry]); } }, parts, element("span", { class: "value" }, this.valueText(value), bar));
    made.style.transform = `translateY(${row * ROW}px)`;
    parts[0].style.paddingLeft = depth * 12 + "px";
    return made;
  }
  laneDrawing(first, last, near) {
    const { rows } = this;
    const x = (lane) => lane * LANE + 9;
    const y = (row) => (row - first) * ROW + ROW / 2;
    const height = (last - first + 1) * ROW;
    const svg = shape("svg", { height, "aria-hidden": "true" });
    svg.style.transform = `translateY(${first * ROW}px)`;
    const strong = (source, row) => (source === this.chosen && near.has(row)) || row === this.chosen;
    rows.eachLane(first, last, (start, end, lane) => {
      const top = Math.max(y(start), 0);
      // The last reader is reached by the curve below where it stands on another lane.
      const bottom = Math.min(rows.dot[end] === lane ? y(end) : y(end) - ROW, height);
      if (bottom > top) svg.append(shape("path", { class: `edge s${lane % 8}` + (start === this.chosen ? " strong" : ""), d: `M${x(lane)},${top}V${bottom}` }));
    });
    for (let row = first; row <= Math.min(last + 1, rows.entries.length - 1); ++row)
      for (const source of rows.sourcesOf(row)) {
        const lane = rows.lane[source];
        if (lane < 0 || lane === rows.dot[row]) continue;
        const middle = y(row) - ROW / 2;
        svg.append(shape("path", { class: `edge s${lane % 8}` + (strong(source, row) ? " strong" : ""), d: `M${x(lane)},${y(row) - ROW}C${x(lane)},${middle} ${x(rows.dot[row])},${middle} ${x(rows.dot[row])},${y(row)}` }));
      }
    for (let row = first; row <= last; ++row) {
      const entry = rows.entries[row];
      if (entry < 0 && rows.runs[-1 - entry].open) continue;
      svg.append(entry < 0
        ? shape("rect", { class: "dot h3", x: x(rows.dot[row]) - 5, y: y(row) - 5, width: 10, height: 10, rx: 2 })
        : shape("circle", { class: "dot " + this.classOf(entry), cx: x(rows.dot[row]), cy: y(row), r: row === this.chosen ? 6 : 5 }));
    }
    return svg;
  }

  // ---- Choosing, collapsing, searching ----

  choose(row, move = true) {
    this.chosen = Math.max(0, Math.min(row, this.rows.entries.length - 1));
    if (move) {
      const top = this.chosen * ROW;
      const { scrollTop, clientHeight } = this.list;
      if (top < scrollTop || top + ROW > scrollTop + clientHeight) this.list.scrollTop = top - clientHeight / 2;
    }
    this.draw();
    this.describe();
  }
  // To an operator, whose scopes are opened.
  jump(operator) {
    let changed = false;
    for (const run of this.rows.runs)
      if (!run.open && run.first <= operator && operator < run.last) changed = run.open = true;
    if (changed) { this.rows.update(); this.resize(); this.markFound(); }
    this.choose(this.rows.rowOf[operator]);
  }
  toggle(run, open = !run.open) {
    run.open = open;
    this.rows.update();
    this.markFound();
    this.resize();
    this.choose(run.row < 0 ? 0 : run.row);
  }
  setAll(open) {
    const entry = this.rows.entries[this.chosen];
    for (const run of this.rows.runs) run.open = open;
    this.rows.update();
    this.markFound();
    this.resize();
    this.choose(entry === undefined ? 0 : entry >= 0 ? this.rows.rowOf[entry] : Math.max(this.rows.runs[-1 - entry].row, 0));
  }
  searchSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.search(), 120);
  }
  search() {
    const wanted = this.field.value.trim().toLowerCase();
    this.found = [];
    if (wanted) for (let i = 0; i < this.graph.operators.length; ++i) if (this.graph.text(i).includes(wanted)) this.found.push(i);
    this.at = -1;
    this.markFound();
    if (this.found.length) this.step(1);
    else { this.counter.textContent = wanted ? "no match" : ""; this.draw(); }
  }
  markFound() {
    this.foundRows = new Set(this.found.map((i) => this.rows.rowOf[i]));
  }
  step(by) {
    clearTimeout(this.timer);
    if (!this.found.length) return;
    this.at = (this.at + by + this.found.length) % this.found.length;
    this.counter.textContent = `${count(this.at + 1)} of ${count(this.found.length)}`;
    this.jump(this.found[this.at]);
  }
  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const entry = this.rows.entries[this.chosen];
    if (entry === undefined) return;
    const run = entry < 0 ? this.rows.runs[-1 - entry] : null;
    const page = Math.max(1, Math.floor(this.list.clientHeight / ROW) - 1);
    const to = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.rows.entries.length, End: this.rows.entries.length }[event.key];
    if (to !== undefined) this.choose(this.chosen + to);
    else if (event.key === "ArrowLeft") {
      if (run && run.open) this.toggle(run, false);
      else { const outer = run ? run.parent : this.rows.scopeOf[entry]; if (outer) this.choose(outer.row); }
    } else if (event.key === "ArrowRight") { if (run && !run.open) this.toggle(run, true); else if (run) this.choose(this.chosen + 1); }
    else if (event.key === "Enter" || event.key === " ") { if (run) this.toggle(run); }
    else if (event.key === "i" && !run) { const [source] = this.graph.sources(entry); if (source !== undefined) this.jump(source); }
    else if (event.key === "o" && !run) { const [user] = this.graph.users(entry); if (user !== undefined) this.jump(user); }
    else if (event.key === "n") this.step(1);
    else if (event.key === "p") this.step(-1);
    else return;
    event.preventDefault();
  }

  // ---- About the chosen row ----

  describe() {
    const entry = this.rows.entries[this.chosen];
    if (entry === undefined) return this.about.replaceChildren(element("p", null, "This graph has no operators."));
    this.about.replaceChildren(...(entry < 0 ? this.aboutScope(this.rows.runs[-1 - entry]) : this.aboutOperator(entry)));
    this.about.scrollTop = 0;
  }
  aboutScope(run) {
    const kinds = new Map();
    for (let i = run.first; i < run.last; ++i) kinds.set(this.graph.operators[i].op, (kinds.get(this.graph.operators[i].op) || 0) + 1);
    return [
      element("h3", null, visible(run.name)),
      element("p", null, `${count(run.last - run.first)} operators`),
      element("ul", null, [...kinds].sort((a, b) => b[1] - a[1]).slice(0, 30).map(([kind, number]) => element("li", null, `${count(number)} × ${visible(kind, 100)}`))),
    ];
  }
  aboutOperator(i) {
    const op = this.graph.operators[i];
    const MOST = 200;
    const link = (operator) => element("button", { type: "button", class: "link", click: () => { this.jump(operator); this.list.focus({ preventScroll: true }); } }, `${visible(this.graph.operators[operator].op, 60)} ${visible(this.graph.name(operator), 120)}`);
    const tensorItem = (tensor, links) => {
      if (tensor < 0) return element("li", null, "not given");
      const known = this.graph.tensors[tensor];
      const constant = this.graph.isConstant(tensor);
      return element("li", null, element("bdi", { class: "name" }, visible(known.name)), element("div", { class: "more" }, typed(known) + (constant ? `, constant, ${fileSize(this.graph.constantBytes(tensor))}` : "") + (this.graph.isInput.has(tensor) ? ", input of the graph" : "") + (this.graph.isOutput.has(tensor) ? ", output of the graph" : "")), links.map((at) => element("div", null, links.prefix, link(at))));
    };
    const list = (tensors, linksOf) => element("ul", null, tensors.slice(0, MOST).map((tensor) => tensorItem(tensor, linksOf(tensor))), tensors.length > MOST ? element("li", null, `and ${count(tensors.length - MOST)} more`) : null);
    const prefixed = (links, prefix) => Object.assign(links, { prefix });
    const nodes = (op.nodes || []).map((n) => this.graph.nodes[n]);
    return [
      element("h3", null, visible(op.op)),
      element("p", { class: "name" }, element("bdi", null, visible(this.graph.name(i)))),
      element("p", { class: "more" }, `operator ${count(i)}`),
      nodes.length ? [element("h3", null, nodes.length > 1 ? "Made of the ONNX nodes" : "Made of the ONNX node"), element("ul", null, nodes.slice(0, MOST).map((node) => element("li", null, `${visible(node.operator, 100)} `, element("bdi", { class: "name" }, visible(node.name)))))] : [],
      element("h3", null, "Inputs"),
      list(op.inputs, (tensor) => prefixed(tensor >= 0 && this.graph.producer[tensor] >= 0 ? [this.graph.producer[tensor]] : [], "from ")),
      element("h3", null, "Outputs"),
      list(op.outputs, (tensor) => prefixed(tensor >= 0 ? [...new Set(this.graph.readersOf(tensor))].slice(0, 50) : [], "to ")),
      op.attributes ? [element("h3", null, "Attributes"), element("dl", { class: "facts" }, Object.entries(op.attributes).map(([name, value]) => [element("dt", null, visible(name, 200)), element("dd", null, visible(value, 1000))]))] : [],
    ].flat();
  }
}

// SPDX-License-Identifier: Apache-2.0
// The sections of the page, from the JSON of the report (schemas/report.schema.json).

function figures(list) {
  return element(
    "dl",
    { class: "figures" },
    list.filter(Boolean).map(([title, value, more]) => element("div", { class: "figure" }, element("dt", null, title), element("dd", null, value), more ? element("dd", null, more) : null))
  );
}

// A line is not broken in it.
const whole = (text) => element("span", { class: "whole" }, text);

function keyFigures(report) {
  const before = Object.values(report.operators_before || {}).reduce((sum, number) => sum + number, 0);
  const ratio = report.peak_rss_ratio;
  return figures([
    ["Operators", `${count(before)} → ${count(report.operators)}`, "ONNX nodes → TFLite operators"],
    ["Transposes that stay", count(report.transposes), `of ${count(report.operators)} operators`],
    ["Model", [whole(`${fileSize(report.input_bytes)} →`), " ", whole(fileSize(report.output_bytes))], report.compressed_bytes ? `compressed to ${fileSize(report.compressed_bytes)}` : report.dry_run ? "not written" : report.external_buffers ? "weights behind the flatbuffer" : "weights inside the flatbuffer"],
    ["Peak memory", memorySize(report.peak_rss), report.input_bytes > 64 * 1024 * 1024 || ratio < 1 ? `${ratio.toFixed(ratio < 1 ? 4 : 1)} × the model's bytes` : "of which the program itself is some MiB"],
    ["Time", seconds(report.seconds), report.dry_run ? "" : `${Math.round(report.megabytes_per_second)} MB/s, ${count(report.threads)} thread${report.threads === 1 ? "" : "s"}`],
  ]);
}

function fateSection(report) {
  const byOperator = new Map();
  const lost = [];
  report.graphs.forEach((graph) => {
    const own = new Set();
    for (const op of graph.operators) if (op.nodes && op.nodes.length) own.add(op.nodes[0]);
    (graph.nodes || []).forEach((node, i) => {
      if (!byOperator.has(node.operator)) byOperator.set(node.operator, { operator: node.operator, total: 0, own: 0, fused: 0, folded: 0, removed: 0 });
      const entry = byOperator.get(node.operator);
      const fate = node.became || (own.has(i) ? "own" : "fused");
      ++entry.total;
      ++entry[fate];
      if (node.became) lost.push(node);
    });
  });
  if (byOperator.size === 0) return null;
  const number = (title, key) => ({ title, kind: "number", value: (row) => row[key], text: (row) => (row[key] ? count(row[key]) : "–") });
  const rows = [...byOperator.values()].sort((a, b) => b.total - a.total);
  const words = { folded: "folded", removed: "removed" };
  return section(
    "nodes", "What became of the ONNX nodes",
    "Fused: part of the operator of another node, which the graph below names. Folded: the result is known at conversion, or is an input. Removed: not needed, such as a transpose that no order of axes asks for, or equal to another one.",
    sortableTable("ONNX nodes by operator", [{ title: "ONNX operator", kind: "name", value: (row) => row.operator }, number("nodes", "total"), number("own operator", "own"), number("fused", "fused"), number("folded", "folded"), number("removed", "removed")], rows),
    lost.length ? element("details", null, element("summary", null, lost.length === 1 ? "One node has no operator" : `${count(lost.length)} nodes have no operator`), sortableTable("ONNX nodes without an operator", [{ title: "node", kind: "name", value: (row) => row.name }, { title: "operator", value: (row) => row.operator }, { title: "became", value: (row) => words[row.became] || row.became }], lost)) : null
  );
}

const neighbour = (user) => {
  if (!user) return "no one";
  if (user.role === "input") return `the graph's input ${visible(user.node, 200)}`;
  if (user.role === "output") return `the graph's output ${visible(user.node, 200)}`;
  return `${visible(user.op)} ${visible(user.node, 200)}`;
};

function transposeSection(report, view) {
  const rows = report.kept_transposes;
  if (!rows.length) return section("transposes", "Transposes that stay", "None: every value has one order of axes.");
  const open = (row) => element("button", { type: "button", class: "link", click: () => openInGraph(view, row.graph, row.operator) }, `operator ${count(row.operator)}`);
  return section(
    "transposes", "Transposes that stay",
    "A transpose stays where two users need the same values in different orders of their axes.",
    sortableTable("Transposes that stay", [
      { title: "where", value: (row) => row.operator, text: open },
      { title: "tensor", kind: "name", value: (row) => row.tensor },
      { title: "shape", value: (row) => shapeText(row.shape) },
      { title: "axes", value: (row) => (row.permutation || []).join(", ") },
      { title: "bytes", kind: "number", value: (row) => row.bytes || 0, text: (row) => (row.bytes === undefined ? "at run time" : fileSize(row.bytes)) },
      { title: "stored for", value: (row) => neighbour(row.stored_for), text: (row) => neighbour(row.stored_for) },
      { title: "needed by", value: (row) => neighbour(row.wanted_by), text: (row) => neighbour(row.wanted_by) },
    ], rows)
  );
}

function largestSection(report) {
  return section(
    "tensors", "Largest constants", "What was done to each between the ONNX file and the TFLite file, while it was written.",
    sortableTable("Largest constants", [
      { title: "tensor", kind: "name", value: (row) => row.name },
      { title: "type", value: (row) => row.type },
      { title: "shape", value: (row) => shapeText(row.shape) },
      { title: "bytes", kind: "number", value: (row) => row.bytes, text: (row) => fileSize(row.bytes) },
      { title: "recipe", value: (row) => row.recipe },
    ], report.largest_tensors)
  );
}

function typesSection(report) {
  const parts = [];
  if (report.narrowed_types.length)
    parts.push(sortableTable("Types with fewer bits", [
      { title: "what", value: (row) => row.what },
      { title: "from", value: (row) => row.from },
      { title: "to", value: (row) => row.to },
      { title: "count", kind: "number", value: (row) => row.count, text: (row) => count(row.count) },
      { title: "bytes", kind: "number", value: (row) => row.bytes_before || 0, text: (row) => (row.bytes_before === undefined ? "–" : `${fileSize(row.bytes_before)} → ${fileSize(row.bytes_after)}`) },
    ], report.narrowed_types));
  for (const [title, lines] of [["Weights that had to stay as they are", report.weights.kept], ["Notes", report.notes]])
    if (lines.length) parts.push(element("h3", null, title), element("ul", null, lines.slice(0, MOST_ROWS).map((line) => element("li", null, visible(line)))));
  return parts.length ? section("types", "Types and notes", "Constants that are stored, and values that are computed, in fewer bits than in the ONNX model.", ...parts) : null;
}

function refusedSections(report) {
  const columns = [
    { title: "node", kind: "name", value: (row) => row.node },
    { title: "operator", value: (row) => row.operator },
    { title: "place", value: (row) => row.place },
    { title: "reason", value: (row) => row.reason },
    { title: "what to do", value: (row) => row.hint },
  ];
  return [
    section("refused", "Nodes that cannot be converted", null, sortableTable("Nodes that cannot be converted", columns, report.refused)),
    report.not_judged.length ? section("open", "Nodes that could not be judged", "They depend on a node that cannot be converted.", sortableTable("Nodes that could not be judged", columns.slice(0, 2), report.not_judged)) : null,
  ];
}

function runSection(report) {
  const facts = (values) => element("dl", { class: "facts" }, Object.entries(values).map(([name, value]) => [element("dt", null, visible(name, 200)), element("dd", null, visible(typeof value === "object" ? Object.entries(value).map((pair) => pair.join(" ")).join(", ") : value))]));
  const quoted = (argument) => (/^[\w@%+=:,./-]+$/.test(argument) ? argument : "'" + visible(argument).replaceAll("'", "'\\''") + "'");
  return section(
    "run", "This run", null,
    element("h3", null, "Command"), element("pre", null, report.command_line.map(quoted).join(" ")),
    element("h3", null, "Versions"), facts(report.versions),
    report.facts ? [element("h3", null, visible(report.format)), facts(report.facts)] : null,
    report.phases ? [element("h3", null, "Phases"), sortableTable("Phases", [
      { title: "phase", value: (row) => row.name },
      { title: "begin", kind: "number", value: (row) => row.begin, text: (row) => seconds(row.begin) },
      { title: "time", kind: "number", value: (row) => row.seconds, text: (row) => seconds(row.seconds) },
      { title: "bytes", kind: "number", value: (row) => row.bytes, text: (row) => (row.bytes ? fileSize(row.bytes) : "–") },
    ], report.phases)] : null,
    report.digests && report.digests.length ? element("details", null, element("summary", null, `${count(report.digests.length)} constants were compared after writing: digests`), sortableTable("Digests of constants", [{ title: "tensor", kind: "name", value: (row) => row.tensor }, { title: "bytes", kind: "number", value: (row) => row.bytes, text: (row) => count(row.bytes) }, { title: "XXH3, 128 bits", kind: "name", value: (row) => row.xxh128 }], report.digests)) : null
  );
}

function openInGraph(view, graph, operator) {
  if (view.index !== graph) {
    view.show(graph);
    const chooser = document.getElementById("which");
    if (chooser) chooser.value = String(graph);
  }
  view.jump(operator);
  document.getElementById("graph").scrollIntoView();
  view.list.focus({ preventScroll: true });
}

// Of a constant in the treemap: to the first operator that reads it.
function openTensor(view, graphs, tensor) {
  for (const [index, graph] of graphs.entries()) {
    const at = graph.tensors.indexOf(tensor);
    const reader = at < 0 ? -1 : graph.operators.findIndex((op) => op.inputs.includes(at));
    if (reader >= 0) return openInGraph(view, index, reader);
  }
}

function showReport(report) {
  const title = { conversion: () => fileName(report.input), refusal: () => fileName(report.input) + " cannot be converted", inspection: () => fileName(report.input) }[report.kind]();
  document.title = visible(title, 200) + " – Lowtide";
  document.getElementById("title").textContent = visible(title, 300);
  const subtitle = {
    conversion: () => `converted to ${fileName(report.output)}${report.dry_run ? " (not written)" : ""}`,
    refusal: () => `${count(report.refused_nodes)} node${report.refused_nodes === 1 ? "" : "s"} refused, nothing was written`,
    inspection: () => `${report.format}, ${count(report.graphs.reduce((sum, graph) => sum + graph.operators.length, 0))} operators`,
  }[report.kind]();
  document.getElementById("subtitle").textContent = visible(subtitle, 500);

  const view = report.graphs && report.graphs.length ? new GraphView(report.graphs) : null;
  const parts = [];
  if (report.kind === "conversion") parts.push(keyFigures(report), section("memory", "Memory", null, ...memoryChart(report)));
  if (report.kind === "refusal") parts.push(...refusedSections(report));
  const map = view && treemap(report.graphs, (tensor) => openTensor(view, report.graphs, tensor));
  if (map) parts.push(section("sizes", "Where the bytes are", "Constants by the scopes of their names. Choose one to look into it.", ...map));
  if (report.operators_before && report.operators_after)
    parts.push(section("operators", "Operators before and after", null, element("div", { class: "pair" }, countBars("ONNX nodes", report.operators_before), countBars("TFLite operators", report.operators_after))));
  if (view) parts.push(section("graph", "Graph", null, ...view.elements()));
  if (report.kind === "conversion") parts.push(transposeSection(report, view), fateSection(report), largestSection(report), typesSection(report));
  if (report.kind === "refusal" && report.operators_before) parts.push(section("operators", "Operators of the model", null, countBars("ONNX nodes", report.operators_before)));
  parts.push(runSection(report));
  document.getElementById("main").replaceChildren(...parts.filter(Boolean));
  const short = { memory: "Memory", sizes: "Sizes", operators: "Operators", graph: "Graph", transposes: "Transposes", nodes: "ONNX nodes", tensors: "Constants", types: "Types", refused: "Refused", open: "Not judged", run: "Run" };
  document.getElementById("contents").replaceChildren(...sections.map(({ id, title: text }) => element("a", { href: "#" + id }, short[id] || text)));
  if (view) {
    view.draw();
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
      event.preventDefault();
      view.field.focus();
    });
  }
}

const fileName = (path) => String(path).split("/").pop();

showReport(JSON.parse(document.getElementById("report").textContent));

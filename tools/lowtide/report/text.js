// SPDX-License-Identifier: Apache-2.0
// The page of a report. Its data come from the file of a stranger: text gets into the page through textContent only, and
// characters that would not be seen, or that change the order of others, are shown by their number.
"use strict";

// Control characters, marks of writing direction, spaces without width, and halves of surrogate pairs.
const UNSEEN = new RegExp(
  "[\\u0000-\\u001f\\u007f-\\u00a0\\u00ad\\u034f\\u061c\\u115f\\u1160\\u1680\\u17b4\\u17b5\\u180b-\\u180f" +
    "\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u3000\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb" +
    "\\u{e0000}-\\u{e0fff}]|\\p{Surrogate}",
  "gu"
);
const shownUnseen = (character) =>
  "⟨U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩";

// A name from the file, for the page. Long ones are cut: nobody reads 64 KiB.
function visible(text, most = 4000) {
  text = String(text);
  const cut = text.length > most ? text.slice(0, most) : text;
  const shown = cut.replace(UNSEEN, shownUnseen);
  return cut.length < text.length ? shown + `… (${count(text.length)} characters)` : shown;
}

const count = (number) => Number(number).toLocaleString("en-US");

function scaled(bytes, step, units) {
  let unit = 0;
  for (; bytes >= step && unit + 1 < units.length; ++unit) bytes /= step;
  return (unit === 0 ? String(bytes) : bytes.toFixed(1)) + " " + units[unit];
}
const fileSize = (bytes) => scaled(bytes, 1000, ["B", "kB", "MB", "GB", "TB"]);
const memorySize = (bytes) => scaled(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const seconds = (time) => (time < 0.0995 ? (time * 1000).toFixed(1) + " ms" : time.toFixed(2) + " s");
const shapeText = (shape) => "[" + shape.map((extent) => visible(extent, 60)).join(", ") + "]";
const typed = (tensor) => (tensor.type ? visible(tensor.type) + " " + shapeText(tensor.shape) : "type not known");

// An element of HTML. `attributes` has attributes, and functions as listeners; children are elements or text.
function element(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}
function shape(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}
function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) made.append(child);
  return made;
}

const sections = [];
// A part of the page, with an entry in the list of sections.
function section(id, title, note, ...children) {
  sections.push({ id, title });
  return element(
    "section",
    { id, class: "panel", "aria-labelledby": id + "-title" },
    element("h2", { id: id + "-title" }, title),
    note ? element("p", { class: "note" }, note) : null,
    ...children
  );
}

const MOST_ROWS = 1000;
const FIRST_ROWS = 15;

// Columns are {title, value(row), text(row), kind}; kind "number" or "name". Sorted by the header's buttons.
function sortableTable(label, columns, rows) {
  const body = element("tbody");
  const heads = columns.map((column, index) =>
    element(
      "th",
      { scope: "col", class: column.kind === "number" ? "number" : undefined },
      element("button", { type: "button", click: () => sortBy(index) }, column.title)
    )
  );
  let sorted = -1;
  let sign = 1;
  let shown = rows.length > FIRST_ROWS * 1.4 ? FIRST_ROWS : MOST_ROWS;
  let order = rows;
  const all = element("button", { type: "button", click: () => { shown = MOST_ROWS; all.remove(); show(); } }, `Show ${rows.length > MOST_ROWS ? "more" : "all " + count(rows.length)}`);
  function show() {
    body.replaceChildren(
      ...order.slice(0, shown).map((row) =>
        element(
          "tr",
          null,
          columns.map((column) => {
            const content = column.text ? column.text(row) : visible(column.value(row));
            return element("td", { class: column.kind, "data-column": column.title }, content);
          })
        )
      )
    );
  }
  function sortBy(index) {
    const first = columns[index].kind === "number" ? -1 : 1;
    sign = sorted === index ? -sign : first;
    sorted = index;
    const value = columns[index].value;
    order = [...rows].sort((a, b) => {
      const x = value(a);
      const y = value(b);
      return sign * (typeof x === "number" ? x - y : String(x).localeCompare(String(y)));
    });
    heads.forEach((head, i) => {
      if (i === index) head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    show();
  }
  show();
  const table = element(
    "table",
    { class: "wide" },
    element("caption", { class: "hidden" }, label),
    element("thead", null, element("tr", null, heads)),
    body
  );
  const more = rows.length > MOST_ROWS ? element("p", { class: "note" }, `The first ${count(MOST_ROWS)} of ${count(rows.length)}; the JSON in this page has all.`) : null;
  return [element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table), shown === FIRST_ROWS ? element("p", { class: "chips" }, all) : null, more];
}

// Calls `draw(width)` now and whenever the element has another width.
function drawAtWidth(holder, draw) {
  let drawn = 0;
  const observer = new ResizeObserver(() => {
    const width = Math.floor(holder.clientWidth);
    if (width > 0 && width !== drawn) draw((drawn = width));
  });
  observer.observe(holder);
}

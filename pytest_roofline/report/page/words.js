// Elements, and quantities as text. Whatever comes from a document enters the page as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

// Characters that hide, forge or turn the direction of text are shown as escapes; joiners of emoji and letters stay.
const HIDDEN = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\p{Cs}/gu;

function shown(text) {
  return String(text).replace(HIDDEN, (character) => {
    const code = character.codePointAt(0).toString(16);
    return code.length <= 2 ? `\\x${code.padStart(2, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}

// el("p", { class: "note" }, "text", child): strings become text nodes; a handler stands under its event's name, "onclick".
function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child == null || child === false) continue;
    element.append(child instanceof Node ? child : shown(child));
  }
}

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

// A table with a caption for those who cannot see where it stands. Columns: { name, isFigure }; rows: lists of cells.
function table(caption, columns, rows, kind = "") {
  return el("div", { class: "scrolls", tabindex: 0, role: "region", "aria-label": caption },
    el("table", { class: `plain ${kind}` },
      el("caption", { class: "unseen" }, caption),
      el("thead", {}, el("tr", {}, columns.map((column) =>
        el("th", { scope: "col", class: column.isFigure ? "figure" : null }, column.name)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, index) => index === 0
        ? el("th", { scope: "row" }, cell)
        : el("td", { class: columns[index].isFigure ? "figure" : null }, cell)))))));
}

// -- quantities: three digits, decimal prefixes; GB is 1e9 ---------------------------------------------------------

const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const NOTHING = "\u2013";

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

// Without a unit: 1,204, 98.3, 0.0042.
function rate(value) {
  if (!isNumber(value)) return NOTHING;
  const size = Math.abs(value);
  if (size >= 999.5) return Math.round(value).toLocaleString("en-US");
  return size < 0.0995 && size > 0 ? value.toPrecision(2) : digits(value);
}

function scaled(value, unit, plain = unit) {
  if (!isNumber(value)) return NOTHING;
  for (const [size, prefix] of PREFIXES) {
    if (Math.abs(value) >= size * 0.9995) return `${digits(value / size)}\u00a0${prefix}${unit}`;
  }
  return `${Number.isInteger(value) ? value : digits(value)}\u00a0${plain}`;
}

const bytes = (value) => scaled(value, "B", "bytes");
const bytesPerSecond = (value) => scaled(value, "B/s");
const flopsPerSecond = (value) => scaled(value, "FLOP/s");
const flops = (value) => scaled(value, "FLOP");
const percent = (value) => !isNumber(value) ? NOTHING
  : `${Math.abs(value) >= 0.0995 ? (value * 100).toFixed(0) : (value * 100).toFixed(1)}\u00a0%`;
const intensity = (value) => isNumber(value) ? `${rate(value)}\u00a0FLOP/B` : NOTHING;

function seconds(value) {
  if (!isNumber(value)) return NOTHING;
  const size = Math.abs(value);
  if (size >= 0.9995 || size === 0) return `${digits(value)}\u00a0s`;
  if (size >= 0.9995e-3) return `${digits(value * 1e3)}\u00a0ms`;
  if (size >= 0.9995e-6) return `${digits(value * 1e6)}\u00a0\u00b5s`;
  return `${Math.round(value * 1e9)}\u00a0ns`;
}

// A figure by the unit that its name ends in, as every name of a record does.
const BY_ENDING = [
  ["flops_per_s", flopsPerSecond], ["bytes_per_s", bytesPerSecond], ["tokens_per_s", rate], ["per_s_per_user", rate],
  ["per_s", rate], ["bytes_per_pass", bytes], ["bytes_per_token", bytes], ["bytes", bytes], ["flops_per_pass", flops],
  ["flops", flops], ["_s", seconds], ["_hz", (value) => scaled(value, "Hz")], ["_w", (value) => `${digits(value)}\u00a0W`],
  ["_c", (value) => `${digits(value)}\u00a0\u00b0C`], ["share", percent], ["fraction", percent], ["intensity", intensity],
  ["ridge_point", intensity], ["_use", percent],
];

function figure(name, value) {
  if (value == null || value === "") return NOTHING;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.length ? value.map((one) => figure(name, one)).join(", ") : "none";
  if (typeof value === "object") {
    return Object.entries(value).map(([key, one]) => `${label(key)} ${figure(key.length > 3 ? key : name, one)}`).join(", ");
  }
  if (typeof value !== "number") return String(value);
  const found = BY_ENDING.find(([ending]) => name.endsWith(ending));
  if (found) return found[1](value);
  return Number.isInteger(value) ? value.toLocaleString("en-US") : rate(value);
}

// bandwidth_bytes_per_s -> Bandwidth: the unit is said by the figure.
const UNITS = /_(flops_per_s|bytes_per_s|bytes_per_pass|bytes|hz|w|c|(?<!per_)s)$/;
const NAMES = {
  mbu: "MBU", uuid: "UUID", mig: "MIG slice", id: "ID", has_ecc: "ECC", is_persistent: "Persistence mode",
  ttft_s: "TTFT", tpot_s: "TPOT", itl_s: "Inter-token latency", cpu: "CPU", kv_bytes_per_pass: "KV cache",
  flops_per_pass: "FLOPs per pass", is_closed: "Every output accounted for",
};

function label(name) {
  if (Object.hasOwn(NAMES, name)) return NAMES[name];
  const words = (name.replace(UNITS, "") || name).replace(/_/g, " ").replace(/ per s\b/, " per second").replace(/^is |^has /, "").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function counted(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en-US")}\u00a0${count === 1 ? one : many}`;
}

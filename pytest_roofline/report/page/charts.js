// The chart library, dressed in the page's colours. It gets numbers and words of this file's own: what a document holds is
// shown in a tooltip of the page, as text.

const SHAPES = {
  passed: { symbol: "circle", path: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11z", filled: true },
  failed: { symbol: "triangle-down", path: "M1.8 3.2h12.4L8 14z", filled: true },
  bogus: { symbol: "x", path: "M4.6 2 8 5.4 11.4 2 14 4.6 10.6 8 14 11.4 11.4 14 8 10.6 4.6 14 2 11.4 5.4 8 2 4.6z", filled: true },
  "bogus (caught)": { symbol: "x-open", path: "M4.6 2 8 5.4 11.4 2 14 4.6 10.6 8 14 11.4 11.4 14 8 10.6 4.6 14 2 11.4 5.4 8 2 4.6z", filled: false },
  inconclusive: { symbol: "diamond-open", path: "M8 1.6 14.4 8 8 14.4 1.6 8z", filled: false },
  "not measured": { symbol: "square-open", path: "M3 3h10v10H3z", filled: false },
};
const VERDICTS = Object.keys(SHAPES);
const CLASSES = {
  passed: "passed", failed: "failed", bogus: "bogus", "bogus (caught)": "caught", inconclusive: "inconclusive",
  "not measured": "unmeasured",
};

const known = (verdict) => Object.hasOwn(SHAPES, verdict) ? verdict : "not measured";

// The mark of a verdict, the same in charts, table and legend: told by its shape, not only by its colour.
function mark(verdict) {
  const shape = SHAPES[known(verdict)];
  const drawn = svg("path", shape.filled ? { d: shape.path, fill: "currentColor" }
    : { d: shape.path, fill: "none", stroke: "currentColor", "stroke-width": 1.8 });
  const icon = svg("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" }, drawn);
  icon.classList.add("mark", CLASSES[known(verdict)]);
  return icon;
}

function verdictBadge(verdict) {
  return el("span", { class: `verdict ${CLASSES[known(verdict)]}` }, mark(verdict), el("span", {}, verdict));
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: "reset" };

function axis(title, more = {}) {
  return {
    title: { text: title, font: { size: 12, color: colour("soft") }, standoff: 10 },
    gridcolor: colour("grid"), zerolinecolor: colour("grid"), linecolor: colour("line"), tickcolor: colour("line"),
    showline: true, ticks: "outside", ticklen: 4, tickfont: { size: 11, color: colour("soft") }, automargin: true,
    ...more,
  };
}

// Decades as ticks; with less than two of them the steps between as well.
function logAxis(title, range, unit = "") {
  const [low, high] = range.map(Math.log10);
  const steps = high - low > 2.2 ? [1] : high - low > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
  const spread = Math.max(1, Math.ceil((high - low) / 9));
  const values = [];
  for (let decade = Math.floor(low); decade <= Math.ceil(high); decade += 1) {
    if (decade % spread !== 0) continue;
    for (const step of steps) {
      const value = step * 10 ** decade;
      if (value >= range[0] * 0.999 && value <= range[1] * 1.001) values.push(value);
    }
  }
  return axis(title, { type: "log", range: [low, high], tickvals: values, ticktext: values.map((value) => tick(value, unit)) });
}

function tick(value, unit) {
  for (const [size, prefix] of PREFIXES) {
    if (unit && value >= size * 0.9995) return `${Number((value / size).toPrecision(2))} ${prefix}${unit}`;
  }
  const plain = Number(value.toPrecision(2));
  return `${value >= 1000 && !unit ? plain.toLocaleString("en-US") : plain}${unit ? ` ${unit}` : ""}`;
}

function spanOf(values, margin = 1.6, least = 4) {
  const found = values.filter((value) => isNumber(value) && value > 0);
  if (!found.length) return [1, 10];
  let low = Math.min(...found) / margin;
  let high = Math.max(...found) * margin;
  if (high / low < least) {
    const middle = Math.sqrt(high * low);
    low = middle / Math.sqrt(least);
    high = middle * Math.sqrt(least);
  }
  return [low, high];
}

function layout(more) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    hoverdistance: 24, dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    font: { family: getComputedStyle(document.body).fontFamily.replace(/"/g, ""), color: colour("ink"), size: 12 },
    margin: { l: 8, r: 14, t: 10, b: 8 },
    ...more,
  };
}

// A line across a chart with words on it: what the document named is reduced to plain characters before it comes here.
const plainWord = (text) => shown(text).replace(/[^\w .+-]/g, "").slice(0, 24);

function legend(entries) {
  return el("ul", { class: "legend" }, entries.filter(Boolean).map(([sign, words]) => el("li", {}, sign, el("span", {}, words))));
}

function lineSign(kind) {
  return el("span", { class: `sign ${kind}`, "aria-hidden": "true" });
}

// One tooltip for the page. Its text is also said aloud, politely, when it comes by the keyboard.
const tip = {
  box: null,
  show(place, lines, isSaid = false) {
    tip.box ??= el("div", { class: "tip", role: "status" });
    const parent = document.querySelector("dialog[open]") ?? document.body;  // an open dialog is above everything else
    if (tip.box.parentElement !== parent) parent.append(tip.box);
    tip.box.setAttribute("aria-live", isSaid ? "polite" : "off");
    replace(tip.box, lines);
    tip.box.classList.add("seen");
    const { width, height } = tip.box.getBoundingClientRect();
    const left = Math.min(Math.max(8, place.x + 14), document.documentElement.clientWidth - width - 8);
    const top = place.y - height - 12 > 4 ? place.y - height - 12 : place.y + 16;
    tip.box.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  },
  hide() {
    tip.box?.classList.remove("seen");
  },
};
addEventListener("scroll", () => tip.hide(), { passive: true, capture: true });

// Points that can be pointed at, clicked and walked through with the arrow keys. `points`: { x, y, open, ... }; a ring
// stands around the current one.
function walkable(box, points, describe) {
  const order = [...points].sort((one, other) => one.x - other.x || one.y - other.y);
  const ring = el("span", { class: "ring", "aria-hidden": "true" });
  let at = -1;
  box.parentElement.querySelector(".ring")?.remove();
  box.parentElement.append(ring);
  const pointTo = (point, isSaid) => {
    at = order.indexOf(point);
    const { xaxis, yaxis } = box._fullLayout;
    const x = xaxis._offset + xaxis.d2p(point.x);
    const y = yaxis._offset + yaxis.d2p(point.y);
    ring.style.transform = `translate(${x}px, ${y}px)`;
    ring.classList.add("seen");
    const frame = box.getBoundingClientRect();
    tip.show({ x: frame.left + x, y: frame.top + y }, describe(point), isSaid);
  };
  const leave = () => { tip.hide(); ring.classList.remove("seen"); };
  for (const name of ["plotly_hover", "plotly_unhover", "plotly_relayout", "plotly_click"]) box.removeAllListeners(name);
  box.on("plotly_hover", (event) => {
    const point = points[event.points[0].customdata];
    if (point) pointTo(point, false);
  });
  box.on("plotly_unhover", leave);
  box.on("plotly_relayout", leave);
  box.on("plotly_click", (event) => {
    const point = points[event.points[0].customdata];
    if (point?.open) { leave(); point.open(); }
  });
  box.onkeydown = (event) => {
    if (!order.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = order.length - 1;
    const steps = { ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1, Home: 0, End: last };
    if (event.key in steps) {
      pointTo(order[Math.max(0, Math.min(last, steps[event.key]))], true);
      event.preventDefault();
    } else if (event.key === "Enter" && order[at]?.open) {
      leave();
      order[at].open();
      event.preventDefault();
    } else if (event.key === "Escape") {
      leave();
      at = -1;
    }
  };
  box.onblur = leave;
}

// A trace for each verdict, so that each has its shape; the number of a point travels in `customdata`.
function verdictTraces(points, size = 10) {
  return VERDICTS.map((verdict) => {
    const own = points.map((point, index) => [point, index]).filter(([point]) => known(point.row.verdict) === verdict);
    return {
      type: "scatter", mode: "markers", hoverinfo: "none",
      x: own.map(([point]) => point.x), y: own.map(([point]) => point.y), customdata: own.map(([, index]) => index),
      marker: {
        size: (points.length > 300 ? 0.65 : 1) * size * (verdict === "failed" ? 1.35 : 1), symbol: SHAPES[verdict].symbol, color: colour(CLASSES[verdict]), opacity: points.length > 300 ? 0.75 : 1,
        line: { width: SHAPES[verdict].filled ? 1 : 2, color: SHAPES[verdict].filled ? colour("paper") : colour(CLASSES[verdict]) },
      },
    };
  }).filter((trace) => trace.x.length);
}

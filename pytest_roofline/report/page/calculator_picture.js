// Two pictures in SVG: the roofline with the workload on it, and the rate over batch or context. Drawn at the width
// that there is, so that letters keep their size; colours and line widths are the style sheet's.
"use strict";

const picture = (() => {
  const SPACE = "http://www.w3.org/2000/svg";
  const BATCHES = Array.from({ length: 13 }, (_, power) => 2 ** power);
  const LABELLED = new Set([1, 8, 64, 512, 4096]);

  function element(parent, name, attributes, text) {
    const made = document.createElementNS(SPACE, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  // Positions on a logarithmic axis from `first` to `last`, drawn from `start` to `end`.
  function logAxis(first, last, start, end) {
    const scale = (end - start) / Math.log10(last / first);
    return (value) => start + scale * Math.log10(value / first);
  }

  const decadeBelow = (value) => 10 ** Math.floor(Math.log10(value) + 1e-9);
  const decadeAbove = (value) => 10 ** Math.ceil(Math.log10(value) - 1e-9);

  function decades(first, last) {
    const found = [];
    for (let power = Math.round(Math.log10(first)); power <= Math.round(Math.log10(last)); power += 1) {
      found.push(10 ** power);
    }
    return found;
  }

  const path = (points) => points.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");

  function begin(svg, ratio) {
    const width = Math.max(280, Math.round(svg.parentElement.clientWidth));
    const height = Math.round(Math.min(Math.max(width * ratio, 250), 400));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.replaceChildren();
    return { width, height, box: { left: 46, right: width - 14, top: 26, bottom: height - 40 } };
  }

  function frame(svg, box, x, y, xTicks, yTicks, xName, yName, told = words.short) {
    const grid = element(svg, "g", { class: "grid" });
    const room = (box.right - box.left) / Math.max(1, xTicks.length - 1);
    const every = Math.max(1, Math.ceil(34 / room));
    xTicks.forEach((tick, index) => {
      element(grid, "line", { x1: x(tick), x2: x(tick), y1: box.top, y2: box.bottom });
      if (index % every === 0) {
        element(grid, "text", { x: x(tick), y: box.bottom + 15, "text-anchor": "middle" }, told(tick));
      }
    });
    for (const tick of yTicks) {
      element(grid, "line", { x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) });
      element(grid, "text", { x: box.left - 6, y: y(tick) + 4, "text-anchor": "end" }, words.short(tick));
    }
    element(svg, "text", { class: "axis", x: box.right, y: box.bottom + 32, "text-anchor": "end" }, xName);
    element(svg, "text", { class: "axis", x: 2, y: 12 }, yName);
  }

  // -- the roofline -----------------------------------------------------------------------------------------------

  // `trail`: [batch, prediction] of the same question at other batches; `choose`: what a click on one of them does.
  function drawRoofline(svg, table, settings, found, trail, choose) {
    const { box } = begin(svg, 0.62);
    const bandwidth = found.device.bandwidth_bytes_per_s;
    const reached = (one) => one.flops_per_pass / one.step_floor_s;
    const peaks = Object.entries(found.device.dense_peaks).filter(([dtype]) => dtype !== "float64");
    const peak = found.peak_flops_per_s;
    const all = [found, ...trail.map(([, one]) => one)];
    const xs = [...all.map((one) => one.arithmetic_intensity), ...(peak === null ? [] : [found.ridge_point * 4])];
    const first = decadeBelow(Math.min(...xs) * 0.7), last = decadeAbove(Math.max(...xs) * 1.5);
    const tops = [...peaks.map(([, value]) => value), peak ?? bandwidth * last];
    const low = decadeBelow(Math.min(first * bandwidth, ...all.map(reached))), high = decadeAbove(Math.max(...tops) * 1.3);
    const x = logAxis(first, last, box.left, box.right), y = logAxis(low, high, box.bottom, box.top);
    frame(svg, box, x, y, decades(first, last), decades(low, high), "arithmetic intensity, FLOP/byte", "FLOP/s");

    const inside = element(svg, "g", { "clip-path": "url(#roof-box)" });
    const clip = element(element(svg, "defs", {}), "clipPath", { id: "roof-box" });
    element(clip, "rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top });
    const roof = (share) => {
      const end = peak === null ? last : Math.min(last, found.ridge_point);
      const points = [[x(first), y(first * bandwidth * share)], [x(end), y(end * bandwidth * share)]];
      return end < last ? [...points, [x(last), y(peak * share)]] : points;
    };
    const [below, above] = table.expected_shares;
    element(inside, "path", { class: "expected", d: `${path([...roof(above), ...roof(below).reverse()])}Z` });
    const here = [x(found.arithmetic_intensity), y(reached(found))];
    otherPeaks(svg, inside, box, x, y, found, peaks, last);
    element(inside, "path", { class: "roof", d: path(roof(1)) });
    labelRoof(svg, box, x, y, found, first, last, here);

    element(inside, "path", { class: "trail", d: path(trail.map(([, one]) => [x(one.arithmetic_intensity), y(reached(one))])) });
    const labels = [];
    for (const [batch, one] of trail) {
      const at = [x(one.arithmetic_intensity), y(reached(one))];
      const dot = element(svg, "circle", {
        class: `step${one.fits === false ? " too-large" : ""}`, cx: at[0], cy: at[1], r: 4, "data-batch": batch,
      });
      element(dot, "title", {}, `batch ${words.whole(batch)}: ${words.rate(one.ceiling_tokens_per_s)} tok/s`
        + `${one.fits === false ? ", does not fit" : ""}`);
      dot.addEventListener("click", () => choose(batch));
      if (LABELLED.has(batch)) labels.push([at, batch]);
    }
    let previous = null;
    for (const [[left, top], batch] of labels) {
      const isFree = previous === null || Math.hypot(left - previous[0], top - previous[1]) > 30;
      if (!isFree || Math.hypot(left - here[0], top - here[1]) < 26 || left > box.right - 34) continue;
      previous = [left, top];
      element(svg, "text", { class: "step-label", x: left + 7, y: top + 14 }, batch === 1 ? "batch 1" : words.whole(batch));
    }
    element(svg, "line", { class: "drop", x1: here[0], x2: here[0], y1: here[1], y2: box.bottom });
    element(svg, "circle", { class: `dot bound-${found.bound}`, cx: here[0], cy: here[1], r: 8 });
    // Above the slope there is nothing, but for the first centimetres: there, below it.
    const hasRoom = here[0] > box.left + 112;
    element(svg, "text", {
      class: "dot-label", x: here[0] + (hasRoom ? -10 : 14), y: hasRoom ? Math.max(here[1] - 14, box.top + 12) : here[1] + 22,
      "text-anchor": hasRoom ? "end" : "start",
    }, `${words.rate(found.ceiling_tokens_per_s)} tok/s`);
  }

  // Roofs of other dtypes, of one height together; labelled where there is room.
  function otherPeaks(svg, inside, box, x, y, found, peaks, last) {
    const heights = new Map();
    for (const [dtype, value] of peaks) {
      if (dtype !== found.peak_dtype && value !== found.peak_flops_per_s) {
        heights.set(value, [...heights.get(value) ?? [], dtype]);
      }
    }
    const taken = found.peak_flops_per_s === null ? [] : [y(found.peak_flops_per_s)];
    for (const [value, dtypes] of heights) {
      const bandwidth = found.device.bandwidth_bytes_per_s;
      if (value / bandwidth > last) continue;
      element(inside, "path", { class: "other-peak", d: path([[x(value / bandwidth), y(value)], [x(last), y(value)]]) });
      if (box.right - box.left < 420 || taken.some((height) => Math.abs(height - y(value)) < 17)) continue;
      taken.push(y(value));
      element(svg, "text", { class: "peak-label", x: box.right - 4, y: y(value) - 5, "text-anchor": "end" },
        `${dtypes.join(", ")} ${words.flopRate(value)}`);
    }
  }

  // `here`: the place of the dot, which has a label of its own beside it.
  function labelRoof(svg, box, x, y, found, first, last, here) {
    const bandwidth = found.device.bandwidth_bytes_per_s;
    const end = found.peak_flops_per_s === null ? last : Math.min(last, found.ridge_point);
    const along = [0.3, 0.5, 0.7].map((share) => first * (end / first) ** share);
    const away = (at) => Math.abs(x(at) - (here[0] - 40));
    const at = along.reduce((best, one) => (away(one) > away(best) + 1 ? one : best));
    const slope = Math.atan2(y(end * bandwidth) - y(first * bandwidth), x(end) - x(first)) * 180 / Math.PI;
    element(svg, "text", {
      class: "roof-label", "text-anchor": "middle",
      transform: `translate(${(x(at) - 5).toFixed(1)} ${(y(at * bandwidth) - 8).toFixed(1)}) rotate(${slope.toFixed(2)})`,
    }, `memory ${words.bandwidth(bandwidth)}`);
    if (found.peak_flops_per_s === null || found.ridge_point > last) return;
    element(svg, "line", {
      class: "ridge", x1: x(end), x2: x(end), y1: y(found.peak_flops_per_s), y2: box.bottom,
    });
    element(svg, "text", { class: "roof-label", x: box.right - 4, y: y(found.peak_flops_per_s) - 7, "text-anchor": "end" },
      `${found.peak_dtype} ${words.flopRate(found.peak_flops_per_s)}`);
    const isRight = x(end) > box.right - 70;
    element(svg, "text", {
      class: "ridge-label", x: x(end) + (isRight ? -4 : 4), y: box.bottom - 6, "text-anchor": isRight ? "end" : "start",
    }, `ridge ${words.intensity(found.ridge_point)}`);
  }

  // -- the rate over batch or context -----------------------------------------------------------------------------

  // `points`: [value, prediction], the values from 1 up; `value`: where the settings stand.
  function drawCurve(svg, over, value, points, found) {
    const { box } = begin(svg, 0.5);
    const rates = points.flatMap(([, one]) => [one.ceiling_tokens_per_s, one.ceiling_tokens_per_s_per_user]);
    const first = points[0][0], last = points[points.length - 1][0];
    const low = decadeBelow(Math.min(...rates)), high = decadeAbove(Math.max(...rates) * 1.2);
    const x = logAxis(first, last, box.left, box.right), y = logAxis(low, high, box.bottom, box.top);
    const ticks = [];
    for (let tick = first; tick <= last * 1.001; tick *= 4) ticks.push(tick);
    const told = (tick) => (tick >= 1024 ? `${words.whole(tick / 1024)}K` : words.whole(tick));
    frame(svg, box, x, y, ticks, decades(low, high), over === "batch" ? "batch, sequences" : "context, tokens", "tok/s", told);
    const beyond = points.find(([, one]) => one.fits === false);
    if (beyond !== undefined) {
      const from = Math.max(box.left, x(beyond[0]));
      const region = element(svg, "g", { class: "no-room" });
      element(region, "rect", { x: from, y: box.top, width: box.right - from, height: box.bottom - box.top });
      const isTight = box.right - from < 84;
      element(region, "text", {
        x: isTight ? from - 6 : from + 8, y: box.bottom - 8, "text-anchor": isTight ? "end" : "start",
      }, "does not fit");
    }
    for (const [key, name] of [["ceiling_tokens_per_s", "all"], ["ceiling_tokens_per_s_per_user", "user"]]) {
      element(svg, "path", { class: `curve ${name}`, d: path(points.map(([at, one]) => [x(at), y(one[key])])) });
    }
    if (value < first || value > last) return;
    element(svg, "line", { class: "drop", x1: x(value), x2: x(value), y1: box.top, y2: box.bottom });
    for (const [key, name] of [["ceiling_tokens_per_s", "all"], ["ceiling_tokens_per_s_per_user", "user"]]) {
      element(svg, "circle", { class: `mark ${name}`, cx: x(value), cy: y(found[key]), r: 5 });
    }
  }

  return { BATCHES, drawRoofline, drawCurve };
})();

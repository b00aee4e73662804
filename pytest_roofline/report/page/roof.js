// The roofline in log-log: what memory and arithmetic allow by intensity, and where every test stands under it.

const MOST_STEMS = 200;

// A result as a point: what it reached, and the ceiling over it at that minute (its own fraction says which).
function roofPoint(row) {
  const { traffic, ceiling } = row;
  const work = traffic?.flops_per_pass ?? ceiling?.flops_per_pass;
  const moved = traffic?.bytes_per_pass ?? ceiling?.bytes_per_pass;
  if (!(work > 0 && moved > 0 && row.step_s > 0)) return null;
  const reached = work / row.step_s;
  const allowed = row.fraction > 0 ? reached / row.fraction : ceiling?.step_floor_s > 0 ? work / ceiling.step_floor_s : null;
  return { row, x: work / moved, y: reached, allowed };
}

// The roof of a device: bandwidths that were measured and printed, and a flat for each peak, the highest first.
function roofOf(device, probe, rows) {
  const own = rows.map((row) => row.ceiling).filter((ceiling) => ceiling?.bandwidth_bytes_per_s > 0);
  const middle = own.map((ceiling) => ceiling.bandwidth_bytes_per_s).sort((one, other) => one - other)[Math.floor(own.length / 2)];
  const measured = probe?.read_bytes_per_s > 0 ? probe.read_bytes_per_s : middle;
  const peaks = new Map();
  for (const [dtype, peak] of Object.entries(probe?.peak_flops_per_s ?? {})) if (peak > 0) peaks.set(peak, plainWord(dtype));
  for (const row of rows) {
    const peak = row.ceiling?.peak_flops_per_s;
    if (peak > 0 && !peaks.has(peak)) peaks.set(peak, plainWord(row.traffic?.dtype ?? ""));
  }
  const flats = [...peaks].sort((one, other) => other[0] - one[0]).filter(([peak], index, all) =>
    index === 0 || all[index - 1][0] / peak > 1.08).slice(0, 4);
  // What no result may exceed: the sheet's rate, else the driver's, else the best of all probes.
  const known = [[probe?.sheet?.bandwidth_bytes_per_s, "data sheet"], [device?.driver_bandwidth_bytes_per_s, "by the driver's clocks"],
    [probe?.limit?.bytes_per_s, "largest credible"]].find(([bandwidth]) => bandwidth > 0 && Math.abs(bandwidth / measured - 1) > 0.005);
  return { measured, sheet: known?.[0] ?? null, sheetWords: known?.[1], flats, isProbed: probe?.read_bytes_per_s > 0 };
}

function describeRoofPoint({ row, x, y, allowed }) {
  return [
    el("strong", { class: "name" }, shortName(row)),
    el("span", { class: "row" }, verdictBadge(row.verdict), row.fraction != null && `${percent(row.fraction)} of the ceiling`),
    el("dl", {},
      pair("Intensity", intensity(x)),
      pair("Achieved", flopsPerSecond(y)),
      pair("Ceiling", flopsPerSecond(allowed)),
      row.bytes_per_s != null && pair("Bandwidth", bytesPerSecond(row.bytes_per_s)),
      pair("Bound by", row.ceiling?.bound ?? NOTHING)),
    el("span", { class: "hint" }, "click or Enter for details"),
  ];
}

const pair = (name, value) => [el("dt", {}, name), el("dd", {}, value)];

function drawRoof(box, points, roof, all) {
  const top = roof.flats[0]?.[0];
  const xs = spanOf([...all.map((point) => point.x), ...(roof.measured && top ? [top / roof.measured] : [])], 2.2, 30);
  const memory = (x) => Math.max(roof.measured ?? 0, 0) * x;
  const ys = spanOf([
    ...all.flatMap((point) => [point.y, point.allowed]), ...roof.flats.map(([peak]) => peak),
    roof.measured ? Math.min(memory(xs[0]), Math.min(...all.map((point) => point.y), Infinity)) : null,
    roof.measured && !top ? memory(xs[1]) : null,
  ], 1.8, 30);
  const lines = [];
  const slope = (bandwidth, end, line) => lines.push({
    type: "scatter", mode: "lines", hoverinfo: "skip", x: [xs[0] / 10, end], y: [bandwidth * xs[0] / 10, bandwidth * end], line,
  });
  const flat = (peak, line) => lines.push({
    type: "scatter", mode: "lines", hoverinfo: "skip", x: [peak / roof.measured, xs[1] * 10], y: [peak, peak], line,
  });
  if (roof.measured) {
    const end = top ? top / roof.measured : xs[1] * 10;
    if (roof.sheet) slope(roof.sheet, top ? top / roof.sheet : xs[1] * 10, { color: colour("soft"), width: 1.5, dash: "dot" });
    slope(roof.measured, end, { color: colour("roof"), width: 2.5 });
    roof.flats.forEach(([peak], index) => flat(peak, { color: colour("roof"), width: index ? 1.5 : 2.5, dash: index ? "dash" : "solid" }));
  }
  const ceilings = points.filter((point) => point.allowed > 0 && points.length <= MOST_STEMS);
  lines.push({
    type: "scatter", mode: "lines", hoverinfo: "skip", line: { color: colour("stem"), width: 1 },
    x: ceilings.flatMap((point) => [point.x, point.x, null]), y: ceilings.flatMap((point) => [point.y, point.allowed, null]),
  });
  const notes = roof.flats.map(([peak, dtype]) => ({
    xref: "paper", x: 1, xanchor: "right", y: Math.log10(peak), yanchor: "bottom", showarrow: false,
    text: `${dtype ? `${dtype} ` : "peak "}${flopsPerSecond(peak)}`, font: { size: 11, color: colour("soft") },
  }));
  const drawn = layout({
    xaxis: logAxis("arithmetic intensity (FLOP per byte)", xs), yaxis: logAxis("achieved", ys, "FLOP/s"), annotations: notes,
  });
  return Plotly.react(box, [...lines, ...verdictTraces(points)], drawn, CONFIG);
}

// The table of results: sorted by any column, filtered by words, verdict and device. What it shows, the charts show too.

const GRAVITY = ["bogus", "failed", "inconclusive", "bogus (caught)", "passed", "not measured"];
const gravity = (verdict) => { const place = GRAVITY.indexOf(verdict); return place < 0 ? GRAVITY.length : place; };
const PAGE = 100;

const COLUMNS = [
  { name: "Verdict", key: (row) => gravity(row.verdict), cell: (row) => verdictBadge(row.verdict) },
  { name: "Test", key: (row) => row.title, cell: testCell, kind: "test" },
  { name: "Device", key: (row) => row.deviceId, cell: (row) => row.deviceId || NOTHING, kind: "wide" },
  { name: "Of the ceiling", key: (row) => row.fraction, cell: fractionCell, isFigure: true },
  { name: "Pass", key: (row) => row.step_s, cell: (row) => seconds(row.step_s), isFigure: true, kind: "middle" },
  { name: "tok/s", key: (row) => row.tokens_per_s, cell: (row) => rate(row.tokens_per_s), isFigure: true, kind: "middle" },
  { name: "Bytes per pass", key: (row) => row.traffic?.bytes_per_pass, cell: (row) => bytes(row.traffic?.bytes_per_pass), isFigure: true, kind: "wide" },
  { name: "Bound by", key: (row) => row.ceiling?.bound, cell: (row) => row.ceiling?.bound ?? NOTHING, kind: "wide" },
];

// The last part of a test's id is what tells it apart; the file before it stands smaller.
function nameParts(row) {
  const id = row.test || "(a test without a name)";
  const cut = id.indexOf("::");
  const name = cut < 0 ? id : id.slice(cut + 2);
  return { file: cut < 0 ? "" : id.slice(0, cut), name, part: row.of?.[1] > 1 ? row.label || `${row.of[0]} of ${row.of[1]}` : "" };
}

const clipped = (text, most = 160) => text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;

function shortName(row) {
  const { name, part } = nameParts(row);
  return clipped(part ? `${name}: ${part}` : name, 90);
}

function testCell(row) {
  const { file, name, part } = nameParts(row);
  return [
    el("a", { class: "open", href: `#${row.anchor}` }, el("bdi", {}, clipped(name)), part && el("bdi", { class: "part" }, clipped(part, 60))),
    file && el("bdi", { class: "file" }, clipped(file, 100)),
  ];
}

function fractionCell(row) {
  if (!isNumber(row.fraction)) return NOTHING;
  const width = Math.max(0, Math.min(1, row.fraction)) * 100;
  const bar = el("span", { class: `bar ${CLASSES[known(row.verdict)]}`, "aria-hidden": "true" }, el("span", { class: "fill" }));
  bar.firstChild.style.width = `${width}%`;
  if (isNumber(row.at_least) && row.at_least <= 1) {
    const goal = el("span", { class: "goal" });
    goal.style.left = `${row.at_least * 100}%`;
    bar.append(goal);
  }
  return el("span", { class: "fraction" }, bar, el("span", {}, percent(row.fraction)));
}

function resultsTable(state, onChange) {
  const body = el("tbody");
  const said = el("p", { class: "said", role: "status" });
  const more = el("div", { class: "more" });
  let most = PAGE;
  const heads = COLUMNS.map((column) => {
    const button = el("button", { type: "button", onclick: () => sort(column) }, el("span", {}, column.name), el("span", { class: "arrow", "aria-hidden": "true" }));
    return el("th", { scope: "col", class: [column.isFigure && "figure", column.kind].filter(Boolean).join(" ") || null }, button);
  });

  function sort(column) {
    const isSame = state.sort.column === column;
    // Figures are asked for by their extremes: the first click on one shows the smallest.
    state.sort = { column, isUp: isSame ? !state.sort.isUp : true };
    draw();
    onChange();
  }

  function draw(isMore = false) {
    if (!isMore) most = PAGE;
    const rows = state.visible();
    COLUMNS.forEach((column, index) => {
      const isOwn = state.sort.column === column;
      heads[index].setAttribute("aria-sort", isOwn ? (state.sort.isUp ? "ascending" : "descending") : "none");
    });
    replace(body, rows.slice(0, most).map((row) => el("tr", { "data-row": row.number, onclick: (event) => openRow(event, row) },
      COLUMNS.map((column) => el("td", { class: [column.isFigure && "figure", column.kind].filter(Boolean).join(" ") || null }, column.cell(row))))));
    const all = state.rows.length;
    replace(said, rows.length === all ? counted(all, "result") : `${rows.length.toLocaleString("en-US")} of ${counted(all, "result")}`);
    const left = rows.length - most;
    replace(more, left > 0 && [
      el("button", { type: "button", class: "plain", onclick: () => { most += PAGE; draw(true); } }, `Show ${Math.min(PAGE, left)} more`),
      left > PAGE && el("button", { type: "button", class: "plain", onclick: () => { most = Infinity; draw(true); } }, `Show all ${rows.length.toLocaleString("en-US")}`),
    ], rows.length === 0 && el("div", { class: "empty" },
      el("p", {}, all ? "No result matches these filters." : "There are no results in this file."),
      all > 0 && el("button", { type: "button", class: "plain", onclick: state.clear }, "Clear filters")));
  }

  function openRow(event, row) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || String(getSelection())) return;
    event.preventDefault();
    state.open(row);
  }

  const element = el("div", {},
    el("div", { class: "scrolls flush", tabindex: -1 }, el("table", { class: "results" },
      el("caption", { class: "unseen" }, "Results, one row each; the headings sort"),
      el("thead", {}, el("tr", {}, heads)), body)),
    more);
  return { element, said, draw };
}

// One toggle for each verdict that occurs: all of them pressed, or the chosen ones.
function verdictFilter(state, counts, onChange) {
  const buttons = VERDICTS.filter((verdict) => counts.get(verdict)).map((verdict) => {
    const button = el("button", {
      type: "button", class: `tile ${CLASSES[verdict]}`, "aria-pressed": "false",
      onclick: () => { state.verdicts.has(verdict) ? state.verdicts.delete(verdict) : state.verdicts.add(verdict); onChange(); },
    }, el("span", { class: "count" }, counts.get(verdict).toLocaleString("en-US")), el("span", { class: "word" }, mark(verdict), verdict));
    return [verdict, button];
  });
  return {
    element: el("div", { class: "tiles", role: "group", "aria-label": "Show only results with these verdicts" }, buttons.map(([, button]) => button)),
    draw: () => buttons.forEach(([verdict, button]) => button.setAttribute("aria-pressed", String(state.verdicts.has(verdict)))),
  };
}

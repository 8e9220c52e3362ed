// Views over time, and the brush that chooses the window of the diagram below.

function drawBands(run, state) {
  const host = byId("bands");
  const all = [0, run.span];
  const m = measures(host, run, all, laneHeight(run, 32));
  const bands = bandNodes(run, m, state);
  const bottom = m.bottom;
  const figure = svg("svg", {
    viewBox: `0 0 ${m.width} ${bottom + 26}`, height: bottom + 26, role: "group",
    "aria-label": `Views of ${plural(run.lanes.length, "member")} over ${lasting(run.span)}. `
      + "Arrow keys go from band to band, Enter shows a band in the diagram below.",
  },
    hatch(),
    run.lanes.map((_, i) => svg("line", {
      class: "lane", x1: m.left, x2: m.right, y1: m.y(i) + m.lane / 2, y2: m.y(i) + m.lane / 2 })),
    lifeLines(run, m), svg("g", { id: "band-list" }, bands.map((band) => band.node)),
    changeNodes(run, m), markNodes(run, m), laneNames(m, run), timeAxis(m, all, bottom),
    brush(run, m, state, bottom));
  host.replaceChildren(figure);
  walkable(bands);
  brushable(figure, run, m, state);
  drawLegend(run);
  drawViews(run, state);
}

function bandNodes(run, m, state) {
  const { life, view, begin, end, count } = run.bands;
  const order = life.map((_, i) => i)
    .sort((i, j) => run.lives[life[i]].lane - run.lives[life[j]].lane || begin[i] - begin[j]);
  return order.map((i) => {
    const lane = run.lives[life[i]].lane;
    const x = m.x(begin[i]);
    const width = Math.max(1.5, m.x(end[i]) - x);
    const known = run.views[view[i]];
    const lines = () => bandLines(run, i);
    const kind = known ? `v${known.tone}${known.members.length === 1 ? " alone" : ""}` : "many";
    const node = svg("g", {
      class: `band ${kind}`, tabindex: -1, role: "button", "data-lane": lane,
      "data-view": known ? known.label : "", "aria-label": lines().join(". "),
    },
      svg("rect", { x, y: m.y(lane), width, height: m.lane, rx: Math.min(3, width / 3) }),
      known && width > 7 + 7 * known.label.length
        ? svg("text", { x: x + width / 2, y: m.y(lane) + m.lane / 2 + 4.5 }, known.label) : null);
    const choose = () => state.choose(...padded(begin[i], end[i], run.span));
    node.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); }
    });
    tipped(node, lines);
    return { node, lane, begin: begin[i], choose };
  });
}

function bandLines(run, i) {
  const { life, view, begin, end, count } = run.bands;
  const who = shown(lifeName(run, life[i]));
  const when = `${instant(begin[i], run.span)} to ${instant(end[i], run.span)} (${lasting(end[i] - begin[i])})`;
  const known = run.views[view[i]];
  if (!known) return [`${who}: ${plural(count[i], "view")} too short to draw`, when];
  const cause = { boot: "first view", join: "members joined", removal: "members were removed" }[known.cause];
  const members = known.members.length === 1 ? "alone" : names(run, known.members);
  return [`View ${known.label} · ${known.view}`, members, `${who}: ${when}`, cause];
}

const padded = (a, b, span) => {
  const room = Math.max((b - a) * 0.04, span / 500);
  return [Math.max(0, a - room), Math.min(span, b + room)];
};

// Where a journal ends early, a dotted line goes on to the moment the others let the member go.
function lifeLines(run, m) {
  return run.removals.filter((r) => run.lives[r.life].ended !== "ABSENT" && r.at > run.lives[r.life].end)
    .map((r) => {
      const { lane, end } = run.lives[r.life];
      const y = m.y(lane) + m.lane / 2;
      return svg("line", { class: "life-line", x1: m.x(end), x2: m.x(r.at), y1: y, y2: y });
    });
}

function changeNodes(run, m) {
  const { life, begin, end } = run.changes;
  return svg("g", { "aria-hidden": "true" }, life.map((who, i) => svg("rect", {
    class: "changing", x: m.x(begin[i]), width: Math.max(1, m.x(end[i]) - m.x(begin[i])),
    y: m.y(run.lives[who].lane) + m.lane - 4, height: 4 })));
}

const SIGNS = {
  CRASH: (x, y) => svg("path", { class: "mark crash", d: `M${x - 5} ${y - 5}l10 10M${x - 5} ${y + 5}l10 -10` }),
  OPEN: (x, y) => svg("path", { class: "mark crash", d: `M${x + 1} ${y - 8}v16`, "stroke-dasharray": "2 3.5" }),
  STOP: (x, y) => svg("circle", { class: "mark", cx: x + 1, cy: y, r: 4 }),
  removed: (x, y) => svg("path", { class: "mark removed", d: `M${x - 5} ${y - 4}h10l-5 8z` }),
  left: (x, y) => svg("path", { class: "mark left", d: `M${x - 5} ${y - 4}h10l-5 8z` }),
};
const ENDS = {
  CRASH: "crashed", OPEN: "journal just ends: killed, or lives on", STOP: "left",
};

const willing = (removal) => removal.fate === "LEFT" || removal.fate === "STOPPED";

function markNodes(run, m) {
  const found = [];
  run.lives.forEach((life, i) => {
    if (life.ended === "ABSENT") return;
    const y = m.y(life.lane) + m.lane / 2;
    const sign = SIGNS[life.ended](m.x(life.end), y);
    found.push(tipped(svg("g", {}, sign, svg("rect", { class: "hit", x: m.x(life.end) - 7, y: y - 9, width: 14, height: 18 })),
      () => [`${shown(lifeName(run, i))}: ${ENDS[life.ended]}`, instant(life.end, run.span)]));
  });
  for (const r of run.removals) {
    const sign = SIGNS[willing(r) ? "left" : "removed"](m.x(r.at), m.y(run.lives[r.life].lane) - 1);
    found.push(tipped(sign, () => [
      `${shown(lifeName(run, r.life))} was removed by ${listed(r.by)}`,
      `${instant(r.at, run.span)}; ${FATES[r.fate] || r.fate}`]));
  }
  return svg("g", { "aria-hidden": "true" }, found);
}

// One tab stop for all bands; arrows go along a lane and from lane to lane.
function walkable(bands) {
  if (bands.length === 0) return;
  bands[0].node.setAttribute("tabindex", 0);
  const go = (from, to) => {
    if (!to) return;
    from.node.setAttribute("tabindex", -1);
    to.node.setAttribute("tabindex", 0);
    to.node.focus();
  };
  bands.forEach((band, i) => band.node.addEventListener("keydown", (event) => {
    const beside = (step) => {
      const lanes = bands.filter((b) => b.lane === band.lane + step);
      return lanes.filter((b) => b.begin <= band.begin).pop() || lanes[0];
    };
    const to = { ArrowRight: bands[i + 1], ArrowLeft: bands[i - 1], ArrowDown: beside(1), ArrowUp: beside(-1) }[event.key];
    if (to) { event.preventDefault(); go(band, to); }
  }));
}

function brush(run, m, state, bottom) {
  const [a, b] = state.window;
  const x1 = m.x(a), x2 = Math.max(m.x(b), m.x(a) + 1);
  const apart = x2 - x1 < 16 ? 5 : 0; // of a narrow window the grips stand outside
  const grip = (which, x, at) => svg("rect", {
    class: "grip screen", id: `grip-${which}`, x: x - 3 + (which === "begin" ? -apart : apart), y: bottom / 2 - 16, width: 6, height: 32, rx: 3,
    tabindex: 0, role: "slider", "aria-label": `${which === "begin" ? "Begin" : "End"} of the window`,
    "aria-valuemin": 0, "aria-valuemax": run.span, "aria-valuenow": Math.round(at),
    "aria-valuetext": instant(at, run.span),
  });
  return svg("g", { id: "brush" },
    svg("rect", { class: "brush", x: x1, width: x2 - x1, y: 0.5, height: bottom - 1 }),
    grip("begin", x1, a), grip("end", x2, b));
}

function brushable(figure, run, m, state) {
  let from = null, edge = null, moved = false;
  const at = (event) => {
    const box = figure.getBoundingClientRect();
    const t = m.t((event.clientX - box.left) * (m.width / box.width));
    return Math.max(0, Math.min(run.span, t));
  };
  figure.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    from = at(event);
    moved = false;
    edge = { "grip-begin": state.window[1], "grip-end": state.window[0] }[event.target.id] ?? null;
  });
  figure.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const now = at(event);
    if (!moved && Math.abs(m.x(now) - m.x(from)) < 4) return;
    if (!moved) figure.setPointerCapture(event.pointerId);
    moved = true;
    hideTip();
    const other = edge ?? from;
    state.preview(Math.min(other, now), Math.max(other, now));
    replaceBrush(figure, run, m, state);
  });
  figure.addEventListener("pointerup", (event) => {
    if (from !== null && !moved) {
      const band = event.target.closest(".band");
      if (band) band.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    }
    if (moved) state.choose(...state.window);
    from = null;
  });
  figure.addEventListener("pointercancel", () => { from = null; });
  figure.addEventListener("keydown", (event) => {
    const which = { "grip-begin": 0, "grip-end": 1 }[event.target.id];
    const sign = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (which === undefined || sign === undefined) return;
    event.preventDefault();
    const next = [...state.window];
    next[which] += sign * run.span * (event.shiftKey ? 0.05 : 0.005);
    state.choose(Math.min(...next), Math.max(...next));
    byId(event.target.id).focus();
  });
}

function replaceBrush(figure, run, m, state) {
  const focused = document.activeElement && document.activeElement.id;
  figure.querySelector("#brush").replaceWith(brush(run, m, state, m.bottom));
  if (focused === "grip-begin" || focused === "grip-end") byId(focused).focus();
}

function drawLegend(run) {
  const item = (sign, text) => el("li", {}, svg("svg", { "aria-hidden": "true", viewBox: "0 0 26 14" }, sign), text);
  const ends = new Set(run.lives.map((life) => life.ended));
  byId("bands-legend").replaceChildren(...[
    run.views.some((v) => v.members.length === 1)
      && item(svg("g", { class: "band alone v0" }, svg("rect", { width: 26, height: 14, rx: 3 })), "alone in its view"),
    run.changes.life.length > 0 && item(svg("rect", { class: "changing", y: 8, width: 26, height: 4 }), "a change of views is under way"),
    run.removals.some((r) => !willing(r)) && item(SIGNS.removed(13, 7), "removed by others"),
    run.removals.some(willing) && item(SIGNS.left(13, 7), "let go by the others: it left"),
    ends.has("CRASH") && item(SIGNS.CRASH(13, 7), "crash"),
    ends.has("OPEN") && item(SIGNS.OPEN(13, 7), "its journal just ends: killed, or lives on"),
    ends.has("STOP") && item(SIGNS.STOP(12, 7), "it stopped"),
    run.bands.count.some((n) => n > 1)
      && item(svg("g", { class: "band many" }, svg("rect", { width: 26, height: 14 })), "many short views"),
  ].flat().filter(Boolean));
}

function drawViews(run, state) {
  const rows = run.views.map((view) => [
    [chip(view), " ", el("code", {}, view.view)],
    { boot: "first", join: "join", removal: "removal" }[view.cause] || view.cause,
    name(names(run, view.members)), num(String(view.members.length)),
    num(instant(view.begin, run.span)), num(instant(view.end, run.span)),
    el("button", { type: "button", class: "screen", "aria-label": `Show view ${view.label} in the diagram`, onclick: () => state.choose(...padded(view.begin, view.end, run.span), true) }, "show"),
  ]);
  const cut = run.bands.total > run.bands.life.length
    ? `Of ${whole(run.bands.total)} installations the longest are listed one by one.` : null;
  byId("views-table").querySelector(".scroll").replaceChildren(
    table(["View", "Cause", "Members", num("Size"), num("From"), num("To"), ""], rows, cut));
}

// Sends and deliveries between the lanes in the chosen window, views and suspicions behind them.

const LINES_MAX = 4000;
const EVENTS_MAX = 300;

function drawDiagram(run, state) {
  const host = byId("diagram");
  const [a, b] = state.window;
  const m = measures(host, run, state.window, laneHeight(run, 46));
  const flows = within(run, state);
  const drawn = flows.lines.length > LINES_MAX
    ? flows.lines.filter((_, i) => i % Math.ceil(flows.lines.length / LINES_MAX) === 0) : flows.lines;
  const lines = lineNodes(run, m, drawn);
  const figure = svg("svg", {
    class: drawn.length > 300 ? "dense" : null,
    viewBox: `0 0 ${m.width} ${m.bottom + 26}`, height: m.bottom + 26, role: "img",
    "aria-label": `Space-time diagram from ${instant(a, b - a)} to ${instant(b, b - a)}: `
      + `${plural(flows.sends.length, "sent range")}, ${plural(flows.lines.length, "delivery", "deliveries")}. `
      + "The list below tells the same.",
  },
    svg("clipPath", { id: "inside" }, svg("rect", { x: m.left, y: 0, width: m.right - m.left, height: m.bottom })),
    svg("g", { "clip-path": "url(#inside)" },
      backs(run, m, a, b), lines.nodes, doubts(run, m, a, b), installs(run, m, a, b)),
    laneNames(m, run), timeAxis(m, state.window, m.bottom),
    flows.sends.length + flows.doubts.length + flows.installs.length === 0 ? svg("text", {
      class: "empty", x: (m.left + m.right) / 2, y: m.bottom / 2 }, "Nothing was sent in this window") : null);
  host.replaceChildren(figure);
  hoverLines(figure, run, m, drawn, lines.top);
  tellWindow(run, state, flows, drawn.length);
  drawSigns(run, flows);
  byId("events").ontoggle = () => listEvents(run, state);
  listEvents(run, state);
}

function drawSigns(run, flows) {
  const minds = new Set(flows.doubts.map((i) => run.suspicions.state[i]));
  const item = (sign, text) => el("li", {}, svg("svg", { viewBox: "0 0 26 14", "aria-hidden": "true" }, sign), text);
  const diamond = (kind) => svg("path", { class: `doubt-mark ${kind}`, d: "M13 2l5 5l-5 5l-5 -5z" });
  byId("diagram-legend").replaceChildren(...[
    flows.installs.length > 0 && item(svg("line", { class: "install", x1: 13, x2: 13, y1: 0, y2: 14 }), "a view is installed"),
    (minds.has("SUSPECTED") || minds.has("SEMI")) && item(diamond(""), "suspects the member at the end of the dotted line"),
    minds.has("FAULTY") && item(diamond("faulty"), "holds it faulty"),
    minds.has("OPERATIONAL") && item(diamond("trust"), "trusts it again"),
  ].filter(Boolean));
}

// What lies in the window: indices of sends, deliveries of them, suspicions and installations.
function within(run, state) {
  const [a, b] = state.window;
  const inside = (t) => t >= a && t <= b;
  const { sends, deliveries, suspicions, bands } = run;
  const wanted = sends.service.map((service) => state.services[service]);
  const lines = [];
  for (let i = 0; i < deliveries.at.length; i += 1) {
    const s = deliveries.send[i];
    if (wanted[s] && sends.at[s] <= b && deliveries.at[i] >= a) lines.push(i);
  }
  const where = (times) => times.map((_, i) => i).filter((i) => inside(times[i]));
  return {
    lines, sends: where(sends.at).filter((i) => wanted[i]), doubts: where(suspicions.at),
    installs: where(bands.begin).filter((i) => bands.view[i] >= 0),
  };
}

function ends(run, m, i) {
  const s = run.deliveries.send[i];
  const from = run.lives[run.sends.life[s]].lane, to = run.lives[run.deliveries.life[i]].lane;
  return [m.x(run.sends.at[s]), m.y(from) + m.lane / 2, m.x(run.deliveries.at[i]), m.y(to) + m.lane / 2];
}

// A path for each service, not a node for each line: thousands of lines stay quick.
function lineNodes(run, m, drawn) {
  const paths = page.services.map(() => []), dots = page.services.map(() => []);
  const r = 2.1;
  for (const i of drawn) {
    const service = run.sends.service[run.deliveries.send[i]];
    const [x1, y1, x2, y2] = ends(run, m, i);
    if (y1 === y2) paths[service].push(`M${x1.toFixed(1)} ${y1}q${((x2 - x1) / 2).toFixed(1)} ${-m.lane * 0.5} ${(x2 - x1).toFixed(1)} 0`);
    else paths[service].push(`M${x1.toFixed(1)} ${y1}L${x2.toFixed(1)} ${y2}`);
    dots[service].push(`M${(x2 - r).toFixed(1)} ${y2}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`);
  }
  const top = svg("g", {});
  const nodes = page.services.map((_, k) => paths[k].length ? [
    svg("path", { class: `line s${k}`, d: paths[k].join(""), "data-lines": paths[k].length }),
    svg("path", { class: `dot s${k}`, d: dots[k].join("") })] : []);
  return { nodes: [nodes, top], top };
}

function backs(run, m, a, b) {
  const { life, view, begin, end } = run.bands;
  const lanes = run.lanes.map((_, i) => svg("line", {
    class: "lane", x1: m.left, x2: m.right, y1: m.y(i) + m.lane / 2, y2: m.y(i) + m.lane / 2 }));
  const rects = life.map((who, i) => {
    const known = run.views[view[i]];
    if (!known || end[i] < a || begin[i] > b) return null;
    const x = Math.max(m.left, m.x(begin[i]));
    return svg("rect", {
      class: `back v${known.tone}${known.members.length === 1 ? " alone" : ""}`,
      x, width: Math.max(1, Math.min(m.right, m.x(end[i])) - x), y: m.y(run.lives[who].lane), height: m.lane });
  });
  return [rects, lanes];
}

function installs(run, m, a, b) {
  const { life, view, begin, end } = run.bands;
  return life.map((who, i) => {
    const known = run.views[view[i]];
    if (!known || begin[i] > b || end[i] < a) return null;
    const y = m.y(run.lives[who].lane);
    const x = m.x(begin[i]);
    const label = Math.max(x, m.left) + 4;
    return svg("g", {},
      begin[i] >= a ? svg("line", { class: "install", x1: x, x2: x, y1: y, y2: y + m.lane }) : null,
      m.x(Math.min(end[i], b)) - Math.max(x, m.left) > 12 && m.lane > 20
        ? svg("text", { class: "install-label", x: label, y: y + 11 }, known.label) : null);
  });
}

const TRUST = { OPERATIONAL: "trust", FAULTY: "faulty" };

function doubts(run, m, a, b) {
  const { life, target, at, state, evidence } = run.suspicions;
  return at.map((t, i) => {
    if (t < a || t > b) return null;
    const y1 = m.y(run.lives[life[i]].lane) + m.lane / 2, y2 = m.y(run.lives[target[i]].lane) + m.lane / 2;
    const x = m.x(t);
    const mark = svg("path", { class: `doubt-mark ${TRUST[state[i]] || ""}`, d: `M${x} ${y1 - 5}l5 5l-5 5l-5 -5z` });
    return svg("g", {}, svg("line", { class: "doubt", x1: x, x2: x, y1, y2 }), tipped(mark, () => doubtLines(run, i)));
  });
}

function doubtLines(run, i) {
  const { life, target, at, state, evidence } = run.suspicions;
  const who = shown(lifeName(run, life[i])), whom = shown(lifeName(run, target[i]));
  return [`${who} ${MINDS[state[i]] || state[i]} ${whom}`, `evidence: ${(EVIDENCE[evidence[i]] || evidence[i])}`, instant(at[i], run.span / 50)];
}

const MINDS = { OPERATIONAL: "trusts again", SUSPECTED: "suspects", SEMI: "reaches only through others", FAULTY: "holds faulty" };
const EVIDENCE = {
  SILENCE: "silence", RELAY: "heard through another",
  DIRECT: "heard directly", STALLED: "it does not go on", T_CHANGE: "the change took too long", TOLD: "reported by others",
  MOVED: "it is in another view", REPLACED: "a later process has its name", OPERATOR: "an operator wants it out",
};

function flowLines(run, i) {
  const s = run.deliveries.send[i];
  const { first, count, service, life, at } = run.sends;
  const range = count[s] > 1 ? `#${whole(first[s])} to ${whole(first[s] + count[s] - 1)}` : `#${whole(first[s])}`;
  const by = run.lives[life[s]], to = run.lives[run.deliveries.life[i]];
  const took = by.machine === to.machine ? lasting(run.deliveries.at[i] - at[s]) : "not known (two clocks)";
  return [`${shown(lifeName(run, life[s]))} ${range}, ${page.services[service[s]].toLowerCase()}`,
    `delivered by ${shown(lifeName(run, run.deliveries.life[i]))}`,
    `sent ${instant(at[s], run.span / 50)}, took ${took}`];
}

// The nearest line within a few pixels of the pointer is described, and its whole fan-out drawn bold.
function hoverLines(figure, run, m, drawn, top) {
  const segments = drawn.map((i) => ends(run, m, i));
  const far = (x, y, [x1, y1, x2, y2]) => {
    const dx = x2 - x1, dy = y2 - y1, size = dx * dx + dy * dy || 1;
    const k = Math.max(0, Math.min(1, ((x - x1) * dx + (y - y1) * dy) / size));
    return Math.hypot(x - x1 - k * dx, y - y1 - k * dy);
  };
  let last = -1;
  const clear = () => { last = -1; top.replaceChildren(); figure.classList.remove("faded"); };
  figure.addEventListener("pointermove", (event) => {
    if (event.target.closest(".doubt-mark")) return;
    const box = figure.getBoundingClientRect();
    const x = (event.clientX - box.left) * (m.width / box.width), y = event.clientY - box.top;
    let best = -1, least = 7;
    segments.forEach((segment, k) => {
      const d = far(x, y, segment);
      if (d < least) { least = d; best = k; }
    });
    if (best < 0) { if (last >= 0) { clear(); hideTip(); } return; }
    showTip(flowLines(run, drawn[best]), { x: event.clientX, y: event.clientY });
    if (best === last) return;
    last = best;
    const send = run.deliveries.send[drawn[best]];
    const fan = drawn.map((i, k) => (run.deliveries.send[i] === send ? segments[k] : null)).filter(Boolean);
    figure.classList.add("faded");
    top.replaceChildren(svg("path", {
      class: `line bold s${run.sends.service[send]}`,
      d: fan.map(([x1, y1, x2, y2]) => `M${x1} ${y1}L${x2} ${y2}`).join("") }));
  });
  figure.addEventListener("pointerleave", () => { clear(); hideTip(); });
}

// What the window holds, and honestly what share of it is drawn.
function tellWindow(run, state, flows, drawn) {
  const [a, b] = state.window;
  byId("window").replaceChildren(
    el("b", {}, `${instant(a, b - a)} to ${instant(b, b - a)}`), ` · ${lasting(b - a)} of ${lasting(run.span)}`);
  const kept = flows.sends.length;
  const messages = flows.sends.reduce((sum, i) => sum + run.sends.count[i], 0);
  const all = run.sends.total <= run.sends.at.length;
  const off = state.services.some((on) => !on) ? " of the services chosen" : "";
  const parts = [];
  if (kept + flows.lines.length === 0) {
    parts.push(`Nothing was sent in this window${off}.`);
  } else if (all) {
    parts.push(`All ${plural(kept, "range")} sent in this window${off} ${kept === 1 ? "is" : "are"} drawn (${plural(messages, "message")}).`);
  } else {
    const width = run.throughput.bucket_us;
    const total = run.sends.total_by_bucket.reduce((sum, n, i) => {
      const overlap = Math.min(b, (i + 1) * width) - Math.max(a, i * width);
      return sum + (overlap > 0 ? n * (overlap / width) : 0);
    }, 0);
    parts.push(`A sample: ${whole(kept)} of about ${plural(Math.max(kept, total), "range")} sent in this window `
      + `(${percent(Math.min(1, kept / Math.max(1, total, kept)))}), chosen by a hash, at most equally many of each of `
      + `${run.sends.total_by_bucket.length} stretches of the run.`);
  }
  if (flows.lines.length === 0) parts.push("");
  else if (drawn < flows.lines.length) parts.push(` ${whole(drawn)} of ${whole(flows.lines.length)} deliveries of them are drawn.`);
  else parts.push(` ${plural(flows.lines.length, "delivery of them is", "deliveries of them are")} drawn.`);
  if (run.suspicions.total > run.suspicions.at.length) {
    parts.push(` ${whole(run.suspicions.at.length)} of ${whole(run.suspicions.total)} changes of mind of the detectors are kept.`);
  }
  if (run.lives.some((life) => life.ended === "OPEN" || life.ended === "ABSENT" || life.torn)) {
    parts.push(" What was sent by a member and is missing in its journal has no line.");
  }
  byId("share").textContent = parts.join("");
}

function listEvents(run, state) {
  const details = byId("events");
  if (!details.open) return;
  const flows = within(run, state);
  const events = [];
  for (const i of flows.sends) {
    const { first, count, service, life, at } = run.sends;
    const what = `${page.services[service[i]].toLowerCase()} #${whole(first[i])}` + (count[i] > 1 ? ` to ${whole(first[i] + count[i] - 1)}` : "");
    events.push([at[i], life[i], "sends", what]);
  }
  for (const i of flows.lines) {
    const s = run.deliveries.send[i];
    events.push([run.deliveries.at[i], run.deliveries.life[i], "delivers", `#${whole(run.sends.first[s])} of ${shown(lifeName(run, run.sends.life[s]))}`]);
  }
  for (const i of flows.doubts) {
    const { life, target, at, state: mind, evidence } = run.suspicions;
    const what = `${shown(lifeName(run, target[i]))} (${EVIDENCE[evidence[i]] || evidence[i]})`;
    events.push([at[i], life[i], MINDS[mind[i]] || mind[i], what]);
  }
  for (const i of flows.installs) {
    const view = run.views[run.bands.view[i]];
    events.push([run.bands.begin[i], run.bands.life[i], "installs", `view ${view.label} (${view.view}): ${names(run, view.members)}`]);
  }
  events.sort((p, q) => p[0] - q[0] || p[1] - q[1]);
  const rows = events.slice(0, EVENTS_MAX).map(([at, life, kind, what]) =>
    [num(instant(at, (state.window[1] - state.window[0]) / 10)), name(lifeName(run, life)), kind, name(what)]);
  const caption = events.length > EVENTS_MAX ? `The first ${EVENTS_MAX} of ${whole(events.length)}; zoom in for the others.` : null;
  details.querySelector(".scroll").replaceChildren(table([num("At"), "Member", "Does", "What"], rows, caption));
}

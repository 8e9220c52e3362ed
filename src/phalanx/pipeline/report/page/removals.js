// Removals with their evidence. Members that left the same view for the same reason are one entry.

const MIND = {
  OPERATIONAL: "trusts it again", SUSPECTED: "suspects it", SEMI: "reaches it only through others", FAULTY: "holds it faulty",
  START: "begins a change", FORGET: "gives the change up", COMMIT: "proposes a merged view without it",
  FA: "proposes to go on without it", FOLLOW: "follows another's proposal", CLOSED: "closes the old view",
  LEAVE: "leaves", INSTALL: "installs the next view", MARKER: "deliveries become transitional",
};
const PILLS = {
  LEFT: ["good", "left"], STOPPED: ["good", "stopped"], CRASHED: ["bad", "crashed"], ENDED: ["bad", "fell silent"],
  APART: ["", "parted"], NEVER: ["", "never came"], UNKNOWN: ["", "not known"],
};
const FATES = {
  LEFT: "it left by itself", STOPPED: "its journal ends in that view, with a stop", CRASHED: "it had crashed",
  ENDED: "its journal just ends: killed, or lives on unread", APART: "it was alive and went on without them",
  NEVER: "it never installed that view itself", UNKNOWN: "there is no journal of it that tells",
};

function drawRemovals(run, state) {
  const groups = new Map();
  for (const removal of run.removals) {
    const key = [removal.view, removal.next_view, removal.fate, removal.by.join("\n")].join("|");
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(removal);
  }
  const parts = [...groups.values()].map((group, i) => removalNode(run, state, group, i === 0));
  if (run.removals.length === 0) parts.push(el("p", { class: "note" }, "Nobody was removed from a view."));
  if (run.removals_total > run.removals.length) {
    parts.push(el("p", { class: "note" }, `The first ${run.removals.length} of ${whole(run.removals_total)} removals.`));
  }
  byId("removal-list").replaceChildren(...parts);
  drawChains(run);
}

function removalNode(run, state, group, open) {
  const [first] = group;
  const took = Math.max(...group.map((r) => r.took));
  const lead = Math.max(...group.map((r) => r.lead));
  const [tone, word] = PILLS[first.fate] || ["", first.fate];
  const view = run.views[first.view], next = run.views[first.next_view];
  const whom = listed(group.map((r) => lifeName(run, r.life)));
  const look = () => state.choose(...padded(first.at - lead, first.at - lead + took, run.span), true);
  const steps = chain(run, group);
  const node = el("details", { class: "removal", open },
    el("summary", {},
      el("span", {}, el("bdi", { class: "who" }, whom), " removed by ", el("bdi", {}, listed(first.by)), " ",
        el("span", { class: `pill ${tone}` }, word)),
      el("span", { class: "took" }, took > 0 ? lasting(took) : "at once"),
      el("span", { class: "how" }, "at ", instant(first.at, run.span), ", ",
        view ? [chip(view), " → "] : null, next ? chip(next) : "a next view", "; ", FATES[first.fate] || first.fate)),
    el("div", { class: "inside" },
      el("p", { class: "note" }, summed(group), " ",
        el("button", { type: "button", class: "screen", onclick: look }, "Show in the diagram")),
      el("div", { class: "evidence" },
        el("div", { class: "figure strip" }),
        steps.length ? evidenceTable(group, steps) : null)));
  node.steps = { steps, took: Math.max(took, 1) };
  node.addEventListener("toggle", () => drawChains(run));
  return node;
}

function summed(group) {
  const steps = group.flatMap((r) => r.steps);
  const doubts = steps.filter((s) => s.evidence);
  if (steps.length === 0) return "No step of it is in the journals.";
  const who = [...new Set(doubts.map((s) => s.who))];
  const why = [...new Set(doubts.map((s) => EVIDENCE[s.evidence] || s.evidence))];
  if (who.length === 0) return "No suspicion here: another member reported it.";
  return `Suspected by ${listed(who)}; evidence: ${why.join(", ")}.`;
}

function chain(run, group) {
  const origin = Math.max(...group.map((r) => r.lead));
  const steps = group.flatMap((r) => r.steps.map((s) => ({ ...s, at: s.at + origin - r.lead, whom: lifeName(run, r.life) })));
  // A step that names several of them, and an installation, are listed once.
  const known = new Map();
  for (const step of steps) {
    const key = [step.at, step.who, step.what, step.evidence ? step.whom : ""].join("|");
    if (!known.has(key)) known.set(key, step);
    else if (!step.evidence) known.get(key).whom = null;
  }
  return [...known.values()].sort((p, q) => p.at - q.at);
}

function evidenceTable(group, steps) {
  const several = group.length > 1;
  const total = group.reduce((sum, r) => sum + r.steps_total, 0), listed = group.reduce((sum, r) => sum + r.steps.length, 0);
  const rows = steps.map((s) => [
    num(`+${lasting(s.at)}`), name(s.who),
    [MIND[s.what] || s.what, s.evidence ? ` (${EVIDENCE[s.evidence] || s.evidence})` : ""],
    ...(several ? [s.evidence && s.whom ? name(s.whom) : ""] : []),
  ]);
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Evidence" },
    table([num("After"), "Member", "What", ...(several ? ["About"] : [])], rows,
      total > listed ? `${listed} of ${whole(total)} steps.` : null));
}

const STEP_SIGNS = {
  SUSPECTED: (x, y) => svg("path", { class: "doubt-mark", d: `M${x} ${y - 5}l5 5l-5 5l-5 -5z` }),
  FAULTY: (x, y) => svg("path", { class: "doubt-mark faulty", d: `M${x} ${y - 5}l5 5l-5 5l-5 -5z` }),
  INSTALL: (x, y) => svg("line", { class: "install", x1: x, x2: x, y1: y - 9, y2: y + 9 }),
  other: (x, y) => svg("circle", { class: "step-mark", cx: x, cy: y, r: 3.5 }),
};

// The same steps as a picture: a lane for each member that took part. Drawn when it is opened.
function drawChains(run) {
  for (const node of document.querySelectorAll("details.removal[open]")) {
    const host = node.querySelector(".strip"), { steps, took } = node.steps;
    const width = host.clientWidth;
    if (steps.length === 0 || width === 0) { host.hidden = steps.length === 0; continue; }
    const who = [...new Set(steps.map((s) => s.who))].sort().slice(0, 24);
    const left = Math.min(96, 16 + 7.6 * Math.max(...who.map((w) => [...shown(w)].length)));
    const right = width - 12, row = 24, bottom = 6 + row * who.length;
    const x = (t) => left + 8 + (t / took) * (right - left - 8);
    const m = { left, right, x };
    host.replaceChildren(svg("svg", {
      viewBox: `0 0 ${width} ${bottom + 24}`, height: bottom + 24, role: "img",
      "aria-label": "The steps of the table over time, by member.",
    },
      who.map((w, i) => {
        const y = 6 + row * i + row / 2;
        return [svg("line", { class: "lane", x1: left, x2: right, y1: y, y2: y }),
          svg("text", { class: "lane-name", x: left - 8, y: y + 4.5, "text-anchor": "end" }, clipped(w, 11)),
          steps.filter((s) => s.who === w).map((s) => tipped((STEP_SIGNS[s.what] || STEP_SIGNS.other)(x(s.at), y),
            () => [`${shown(w)} ${MIND[s.what] || s.what}`, `+${lasting(s.at)}`, s.evidence ? EVIDENCE[s.evidence] || s.evidence : null].filter(Boolean)))];
      }),
      timeAxis(m, [0, took], bottom)), stripKey(steps));
  }
}

function stripKey(steps) {
  const items = [["SUSPECTED", "suspects"], ["FAULTY", "holds faulty"], ["other", "other steps"], ["INSTALL", "installs the next view"]];
  const there = new Set(steps.map((s) => (STEP_SIGNS[s.what] ? s.what : "other")));
  return el("ul", { class: "legend", "aria-hidden": "true" }, items.filter(([sign]) => there.has(sign)).map(([sign, text]) =>
    el("li", {}, svg("svg", { viewBox: "0 0 26 14" }, STEP_SIGNS[sign](13, 7)), text)));
}

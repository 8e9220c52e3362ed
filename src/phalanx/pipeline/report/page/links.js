// Who delivered how much from whom, as a table whose cells are tinted.

const MEASURES = [
  { key: "messages", text: "Messages", show: compact, tell: (n) => plural(n, "message") },
  { key: "p50", text: "Median latency", show: lasting, tell: lasting },
  { key: "p99", text: "99 % latency", show: lasting, tell: lasting },
  { key: "loss", text: "Loss", show: percent, tell: (share) => `${percent(share)} of the frames were missing first` },
  { key: "repeated", text: "Sent again", show: compact, tell: (n) => plural(n, "packet") },
];

const NOTES = {
  messages: "All lives of a member together. Where a row or a column differs from the others, its member was away for a while.",
  loss: "Frames of the sender that the receiver knew to be missing before they came: lost on the way, or overtaken by later ones.",
  repeated: "Packets that the sender sent again because the receiver asked.",
};

function drawLinks(run, state) {
  const there = MEASURES.filter(({ key }) => run.links.some((link) => link[key] !== null && link[key] !== undefined));
  const chosen = there.find(({ key }) => key === state.measure) || there[0];
  byId("measures").replaceChildren(...(there.length > 1 ? there.map((measure) => el("button", {
    type: "button", "aria-pressed": String(measure === chosen),
    onclick: () => { state.measure = measure.key; drawLinks(run, state); focusMeasure(measure.text); },
  }, measure.text)) : []));
  if (!chosen) {
    byId("matrix").replaceChildren();
    byId("matrix-note").textContent = "Nobody delivered anything.";
    return;
  }
  const { key, show } = chosen;
  const cells = new Map(run.links.map((link) => [link.to * run.lanes.length + link.by, link]));
  const most = Math.max(1e-9, ...run.links.filter((l) => l[key] !== null).map((l) => l[key]));
  const cell = (to, by) => {
    const link = cells.get(to * run.lanes.length + by);
    const value = link ? link[key] : null;
    if (value === null || value === undefined) return el("td", { class: "none" }, "–");
    const share = Math.round((value / most) * 88);
    const td = el("td", { class: `${share > 52 ? "dark" : ""}${to === by ? " own" : ""}` }, show(value));
    td.style.setProperty("--share", `${share}%`);
    return tipped(td, () => [`${shown(run.lanes[to])} delivered of ${shown(run.lanes[by])}`,
      ...MEASURES.filter((x) => link[x.key] !== null && link[x.key] !== undefined).map((x) => `${x.text.toLowerCase()}: ${x.tell(link[x.key])}`)]);
  };
  const head = run.lanes.map((lane) => el("th", { scope: "col", title: shown(lane) }, el("bdi", {}, clipped(lane, 12))));
  byId("matrix").replaceChildren(el("table", { class: "matrix" },
    el("thead", {}, el("tr", {}, el("th", { class: "corner" }, "by ↓  of →"), head)),
    el("tbody", {}, run.lanes.map((lane, to) => el("tr", {},
      el("th", { scope: "row", title: shown(lane) }, el("bdi", {}, clipped(lane, 16))), run.lanes.map((_, by) => cell(to, by)))))));
  byId("matrix-note").textContent = NOTES[key] || "From submission to delivery, where the two shared a clock.";
}

function focusMeasure(text) {
  for (const button of byId("measures").children) if (button.textContent === text) button.focus();
}

// What the audit says: the sum in the header, and each guarantee.

const THEMES = [
  ["Views", ["self-inclusion", "local-monotonicity", "initial-view", "vid-sanity", "mutual-agreement", "transitional-set", "view-delta-truth", "merge-report-truth"]],
  ["Messages", ["integrity", "no-duplication", "sending-view", "same-view", "virtual-synchrony", "self-delivery", "basic", "accepted-is-sent"]],
  ["Order", ["fifo", "causal", "reliable-causal", "weak-total-order", "running-prefix", "toto-refinement", "no-view-crossing-inversion"]],
  ["Safe delivery", ["safe-prefix", "safe-marker"]],
  ["Receipts", ["receipt-truth", "receipt-liveness", "not-sent-liveness"]],
  ["Progress", ["membership-precision", "multicast-liveness", "termination-of-delivery", "safe-indication-liveness", "protocol-termination", "bounded-views", "bounded-window", "no-needless-stop"]],
];
const WORDS = { holds: "holds", violated: "violated", unverifiable: "not verified" };
const ICONS = { holds: "M4 10.5l4 4L16 6", violated: "M5 5l10 10M5 15L15 5", unverifiable: "M5 10h10" };

const icon = (verdict) => svg("svg", { class: `icon ${verdict}`, viewBox: "0 0 20 20", "aria-hidden": "true" },
  svg("path", { d: ICONS[verdict] }));

function drawVerdict(run) {
  const tally = { holds: 0, violated: 0, unverifiable: 0 };
  for (const finding of run.findings) tally[finding.verdict] += 1;
  const host = byId("verdict");
  if (run.findings.length === 0) {
    host.replaceChildren(el("p", { class: "aside" }, "This page was made without an audit: it shows what happened and judges nothing."));
    return;
  }
  const kinds = ["violated", "holds", "unverifiable"].filter((kind) => tally[kind] > 0);
  const bar = el("div", { class: "bar", "aria-hidden": "true" }, kinds.map((kind) => {
    const part = el("span", { class: kind });
    part.style.flexGrow = tally[kind];
    return part;
  }));
  const text = {
    holds: (n) => [el("b", { class: "holds-ink" }, `✓ ${n}`), n === 1 ? " guarantee holds" : " guarantees hold"],
    violated: (n) => [el("b", { class: "violated-ink" }, `✕ ${n}`), n === 1 ? " is violated" : " are violated"],
    unverifiable: (n) => [el("b", { class: "unverifiable-ink" }, `– ${n}`), " not verified"],
  };
  const order = tally.violated ? ["violated", "holds", "unverifiable"] : ["holds", "violated", "unverifiable"];
  host.replaceChildren(bar, el("ul", { class: "tally" },
    order.filter((kind) => tally[kind] > 0 || kind === "violated")
      .map((kind) => el("li", {}, tally[kind] === 0 ? [el("b", {}, "0"), " violated"] : text[kind](tally[kind])))));
}

function drawFindings(run, state) {
  const host = byId("findings");
  if (run.findings.length === 0) {
    host.replaceChildren(el("p", { class: "note" }, "No audit was made."));
    return;
  }
  const known = new Map(run.findings.map((finding) => [finding.name, finding]));
  const themed = new Set(THEMES.flatMap(([, list]) => list));
  const rest = run.findings.map((f) => f.name).filter((n) => !themed.has(n));
  const themes = [...THEMES, ["Further", rest]].map(([title, list]) => [title, list.map((n) => known.get(n)).filter(Boolean)])
    .filter(([, list]) => list.length > 0);
  const broken = run.findings.filter((finding) => finding.verdict === "violated");
  host.replaceChildren(
    ...broken.map((finding) => brokenPanel(run, state, finding)),
    el("div", { class: "findings" }, themes.map(([title, list]) => el("div", { class: "theme" },
      el("h3", {}, title), shared(list) ? el("p", { class: "note" }, `Not verified: ${shown(shared(list))}.`) : null,
      el("ul", {}, list.map((finding) => findingRow(finding, shared(list))))))));
}

// The one reason why nothing of a theme could be verified, shown once.
function shared(list) {
  const why = new Set(list.map((f) => (f.verdict === "unverifiable" ? f.why : null)));
  return list.length > 1 && why.size === 1 ? [...why][0] : null;
}

function findingRow(finding, common) {
  const why = finding.verdict === "unverifiable" && finding.why && finding.why !== common;
  const word = finding.verdict === "holds" ? `${WORDS.holds} · ${compact(finding.checked)}` : WORDS[finding.verdict];
  return el("li", { class: "finding", "data-verdict": finding.verdict, title: `put to the test ${plural(finding.checked, "time")}` },
    icon(finding.verdict), el("span", { class: "what" }, finding.name.replaceAll("-", " ")),
    el("span", { class: `word ${finding.verdict}-ink` }, word),
    el("span", { class: "meaning" }, finding.meaning, why ? [finding.meaning ? "; " : "", el("i", {}, shown(finding.why))] : null));
}

function brokenPanel(run, state, finding) {
  const shownCount = finding.examples.length;
  const cut = shownCount < finding.violations ? ` The first ${shownCount} of ${whole(finding.violations)}:` : "";
  return el("div", { class: "broken" },
    el("h3", {}, icon("violated"), ` ${finding.name.replaceAll("-", " ")}: violated`),
    el("p", {}, `${finding.meaning ? `Promised: ${finding.meaning}. ` : ""}Broken ${plural(finding.violations, "time")} in ${plural(finding.checked, "test")}.${cut}`),
    el("ol", {}, finding.examples.map((example) => el("li", {},
      el("span", { class: "name" }, shown(example.text)),
      example.rows.length ? el("details", {}, el("summary", {}, plural(example.rows.length, "row") + " of the journals"), exampleRows(run, state, example)) : null))));
}

function exampleRows(run, state, example) {
  const rows = example.rows.map((row) => [
    name(row.incarnation === 1 ? row.member : `${row.member}.${row.incarnation}`), num(whole(row.lseq)), num(row.at === null || row.at === undefined ? "" : instant(row.at, run.span / 50)),
    row.table, name(row.text || " "),
    row.at === null || row.at === undefined ? "" : el("button", {
      type: "button", class: "screen", "aria-label": `Show row ${whole(row.lseq)} in the diagram`, onclick: () => state.choose(...padded(row.at - run.span / 60, row.at + run.span / 60, run.span), true) }, "show"),
  ]);
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rows of the counter-example" },
    table(["Member", num("Row"), num("At"), "Table", "What", ""], rows));
}

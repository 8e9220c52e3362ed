// Which run and which window are shown, and everything drawn anew when one of them changes.

const state = {
  run: 0, window: [0, 1], services: page.services.map(() => true), measure: "messages",
  preview(a, b) { this.window = [a, b]; },
  choose(a, b, look) {
    const { span } = page.runs[this.run];
    const least = Math.max(20, span / 1e5);
    if (b - a < least) { const middle = (a + b) / 2; a = middle - least / 2; b = middle + least / 2; }
    this.window = [Math.max(0, a), Math.min(span, b)];
    hideTip();
    refreshWindow();
    if (look) byId("spacetime").scrollIntoView();
  },
};

// To begin with: where most is delivered, wide enough to see what becomes of some of the sends.
function busiest(run) {
  const { sends, deliveries } = run, bucket = run.throughput.bucket_us;
  if (deliveries.at.length === 0) return [0, run.span];
  const counts = new Map();
  for (const send of deliveries.send) {
    const key = Math.floor(sends.at[send] / bucket);
    counts.set(key, (counts.get(key) || 0) + 1);
  }
  const most = [...counts.entries()].reduce((p, q) => (q[1] > p[1] ? q : p));
  const middle = (most[0] + 0.5) * bucket;
  const near = sends.at.map((t, i) => [Math.abs(t - middle), i]).sort((p, q) => p[0] - q[0]).slice(0, 30);
  const chosen = new Set(near.filter(([far]) => far <= near[0][0] + run.span * 0.05).map(([, i]) => i));
  const ends = deliveries.at.filter((_, i) => chosen.has(deliveries.send[i])).sort((p, q) => p - q);
  const begin = Math.min(...[...chosen].map((i) => sends.at[i]));
  const end = Math.max(ends[Math.floor(ends.length * 0.9)] || 0, begin + run.span * 0.004);
  const room = (end - begin) * 0.06;
  return [Math.max(0, begin - room), Math.min(run.span, end + room)];
}

function refreshWindow() {
  const run = page.runs[state.run];
  const figure = byId("bands").querySelector("svg");
  replaceBrush(figure, run, measures(byId("bands"), run, [0, run.span], laneHeight(run, 32)), state);
  drawDiagram(run, state);
}

function drawHeader(run) {
  byId("title").replaceChildren(name(run.group));
  const clock = run.began ? ` · began ${run.began.replace("T", " ").replace("+00:00", " UTC")}` : " · simulated";
  byId("subtitle").replaceChildren("cluster ", name(run.cluster), " · run ", name(run.run), clock,
    run.mode ? el("span", {}, " · mode ", name(run.mode)) : "");
  const lives = run.lives.filter((life) => life.ended !== "ABSENT").length;
  const again = lives > run.lanes.length ? ` in ${lives} lives` : "";
  const facts = [
    ["members", [whole(run.lanes.length), again && el("small", {}, again)]],
    ["span", lasting(run.span)], ["views", whole(run.views.length)], ["removals", whole(run.removals_total)],
    ["messages sent", whole(run.sent)], ["delivered", whole(run.delivered)], ["rows of journals", whole(run.rows)],
  ];
  byId("facts").replaceChildren(...facts.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))));
}

function drawJournals(run) {
  const ended = { STOP: "with a stop", CRASH: "with a crash", OPEN: "just ends: killed, or lives on", ABSENT: "there is none" };
  const rows = run.lives.map((life, i) => [
    name(lifeName(run, i)), num(String(life.incarnation)), num(whole(life.rows)),
    num(life.ended === "ABSENT" ? "" : instant(life.begin, run.span)), num(life.ended === "ABSENT" ? "" : instant(life.end, run.span)),
    ended[life.ended], life.torn ? "rows are missing" : "",
  ]);
  byId("journal-table").replaceChildren(table(
    ["Member", num("Life"), num("Rows"), num("From"), num("To"), "Ends", ""], rows,
    run.lanes_left_out ? `${whole(run.lanes_left_out)} more members are not shown.` : null));
  byId("clock-note").textContent = {
    simulated: "One simulated clock: all instants compare.",
    machine: "All members shared one machine and so one clock: all instants compare.",
    wall: "Members ran on several machines, whose clocks do not compare. Lanes are placed by the wall clock of each, as well as it was set; nothing is computed from that.",
  }[run.clock];
}

function drawServices() {
  byId("services").replaceChildren(...page.services.map((service, k) => el("label", {},
    el("input", { type: "checkbox", checked: state.services[k], onchange: (event) => {
      state.services[k] = event.target.checked;
      drawDiagram(page.runs[state.run], state);
    } }),
    svg("svg", { viewBox: "0 0 26 14", "aria-hidden": "true" }, svg("path", { class: `line s${k}`, d: "M0 7H26" })),
    service.toLowerCase())));
}

function drawFigures() {
  const run = page.runs[state.run];
  drawBands(run, state);
  drawDiagram(run, state);
  drawThroughput(run);
  drawLatency(run);
  drawChains(run);
}

function drawRun(number) {
  state.run = number;
  const run = page.runs[number];
  state.window = busiest(run);
  drawHeader(run);
  drawVerdict(run);
  drawServices();
  drawFigures();
  drawRemovals(run, state);
  drawFindings(run, state);
  drawLinks(run, state);
  drawJournals(run);
}

function zoom(factor) {
  const [a, b] = state.window, middle = (a + b) / 2, half = ((b - a) / 2) * factor;
  state.choose(middle - half, middle + half);
}

function pan(share) {
  const { span } = page.runs[state.run];
  const [a, b] = state.window, width = b - a;
  const from = Math.max(0, Math.min(span - width, a + share * width));
  state.choose(from, from + width);
}

function begin() {
  const chooser = byId("run");
  page.runs.forEach((run, i) => chooser.append(el("option", { value: i },
    clipped(`${run.group} · ${run.run} · ${run.cluster}`, 90)
    + (run.findings.some((f) => f.verdict === "violated") ? " · violated" : ""))));
  chooser.addEventListener("change", () => drawRun(Number(chooser.value)));
  byId("chooser").hidden = page.runs.length < 2;
  if (page.runs_left_out) byId("left-out").textContent = `${plural(page.runs_left_out, "smaller run")} not shown`;
  byId("earlier").onclick = () => pan(-0.5);
  byId("later").onclick = () => pan(0.5);
  byId("closer").onclick = () => zoom(0.5);
  byId("wider").onclick = () => zoom(2);
  byId("whole").onclick = () => state.choose(0, page.runs[state.run].span);
  byId("made").textContent = `Made by phalanx ${page.version} on ${page.made.replace("T", " ").replace("+00:00", " UTC")}.`;
  drawRun(0);

  let width = byId("bands").clientWidth;
  new ResizeObserver(() => {
    if (byId("bands").clientWidth === width) return;
    width = byId("bands").clientWidth;
    drawFigures();
  }).observe(byId("bands"));
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details.removal, .broken details")) details.open = true;
    drawChains(page.runs[state.run]);
  });

  const here = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const link = document.querySelector(`.sections a[href="#${entry.target.id}"]`);
      if (entry.isIntersecting) {
        document.querySelectorAll(".sections a[aria-current]").forEach((a) => a.removeAttribute("aria-current"));
        link.setAttribute("aria-current", "true");
      }
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("main section").forEach((section) => here.observe(section));
}

begin();

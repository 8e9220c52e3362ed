// Throughput over time and latency by service.

function drawThroughput(run) {
  const host = byId("throughput");
  const width = Math.max(280, host.clientWidth), height = 210, left = 56, right = width - 8, base = height - 26;
  const { bucket, delivered } = widened(run.throughput, Math.floor((right - left) / 5));
  const used = Math.min(delivered[0].length, Math.ceil(run.span / bucket) || 1);
  const totals = Array.from({ length: used }, (_, i) => delivered.reduce((sum, line) => sum + line[i], 0));
  const most = Math.max(1, ...totals) / (bucket / 1e6);
  const x = (t) => left + (t / (used * bucket)) * (right - left);
  const y = (rate) => base - (rate / most) * (base - 12);
  const columns = [];
  for (let i = 0; i < used; i += 1) {
    if (totals[i] === 0) continue;
    let level = 0;
    const parts = [];
    delivered.forEach((line, k) => {
      if (line[i] === 0) return;
      const from = y(level), to = y(level + line[i] / (bucket / 1e6));
      level += line[i] / (bucket / 1e6);
      parts.push(svg("g", { class: `column s${k}` }, svg("rect", {
        x: x(i * bucket), width: Math.max(1, x((i + 1) * bucket) - x(i * bucket) - 0.6), y: to, height: Math.max(0.8, from - to) })));
    });
    columns.push(tipped(svg("g", {}, parts, svg("rect", {
      class: "hit", x: x(i * bucket), width: Math.max(2, x((i + 1) * bucket) - x(i * bucket)), y: 0, height: base })),
      () => [`${instant(i * bucket, run.span)} to ${instant((i + 1) * bucket, run.span)}`,
        ...delivered.map((line, k) => (line[i] ? `${page.services[k].toLowerCase()}: ${whole(line[i])} messages` : null)).filter(Boolean),
        `${compact(totals[i] / (bucket / 1e6))} a second`]));
  }
  const grid = ticks(0, most, 5).map((rate) => [
    svg("line", { class: "grid", x1: left, x2: right, y1: y(rate), y2: y(rate) }),
    svg("text", { class: "tick", x: left - 8, y: y(rate) + 4, "text-anchor": "end" }, compact(rate))]);
  const m = { left, right, x };
  const peak = totals.indexOf(Math.max(...totals));
  host.replaceChildren(svg("svg", {
    viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": `Throughput over time. The most was ${compact(most)} messages a second at ${instant(peak * bucket, run.span)}.`,
  }, grid, columns, timeAxis(m, [0, used * bucket], base)));
  const mean = run.delivered / (run.span / 1e6);
  byId("throughput-note").replaceChildren(
    serviceKeys(run), ` Stretches of ${lasting(bucket)}. On average ${compact(mean)} a second, at most ${compact(most)}; `
    + `${plural(run.sent, "message")} sent, ${whole(run.delivered)} delivered.`);
}

// Neighbouring buckets taken together, so that no more than `most` are drawn.
function widened({ bucket_us: bucket, delivered }, most) {
  const k = Math.max(1, Math.ceil(delivered[0].length / most));
  const join = (line) => Array.from({ length: Math.ceil(line.length / k) }, (_, i) =>
    line.slice(i * k, i * k + k).reduce((sum, n) => sum + n, 0));
  return { bucket: bucket * k, delivered: delivered.map(join) };
}

function serviceKeys(run) {
  const used = page.services.map((_, k) => run.throughput.delivered[k].some((n) => n > 0));
  return el("span", { class: "legend" }, page.services.map((service, k) => used[k] && el("span", {},
    svg("svg", { viewBox: "0 0 26 14", "aria-hidden": "true", width: 18, height: 10 },
      svg("g", { class: `column s${k}` }, svg("rect", { width: 26, height: 14, rx: 3 }))), ` ${service.toLowerCase()} `)));
}

const SHARES = [["p50", "50 %"], ["p90", "90 %"], ["p99", "99 %"], ["p999", "99.9 %"], ["most", "all"]];

function drawLatency(run) {
  const host = byId("latency"), note = byId("latency-note"), data = byId("latency-table");
  const found = run.latency.filter((row) => row.messages > 0);
  if (found.length === 0) {
    host.replaceChildren();
    data.replaceChildren();
    data.hidden = true;
    note.textContent = run.clock === "wall"
      ? "No two members of this group shared a clock, so that latencies are not known."
      : "No message was both sent and delivered in these journals.";
    return;
  }
  const width = Math.max(280, host.clientWidth), row = 40, left = 128, right = width - 16;
  const base = 10 + row * found.length;
  const least = Math.max(1, Math.min(...found.map((r) => r.p50 || r.most || 1e3)));
  const low = Math.floor(Math.log10(least)), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...found.map((r) => r.most), 10))));
  const x = (us) => left + ((Math.log10(Math.max(us, 10 ** low)) - low) / (high - low)) * (right - left);
  const grid = [];
  for (let power = low; power <= high; power += 1) {
    const at = x(10 ** power);
    grid.push(svg("line", { class: "grid", x1: at, x2: at, y1: 4, y2: base }),
      svg("text", { class: "tick", x: at, y: base + 18, "text-anchor": power === high ? "end" : "middle" }, lasting(10 ** power)));
  }
  const rows = found.map((r, i) => {
    const y = 10 + row * i + row / 2;
    return tipped(svg("g", { class: `s${r.service}` },
      svg("text", { class: "service-name", x: left - 12, y: y - 1, "text-anchor": "end" }, page.services[r.service].toLowerCase()),
      svg("text", { class: "tick", x: left - 12, y: y + 13, "text-anchor": "end" }, r.own ? "to itself" : "to others"),
      svg("line", { class: "tailed", x1: x(r.p50), x2: x(r.most), y1: y, y2: y }),
      svg("line", { class: "range", x1: x(r.p50), x2: x(r.p99), y1: y, y2: y }),
      svg("line", { class: "tailed", x1: x(r.most), x2: x(r.most), y1: y - 5, y2: y + 5 }),
      svg("circle", { class: "high", cx: x(r.p99), cy: y, r: 4.5 }),
      svg("circle", { class: "middle", cx: x(r.p50), cy: y, r: 5.5 }),
      svg("rect", { class: "hit", x: left, y: y - row / 2, width: right - left, height: row })),
    () => [`${page.services[r.service].toLowerCase()} ${r.own ? "to itself" : "to others"}`,
      ...SHARES.map(([key, text]) => `${text} within ${lasting(r[key])}`), plural(r.messages, "delivery", "deliveries")]);
  });
  host.replaceChildren(svg("svg", {
    viewBox: `0 0 ${width} ${base + 24}`, height: base + 24, role: "img", "aria-label": "Latency by service; the table below tells the same.",
  }, grid, rows));
  data.hidden = false;
  data.replaceChildren(table(["Service", "To", ...SHARES.map(([, text]) => num(text)), num("Deliveries")],
    found.map((r) => [page.services[r.service].toLowerCase(), r.own ? "itself" : "others", ...SHARES.map(([key]) => num(lasting(r[key]))), num(whole(r.messages))])));
  note.textContent = "Full dot: half of the deliveries were at least as fast; open dot: 99 %; end of the line: all. "
    + (run.clock === "wall" ? "Only between members that shared a machine and so a clock." : "");
}

// The axis of time and the lanes, which several figures share.

// Steps of 1, 2 or 5 that give about `count` ticks from a to b.
function ticks(a, b, count) {
  const raw = (b - a) / Math.max(1, count);
  if (!(raw > 0)) return [a];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw);
  const found = [];
  for (let t = Math.ceil(a / step) * step; t <= b + step * 1e-9; t += step) found.push(t);
  return found;
}

// A figure's measures at the width it has: where lanes begin, how high they are, time to pixels.
function measures(host, run, window, height) {
  const width = Math.max(280, host.clientWidth);
  const narrow = width < 560;
  const longest = Math.max(3, ...run.lanes.map((lane) => [...shown(lane)].length));
  const letters = Math.min(longest, narrow ? 8 : 18);
  const left = Math.round(letters * 7.6 + 16);
  const right = width - 10;
  const [a, b] = window;
  return {
    width, left, right, letters, narrow, lane: height,
    x: (t) => left + ((t - a) / (b - a)) * (right - left),
    t: (x) => a + ((x - left) / (right - left)) * (b - a),
    y: (lane) => 8 + lane * (height + 6),
    bottom: 8 + run.lanes.length * (height + 6),
  };
}

const laneHeight = (run, most) =>
  Math.max(14, Math.min(most, Math.floor(520 / Math.max(1, run.lanes.length)) - 6));

function timeAxis(m, window, y) {
  const [a, b] = window;
  const parts = [svg("line", { class: "axis", x1: m.left, x2: m.right, y1: y, y2: y })];
  for (const t of ticks(a, b, (m.right - m.left) / 95)) {
    const x = m.x(t);
    const anchor = x > m.right - 24 ? "end" : "middle";
    parts.push(svg("line", { class: "axis", x1: x, x2: x, y1: y, y2: y + 5 }));
    parts.push(svg("text", { class: "tick", x, y: y + 18, "text-anchor": anchor }, tickLabel(t, b)));
  }
  return svg("g", { "aria-hidden": "true" }, parts);
}

function tickLabel(t, most) {
  const unit = most >= 1e6 ? 1e6 : most >= 2000 ? 1e3 : 1;
  const value = +(t / unit).toFixed(6);
  return `${value.toLocaleString("en", { maximumFractionDigits: 6 })} ${unit === 1e6 ? "s" : unit === 1e3 ? "ms" : "µs"}`;
}

function laneNames(m, run) {
  const silent = new Set(run.lanes.keys());
  for (const life of run.lives) if (life.ended !== "ABSENT") silent.delete(life.lane);
  return run.lanes.map((lane, i) => {
    const text = svg("text", {
      class: silent.has(i) ? "lane-name absent" : "lane-name",
      x: m.left - 10, y: m.y(i) + m.lane / 2 + 4.5, "text-anchor": "end",
    }, clipped(lane, m.letters));
    text.append(svg("title", {}, shown(lane) + (silent.has(i) ? " (no journal)" : "")));
    return text;
  });
}

const hatch = () => svg("defs", {}, svg("pattern",
  { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
  svg("line", { class: "hatch-line", x1: 0, y1: 0, x2: 0, y2: 6 })));

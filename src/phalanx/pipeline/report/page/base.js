"use strict";
// What every part uses: elements, names, numbers. Whatever comes from a journal is put into text
// nodes and nothing else; there is no innerHTML in this page.

const page = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat(9)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

// Characters that cannot be seen, break lines or turn the direction of text are spelled out.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/gu;

function shown(text) {
  const visible = String(text).replace(UNSEEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  return visible === "" ? "(empty)" : visible;
}

function clipped(text, most) {
  const letters = [...shown(text)];
  return letters.length <= most ? letters.join("") : letters.slice(0, most - 1).join("") + "…";
}

const name = (text) => el("bdi", {}, shown(text));

function lifeName(run, life) {
  const { lane, incarnation } = run.lives[life];
  return incarnation === 1 ? run.lanes[lane] : `${run.lanes[lane]}.${incarnation}`;
}

function names(run, lives) {
  return listed(lives.map((life) => lifeName(run, life)));
}

function listed(texts) {
  const most = 12;
  const rest = texts.length > most ? ` and ${texts.length - most} more` : "";
  return texts.slice(0, most).map(shown).join(", ") + rest;
}

const whole = (n) => Math.round(n).toLocaleString("en");

function compact(n) {
  if (n < 1e4 && n === Math.round(n)) return whole(n);
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (n >= unit * 0.9995) return `${+(n / unit).toPrecision(3)} ${letter}`;
  }
  return n === Math.round(n) ? String(n) : String(+n.toPrecision(2));
}

const plural = (n, word, many) => `${whole(n)} ${n === 1 ? word : many || word + "s"}`;

// Durations, in microseconds.
function lasting(us) {
  const a = Math.abs(us);
  if (a >= 3.6e9) return `${+(us / 3.6e9).toPrecision(3)} h`;
  if (a >= 1.2e8) return `${+(us / 6e7).toPrecision(3)} min`;
  if (a >= 999500) return `${+(us / 1e6).toPrecision(3)} s`;
  if (a >= 999.5) return `${+(us / 1e3).toPrecision(3)} ms`;
  return `${+us.toPrecision(3)} µs`;
}

// An instant, as finely as the window that it is shown in needs.
function instant(us, span) {
  const step = span / 200;
  if (us >= 1e6) {
    const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / 1e6))));
    return `${(us / 1e6).toFixed(digits)} s`;
  }
  const digits = Math.max(0, Math.min(3, Math.ceil(-Math.log10(step / 1e3))));
  return `${(us / 1e3).toFixed(digits)} ms`;
}

const percent = (share) =>
  share === 0 ? "0 %" : share >= 1 ? "100 %" : share >= 0.1 ? `${Math.floor(share * 100)} %` : `${+(share * 100).toPrecision(2)} %`;

function table(head, rows, caption) {
  const cell = (tag, value, extra) =>
    value !== null && typeof value === "object" && !(value instanceof Node) && !Array.isArray(value)
      ? el(tag, { class: "num", ...extra }, value.num)
      : el(tag, extra || {}, value);
  return el("table", {},
    caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, head.map((h) => cell("th", h, { scope: "col" })))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((value, i) =>
      i === 0 ? cell("th", value, { scope: "row" }) : cell("td", value))))));
}
const num = (text) => ({ num: text });
const chip = (view) => el("span", { class: `chip v${view.tone}` }, view.label);

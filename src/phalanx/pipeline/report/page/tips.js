// One tooltip for the page: lines of text beside the pointer, or beside what has the focus.

const tip = byId("tip");

function showTip(lines, at) {
  tip.replaceChildren(...lines.map((line, i) => el("p", {}, i === 0 ? el("b", {}, line) : line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = Math.min(at.x + 14, innerWidth - box.width - 8);
  const y = at.y + 18 + box.height > innerHeight ? at.y - box.height - 12 : at.y + 18;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, y)}px`;
}

const hideTip = () => { tip.hidden = true; };

function tipped(node, lines) {
  node.addEventListener("pointermove", (event) => {
    if (event.buttons === 0) showTip(lines(), { x: event.clientX, y: event.clientY });
  });
  node.addEventListener("pointerleave", hideTip);
  node.addEventListener("focus", () => {
    if (!node.matches(":focus-visible")) return;
    const box = node.getBoundingClientRect();
    showTip(lines(), { x: Math.max(0, Math.min(box.x + box.width / 2, innerWidth)), y: box.bottom - 10 });
  });
  node.addEventListener("blur", hideTip);
  return node;
}

addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
addEventListener("scroll", hideTip, { passive: true });

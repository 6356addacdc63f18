import { $, el, listen, now, post, timeline } from "./page.js";

const events = 10, per = 10_000, past = 22_000, future = 6_000;
const ways = {
  fixed: { title: "Fixed window", usual: events },
  sliding: { title: "Sliding window", usual: events },
  bucket: { title: "Token bucket", usual: 2 * events }, // a full bucket, and what flows in meanwhile
};
let edge = 0;

for (const [name, way] of Object.entries(ways)) {
  way.seen = [];
  way.fresh = 0;
  way.left = el("p", { className: "left" });
  way.most = el("p", { className: "most" });
  way.key = el("code", { textContent: " " });
  const canvas = el("canvas");
  canvas.setAttribute("role", "img");
  way.canvas = canvas;
  const row = el("div", { className: "way" }, el("div", {}, el("h3", { textContent: way.title }), way.left, way.most), canvas, way.key);
  row.dataset.way = name;
  $("ways").append(row);
  timeline(canvas, past, future, (...args) => draw(name, way, ...args));
  show(way);
}

$("hit").addEventListener("click", () => post("limits/hit", { times: 1 }));
$("burst").addEventListener("click", () => post("limits/hit", { times: 10 }));
$("reset").addEventListener("click", () => post("limits/reset"));
$("edge").addEventListener("click", () => post("limits/edge", {}, [409]));

listen("hello", () => Object.values(ways).forEach(way => { way.seen = []; way.last = null; way.fresh = 0; show(way); }));
listen("reset", ({ at }) => Object.values(ways).forEach(way => { way.last = null; way.fresh = at; show(way); }));
listen("decision", ({ at, ways: decisions }) => {
  for (const [name, d] of Object.entries(decisions)) {
    const way = ways[name];
    way.seen.push({ at, allowed: d.allowed });
    way.seen = way.seen.filter(s => at - s.at < 60_000).slice(-600);
    way.last = d;
    if (d.key) way.key.textContent = way.key.title = d.value ? `${d.key} → ${d.value}` : d.key;
    show(way);
  }
});
listen("edge", ({ at }) => { edge = at; $("edge").disabled = at > 0; countdown(); });

// most is how many were allowed in any stretch of the limit's length that is on the timeline, since all was forgotten.
function most(way) {
  const times = way.seen.filter(s => s.allowed && s.at > now() - past && s.at >= way.fresh).map(s => s.at);
  let best = 0;
  for (let from = 0, to = 0; to < times.length; to++) {
    while (times[to] - times[from] >= per) from++;
    best = Math.max(best, to - from + 1);
  }
  return best;
}

function show(way) {
  const n = most(way);
  way.left.textContent = !way.last ? `${events} of ${events} left`
    : way.last.allowed ? `${way.last.remaining} of ${events} left`
    : `denied; again in ${(way.last.retry / 1000).toFixed(1)} s`;
  way.most.textContent = `most in 10 s: ${n}`;
  way.most.classList.toggle("over", n > way.usual);
  way.canvas.setAttribute("aria-label",
    `${way.title}: ${way.seen.filter(s => s.allowed).length} allowed and ${way.seen.filter(s => !s.allowed).length} denied lately`);
}
setInterval(() => Object.values(ways).forEach(show), 1000);

function countdown() {
  const left = edge - 500 - now();
  $("countdown").textContent = !edge ? "" : left > 0 ? `in ${(left / 1000).toFixed(1)} s …` : "now";
}
setInterval(countdown, 100);

function draw(name, way, c, w, h, color, x, t0) {
  const floor = h - 14;
  c.fillStyle = color.sunk;
  c.beginPath();
  c.roundRect(0, 0, w, floor, 8);
  c.fill();
  if (name === "sliding") { // the stretch that counts now
    c.fillStyle = color.shade;
    c.fillRect(x(t0 - per), 0, x(t0) - x(t0 - per), floor);
  }
  c.font = "10px " + getComputedStyle(document.body).fontFamily;
  c.textAlign = "center";
  for (let t = Math.ceil((t0 - past) / per) * per; t <= t0 + future; t += per) {
    c.strokeStyle = color.rule;
    c.lineWidth = name === "fixed" ? 1.5 : 1;
    c.globalAlpha = name === "fixed" ? 1 : .35;
    c.setLineDash([3, 3]);
    c.beginPath();
    c.moveTo(x(t), 0);
    c.lineTo(x(t), floor);
    c.stroke();
    c.globalAlpha = 1;
    c.fillStyle = color.soft;
    if (x(t) > 14 && x(t) < w - 14) c.fillText(":" + String(new Date(t).getUTCSeconds()).padStart(2, "0"), x(t), h - 2);
  }
  c.setLineDash([]);
  c.strokeStyle = color.ink;
  c.lineWidth = 1.5;
  c.beginPath();
  c.moveTo(x(t0), 0);
  c.lineTo(x(t0), floor);
  c.stroke();

  // Requests at about the same time stand on each other.
  const size = 7, columns = new Map();
  for (const s of way.seen) {
    if (s.at < t0 - past - 500) continue;
    const key = Math.round(s.at / ((past + future) / w * size));
    if (!columns.has(key)) columns.set(key, []);
    columns.get(key).push(s);
  }
  for (const [key, column] of columns) {
    const at = x(key * ((past + future) / w * size)), step = Math.min(size, (floor - 6) / column.length);
    column.forEach((s, i) => {
      c.globalAlpha = s.at < way.fresh ? .3 : 1;
      c.beginPath();
      c.arc(at, floor - 5 - i * step, s.allowed ? 2.9 : 2.3, 0, 7);
      if (s.allowed) {
        c.fillStyle = color.ok;
        c.fill();
      } else {
        c.strokeStyle = color.no;
        c.lineWidth = 1.4;
        c.stroke();
      }
    });
    c.globalAlpha = 1;
  }
}

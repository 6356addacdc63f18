import { $, el, listen, now, post, timeline } from "./page.js";

const past = 28_000, lanes = [];
const words = { idle: "rests", waiting: "waits", holding: "holds", paused: "paused", lost: "lost it", dead: "dead" };

for (let n = 1; n <= 4; n++) {
  const lane = { n, runs: [], marks: [], state: "dead" };
  lane.text = el("p");
  lane.kill = el("button", { className: "small", textContent: "Kill" });
  lane.pause = el("button", { className: "small", textContent: "Pause" });
  lane.canvas = el("canvas");
  lane.canvas.setAttribute("role", "img");
  const row = el("div", { className: "lane" },
    el("section", {}, el("h3", { textContent: `Worker ${n}` }), lane.text), lane.canvas, el("div", {}, lane.pause, lane.kill));
  row.dataset.worker = n;
  $("lanes").append(row);
  lane.kill.addEventListener("click", () => post(`workers/${n}/${lane.state === "dead" ? "start" : "kill"}`));
  lane.pause.addEventListener("click", () => post(`workers/${n}/${lane.state === "paused" ? "resume" : "pause"}`));
  timeline(lane.canvas, past, 0, (...args) => draw(lane, ...args));
  lanes[n] = lane;
}

// A fence is a time in microseconds: its last digits tell it from its neighbours.
const short = fence => "…" + fence.slice(-7);

listen("hello", () => lanes.forEach(lane => { lane.runs = []; lane.marks = []; }));
listen("lane", ({ worker, state, fence, at }) => {
  const lane = lanes[worker], before = lane.runs.at(-1);
  if (before && before.at === at && before.state === state) return; // told twice
  lane.runs.push({ at, state, fence });
  while (lane.runs.length > 1 && lane.runs[1].at < now() - past - 2000) lane.runs.shift();
  lane.state = state;
  lane.text.dataset.state = state;
  lane.text.textContent = words[state] + (fence && state !== "dead" ? ` ${short(fence)}` : "");
  lane.text.title = fence;
  lane.kill.textContent = state === "dead" ? "Start" : "Kill";
  lane.pause.textContent = state === "paused" ? "Resume" : "Pause";
  lane.pause.disabled = state === "dead";
  for (const button of [lane.kill, lane.pause]) button.setAttribute("aria-label", `${button.textContent} worker ${worker}`);
  lane.canvas.setAttribute("aria-label", `Worker ${worker} ${lane.text.textContent}`);
});
listen("mark", ({ worker, kind, fence, at }) => {
  const lane = lanes[worker];
  lane.marks.push({ at, kind });
  lane.marks = lane.marks.filter(m => m.at > now() - past - 2000);
  if (kind === "refused") {
    $("stale").className = "answer bad";
    $("stale").textContent = `Refused: worker ${worker} wrote with fence ${short(fence)}, and the order has seen a greater one.`;
  }
});

let ends = 0;
listen("lock", ({ key, held, owner, ttl, fence }) => {
  $("lock-key").textContent = `GET ${key}`;
  $("lock-owner").textContent = held ? owner : "none";
  $("lock-fence").textContent = held && fence !== "0" ? fence : "–";
  ends = held ? performance.now() + ttl : 0;
  left();
});
function left() { $("lock-ttl").textContent = ends ? `${(Math.max(0, ends - performance.now()) / 1000).toFixed(1)} s` : "–"; }
setInterval(left, 100);

listen("order", ({ fence, by, writes, refused }) => {
  $("order-by").textContent = by ? `worker ${by}` : "nobody";
  $("order-fence").textContent = fence === "0" ? "–" : fence;
  $("order-writes").textContent = writes;
  $("order-refused").textContent = refused;
});

function draw(lane, c, w, h, color, x, t0) {
  const top = 8, height = h - 16;
  c.fillStyle = color.sunk;
  c.beginPath();
  c.roundRect(0, 0, w, h, 8);
  c.fill();
  c.save();
  c.clip();
  lane.runs.forEach((run, i) => {
    const from = x(run.at), to = x(lane.runs[i + 1]?.at ?? t0), wide = Math.max(1, to - from);
    if (to < 0) return;
    c.beginPath();
    c.roundRect(from + .5, top, Math.max(1, wide - 1), height, Math.min(5, wide / 2));
    switch (run.state) {
      case "waiting":
        c.strokeStyle = color.wait;
        c.lineWidth = 1.5;
        c.stroke();
        break;
      case "holding":
        c.fillStyle = color.ok;
        c.fill();
        break;
      case "lost":
        c.fillStyle = color.no;
        c.fill();
        break;
      case "paused":
        c.strokeStyle = color.pause;
        c.lineWidth = 1.2;
        c.stroke();
        c.save();
        c.clip();
        c.beginPath();
        for (let s = from - height - ((from - x(0)) % 8); s < to; s += 8) {
          c.moveTo(s, top + height);
          c.lineTo(s + height, top);
        }
        c.lineWidth = 2.5;
        c.stroke();
        c.restore();
        break;
      case "dead":
        c.strokeStyle = color.no;
        c.lineWidth = 1.5;
        c.setLineDash([2, 4]);
        c.beginPath();
        c.moveTo(Math.max(0, from), h / 2);
        c.lineTo(to, h / 2);
        c.stroke();
        c.setLineDash([]);
        break;
      default:
        c.strokeStyle = color.rule;
        c.globalAlpha = .5;
        c.lineWidth = 1;
        c.beginPath();
        c.moveTo(from, h / 2);
        c.lineTo(to, h / 2);
        c.stroke();
        c.globalAlpha = 1;
    }
    if (run.state === "holding" && wide > 62) {
      c.fillStyle = color.card;
      c.font = "600 11px " + getComputedStyle(document.querySelector("code")).fontFamily;
      c.textBaseline = "middle";
      c.textAlign = "left";
      c.fillText(short(run.fence), Math.max(from, 0) + 6, h / 2 + .5);
    }
  });
  for (const m of lane.marks) {
    const at = x(m.at);
    c.lineWidth = 2;
    c.beginPath();
    if (m.kind === "renewed") {
      c.strokeStyle = color.ok;
      c.moveTo(at, 1);
      c.lineTo(at, top - 1);
      c.moveTo(at, h - top + 1);
      c.lineTo(at, h - 1);
    } else {
      for (const s of [1, -1]) {
        c.moveTo(at - 6, h / 2 - 6 * s);
        c.lineTo(at + 6, h / 2 + 6 * s);
      }
      c.strokeStyle = color.card; // a rim, to be seen on any ground
      c.lineWidth = 8;
      c.stroke();
      c.strokeStyle = color.no;
      c.lineWidth = 3.5;
    }
    c.stroke();
  }
  c.restore();
}

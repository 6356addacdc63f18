// What the panels have in common: elements, requests, the stream of events, the server's time, and timelines.

export const $ = id => document.getElementById(id);

// el makes an element. Text is always text, never HTML.
export function el(tag, props = {}, ...children) {
  const e = Object.assign(document.createElement(tag), props);
  e.append(...children);
  return e;
}

const toast = $("toast");
let toasted;

// say shows a message for a while.
export function say(text) {
  toast.textContent = text;
  toast.hidden = false;
  clearTimeout(toasted);
  toasted = setTimeout(() => { toast.hidden = true; }, 4000);
}

// post asks the server to do something. It returns the status and the JSON of the answer, and says what went wrong.
export async function post(path, body = {}, expected = []) {
  let status = 0, json = {};
  try {
    const answer = await fetch("/api/" + path, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    });
    status = answer.status;
    const text = await answer.text();
    json = text ? JSON.parse(text) : {};
  } catch {
    json = { error: "this page’s server does not answer" };
  }
  if ((status < 200 || status > 299) && !expected.includes(status)) say(json.error || `the answer is ${status}`);
  return { status, json };
}

const listeners = {};

// listen calls fn with each event of a name.
export function listen(name, fn) { (listeners[name] ??= []).push(fn); }
function tell(name, value) { (listeners[name] || []).forEach(fn => fn(value)); }

let source, player = "", ahead = 0;

// now is the server's time, in milliseconds.
export const now = () => Date.now() + ahead;

// connect opens the stream, and again when who this page is has changed: its session, or its player.
export function connect(newPlayer = player) {
  player = newPlayer;
  source?.close();
  source = new EventSource("/events" + (player ? "?player=" + encodeURIComponent(player) : ""));
  const mine = source;
  mine.addEventListener("error", () => {
    if (mine !== source) return;
    tell("link", false);
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => { if (mine === source) connect(); }, 2000);
  });
  mine.addEventListener("hello", e => {
    ahead = JSON.parse(e.data).now - Date.now();
    tell("hello");
    tell("link", true);
  });
  for (const name of ["servers", "session", "decision", "reset", "edge", "ranking", "around",
    "lane", "lane1", "lane2", "lane3", "lane4", "mark", "lock", "order"]) {
    mine.addEventListener(name, e => tell(name.replace(/\d$/, ""), JSON.parse(e.data)));
  }
}

export const still = matchMedia("(prefers-reduced-motion: reduce)");

const drawings = new Set();
let colors = {};
function readColors() {
  const style = getComputedStyle(document.documentElement);
  colors = Object.fromEntries(["card", "sunk", "line", "rule", "ink", "soft", "ok", "no", "wait", "pause", "shade"]
    .map(name => [name, style.getPropertyValue("--" + name).trim()]));
}
readColors();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColors);

// timeline draws a canvas again and again: draw(context, width, height, colors, x, now), where x(t) is where the time t is.
// It shows the time from past before now to future after it, both in milliseconds.
export function timeline(canvas, past, future, draw) {
  const paint = () => {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const c = canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    const t0 = now();
    draw(c, width, height, colors, t => (t - t0 + past) / (past + future) * width, t0);
  };
  drawings.add(paint);
}

let painted = 0;
function frame(t) {
  // Who wants less motion gets a picture each second, not a movement.
  if (t - painted >= (still.matches ? 1000 : 30)) {
    painted = t;
    drawings.forEach(paint => paint());
  }
  requestAnimationFrame(frame);
}
requestAnimationFrame(frame);

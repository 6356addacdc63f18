import { $, connect, el, listen, post } from "./page.js";

const boxes = {}, answer = $("answer"), logout = $("logout");
let last = "A", shown = {}, user, marked = false;

for (const name of ["A", "B"]) {
  const state = el("small"), ask = el("button", { textContent: `Ask ${name}` }), power = el("button", { className: "quiet", textContent: "Stop" });
  const box = el("article", { className: "server down" }, el("h3", {}, `Server ${name} `, state), el("div", {}, ask, power));
  box.dataset.server = name;
  boxes[name] = { box, state, power, up: false };
  $("servers").append(box);
  ask.addEventListener("click", () => request(name, "me"));
  power.addEventListener("click", () => post(`servers/${name}/${boxes[name].up ? "stop" : "start"}`));
}

$("login").addEventListener("submit", e => {
  e.preventDefault();
  request(e.submitter?.value || "A", "login", { username: $("username").value.trim() });
});
logout.addEventListener("click", () => request(boxes[last].up ? last : last === "A" ? "B" : "A", "logout"));

async function request(name, what, body) {
  const { status, json } = await post(`servers/${name}/ask/${what}`, body, [400, 401, 502]);
  const good = status === 200;
  answer.className = "answer " + (good ? "good" : "bad");
  if (status === 401) answer.textContent = `Server ${name} says: I do not know you. Log in.`;
  else if (!good) answer.textContent = json.error ? `${json.error[0].toUpperCase()}${json.error.slice(1)}.` : "No answer.";
  else if (what === "logout") answer.textContent = `Server ${name} says: logged out, everywhere.`;
  else answer.textContent = `Server ${name} says: you are ${json.username}, visit ${json.visits}.`;
  if (good) {
    last = name;
    for (const [other, { box }] of Object.entries(boxes)) box.classList.toggle("just", other === name);
    if (what !== "me") connect(); // with the new cookie
  }
}

listen("servers", servers => {
  for (const [name, s] of Object.entries(servers)) {
    const b = boxes[name];
    b.up = s.up;
    b.box.classList.toggle("down", !s.up);
    b.state.textContent = s.up ? `answered ${s.answered}` : "stopped";
    b.power.textContent = s.up ? "Stop" : "Start";
    b.power.setAttribute("aria-label", `${b.power.textContent} server ${name}`);
  }
});

listen("session", s => {
  logout.disabled = !s.key;
  $("session-key").textContent = s.key ? `HGETALL ${s.key}` : "no session";
  $("session-ttl").textContent = s.key ? `TTL ${s.ttl}` : "";
  const fields = s.fields || [], before = shown;
  shown = Object.fromEntries(fields.map(f => [f.name, f.value]));
  const changed = user === s.key ? fields.filter(f => before[f.name] !== f.value) : [];
  if (user === s.key && !changed.length && !marked) return; // as it stands there
  user = s.key;
  marked = changed.length > 0;
  $("session-fields").replaceChildren(...fields.map(f => el("tr", { className: (f.name.startsWith("_") ? "own " : "") + (changed.includes(f) ? "new" : "") },
    el("td", { textContent: f.name }), el("td", { textContent: f.value, title: f.value }))));
});

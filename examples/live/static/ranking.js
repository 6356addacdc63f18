import { $, connect, el, listen, post, still } from "./page.js";

const input = $("player"), arrive = $("arrive"), ties = $("ties");
let me = "", last = null, bounds = [0, 1];

function choose(name) {
  name = name.trim();
  if (!name || name === me || !/^[\p{L}\p{N}]{1,16}$/u.test(name)) return;
  me = name;
  connect(me);
}
input.addEventListener("change", () => choose(input.value));
choose(input.value);

$("scoring").addEventListener("submit", async e => {
  e.preventDefault();
  const player = input.value.trim();
  await post("ranking/score", { player, points: Number(e.submitter?.value || 100) });
  choose(player);
});
arrive.addEventListener("click", () => post("ranking/arrive", { on: arrive.getAttribute("aria-pressed") === "false" }));
ties.addEventListener("change", () => post("ranking/ties", { ties: ties.value }));

listen("ranking", r => {
  last = r.last;
  const scores = r.top.map(row => row.score);
  bounds = [Math.min(...scores) * .9, Math.max(...scores)];
  rows($("top"), r.top);
  arrive.setAttribute("aria-pressed", String(r.arrive));
  arrive.textContent = r.arrive ? "Pause scores" : "Let scores arrive";
  ties.value = r.ties;
  $("last").textContent = last ? `${last.player} ${sign(last.delta)}${Math.abs(last.delta)}: now ${last.score}, rank ${last.rank}` : "";
  const known = $("players");
  if (known.dataset.of !== r.players.toSorted().join()) {
    known.dataset.of = r.players.toSorted().join();
    known.replaceChildren(...r.players.toSorted().map(value => el("option", { value })));
  }
});
listen("around", ({ player, rows: list, total }) => {
  $("around-title").textContent = list.length ? `Around ${player}, of ${total}` : `${player} has no score yet`;
  rows($("around"), list);
});

const sign = delta => delta < 0 ? "−" : "+";

// rows shows a board. Whoever moves is seen to move.
function rows(board, list) {
  const before = new Map([...board.children].map(li => [li.dataset.player, li]));
  const from = new Map([...before].map(([name, li]) => [name, li.offsetTop]));
  const animate = !still.matches && !document.hidden;
  board.replaceChildren(...list.map(row => {
    const li = before.get(row.player) || el("li", {}, el("b"), el("span"), el("output"));
    li.dataset.player = row.player;
    li.style.setProperty("--share", Math.max(.02, Math.min(1, (row.score - bounds[0]) / (bounds[1] - bounds[0] || 1))));
    li.children[0].textContent = row.rank;
    li.children[1].textContent = row.player;
    li.children[2].textContent = row.score;
    li.classList.toggle("me", row.player === me);
    const hot = last?.player === row.player;
    li.classList.toggle("hot", hot);
    li.classList.toggle("minus", hot && last.delta < 0);
    li.dataset.delta = hot ? sign(last.delta) + Math.abs(last.delta) : "";
    return li;
  }));
  if (!animate) return;
  for (const li of board.children) {
    const old = from.get(li.dataset.player), moved = old === undefined ? 12 : old - li.offsetTop;
    if (moved) {
      li.style.zIndex = moved > 0 ? 1 : 0;
      li.animate([{ transform: `translateY(${moved}px)`, opacity: old === undefined ? 0 : 1 }, { transform: "none", opacity: 1 }],
        { duration: 380, easing: "cubic-bezier(.2, .8, .2, 1)" });
    }
  }
}

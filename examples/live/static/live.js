// The page: one stream of events, and four panels that draw what it tells.
import { $, listen, connect } from "./page.js";
import "./sessions.js";
import "./limits.js";
import "./ranking.js";
import "./locks.js";

const link = $("link");
listen("link", up => {
  link.dataset.state = up ? "on" : "off";
  link.textContent = up ? "connected" : "connecting again …";
});
connect();

// The dashboard: everything comes from the HTTP interface of this adit.

import { RateChart, bar, bits, count, octets, packets, span } from "./charts.js";
import { $, h, token } from "./elements.js";
import { tracePanel } from "./trace.js";
import { direction, rule } from "./words.js";

const POINTS = 120;

// ---- The interface

class Problem extends Error {
  constructor(status, detail) { super(detail); this.status = status; }
}

/** A response of the interface. Asks for a token if it takes one. */
async function call(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  if (token()) headers.Authorization = `Bearer ${token()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  if (response.status === 401 && !$("token-dialog").open) $("token-dialog").showModal();
  throw new Problem(response.status, problem.detail ?? `status ${response.status}`);
}

const get = async (path, signal) => (await call(path, { signal })).json();

let noticeEnds = 0;
function notice(text) {
  $("notice").textContent = text;
  clearTimeout(noticeEnds);
  noticeEnds = setTimeout(() => { $("notice").textContent = ""; }, 6000);
}

function confirmed(title, text, yes) {
  const dialog = $("confirm-dialog");
  $("confirm-title").textContent = title;
  $("confirm-text").textContent = text;
  $("confirm-yes").textContent = yes;
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

async function act(path, options) {
  try {
    const { outcome } = await (await call(path, options)).json();
    notice(outcome[0].toUpperCase() + outcome.slice(1) + ".");
    return true;
  } catch (problem) {
    notice(problem.message);
    return false;
  }
}

// ---- The live stream

let stream = null;
const listeners = new Set();
const history = [];

function streamState(text, isLive) {
  if ($("stream").textContent !== text) $("stream").textContent = text;
  $("stream").classList.toggle("live", isLive);
}

async function follow(signal) {
  let wait = 1000;
  while (!signal.aborted) {
    try {
      const response = await call("/v1/live", { signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        rest += value;
        for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
          const event = rest.slice(0, end);
          rest = rest.slice(end + 2);
          if (event.startsWith("data: ")) { wait = 1000; onLive(JSON.parse(event.slice(6))); }
        }
      }
    } catch (problem) {
      if (signal.aborted) return;
      if (problem.status === 401) { streamState("needs a token", false); return; }
    }
    if (signal.aborted) return;
    streamState("reconnecting", false);
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, 15000);
  }
}

function connect() {
  stream?.abort();
  stream = new AbortController();
  streamState("connecting", false);
  follow(stream.signal);
  identify();
}

let spokenAt = 0;
function onLive(event) {
  streamState("live", true);
  history.push(event);
  if (history.length > POINTS) history.shift();
  showState(event.role, event.state);
  for (const listener of listeners) listener(event);
  if (Date.now() - spokenAt > 30000) {
    spokenAt = Date.now();
    $("spoken").textContent = `Uplink ${bits(event.uplink_bps)}, downlink ${bits(event.downlink_bps)}, ${count(event.sessions)} sessions, ${packets(event.dropped_pps)} dropped.`;
  }
}

function showState(role, state) {
  const pill = $("node-state");
  const text = role === "standby" ? "standby" : state;
  if (pill.textContent === text) return;
  pill.textContent = text;
  pill.className = `pill ${text === "running" ? "good" : "warn"}`;
}

async function identify() {
  try {
    const node = await get("/v1/node");
    $("node-id").textContent = node.node_id;
    $("version").textContent = `Adit ${node.version}, ${node.model}, up ${span(node.uptime_s)}`;
    document.title = `Adit ${node.node_id}`;
    showState(node.role, node.state);
  } catch { /* The stream says so. */ }
}

// ---- Parts of views

const card = (title, ...children) => h("section", { class: "card" }, h("h2", {}, title), ...children);

/** A table. Columns: title, class. Rows: lists of cells, each a text or an element. */
function table(caption, columns, rows, empty) {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, h("table", {},
    h("caption", { class: "hidden" }, caption),
    h("thead", {}, h("tr", {}, columns.map(([title, kind]) => h("th", { scope: "col", class: kind }, title)))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, at) => h("td", { class: columns[at][1] }, cell)))))));
}

function pill(text, kind) {
  return h("span", { class: `pill ${kind}` }, text);
}

function facts(pairs) {
  return h("dl", {}, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "").flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

const names = {};
/** What the reasons of drops mean, by their names. */
async function dropReasons() {
  if (!names.drops) names.drops = get("/v1/drops").then(({ drops }) => new Map(drops.map((row) => [row.reason, row.text])));
  return names.drops.catch(() => { delete names.drops; return new Map(); });
}
const dropText = async (reason) => (await dropReasons()).get(reason) ?? "";

/** Fills a place again and again while its view is shown. */
function repeat(view, milliseconds, fill) {
  const run = async () => {
    if (view.signal.aborted) return;
    if (!document.hidden) {
      try { await fill(); } catch (problem) {
        if (view.signal.aborted) return;
        if (problem.status !== 401) notice(problem.message);
      }
    }
    if (!view.signal.aborted) setTimeout(run, milliseconds);
  };
  run();
}

function onEvents(view, listener) {
  listeners.add(listener);
  view.signal.addEventListener("abort", () => listeners.delete(listener));
  if (history.length) listener(history.at(-1));
}

const legend = () => h("div", { class: "legend" }, h("span", { class: "up" }, "Uplink"), h("span", { class: "down" }, "Downlink"));

// ---- Views

function overview(view) {
  const figure = (name, kind) => {
    const value = h("div", { class: `value ${kind}` }, "–"), more = h("div", { class: "more" }, "\u00a0");
    return { element: h("section", { class: "card figure" }, h("div", { class: "name" }, name), value, more), value, more };
  };
  const [up, down, dropped, sessions] = [figure("Uplink", "up"), figure("Downlink", "down"), figure("Dropped", ""), figure("Sessions", "")];
  const chart = new RateChart("Throughput of the last two minutes", POINTS);
  for (const event of history.slice(0, -1)) chart.add(event.uplink_bps, event.downlink_bps);
  const places = { ports: h("div"), workers: h("div"), n4: h("div") };
  const drops = new DropsTable((reason) => { traceAtOnce = reason; location.hash = "#/packets"; });
  onEvents(view, (event) => {
    up.value.textContent = bits(event.uplink_bps);
    up.more.textContent = packets(event.uplink_pps);
    down.value.textContent = bits(event.downlink_bps);
    down.more.textContent = packets(event.downlink_pps);
    dropped.value.textContent = packets(event.dropped_pps);
    dropped.more.textContent = `${count(event.drops.reduce((sum, row) => sum + row.pkts, 0))} since the start`;
    sessions.value.textContent = count(event.sessions);
    sessions.more.textContent = `of ${count(event.sessions_max)}, ${event.associations} SMF${event.associations === 1 ? "" : "s"}`;
    chart.add(event.uplink_bps, event.downlink_bps);
    places.ports.replaceChildren(portsTable(event.ports));
    places.workers.replaceChildren(workersTable(event.workers));
    places.n4.replaceChildren(facts([
      ["Established", `${count(event.n4.established_per_s)} /s`], ["Modified", `${count(event.n4.modified_per_s)} /s`],
      ["Deleted", `${count(event.n4.deleted_per_s)} /s`], ["Refused", `${count(event.n4.refused_per_s)} /s`],
      ["Reports sent", `${count(event.n4.reports_per_s)} /s`]]));
    drops.update(event.drops);
  });
  return [
    h("h1", { class: "hidden" }, "Overview"),
    h("div", { class: "figures" }, up.element, down.element, dropped.element, sessions.element),
    h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Throughput"), legend()), chart.element),
    h("div", { class: "two" }, card("Ports", places.ports), card("Workers", places.workers)),
    h("div", { class: "two" }, card("Drops by reason", drops.element), card("N4 procedures", places.n4)),
  ];
}

const portsTable = (ports) => table("Ports", [["Port"], ["Link"], ["Receives", "num"], ["Transmits", "num"], ["Lost", "num"]],
  ports.map((port) => [port.name, port.link === "down" ? pill("down", "bad") : port.link === "up" ? pill("up", "good") : pill("kernel", ""),
    `${bits(port.rx_bps)}, ${packets(port.rx_pps)}`, `${bits(port.tx_bps)}, ${packets(port.tx_pps)}`, packets(port.missed_pps)]), "No ports.");

const workersTable = (workers) => table("Workers", [["Thread"], ["Busy"], ["", "num"], ["Packets", "num"], ["Fullest ring", "num wide"]],
  workers.map((worker) => [
    h("span", {}, `${worker.role} ${worker.thread}, core ${worker.core} `, worker.state === "runs" ? null : pill("stands still", "bad")),
    bar(worker.busy_percent, `busy ${worker.busy_percent} %`), `${worker.busy_percent.toFixed(0)} %`, packets(worker.pps), `${worker.fullest_ring_percent.toFixed(0)} %`]), "No workers.");

/** Drops by reason, each with a button to trace them. Rows stay while their figures change, so that the focus stays in them. */
class DropsTable {
  constructor(trace) {
    this.trace = trace;
    this.rows = new Map();
    this.body = h("tbody");
    this.empty = h("p", { class: "empty" }, "No packet was dropped.");
    this.table = h("div", { class: "scroll", hidden: true }, h("table", {}, h("caption", { class: "hidden" }, "Drops by reason"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Reason"), h("th", { scope: "col", class: "num" }, "Now"),
        h("th", { scope: "col", class: "num" }, "Packets"), h("th", { scope: "col", class: "num" }, h("span", { class: "hidden" }, "Trace")))), this.body));
    this.element = h("div", {}, this.empty, this.table);
  }

  row(reason) {
    const why = h("div", { class: "why" }), now = h("td", { class: "num" }), all = h("td", { class: "num" });
    dropText(reason).then((text) => { why.textContent = text; });
    const trace = h("button", { type: "button", class: "small", "aria-label": `Trace packets dropped for ${reason}`, onclick: () => this.trace(reason) }, "Trace");
    return { element: h("tr", {}, h("td", {}, h("code", {}, reason), why), now, all, h("td", { class: "num" }, trace)), now, all };
  }

  update(drops) {
    this.empty.hidden = drops.length > 0;
    this.table.hidden = drops.length === 0;
    for (const { reason, pps, pkts } of drops) {
      if (!this.rows.has(reason)) {
        this.rows.set(reason, this.row(reason));
        this.body.append(this.rows.get(reason).element);
      }
      const { now, all } = this.rows.get(reason);
      now.textContent = packets(pps);
      all.textContent = count(pkts);
    }
    const sorted = [...drops].sort((one, other) => other.pps - one.pps || other.pkts - one.pkts).map(({ reason }) => this.rows.get(reason).element);
    const isInOrder = sorted.every((element, at) => element === this.body.children[at]) && this.body.children.length === sorted.length;
    if (!isInOrder && !this.body.contains(document.activeElement)) this.body.replaceChildren(...sorted);
  }
}

function sessions(view, query) {
  const asked = new URLSearchParams(query);
  const kinds = [["ue", "UE address"], ["seid", "UP SEID"], ["teid", "TEID"], ["dnn", "Data network"], ["slice", "Slice"]];
  const kind = kinds.find(([name]) => asked.has(name))?.[0] ?? "ue";
  const select = h("select", { name: "kind" }, kinds.map(([name, title]) => h("option", { value: name, selected: name === kind }, title)));
  const text = h("input", { name: "text", type: "search", id: "search", value: asked.get(kind) ?? "", autocomplete: "off", spellcheck: "false", placeholder: "all sessions" });
  const form = h("form", { class: "search", role: "search", onsubmit: (event) => {
    event.preventDefault();
    const value = text.value.trim();
    location.hash = value ? `#/sessions?${new URLSearchParams({ [select.value]: value })}` : "#/sessions";
  } }, h("label", {}, "Search by", select), h("label", {}, "Value", text), h("button", { class: "primary" }, "Search"));
  const place = h("div", {}, h("p", { class: "empty" }, "Loading…"));
  const before = [];
  async function show(cursor) {
    const parameters = new URLSearchParams(asked);
    parameters.set("limit", "50");
    if (cursor) parameters.set("cursor", cursor);
    place.setAttribute("aria-busy", "true");
    try {
      let page = await get(`/v1/sessions?${parameters}`, view.signal);
      // A search without an index looks at a part of all sessions at a time.
      while (page.sessions.length === 0 && page.next) {
        parameters.set("cursor", page.next);
        page = await get(`/v1/sessions?${parameters}`, view.signal);
      }
      const back = h("button", { type: "button", disabled: before.length === 0, onclick: () => show(before.pop()) }, "Previous");
      const next = h("button", { type: "button", disabled: !page.next, onclick: () => { before.push(cursor); show(page.next); } }, "Next");
      place.replaceChildren(sessionsTable(page), h("div", { class: "pager" }, back,
        h("span", { class: "soft", role: "status" }, `Page ${before.length + 1}, ${page.sessions.length} sessions`), next));
    } catch (problem) {
      if (!view.signal.aborted) place.replaceChildren(h("p", { class: "empty" }, problem.message));
    }
    place.removeAttribute("aria-busy");
  }
  show(undefined);
  return [h("h1", {}, "Sessions"), h("section", { class: "card" }, form), h("section", { class: "card" }, place)];
}

const sessionsTable = (page) => table("Sessions", [["UE"], ["UP SEID", "wide"], ["SMF", "wide"], ["Data network", "wide"], ["Slice", "wide"], ["Uplink", "num"], ["Downlink", "num"]],
  page.sessions.map((row) => [
    h("a", { href: `#/sessions/${row.up_seid}` }, row.ue.join(", ") || "no UE address"), h("code", {}, row.up_seid), row.cp_node ?? "–",
    row.information?.dnn ?? "–", row.information?.s_nssai ?? "–", octets(row.uplink_bytes), octets(row.downlink_bytes)]),
  "No session matches.");

function session(view, seid) {
  const chart = new RateChart("Traffic of the session", 60);
  const now = h("p", { class: "soft" }, "Measuring…");
  const places = { facts: h("div"), rules: h("div"), rates: h("div") };
  const title = h("h1", {}, "Session");
  let shown = "";
  repeat(view, 50, async () => {
    let answer;
    try { answer = await get(`/v1/sessions/${encodeURIComponent(seid)}?measure_ms=1000`, view.signal); } catch (problem) {
      if (problem.status === 404) { now.textContent = "This session has ended."; await new Promise((resolve) => setTimeout(resolve, 5000)); return; }
      await new Promise((resolve) => setTimeout(resolve, 3000));
      throw problem;
    }
    const { session, rates } = answer;
    chart.add(rates.uplink_bps, rates.downlink_bps);
    now.textContent = `Uplink ${bits(rates.uplink_bps)}, ${packets(rates.uplink_pps)}. Downlink ${bits(rates.downlink_bps)}, ${packets(rates.downlink_pps)}.`;
    title.textContent = session.ue.join(", ") || "Session without UE address";
    places.facts.replaceChildren(sessionFacts(session));
    const rules = JSON.stringify([session.pdrs, session.fars, session.qers, session.urrs]);
    if (rules !== shown) { shown = rules; places.rules.replaceChildren(rulesList(session)); }
  });
  repeat(view, 2000, async () => {
    const known = await get(`/v1/qos?session=${encodeURIComponent(seid)}`, view.signal).catch((problem) => { if (problem.status === 404) return { rates: [] }; throw problem; });
    places.rates.replaceChildren(ratesTable(known.rates));
  });
  const end = async () => {
    if (await confirmed("End this session?", "Its packets are dropped from now on. The SMF gets its last usage if it takes such reports; the UE may set up another session.", "End session")
      && await act(`/v1/sessions/${encodeURIComponent(seid)}`, { method: "DELETE" })) location.hash = "#/sessions";
  };
  const { element: tracing } = tracePanel(view, { title: "Packets of this session", file: `adit-${seid}`, call,
    choices: [["of this session", { session: seid }], ["of this session that are dropped", { session: seid, drop: "any" }]] });
  return [
    h("p", {}, h("a", { href: "#/sessions" }, "All sessions")),
    h("div", { class: "head" }, title, h("button", { type: "button", class: "danger", onclick: end }, "End session")),
    h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Traffic now"), legend()), now, chart.element),
    h("div", { class: "two" }, card("Rules in words", places.rules), h("div", { class: "card" }, h("h2", {}, "Facts"), places.facts)),
    tracing,
    card("Enforced rates", places.rates),
  ];
}

const sessionFacts = (session) => facts([
  ["UP SEID", h("code", {}, session.up_seid)], ["CP SEID", h("code", {}, session.cp_seid)], ["SMF", session.cp_node],
  ["TEIDs", h("code", {}, session.teids.join(" "))], ["Data network", session.information?.dnn], ["Slice", session.information?.s_nssai],
  ["Radio access", session.information?.rat_type],
  ...Object.entries(session.information?.user ?? {}),
  ["Uplink", `${octets(session.uplink_bytes)}, ${count(session.uplink_pkts)} packets`],
  ["Downlink", `${octets(session.downlink_bytes)}, ${count(session.downlink_pkts)} packets`],
  ["Ends when idle for", session.inactivity_timer_s ? span(session.inactivity_timer_s) : null]]);

function rulesList(session) {
  const pdrs = [...session.pdrs].sort((one, other) => one.precedence - other.precedence);
  if (pdrs.length === 0) return h("p", { class: "empty" }, "No PDRs.");
  return h("ol", { class: "rules" }, pdrs.map((pdr) => {
    const { sentence, more, name } = rule(session, pdr);
    return h("li", { class: direction(pdr) }, h("div", {}, sentence), more.map((line) => h("div", { class: "why" }, line)), h("div", { class: "why" }, name));
  }));
}

const ratesTable = (rates) => table("Enforced rates", [["QER"], ["Direction"], ["Limit", "num"], ["Guaranteed", "num wide"], ["Passed", "num"], ["Dropped", "num"], ["Waiting", "num wide"]],
  rates.map((row) => [`QER ${row.qer}${row.qfi === null ? "" : `, QFI ${row.qfi}`}`, row.direction, bits(row.mbr_bps), row.gbr_bps ? bits(row.gbr_bps) : "–",
    octets(row.passed_bytes), `${count(row.dropped_pkts)} packets`, `${count(row.queued_pkts)} packets`]), "No rate is enforced.");

// The reason of a drop that the user wants to trace in the view of packets.
let traceAtOnce = null;

function packetsView(view) {
  const places = { ports: h("div"), workers: h("div"), shared: h("div"), tracing: h("div") };
  const reasons = dropReasons().then((known) => [...known.keys()]);
  const panel = reasons.then((known) => tracePanel(view, { title: "Trace dropped packets", file: "adit-drops", call,
    choices: [["dropped for any reason", { drop: "any" }], ...known.map((reason) => [`dropped: ${reason}`, { drop: reason }])] }));
  panel.then(({ element }) => places.tracing.replaceChildren(element));
  const trace = async (reason) => { const { start } = await panel; if (!view.signal.aborted) start(1 + (await reasons).indexOf(reason)); };
  const drops = new DropsTable(trace);
  if (traceAtOnce) trace(traceAtOnce);
  traceAtOnce = null;
  onEvents(view, (event) => {
    drops.update(event.drops);
    places.workers.replaceChildren(workersTable(event.workers));
  });
  repeat(view, 3000, async () => {
    const { ports } = await get("/v1/ports", view.signal);
    places.ports.replaceChildren(table("Ports", [["Port"], ["Device"], ["Driver", "wide"], ["Link"], ["Received", "num"], ["Transmitted", "num"], ["Missed", "num"], ["Errors", "num wide"]],
      ports.map((port) => [port.name, h("code", {}, port.device), port.driver ?? "–",
        port.link === null ? pill("kernel", "") : pill(port.link_speed_mbps ? `${port.link}, ${count(port.link_speed_mbps)} Mb/s` : port.link, port.link === "up" ? "good" : "bad"),
        count(port.rx_pkts), count(port.tx_pkts), count(port.rx_missed + port.rx_no_mbuf), count(port.rx_errors + port.tx_errors)]), "No ports."));
    const { offload, offloaded_percent: share } = await get("/v1/offload", view.signal);
    places.shared.replaceChildren(facts([["Offload", offload === "none" ? "none: workers forward all packets" : `${offload}, ${share} % of all packets`]]));
  });
  return [h("h1", {}, "Packets"), card("Drops by reason", drops.element), places.tracing, card("Ports", places.ports), h("div", { class: "two" }, card("Workers", places.workers), card("In front of workers", places.shared))];
}

function network(view) {
  const places = { associations: h("div"), routes: h("div"), neighbors: h("div"), paths: h("div"), pools: h("div") };
  const state = (text) => pill(text, { up: "good", reachable: "good", fixed: "good", down: "bad", failed: "bad" }[text] ?? "");
  const release = (row) => async () => {
    if (await confirmed(`Release ${row.node_id}?`, "The SMF is asked to release its association. Sessions go on until it does.", "Ask for release"))
      await act(`/v1/associations/${encodeURIComponent(row.node_id)}`, { method: "DELETE" });
  };
  repeat(view, 3000, async () => {
    const [{ associations }, { paths }, { neighbours: neighbors }, routes] = await Promise.all(
      ["/v1/associations", "/v1/paths?limit=200", "/v1/neighbors?limit=200", "/v1/routes"].map((path) => get(path, view.signal)));
    if (!places.associations.contains(document.activeElement)) places.associations.replaceChildren(table("Associations", [["Node ID"], ["Address"], ["Sessions", "num"], ["State"], [""]],
      associations.map((row) => [row.node_id, h("code", {}, row.peer), count(row.sessions), state(row.state),
        h("button", { type: "button", "aria-label": `Release ${row.node_id}`, onclick: release(row) }, "Release")]), "No SMF is associated."));
    places.paths.replaceChildren(table("GTP-U paths", [["Peer"], ["State"], ["Echo Requests", "num"], ["Responses", "num"]],
      paths.map((row) => [h("code", {}, row.peer), state(row.state), count(row.requests), count(row.responses)]), "No session sends to a GTP-U peer."));
    places.neighbors.replaceChildren(table("Neighbors", [["Interface"], ["Address"], ["Link-layer address"], ["State"]],
      neighbors.map((row) => [row.interface ?? "–", h("code", {}, row.addr), h("code", {}, row.mac ?? "–"), state(row.state)]), "No neighbors."));
    places.routes.replaceChildren(table("Routes", [["Prefix"], ["Interface"], ["Next hop"]],
      routes.routes.map((row) => [h("code", {}, row.prefix), row.interface ?? "–", row.next_hop ? h("code", {}, row.next_hop) : "the kernel"]), "No routes."));
    places.pools.replaceChildren(table("UE address pools", [["Pool"], ["Network instance"], ["Used", "num"], ["Size", "num"]],
      routes.ue_pools.map((row) => [h("code", {}, row.prefix), row.network_instance ?? "all", count(row.used), count(row.size)]), "No pools: SMFs choose UE addresses."));
  });
  return [h("h1", {}, "Network"), card("Associations", places.associations),
    h("div", { class: "two" }, card("GTP-U paths", places.paths), card("Neighbors", places.neighbors)),
    h("div", { class: "two" }, card("Routes", places.routes), card("UE address pools", places.pools))];
}

function operate(view) {
  const health = h("div"), store = h("div"), taps = h("div"), drainText = h("p"), drainButton = h("button", { type: "button" }, "…");
  let draining = false;
  drainButton.addEventListener("click", async () => {
    const wanted = !draining;
    if (wanted && !await confirmed("Refuse new sessions?", "SMFs get Cause 74 and full load until you accept new sessions again. Known sessions go on.", "Refuse new sessions")) return;
    if (await act("/v1/drain", { method: "PUT", body: { on: wanted } })) refresh();
  });
  const takeOver = h("button", { type: "button", class: "danger", onclick: async () => {
    if (await confirmed("Take over?", "The active adit is asked for the lease and ends.", "Take over")) await act("/v1/takeover", { method: "POST" });
  } }, "Take over");
  const standby = h("section", { class: "card", hidden: true }, h("h2", {}, "Standby"), h("p", {}, "Another adit is active. This one follows it."), takeOver);
  const filter = h("input", { name: "filter", value: "info", autocomplete: "off", spellcheck: "false" });
  let isFilled = false;
  const log = h("form", { class: "search", onsubmit: (event) => { event.preventDefault(); act("/v1/log", { method: "PUT", body: { filter: filter.value.trim() } }); } },
    h("label", {}, "Level, or levels by room such as info,adit_n4=debug", filter), h("button", {}, "Set"));
  async function refresh() {
    const node = await get("/v1/node", view.signal);
    draining = node.state === "draining";
    drainText.textContent = draining ? "New sessions are refused, and full load is reported." : "New sessions are accepted.";
    drainButton.textContent = draining ? "Accept new sessions" : "Refuse new sessions";
    standby.hidden = node.role !== "standby";
    if (!isFilled && node.log) { isFilled = true; filter.value = node.log; }
    const ready = await fetch("/readyz").then((response) => response.json());
    health.replaceChildren(ready.ready ? h("p", {}, pill("ready", "good"), " Workers step, ports are up, sessions are served.")
      : h("ul", {}, ready.reasons.map(({ reason, detail }) => h("li", {}, pill(reason.replaceAll("_", " "), "bad"), ` ${detail}`))));
    const kept = await get("/v1/store", view.signal);
    store.replaceChildren(facts([["Store", kept.store], ["State", kept.state], ["Failure", kept.failure], ["Last commit", kept.store === "none" ? null : `${count(kept.last_commit_us)} µs`],
      ["Groups on their way", kept.store === "none" ? null : count(kept.groups_under_way)], ["Server", kept.server], ["Lease holder", kept.holder]]));
  }
  repeat(view, 3000, refresh);
  repeat(view, 3000, async () => {
    const running = (await get("/v1/taps", view.signal)).taps;
    if (!taps.contains(document.activeElement)) taps.replaceChildren(table("Traces and captures", [["Which"], ["Of"], ["Running", "num"], ["Packets", "num"], ["Lost", "num"], [""]],
      running.map((row) => [`${row.kind} ${row.tap}`, row.of, span(row.running_s), count(row.pkts), count(row.skipped_pkts),
        h("button", { type: "button", class: "small", "aria-label": `End ${row.kind} ${row.tap}`, onclick: () => act(`/v1/taps/${row.tap}`, { method: "DELETE" }) }, "End")]), "None runs."));
  });
  return [h("h1", {}, "Operate"), h("div", { class: "two" }, card("Health", health), card("Records", store)), standby,
    h("div", { class: "two" }, card("New sessions", drainText, drainButton), card("Log", log)), card("Traces and captures", taps),
    h("p", { class: "soft" }, "Each change takes a token with the role act, and is logged with its name.")];
}

// ---- Routes of the page

let current = null;
function route() {
  current?.abort();
  current = new AbortController();
  const view = { signal: current.signal };
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const [, name = "overview", item] = path.split("/");
  const views = { overview, sessions, packets: packetsView, network, operate };
  const known = views[name] ? name : "overview";
  const parts = known === "sessions" && item ? session(view, decodeURIComponent(item)) : views[known](view, query);
  const main = $("main");
  const isFirst = !main.hasChildNodes() || main.querySelector("noscript") !== null;
  main.replaceChildren(...parts);
  for (const link of document.querySelectorAll("header nav a")) {
    if (link.getAttribute("href") === `#/${known}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  if (!isFirst) main.focus({ preventScroll: false });
}

// ---- Light and dark, tokens, keys

const THEMES = ["system", "light", "dark"];
function theme(wanted) {
  if (wanted === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = wanted;
  $("theme").textContent = `Theme: ${wanted}`;
  try { localStorage.setItem("adit-theme", wanted); } catch { /* Private windows forget it. */ }
}
let chosen = "system";
try { chosen = localStorage.getItem("adit-theme") ?? "system"; } catch { /* As the system says. */ }
theme(THEMES.includes(chosen) ? chosen : "system");
$("theme").addEventListener("click", () => { chosen = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length]; theme(chosen); });
$("token").addEventListener("click", () => { $("token-input").value = token(); $("token-dialog").returnValue = "cancel"; $("token-dialog").showModal(); });
$("token-dialog").addEventListener("close", () => {
  if ($("token-dialog").returnValue !== "save") return;
  try { sessionStorage.setItem("adit-token", $("token-input").value.trim()); } catch { notice("This browser keeps no token."); }
  $("token-input").value = "";
  delete names.drops;
  connect();
  route();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  event.preventDefault();
  if (!$("search")) { location.hash = "#/sessions"; route(); }
  $("search")?.focus();
});
document.addEventListener("visibilitychange", () => { if (document.hidden) { stream?.abort(); stream = null; streamState("paused", false); } else if (!stream) connect(); });
window.addEventListener("hashchange", route);
// A link may bring a token behind the #, which no server sees; the address bar does not keep it.
if (location.hash.startsWith("#token=")) {
  try { sessionStorage.setItem("adit-token", location.hash.slice(7)); } catch { notice("This browser keeps no token."); }
  window.history.replaceState(null, "", "#/overview");
}
if (!location.hash) window.history.replaceState(null, "", "#/overview");
connect();
route();

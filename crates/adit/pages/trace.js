// Traces and captures from the page: what single packets met, in words, and packets to download.

import { count } from "./charts.js";
import { h } from "./elements.js";

const ENDS = { packets: "as many as were asked for", duration: "the time is over", ended: "somebody has ended it", shutdown: "adit has ended" };
const KINDS = { sent: "good", switched: "good", dropped: "bad" };

/** Lines of JSON, as they arrive. */
async function* jsonLines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

/** A packet of a trace as an item of a list. */
function packetItem(packet) {
  const { head, lines, outcome } = packet.words;
  const names = lines.flatMap(({ name, text }) => [name ? h("dt", {}, name) : null, h("dd", {}, text)]);
  return h("li", {},
    h("div", { class: "head" }, h("span", { class: "soft" }, head), h("span", { class: `pill ${KINDS[packet.outcome.kind] ?? ""}` }, packet.outcome.reason ?? packet.outcome.kind)),
    h("dl", { class: "trace" }, names), h("p", {}, outcome));
}

/** Gives the browser a file to keep. */
function save(parts, name) {
  const address = URL.createObjectURL(new Blob(parts, { type: "application/x-pcapng" }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

/**
 * A card to trace and to capture packets. `title`: of the card. `choices`: pairs of a text and the members of a request that
 * select packets. `call`: sends a request. Returns the element, and a function that traces at once.
 */
export function tracePanel(view, { title, choices, file, call }) {
  const select = h("select", { name: "choice" }, choices.map(([text], at) => h("option", { value: at }, text)));
  const packets = h("input", { name: "packets", type: "number", min: 1, max: 1000, value: 10, required: true });
  const seconds = h("input", { name: "seconds", type: "number", min: 1, max: 3600, value: 30, required: true });
  const whole = h("input", { name: "whole", type: "checkbox" });
  const status = h("p", { class: "soft", role: "status" }, "A trace says which rules packets meet and what becomes of them. A capture is a file for Wireshark.");
  const list = h("ol", { class: "packets", "aria-label": "Traced packets" });
  const trace = h("button", { class: "primary", value: "trace" }, "Trace");
  const capture = h("button", { value: "capture" }, "Download capture");
  const stop = h("button", { type: "button", hidden: true, onclick: () => running?.abort() }, "Stop");
  let running = null;

  async function run(work) {
    running?.abort();
    const own = running = new AbortController();
    view.signal.addEventListener("abort", () => own.abort(), { once: true });
    const isAtStart = [trace, capture].includes(document.activeElement);
    stop.hidden = false;
    if (isAtStart) stop.focus();
    trace.disabled = capture.disabled = true;
    list.setAttribute("aria-busy", "true");
    try { await work(own.signal); } catch (problem) {
      if (!own.signal.aborted) status.textContent = problem.message;
    }
    if (running !== own) return;
    const isAtStop = document.activeElement === stop;
    running = null;
    stop.hidden = true;
    trace.disabled = capture.disabled = false;
    list.removeAttribute("aria-busy");
    if (isAtStop) trace.focus();
  }

  const wish = () => ({ ...choices[Number(select.value)][1], packets: Number(packets.value), duration_ms: 1000 * Number(seconds.value) });

  async function traces(signal) {
    list.replaceChildren();
    status.textContent = "Waiting for packets…";
    const response = await call("/v1/traces", { method: "POST", body: { ...wish(), words: true, path: true }, signal });
    let known = 0, notes = [];
    try {
      for await (const line of jsonLines(response)) {
        if (line.tap) { notes = line.tap.notes; continue; }
        if (line.end) {
          const lost = line.end.skipped ? `; ${count(line.end.skipped)} further ones were not followed` : "";
          const none = line.end.packets ? "" : "; no such packet reached a worker";
          status.textContent = [`${count(line.end.packets)} packets; ${ENDS[line.end.why] ?? line.end.why}${lost}${none}.`, ...notes].join(" Note: ");
          return;
        }
        known += 1;
        list.append(packetItem(line));
        status.textContent = `${count(known)} packets so far…`;
      }
      status.textContent = `${count(known)} packets; the connection ended.`;
    } catch (problem) {
      if (!signal.aborted) throw problem;
      status.textContent = `${count(known)} packets; stopped.`;
    }
  }

  async function captures(signal) {
    list.replaceChildren();
    status.textContent = "Capturing…";
    const body = { ...wish(), ...(whole.checked ? { snap_bytes: 9216 } : {}) };
    const reader = (await call("/v1/captures", { method: "POST", body, signal })).body.getReader();
    const parts = [];
    let octets = 0, isStopped = false;
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        parts.push(value);
        octets += value.length;
        status.textContent = `Capturing, ${count(octets)} octets so far…`;
      }
    } catch (problem) {
      if (!signal.aborted) throw problem;
      isStopped = true;
    }
    if (view.signal.aborted) return;
    save(parts, `${file}.pcapng`);
    status.textContent = `${count(octets)} octets captured${isStopped ? "; stopped" : ""}. The file says what became of each packet, and how many were lost.`;
  }

  const form = h("form", { class: "search", onsubmit: (event) => {
    event.preventDefault();
    run(event.submitter?.value === "capture" ? captures : traces);
  } },
    choices.length > 1 ? h("label", {}, "Packets", select) : null,
    h("label", { class: "few" }, "At most", packets), h("label", { class: "few" }, "Seconds", seconds), trace, capture, stop,
    h("label", { class: "inline" }, whole, "Capture whole frames, with users' data"));
  const element = h("section", { class: "card", "aria-label": title }, h("h2", {}, title), form, status, list);
  return { element, start: (at) => { select.value = at; element.scrollIntoView(); trace.focus(); run(traces); } };
}

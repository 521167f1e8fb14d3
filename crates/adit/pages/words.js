// Rules of a session in plain words.

import { bits, octets } from "./charts.js";

const SIDES = { Access: "the radio network", Core: "the core network", SgiLanN6Lan: "the data network", CpFunction: "the SMF", FiveGVnInternal: "other UEs of the group" };

/** A side of the UPF, by its name in the standard. */
export const side = (name) => SIDES[name] ?? name;

const isUplink = (pdr) => pdr.source_interface === "Access";

/** The direction of a PDR: "up", "down" or neither. */
export const direction = (pdr) => (isUplink(pdr) ? "up" : pdr.source_interface === "Core" || pdr.source_interface === "SgiLanN6Lan" ? "down" : "");

const list = (words) => words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;

function selection(pdr) {
  const words = [`from ${side(pdr.source_interface)}`];
  if (pdr.teid) words.push(`in tunnel ${pdr.teid}`);
  if (pdr.network_instance) words.push(`of ${pdr.network_instance}`);
  if (pdr.qfis.length) words.push(`of QoS flow ${list(pdr.qfis.map(String))}`);
  if (pdr.application) words.push(`of the application “${pdr.application}”`);
  if (pdr.sdf_filters) words.push(pdr.sdf_filters === 1 ? "that match its filter" : `that match one of ${pdr.sdf_filters} filters`);
  return words.join(" ");
}

/** What a FAR does. */
export function action(far) {
  if (!far) return "have no forwarding rule and are dropped";
  if (far.action === "drop") return "are dropped";
  if (far.action === "buffer") {
    const tells = far.apply_action.includes("NOCP") ? ", and the SMF is told, so that it pages the UE" : "";
    return `are buffered${tells}`;
  }
  const where = far.destination_interface ? ` to ${side(far.destination_interface)}` : "";
  const tunnel = far.tunnel ? ` in tunnel ${far.tunnel.teid} of ${far.tunnel.addr}` : "";
  return `are forwarded${where}${tunnel}`;
}

/** What a QER does. */
export function rate(qer) {
  const words = [];
  const gates = [["uplink", qer.gate_uplink], ["downlink", qer.gate_downlink]].filter(([, gate]) => gate !== "open");
  if (gates.length) words.push(`closed for ${list(gates.map(([name]) => name))}`);
  const both = (rates) => rates.uplink === rates.downlink ? bits(rates.uplink) + " each way" : `${bits(rates.uplink)} up and ${bits(rates.downlink)} down`;
  if (qer.mbr_bps) words.push(`at most ${both(qer.mbr_bps)}`);
  if (qer.gbr_bps && (qer.gbr_bps.uplink || qer.gbr_bps.downlink)) words.push(`guaranteed ${both(qer.gbr_bps)}`);
  if (qer.qfi !== null && qer.qfi !== undefined) words.push(`marked as QoS flow ${qer.qfi}`);
  return `QER ${qer.id}: ${words.join(", ") || "no limit"}`;
}

/** What a URR counts. */
export function usage(urr) {
  const what = [urr.measures_volume && "volume", urr.measures_duration && "time"].filter(Boolean);
  const used = `${octets(urr.uplink_bytes)} up, ${octets(urr.downlink_bytes)} down since its last report`;
  return `URR ${urr.id}: counts ${list(what) || "events"}; ${used}${urr.quota_exhausted ? "; its quota is used up" : ""}`;
}

/** A PDR as a sentence, and what else applies to its packets. */
export function rule(session, pdr) {
  const far = session.fars.find((known) => known.id === pdr.far);
  const sentence = `Packets ${selection(pdr)} ${pdr.predefined_rules.length ? `follow the predefined rules ${list(pdr.predefined_rules)} and ` : ""}${action(far)}.`;
  const more = [
    ...pdr.qers.map((id) => session.qers.find((known) => known.id === id)).filter(Boolean).map(rate),
    ...pdr.urrs.map((id) => session.urrs.find((known) => known.id === id)).filter(Boolean).map(usage),
  ];
  const name = `PDR ${pdr.id}, precedence ${pdr.precedence}${far ? `, FAR ${far.id}` : ""}${pdr.active ? "" : ", not active now"}`;
  return { sentence, more, name };
}

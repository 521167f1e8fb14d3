// A page to try the interface: built from its description.

import { $, h, token } from "./elements.js";

$("token").value = token();
$("token").addEventListener("change", () => { try { sessionStorage.setItem("adit-token", $("token").value.trim()); } catch { /* Until the page is left. */ } });

/** An example of a value that a schema describes. */
function example(schema, all) {
  const target = schema.$ref ? all[schema.$ref.split("/").at(-1)] : schema;
  if (target.example !== undefined) return target.example;
  if (target.type === "object") return Object.fromEntries(Object.entries(target.properties ?? {}).map(([name, member]) => [name, example(member, all)]));
  return { boolean: true, string: "info", integer: 0 }[target.type] ?? null;
}

function operation(path, method, described, schemas) {
  const parameters = described.parameters ?? [];
  const fields = parameters.map((parameter) => h("input", { name: parameter.name, spellcheck: "false", autocomplete: "off", required: parameter.required, placeholder: parameter.schema?.default ?? "" }));
  const schema = described.requestBody?.content?.["application/json"]?.schema;
  const body = schema ? h("input", { name: "body", spellcheck: "false", value: JSON.stringify(example(schema, schemas)) }) : null;
  const shown = h("pre", { tabindex: 0, hidden: true, "aria-label": "Answer" }), status = h("span", { class: "soft", role: "status" });
  const send = async (event) => {
    event.preventDefault();
    let target = path;
    const query = new URLSearchParams();
    parameters.forEach((parameter, at) => {
      const value = fields[at].value.trim();
      if (parameter.in === "path") target = target.replace(`{${parameter.name}}`, encodeURIComponent(value));
      else if (value) query.set(parameter.name, value);
    });
    const headers = {};
    if ($("token").value) headers.Authorization = `Bearer ${$("token").value.trim()}`;
    if (body) headers["Content-Type"] = "application/json";
    status.textContent = "…";
    try {
      const response = await fetch(query.size ? `${target}?${query}` : target, { method: method.toUpperCase(), headers, body: body?.value });
      status.textContent = `${response.status} ${response.statusText}`;
      shown.hidden = false;
      if (response.headers.get("content-type") === "text/event-stream") {
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let part = 0; part < 3; part += 1) shown.textContent = (await reader.read()).value ?? "";
        await reader.cancel();
        return;
      }
      if (response.headers.get("content-type") === "application/x-pcapng") {
        shown.textContent = `${(await response.blob()).size} octets of pcapng`;
        return;
      }
      const text = await response.text();
      try { shown.textContent = JSON.stringify(JSON.parse(text), null, 2).slice(0, 200000); } catch { shown.textContent = text; }
    } catch (error) {
      status.textContent = String(error);
    }
  };
  return h("details", { class: "card" },
    h("summary", {}, h("code", {}, `${method.toUpperCase()} ${path}`), ` ${described.summary ?? ""}`),
    h("form", { class: "search", onsubmit: send },
      parameters.map((parameter, at) => h("label", {}, `${parameter.name}${parameter.description ? `: ${parameter.description}` : ""}`, fields[at])),
      body ? h("label", {}, "Body", body) : null,
      h("button", { class: method === "get" ? "primary" : "danger" }, "Send"), status), shown);
}

async function begin() {
  const document_ = await (await fetch("/openapi.json")).json();
  $("about").textContent = document_.info.description;
  const main = $("main");
  for (const tag of document_.tags) {
    const found = [];
    for (const [path, methods] of Object.entries(document_.paths)) {
      for (const [method, described] of Object.entries(methods)) {
        if (described.tags?.includes(tag.name)) found.push(operation(path, method, described, document_.components.schemas));
      }
    }
    if (found.length) main.append(h("h2", {}, tag.description), ...found);
  }
}

begin().catch((error) => { $("about").textContent = `The description cannot be loaded: ${error}`; });

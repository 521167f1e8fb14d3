// What the pages share: elements, and the token of the interface.

export const $ = (id) => document.getElementById(id);

/** An element with attributes, listeners and children; children that are null are left out. */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** The token that this tab keeps until it is closed; empty without one. */
export function token() {
  try { return sessionStorage.getItem("adit-token") ?? ""; } catch { return ""; }
}

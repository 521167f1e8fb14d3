// Looks at the dashboard of a running adit in a real browser: every view shows what adit has, by mouse and by keyboard, in light,
// dark and on a phone, and the console stays free of errors.
//
// Usage: node scripts/dashboard-test.mjs URL [FOLDER]
// URL: the address of the dashboard, with #token=TOKEN if it takes one. FOLDER: where screenshots go.
// Needs Chromium (CHROMIUM, or in the PATH) and playwright-core (found by NODE_PATH). Prints one line for each check.

import { createRequire } from "node:module";
import { accessSync, mkdirSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import process from "node:process";

const [url, folder] = process.argv.slice(2);
if (!url) { console.error("usage: node scripts/dashboard-test.mjs URL [FOLDER]"); process.exit(2); }

function chromium_path() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  for (const place of (process.env.PATH ?? "").split(delimiter)) {
    for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
      try { accessSync(join(place, name)); return join(place, name); } catch { /* The next one. */ }
    }
  }
  return undefined;
}

const require = createRequire(join(process.env.NODE_PATH ?? process.cwd(), "x"));
let chromium;
try { ({ chromium } = require("playwright-core")); } catch {
  try { ({ chromium } = require(join(process.env.NODE_PATH ?? ".", "playwright-core"))); } catch { /* Said below. */ }
}
const executablePath = chromium_path();
if (!chromium || !executablePath) {
  console.log(`skipped: ${chromium ? "there is no Chromium" : "there is no playwright-core"}; scripts/install.sh test installs it`);
  process.exit(0);
}

const failures = [];
function check(name, isRight, more = "") {
  console.log(`${isRight ? "ok  " : "FAIL"} ${name}${isRight ? "" : `: ${more}`}`);
  if (!isRight) failures.push(name);
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const said = [];
async function open(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) said.push(message.text()); });
  page.on("pageerror", (error) => said.push(String(error)));
  page.on("request", (request) => { if (!request.url().startsWith(new URL(url).origin) && !request.url().startsWith("data:")) said.push(`foreign: ${request.url()}`); });
  await page.goto(url);
  return page;
}
async function shot(page, name) {
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`) });
}
/** Traces two packets by keyboard, on a page that shows a session. Returns what the page says at the end. */
async function trace(page, card) {
  const form = page.locator(`section[aria-label="${card}"]`);
  await form.locator("input[name=packets]").fill("2");
  await form.locator("input[name=seconds]").fill("5");
  await page.keyboard.press("Enter");
  const status = form.locator("[role=status]");
  await page.waitForFunction((text) => /packets; /.test(text.textContent), await status.elementHandle(), { timeout: 15000 });
  return { said: await status.textContent(), items: await form.locator("ol.packets li").allTextContents() };
}
const view = async (page, name) => { await page.click(`header nav a:text-is("${name}")`); };

const page = await open({ viewport: { width: 1280, height: 860 }, colorScheme: "light" });
await page.waitForSelector("#stream.live", { timeout: 20000 });
check("live stream", true);
check("token is not in the address", !page.url().includes("token"), page.url());
const dashes = () => [...document.querySelectorAll(".figure .value")].every((value) => value.textContent !== "–");
await page.waitForFunction(dashes, undefined, { timeout: 10000 });
await page.waitForTimeout(Number(process.env.SETTLE_MS ?? 3000));
check("figures", /b\/s/.test(await page.textContent(".figure .value")));
check("ports", (await page.locator("section:has(> h2:text-is('Ports')) tbody tr").count()) >= 2);
check("workers", (await page.locator("section:has(> h2:text-is('Workers')) tbody tr").count()) >= 1);
await shot(page, "overview");

await view(page, "Sessions");
await page.waitForSelector("main table, main .empty");
check("focus goes to the view", await page.evaluate(() => document.activeElement?.id === "main"));
const rows = await page.locator("main tbody tr").count();
await shot(page, "sessions");
if (rows > 0) {
  const address = await page.locator("main tbody tr a").first().textContent();
  await page.keyboard.press("/");
  check("/ goes to the search", await page.evaluate(() => document.activeElement?.id === "search"));
  await page.keyboard.type(address.split(",")[0].split("/")[0]);
  await page.keyboard.press("Enter");
  await page.waitForFunction((text) => document.querySelectorAll("main tbody tr").length === 1 && document.querySelector("main tbody").textContent.includes(text), address, { timeout: 10000 });
  check("search by UE address finds one session", true);
  await page.locator("main tbody tr a").first().focus();
  await page.keyboard.press("Enter");
  await page.waitForSelector(".rules li", { timeout: 10000 });
  const words = await page.textContent(".rules");
  check("rules are in words", /Packets from/.test(words), words);
  await page.waitForFunction(() => /Uplink .*b\/s/.test(document.querySelector("main").textContent), undefined, { timeout: 10000 });
  await page.waitForTimeout(Number(process.env.SETTLE_MS ?? 1500));
  check("traffic is live", true);
  await shot(page, "session");

  const card = "Packets of this session";
  const { said: ended, items } = await trace(page, card);
  check("a trace ends and says why", /as many as were asked for|the time is over/.test(ended), ended);
  if (process.env.TRAFFIC) check("packets are told in words", items.length === 2 && items.every((text) => /FAR \d/.test(text) && /sent|waits/.test(text)), items.join(" | "));
  await page.locator(`section[aria-label="${card}"]`).scrollIntoViewIfNeeded();
  await shot(page, "trace");
  const downloads = page.waitForEvent("download", { timeout: 15000 });
  await page.click("button:text-is('Download capture')");
  const file = await downloads;
  const octets = readFileSync(await file.path());
  check("a capture is a file of pcapng", /^adit-0x[0-9a-f]+\.pcapng$/.test(file.suggestedFilename()) && octets.readUInt32BE(0) === 0x0a0d0d0a, file.suggestedFilename());
  await page.locator(`section[aria-label="${card}"] input[name=seconds]`).fill("600");
  await page.locator(`section[aria-label="${card}"] input[name=packets]`).fill("1000");
  await page.click("button:text-is('Trace')");
  await page.click("button:text-is('Stop')");
  await page.waitForFunction(() => /stopped/.test(document.querySelector("section[aria-label='Packets of this session'] [role=status]").textContent), undefined, { timeout: 10000 });
  check("a trace can be stopped, and the focus stays near", await page.evaluate(() => document.activeElement?.textContent === "Trace"));
}

for (const name of ["Packets", "Network", "Operate"]) {
  await view(page, name);
  await page.waitForFunction(() => document.querySelectorAll("main table, main dl, main .empty").length > 0, undefined, { timeout: 10000 });
  await page.waitForTimeout(1200);
  check(`view ${name}`, (await page.textContent("main h1")) === name);
  await shot(page, name.toLowerCase());
}
if (process.env.TRAFFIC) {
  await view(page, "Overview");
  const button = page.locator("button[aria-label='Trace packets dropped for ue_unknown']");
  await button.focus();
  await page.waitForTimeout(2500);
  check("the focus stays while figures change", await button.evaluate((element) => document.activeElement === element));
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("ol.packets li").length > 2, undefined, { timeout: 15000 });
  const words = await page.textContent("ol.packets li");
  check("drops are traced from their table", /DROPPED ue_unknown: /.test(words), words);
  await shot(page, "trace-drops");
  await view(page, "Operate");
}
await page.waitForFunction(() => !/…/.test(document.querySelector("main").textContent), undefined, { timeout: 10000 });
await page.click("button:text-is('Refuse new sessions')");
await page.waitForSelector("dialog[open]");
await page.keyboard.press("Escape");
check("a change asks first, and Escape leaves it", (await page.locator("dialog[open]").count()) === 0 && (await page.textContent("main")).includes("accepted"));

const labels = await page.evaluate(() => [...document.querySelectorAll("button, a, input, select")].filter((element) => {
  const name = element.getAttribute("aria-label") ?? element.textContent ?? "";
  return !name.trim() && !element.labels?.length && element.offsetParent !== null;
}).map((element) => element.outerHTML));
check("everything that can be used has a name", labels.length === 0, labels.join(" "));
check("landmarks", await page.evaluate(() => ["header", "nav", "main", "footer"].every((tag) => document.querySelector(tag))));

await page.goto(new URL("/api", url).href);
await page.waitForSelector("details");
await page.click("summary:has-text('GET /v1/node')");
await page.click("details[open] button");
await page.waitForFunction(() => document.querySelector("details[open] pre")?.textContent.includes("node_id"), undefined, { timeout: 10000 });
check("the interface can be tried", true);
await shot(page, "api");

const dark = await open({ viewport: { width: 1280, height: 860 }, colorScheme: "dark" });
await dark.waitForSelector("#stream.live", { timeout: 20000 });
await dark.waitForTimeout(Number(process.env.SETTLE_MS ?? 3000));
check("dark", await dark.evaluate(() => getComputedStyle(document.body).backgroundColor === "rgb(16, 21, 28)"));
await shot(dark, "dark");

const phone = await open({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, colorScheme: "light" });
await phone.waitForSelector("#stream.live", { timeout: 20000 });
await phone.waitForTimeout(Number(process.env.SETTLE_MS ?? 3000));
for (const name of ["Overview", "Sessions", "Packets", "Network", "Operate"]) {
  await view(phone, name);
  await phone.waitForTimeout(800);
  const over = await phone.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(`phone: ${name} fits`, over <= 0, `${over} pixels too wide`);
  await shot(phone, `phone-${name.toLowerCase()}`);
}
if (rows > 0) {
  await view(phone, "Sessions");
  await phone.locator("main tbody tr a").first().click();
  await phone.waitForSelector(".rules li", { timeout: 10000 });
  await trace(phone, "Packets of this session");
  const over = await phone.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check("phone: a trace fits", over <= 0, `${over} pixels too wide`);
  await phone.locator("section[aria-label='Packets of this session']").scrollIntoViewIfNeeded();
  await shot(phone, "phone-trace");
}

check("the console is free of errors, and nothing is loaded from elsewhere", said.length === 0, said.join("\n"));
await browser.close();
process.exit(failures.length ? 1 : 0);

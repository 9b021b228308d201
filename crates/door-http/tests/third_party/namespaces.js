// Two tabs of one browser, in two namespaces: what a tab shows and changes is in the namespace that it names.
// Arguments: the address of the dashboard, the address of the native door, the binary, the browser, a folder.

const { strict: assert } = require("node:assert");
const { chromium } = require("playwright-core");

const [dashboard, , , executablePath] = process.argv.slice(2);
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
];

async function main() {
  const browser = await chromium.launch({ executablePath, headless: true, args: FLAGS });
  try {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    context.setDefaultTimeout(60000);
    await submit("default", "ours");
    await submit("lab", "precious");
    const tab = await context.newPage();
    await open(tab, "/tasks?queue=bulk");
    await tab.waitForSelector("#list tr:has-text('ours')");
    await choose(await context.newPage(), "lab");
    await refresh(tab);
    await act(tab);
    await go(tab);
    await listen(tab);
  } finally {
    await browser.close();
  }
}

async function open(page, path) {
  await page.goto(dashboard + path);
  await page.waitForSelector("#connection[data-state=live]");
}

/** Another tab goes to another namespace. */
async function choose(other, namespace) {
  await open(other, "/");
  await other.click("details.namespace summary");
  await other.fill("#namespace", namespace);
  await Promise.all([other.waitForNavigation(), other.click("details.namespace button")]);
  await other.waitForSelector("#connection[data-state=live]");
  assert.equal(await shown(other), namespace);
  await other.goto(`${dashboard}/tasks`);
  await other.waitForSelector("#list tr:has-text('precious')");
}

/** A tab that refreshes itself stays where it is. */
async function refresh(tab) {
  await submit("default", "ours too");
  await tab.waitForSelector("#list tr:has-text('ours too')");
  assert.equal(await tab.locator("#list tr:has-text('precious')").count(), 0);
  assert.equal(await shown(tab), "default");
}

/** An act on all that match is about the namespace that the tab names. */
async function act(tab) {
  await tab.check("#select-matching");
  await tab.click("[data-bulk=cancel]");
  await tab.waitForSelector("dialog#confirm[open]");
  assert.equal(await tab.innerText("#confirm-title"), "Cancel 2 tasks?");
  await tab.click("#confirm-do");
  await tab.waitForSelector("#notices .notice:has-text('Cancel: 2 of 2 accepted')");
  assert.deepEqual(await states("default"), ["cancelled", "cancelled"]);
  assert.deepEqual(await states("lab"), ["ready"]);
}

/** Links, keys, forms and the form that submits keep the namespace. */
async function go(tab) {
  await tab.click("nav[aria-label=Main] a:has-text('Tasks')");
  await tab.waitForSelector("#list .empty");
  assert.equal(await shown(tab), "default");
  await tab.click("nav.chips a:has-text('all')");
  await tab.waitForSelector("#list tr:has-text('ours too')");
  assert.equal(await shown(tab), "default");
  await tab.keyboard.press("g");
  await tab.keyboard.press("q");
  await tab.waitForSelector("h1:has-text('Queues')");
  assert.equal(await shown(tab), "default");
  await tab.fill("#search", "ours too");
  await tab.keyboard.press("Enter");
  await tab.waitForSelector("#list tr:has-text('ours too')");
  assert.equal(await shown(tab), "default");
  await tab.waitForSelector("#connection[data-state=live]");
  await tab.click("#submit summary");
  await tab.fill("#submit-queue", "bulk");
  await tab.fill("#submit-name", "from a form");
  await tab.click("#submit button[type=submit]");
  await tab.waitForSelector("#notices a:has-text('Submitted to bulk')");
  assert.deepEqual(await states("lab"), ["ready"]);
  // The whole id of a task leads to the task.
  const { id } = await ask("default", "/v1/tasks/name:ours");
  await tab.fill("#search", id);
  await tab.press("#search", "Enter");
  await tab.waitForSelector("h1:has-text('ours')");
  assert.equal(await shown(tab), "default");
}

/** The live log of events is that of the namespace of the tab. */
async function listen(tab) {
  await tab.click("nav[aria-label=Main] a:has-text('Events')");
  await tab.waitForSelector("#event-log");
  await tab.waitForSelector("#connection[data-state=live]");
  const { task: unseen } = await submit("lab", "unseen");
  const { task: seen } = await submit("default", "seen");
  await tab.waitForSelector(`#event-log a[href="/tasks/${seen}"]`);
  assert.equal(await tab.locator(`#event-log a[href="/tasks/${unseen}"]`).count(), 0);
}

function shown(page) {
  return page.innerText("details.namespace summary");
}

async function states(namespace) {
  const { tasks } = await ask(namespace, "/v1/tasks?queue=bulk");
  return tasks.filter(({ name }) => name !== "from a form").map(({ state }) => state);
}

async function ask(namespace, path, method = "GET", body) {
  const headers = { "content-type": "application/json", "tenure-namespace": namespace };
  const answer = await fetch(dashboard + path, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status}`);
  return answer.status === 204 ? null : answer.json();
}

function submit(namespace, name) {
  return ask(namespace, "/v1/tasks", "POST", { queue: "bulk", name });
}

main().then(() => console.log("done"), (error) => {
  console.error(error);
  process.exit(1);
});

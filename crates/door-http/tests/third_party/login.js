// People with keys, in a real browser: a wrong key, a key that only looks, one that submits and does not manage, one for
// workers, one for another namespace, a page of another site, a key that acts, and the end of a login.
// Arguments: the address of the dashboard, the address of the native door, the binary, the browser, a folder, and the
// keys `looker`, `ada`, `submitter`, `node` and `guest`.

const { strict: assert } = require("node:assert");
const { mkdirSync, readFileSync } = require("node:fs");
const { createServer } = require("node:http");
const { join } = require("node:path");
const { chromium } = require("playwright-core");

const [dashboard, , , executablePath, folder, looker, ada, submitter, node, guest] = process.argv.slice(2);
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
];
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const pictures = join(folder, "pictures");
mkdirSync(pictures, { recursive: true });

async function main() {
  const browser = await chromium.launch({ executablePath, headless: true, args: FLAGS });
  try {
    const task = await submit({ queue: "films", name: "film-1", hold: true });
    await look(await visitor(browser, { colorScheme: "dark" }), task);
    await submitOnly(await visitor(browser, {}), task);
    await work(await visitor(browser, {}), task);
    await visitNamespace(await visitor(browser, {}), task);
    await act(await visitor(browser, {}), task);
    await phone(await visitor(browser, { colorScheme: "dark", viewport: { width: 390, height: 844 } }));
  } finally {
    await browser.close();
  }
}

/** A browser of its own, with a page. */
async function visitor(browser, settings) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...settings });
  context.setDefaultTimeout(60000);
  return context.newPage();
}

/** Logs in and waits for the page that follows: leaving before that would cancel the login. */
async function logIn(page, key) {
  await page.goto(`${dashboard}/tasks`);
  await page.fill("#key", key);
  await Promise.all([page.waitForNavigation(), page.click("button[type=submit]")]);
}

/** Without a key there is nothing to see. A key that only looks sees everything and is offered no act. */
async function look(page, task) {
  const answer = await page.goto(`${dashboard}/tasks`);
  assert.equal(answer.status(), 401);
  assert.equal(await page.locator("text=film-1").count(), 0);
  await check(page, "the login");
  await page.screenshot({ path: join(pictures, "login.png") });
  await logIn(page, "0".repeat(32));
  await page.waitForSelector("text=invalid key");
  await check(page, "a wrong key");

  await logIn(page, looker);
  await page.waitForURL(`${dashboard}/`);
  await page.waitForSelector("#connection[data-state=live]");
  assert.equal(await page.innerText(".chip"), "read-only");
  const [cookie] = await page.context().cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, "Strict"]);
  assert.equal(await page.evaluate(() => document.cookie), "", "no script can read it");
  for (const path of ["/", "/tasks?state=all", `/tasks/${task}`, "/queues", "/queues/films", "/workers"]) {
    await page.goto(dashboard + path);
    assert.equal(await page.locator("[data-act], [data-bulk]").count(), 0, `${path} offers an act`);
    await check(page, `${path}, read-only`);
  }
  await page.goto(`${dashboard}/tasks/${task}`);
  await page.screenshot({ path: join(pictures, "read-only.png") });
  // A page that acts all the same is refused by the broker.
  const refused = await page.evaluate(async (path) => (await fetch(path, { method: "POST" })).status, `/v1/tasks/${task}/cancel`);
  assert.equal(refused, 403);
  await page.click("#log-out");
  await page.waitForSelector("#key");
  assert.equal((await page.goto(`${dashboard}/tasks`)).status(), 401);
}

/** A key that submits acts on tasks, and is not offered what it may not do with queues and workers. */
async function submitOnly(page, task) {
  await register("worker-1");
  await logIn(page, submitter);
  await page.waitForSelector("#connection[data-state=live]");
  assert.equal(await page.locator(".chip:has-text('read-only')").count(), 0);
  await page.goto(`${dashboard}/tasks`);
  await page.click("#submit summary");
  await page.fill("#submit-queue", "films");
  await page.fill("#submit-name", "film-3");
  await page.click("#submit button[type=submit]");
  await page.waitForSelector("#list tr:has-text('film-3')");
  await page.check("#list tr:has-text('film-3') input[name=task]");
  await page.click("[data-bulk=cancel]");
  await page.click("#confirm-do");
  await page.waitForSelector("#notices .notice:has-text('Cancel: 1 of 1 accepted')");
  await page.goto(`${dashboard}/tasks/${task}`);
  assert.ok((await page.locator("[data-act=cancel]").count()) > 0, "a task offers its acts");
  for (const path of ["/workers", "/workers/worker-1", "/queues", "/queues/films", "/hooks"]) {
    await page.goto(dashboard + path);
    await page.waitForSelector("h1");
    assert.equal(await page.locator("[data-act], form[data-put]").count(), 0, `${path} offers an act`);
  }
  const refused = await page.evaluate(async () => (await fetch("/v1/workers/worker-1/drain", { method: "POST" })).status);
  assert.equal(refused, 403);
}

/** A key for workers opens no page: it says which right is missing, and leads to another login. */
async function work(page, task) {
  for (const path of ["/", "/tasks", `/tasks/${task}`, "/workers", "/queues", "/events"]) {
    if (path === "/") await logIn(page, node);
    const answer = await page.goto(dashboard + path);
    assert.equal(answer.status(), 403, path);
    await page.waitForSelector("text=this key may not read");
    assert.equal(await page.locator("text=film-1").count(), 0, path);
    await check(page, `${path} without the right to read`);
  }
  await page.fill("#key", looker);
  await page.click("button[type=submit]");
  await page.waitForSelector("#connection[data-state=live]");
}

/** A key of one namespace sees that namespace, and cannot enter another one. */
async function visitNamespace(page, task) {
  await logIn(page, guest);
  await page.waitForSelector("#connection[data-state=live]");
  assert.equal(await page.innerText("details.namespace summary"), "guests");
  await page.goto(`${dashboard}/tasks?state=all`);
  await page.waitForSelector("#list .empty");
  const answer = await page.goto(`${dashboard}/tasks/${task}`);
  assert.equal(answer.status(), 404);
  await page.goto(dashboard);
  await page.click("details.namespace summary");
  await page.fill("#namespace", "default");
  const [refused] = await Promise.all([page.waitForNavigation(), page.click("details.namespace button")]);
  assert.equal(refused.status(), 403);
  await page.goto(`${dashboard}/tasks?state=all`);
  assert.equal(await page.innerText("details.namespace summary"), "guests");
}

/** A key that acts does so in its own pages, and not for a page of another site. */
async function act(page, task) {
  await logIn(page, ada);
  await page.waitForSelector("#connection[data-state=live]");
  const other = createServer((_, answer) => {
    answer.setHeader("content-type", "text/html");
    answer.end(`<form method="post" action="${dashboard}/v1/tasks/${task}/cancel"><button>Win</button></form>`);
  });
  await new Promise((done) => other.listen(0, "127.0.0.1", done));
  try {
    // `localhost` and 127.0.0.1 are two sites for a browser.
    await page.goto(`http://localhost:${other.address().port}/`);
    const fetched = await page.evaluate(async (url) => {
      try {
        return (await fetch(url, { method: "POST", credentials: "include", mode: "no-cors" })).status;
      } catch (error) {
        return String(error);
      }
    }, `${dashboard}/v1/tasks/${task}/cancel`);
    // The browser sends the request without the cookie and hides the answer.
    assert.ok(fetched === 0 || typeof fetched === "string", `${fetched}`);
    const [answer] = await Promise.all([page.waitForNavigation(), page.click("button")]);
    assert.ok([401, 403].includes(answer.status()), `the form of another site: ${answer.status()}`);
  } finally {
    other.close();
  }
  await page.goto(`${dashboard}/tasks/${task}`);
  await page.waitForSelector(".state[data-state=created]");
  const submitted = await page.evaluate(async () => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch("/v1/tasks", { method: "POST", headers, body: JSON.stringify({ queue: "films", name: "film-2" }) });
    return answer.status;
  });
  assert.equal(submitted, 201);
  await page.click("button[data-act=cancel]");
  await page.waitForSelector("dialog#confirm[open]");
  await check(page, "the confirmation");
  await page.screenshot({ path: join(pictures, "confirm.png") });
  await page.click("#confirm-do");
  await page.waitForSelector(".state[data-state=cancelled]");
}

/** On a phone, in the dark. */
async function phone(page) {
  await page.goto(dashboard);
  await page.screenshot({ path: join(pictures, "phone-login.png") });
  await logIn(page, ada);
  await page.waitForSelector("#connection[data-state=live]");
  await page.goto(`${dashboard}/tasks?state=all`);
  await page.waitForSelector("tr:has-text('film-2')");
  await page.screenshot({ path: join(pictures, "phone-tasks.png") });
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 390, `${width} pixels wide`);
}

async function check(page, path) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const said = serious.map(({ id, nodes }) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`);
  assert.deepEqual(said, [], `${path} is not accessible`);
}

async function register(worker) {
  const answer = await fetch(`${dashboard}/v1/work/${worker}`, {
    method: "PUT",
    headers: { "content-type": "application/json", authorization: `Bearer ${ada}` },
    body: JSON.stringify({ queues: ["films"] }),
  });
  assert.ok(answer.ok, `${answer.status}`);
}

async function submit(task) {
  const answer = await fetch(`${dashboard}/v1/tasks`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${ada}` },
    body: JSON.stringify(task),
  });
  assert.equal(answer.status, 201);
  return (await answer.json()).task;
}

main().then(() => console.log("done"), (error) => {
  console.error(error);
  process.exit(1);
});

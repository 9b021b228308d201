// A person at the dashboard, in a real browser: submits, watches a worker die, reads the notice, resumes and cancels, acts
// on many tasks, drains a worker, and keeps a page open while the broker restarts. `TENURE_PICTURES` names a folder that keeps a picture of every page.
// Arguments: the address of the dashboard, the address of the native door, the binary, the browser, a folder.

const { spawn } = require("node:child_process");
const { strict: assert } = require("node:assert");
const { mkdirSync, readFileSync } = require("node:fs");
const { join } = require("node:path");
const { chromium } = require("playwright-core");

const [dashboard, native, binary, executablePath, folder] = process.argv.slice(2);
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
];
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const complaints = [];
let worker;

async function main() {
  const context = await chromium.launchPersistentContext(join(folder, "profile"), {
    executablePath, headless: true, args: FLAGS, viewport: { width: 1440, height: 900 },
  });
  context.setDefaultTimeout(60000);
  const page = context.pages()[0] ?? (await context.newPage());
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("requestfailed", (request) => {
    // Streams and refreshes end when their page is left.
    if (request.failure()?.errorText !== "net::ERR_ABORTED") complaints.push(`failed: ${request.url()}`);
  });
  await page.addInitScript(watchNotifications);
  const open = async (path) => {
    await page.goto(dashboard + path);
    await page.waitForSelector("#connection[data-state=live]");
  };
  try {
    await look(page, open);
    const task = await lose(page, open);
    await act(page, task);
    await follow(page, open);
    await drain(page, open);
    await submitForm(page, open);
    await submitWrongly(page, open);
    await selectSome(page, open);
    await selectAllThatMatch(page, open);
    await setRate(page, open);
    await crowd(page, open);
    await read(page, open, task);
    assert.deepEqual(complaints, [], "the browser complains");
    await restart(context);
  } finally {
    worker?.kill("SIGKILL");
    await context.close();
  }
}

/** Runs in the page: notes what would be shown outside of it, and lets the test put the page into the background. */
function watchNotifications() {
  window.shown = [];
  window.Notification = function Notification(title, options) {
    window.shown.push({ title, ...options });
  };
  window.Notification.permission = "granted";
  Object.defineProperty(document, "hidden", { get: () => window.isAway === true });
}

/** An empty overview becomes a full one by itself. */
async function look(page, open) {
  await open("/");
  assert.match(await page.title(), /Overview/);
  await submit({ queue: "images", name: "waiting", body: "<script>window.hacked = true</script>" });
  await page.waitForFunction(() => document.querySelector(".tile[data-state=ready] .number").textContent === "1");
  await page.waitForFunction(() => document.querySelectorAll("[data-chart] path.line[d]").length >= 4);
  await page.waitForSelector("#attention li:has-text('images')");
}

/** A worker dies while the page of its task is open. The notice pops up there. */
async function lose(page, open) {
  const task = await submit({ queue: "films", name: "film-1", on_lost: "pause", body: { command: ["sleep", "600"] } });
  worker = spawn(binary, [
    "work", "--broker", native, "--queue", "films", "--id", "worker-1", "--heartbeat", "1s", "--lease", "3s",
    "--dir", join(folder, "worker"), "--quiet",
  ], { stdio: "ignore" });
  await open(`/tasks/${task}`);
  await page.waitForSelector(".state[data-state=running]");
  await page.evaluate(() => (window.isAway = true));
  worker.kill("SIGKILL");
  const notice = page.locator("#notices .notice", { hasText: "worker-1" }).first();
  await notice.waitFor();
  assert.match(await notice.innerText(), /Worker worker-1 is lost|crashed/);
  // The person comes back to the page.
  await page.evaluate(() => {
    window.isAway = false;
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await page.waitForSelector(".state[data-state=paused]");
  await page.waitForSelector("#notices .notice:has-text('crashed')");
  assert.equal(await page.locator(".timeline rect[data-outcome=crashed]").count(), 1);
  const shown = await page.evaluate(() => window.shown.map(({ title }) => title));
  assert.ok(shown.includes("Worker worker-1 is lost"), `as notifications of the browser: ${shown}`);
  return task;
}

/** Presses a button that asks first, and confirms. Returns the question. */
async function confirm(page, button, reason) {
  await page.click(button);
  await page.waitForSelector("dialog#confirm[open]");
  const title = await page.innerText("#confirm-title");
  if (reason) await page.fill("#confirm-reason", reason);
  await page.click("#confirm-do");
  await page.waitForSelector("dialog#confirm[open]", { state: "detached" });
  return title;
}

/** Acts ask first, and say why. */
async function act(page, task) {
  await confirm(page, "button[data-act=resume]");
  await page.waitForSelector(".state[data-state=ready]");
  await confirm(page, "button[data-act=cancel]", "seen enough");
  await page.waitForSelector(".state[data-state=cancelled]");
  const ended = await (await fetch(`${dashboard}/v1/tasks/${task}`)).json();
  assert.equal(ended.end.message, "seen enough");
}

/** What a task prints appears as it comes, and a task shows what it waits for. */
async function follow(page, open) {
  const printing = await submit({
    queue: "films", name: "printing", body: { command: ["sh", "-c", "echo '<b>first</b>'; sleep 2; echo second; sleep 600"] },
  });
  const later = await submit({ queue: "films", name: "later", after: [printing] });
  worker = spawn(binary, [
    "work", "--broker", native, "--queue", "films", "--id", "worker-2", "--heartbeat", "1s", "--lease", "3s",
    "--dir", join(folder, "worker-2"), "--quiet",
  ], { stdio: "ignore" });
  await open(`/tasks/${printing}`);
  await page.waitForFunction(() => document.getElementById("output-text")?.textContent.includes("<b>first</b>"));
  await page.waitForFunction(() => document.getElementById("output-text")?.textContent.includes("second"));
  await open(`/tasks/${later}`);
  await page.waitForSelector("#dependencies a:has-text('printing')");
}

/** A drained worker finishes what it holds, takes nothing new, and leaves. */
async function drain(page, open) {
  const left = new Promise((resolve) => worker.once("exit", resolve));
  await open("/workers");
  const row = (name, part) => `#list tr:has(a:text-is('${name}')) ${part}`;
  assert.equal(await page.locator(row("worker-1", "button[data-act=drain]")).count(), 0, "a lost worker cannot be drained");
  await check(page, "the workers");
  const title = await confirm(page, row("worker-2", "button[data-act=drain]"));
  assert.equal(title, "Drain worker worker-2?");
  await page.waitForSelector("#notices .notice:has-text('Drain: accepted for worker worker-2')");
  await page.waitForSelector(row("worker-2", ".chip:has-text('draining')"));
  await page.waitForSelector(row("worker-2", "button[data-act=drain]"), { state: "detached" });

  await open("/workers/worker-2");
  await page.waitForSelector("#presence .chip:has-text('draining')");
  await page.waitForSelector("#held tr:has-text('printing')");
  assert.equal(await page.locator("#acts-of-worker button[data-act=drain]").count(), 0);
  // The task after this one is for the same queue, and the worker leaves it alone.
  const ended = await fetch(`${dashboard}/v1/tasks/name:printing/cancel`, { method: "POST" });
  assert.ok(ended.ok, `${ended.status}`);
  await page.waitForSelector("#presence .state:has-text('gone')");
  await page.waitForSelector("#held .empty");
  await left;
  const later = await (await fetch(`${dashboard}/v1/tasks/name:later`)).json();
  assert.equal(later.attempt, 0);
}

/** A form submits a task. */
async function submitForm(page, open) {
  await open("/tasks");
  await page.click("#submit summary");
  await page.fill("#submit-queue", "forms");
  await page.fill("#submit-name", "from a form");
  await page.fill("#submit-content", "<i>hello</i>");
  await page.click("#submit button[type=submit]");
  await page.waitForSelector("#notices a:has-text('Submitted to forms')");
  await page.waitForSelector("#list tr:has-text('from a form')");
  const { id } = await (await fetch(`${dashboard}/v1/tasks/name:${encodeURIComponent("from a form")}`)).json();
  assert.equal(await page.getAttribute("#submit .submitted a", "href"), `/tasks/${id}`, "a link that stays");
  const shown = await (await fetch(`${dashboard}/v1/tasks/name:${encodeURIComponent("from a form")}/body`)).text();
  assert.equal(shown, "<i>hello</i>");
  await page.fill("#submit-name", "a command");
  await page.selectOption("#submit-kind", "command");
  await page.fill("#submit-content", "echo hello");
  await picture(page, "/tasks/form", "light");
  await page.click("#submit button[type=submit]");
  await page.waitForSelector("#list tr:has-text('a command')");
  const body = await (await fetch(`${dashboard}/v1/tasks/name:${encodeURIComponent("a command")}/body`)).json();
  assert.deepEqual(body.command, ["sh", "-c", "echo hello"]);
}

/** The form says what is wrong with a task, and keeps what was typed. */
async function submitWrongly(page, open) {
  await open("/tasks?queue=forms");
  await page.click("#submit summary");
  assert.equal(await page.inputValue("#submit-queue"), "forms", "the queue of the filter is filled in");
  // 255 letters are fine for the browser, and 510 bytes too many for the broker.
  await page.fill("#submit-name", "ä".repeat(255));
  await page.fill("#submit-content", "not lost");
  const seen = complaints.length;
  await page.click("#submit button[type=submit]");
  await page.waitForSelector("#submit .problem:has-text('255')");
  assert.equal(await page.inputValue("#submit-content"), "not lost");
  // The browser writes the refused request to its console.
  assert.match(complaints.splice(seen).join(" "), /^Failed to load resource: .* 400 [^\n]*$/);
  await check(page, "a refused form");

  // A name that is known already leads to the task that has it.
  await page.fill("#submit-name", "from a form");
  await page.fill("#submit-content", "<i>hello</i>");
  await page.click("#submit button[type=submit]");
  await page.waitForSelector("#submit .problem", { state: "hidden" });
  await page.click("#notices a:has-text('Task from a form is known already')");
  await page.waitForSelector("h1:has-text('from a form')");

  // Without a queue the browser itself refuses.
  await open("/tasks");
  await page.click("#submit summary");
  await page.click("#submit button[type=submit]");
  assert.equal(await page.evaluate(() => document.getElementById("submit-queue").validity.valueMissing), true);
}

/** Rows are selected by mouse and keyboard; the selection stays while the list changes, and one act is for all of it. */
async function selectSome(page, open) {
  for (const name of ["bulk-1", "bulk-2", "bulk-3", "bulk-4"]) await submit({ queue: "bulk", name });
  await open("/tasks?queue=bulk");
  const box = (name) => `#list tr:has-text('${name}') input[name=task]`;
  const selected = () => page.innerText("#selected");
  assert.equal(await selected(), "none selected");
  assert.equal(await page.locator("[data-bulk]:not([disabled])").count(), 0, "an act without tasks");
  await page.check(box("bulk-1"));
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  const second = await page.innerText("#list tr.current strong");
  await page.keyboard.press("x");
  assert.equal(await selected(), "2 selected");
  assert.equal(await page.evaluate(() => document.getElementById("select-all").indeterminate), true);
  await check(page, "a selection");

  await submit({ queue: "bulk", name: "bulk-5" });
  await page.waitForSelector(box("bulk-5"));
  assert.equal(await selected(), "2 selected");
  assert.ok(await page.isChecked(box("bulk-1")), "a fresh list keeps the selection");

  assert.equal(await confirm(page, "[data-bulk=cancel]", "not needed"), "Cancel 2 tasks?");
  await page.waitForSelector("#notices .notice:has-text('Cancel: 2 of 2 accepted')");
  await page.waitForSelector(box("bulk-1"), { state: "detached" });
  await page.waitForSelector(box(second), { state: "detached" });
  assert.equal(await selected(), "none selected");
  for (const name of ["bulk-1", second]) {
    const { state, end } = await (await fetch(`${dashboard}/v1/tasks/name:${name}`)).json();
    assert.deepEqual([state, end.message], ["cancelled", "not needed"]);
  }
  assert.equal(await page.locator("#list tbody tr").count(), 3, "the others are as they were");
}

/** The whole page, and all that match beyond the page. What an act does not fit is refused, and the notice says so. */
async function selectAllThatMatch(page, open) {
  await open("/tasks?queue=bulk&state=all");
  await page.check("#select-all");
  assert.equal(await page.innerText("#selected"), "5 selected");
  assert.equal(await confirm(page, "[data-bulk=pause]"), "Pause 5 tasks?");
  await page.waitForSelector("#notices .notice:has-text('Pause: 3 of 5 accepted, 2 refused')");
  await page.waitForFunction(() => document.querySelectorAll("#list .state[data-state=paused]").length === 3);

  const more = Array.from({ length: 60 }, (_, number) => submit({ queue: "bulk", name: `more-${number}` }));
  await Promise.all(more);
  await open("/tasks?queue=bulk&state=ready");
  assert.equal(await page.locator("#list tbody tr").count(), 50);
  await page.check("#select-matching");
  assert.equal(await page.innerText("#selected"), "all that match");
  assert.equal(await confirm(page, "[data-bulk=cancel]", "all of them"), "Cancel 60 tasks?");
  await page.waitForSelector("#notices .notice:has-text('Cancel: 60 of 60 accepted')");
  await page.waitForSelector("#list .empty");
  assert.equal(await page.isChecked("#select-matching"), false, "the next act does not go to all again");
  const paused = await (await fetch(`${dashboard}/v1/tasks?queue=bulk&state=paused`)).json();
  assert.equal(paused.tasks.length, 3, "what does not match stays");
}

/** A tag gets a rate, and loses it with empty fields. */
async function setRate(page, open) {
  await open("/queues");
  const rate = async () => {
    const { limits } = await (await fetch(`${dashboard}/v1/limits`)).json();
    return limits.find(({ tag }) => tag === "api/v2")?.rate;
  };
  const set = async (count, period) => {
    await page.fill("#tag-rate-tag", "api/v2");
    await page.fill("#tag-rate-count", count);
    await page.fill("#tag-rate-period", period);
    return confirm(page, "form[data-put$='/rate'] button[type=submit]");
  };
  assert.equal(await set("10", "60"), "Set the rate of the tag?");
  await page.waitForSelector("#limits tr:has-text('api/v2') button:has-text('Remove rate')");
  assert.deepEqual(await rate(), { count: 10, period_ms: 60000, burst: 1 });
  await set("", "");
  await page.waitForSelector("#limits tr:has-text('api/v2')", { state: "detached" });
  assert.equal(await rate(), undefined);
}

/** Of more notices than there is room for, the first bad one stays, because it is the cause. */
async function crowd(page, open) {
  await open("/tasks");
  const shown = await page.evaluate(() => {
    const say = (level, title) => document.dispatchEvent(new CustomEvent("tenure:say", { detail: { level, title } }));
    const titles = () => [...document.querySelectorAll("#notices .notice strong")].map((title) => title.textContent);
    document.getElementById("notices").replaceChildren();
    for (const title of ["cause", "second", "third", "fourth", "fifth"]) say("bad", title);
    const bad = titles();
    document.getElementById("notices").replaceChildren();
    for (const [level, title] of [["good", "saved"], ["warn", "backlog"], ["bad", "cause"], ["good", "sent"]]) say(level, title);
    for (const title of ["second", "third", "fourth"]) say("bad", title);
    return [bad, titles()];
  });
  assert.deepEqual(shown, [["cause", "third", "fourth", "fifth"], ["cause", "second", "third", "fourth"]]);
  await page.evaluate(() => document.getElementById("notices").replaceChildren());
}

/** Pages that are open when the broker stops say so, and go on when it is back. */
async function restart(context) {
  const start = async (http) => {
    const others = ["--resp", "--grpc", "--mdp", "--pingpong", "--xmessage"].flatMap((door) => [door, "off"]);
    const broker = spawn(binary, [
      "serve", "--data-dir", join(folder, "restarted"), "--native", "127.0.0.1:0", "--http", http,
      "--print-addresses", "json", ...others,
    ], { stdio: ["ignore", "pipe", "ignore"] });
    let said = "";
    for await (const part of broker.stdout) {
      said += part;
      if (said.includes("\n")) break;
    }
    return { broker, address: JSON.parse(said).doors.http };
  };
  const submitTo = async (address, name) => {
    const body = JSON.stringify({ queue: "images", name });
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`http://${address}/v1/tasks`, { method: "POST", headers, body });
    return (await answer.json()).task;
  };
  let { broker, address } = await start("127.0.0.1:0");
  try {
    const task = await submitTo(address, "before");
    const pages = [];
    for (const path of ["/", "/events", `/tasks/${task}`]) {
      const page = await context.newPage();
      await page.goto(`http://${address}${path}`);
      await page.waitForSelector("#connection[data-state=live]");
      pages.push(page);
    }
    const ended = new Promise((resolve) => broker.once("exit", resolve));
    broker.kill("SIGTERM");
    await ended;
    for (const page of pages) await page.waitForSelector("#connection:has-text('reconnecting')");
    ({ broker } = await start(address));
    const after = await submitTo(address, "after");
    for (const page of pages) await page.waitForSelector("#connection[data-state=live]", { timeout: 60000 });
    const [overview, events] = pages;
    await overview.waitForFunction(() => document.querySelector(".tile[data-state=ready] .number").textContent === "2");
    await events.waitForSelector(`#event-log a[href="/tasks/${after}"]`, { timeout: 60000 });
    await Promise.all(pages.map((page) => page.close()));
  } finally {
    broker.kill("SIGKILL");
  }
}

/** Every page is accessible, fits a phone, and works with the keyboard. */
async function read(page, open, task) {
  for (const priority of [5, 5, 5, -1]) await submit({ queue: "images", priority });
  const related = await relate();
  const sweep = JSON.stringify({ task: { queue: "sums", name: "sweep" }, size: 30 });
  await fetch(`${dashboard}/v1/arrays`, { method: "POST", headers: { "content-type": "application/json" }, body: sweep });
  const pages = [
    "/queues/images", "/", "/tasks", "/tasks?search=sweep", "/tasks?state=all", `/tasks/${task}`, "/workers", "/workers/worker-1", "/queues", "/queues/films", "/schedules",
    "/hooks", "/topics", "/events", `/tasks/name:${related}`,
  ];
  for (const path of pages) {
    await open(path);
    await check(page, path);
    await picture(page, path, "light");
    await page.emulateMedia({ colorScheme: "dark" });
    await picture(page, path, "dark");
    await page.emulateMedia({ colorScheme: "light" });
  }
  await page.emulateMedia({ colorScheme: "dark" });
  await page.setViewportSize({ width: 390, height: 844 });
  for (const path of pages) {
    await open(path);
    await check(page, `${path} in the dark, on a phone`);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 390, `${path} is ${width} pixels wide`);
    if (path === "/workers") await fits(page);
    await picture(page, path, "phone");
  }
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  await page.setViewportSize({ width: 1440, height: 900 });
  await open("/tasks?state=all");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  const first = await page.getAttribute("tr.current", "data-href");
  await page.keyboard.press("Enter");
  await page.waitForURL(`**${first}`);
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.waitForURL("**/schedules");
  await page.keyboard.press("/");
  await page.keyboard.type("film");
  await page.keyboard.press("Enter");
  await page.waitForSelector("tr:has-text('film-1')");
  assert.equal(await page.locator("tbody tr").count(), 1);
}

/** State, slots and last sign of life of each worker are in view without scrolling. */
async function fits(page) {
  const cells = await page.$$eval("#list tbody tr", (rows) => rows.map((row) =>
    [".state", "th a", "meter", "time"].map((part) => {
      const { left, right, width } = row.querySelector(part).getBoundingClientRect();
      return width > 0 && left >= 0 && right <= window.innerWidth;
    })));
  assert.ok(cells.length > 0, "no workers");
  assert.ok(cells.flat().every(Boolean), `not in view: ${JSON.stringify(cells)}`);
}

/** A family. Returns the name of a task in the middle of it. */
async function relate() {
  const long = "a-step-with-a-rather-long-name-of-the-kind-that-programs-make";
  let parent;
  for (const name of ["root", "step-1", "step-2"]) parent = await submit({ queue: "families", name: `${name}-${long}`, parent });
  for (let number = 0; number < 12; number += 1) {
    const child = await submit({ queue: "families", name: `part-${number}-${long}`, parent });
    if (number < 3) await submit({ queue: "families", parent: child });
  }
  return `step-2-${long}`;
}

async function picture(page, path, name) {
  if (!process.env.TENURE_PICTURES) return;
  mkdirSync(process.env.TENURE_PICTURES, { recursive: true });
  const file = `${path.replace(/[0-9a-f-]{36}/, "task").replace(/[^a-z0-9]+/gi, "-").replace(/^-|-$/g, "") || "overview"}-${name}.png`;
  await page.screenshot({ path: join(process.env.TENURE_PICTURES, file), fullPage: true });
}

async function check(page, path) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const said = serious.map(({ id, nodes }) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`);
  assert.deepEqual(said, [], `${path} is not accessible`);
}

async function submit(task) {
  const answer = await fetch(`${dashboard}/v1/tasks`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(task),
  });
  assert.equal(answer.status, 201);
  return (await answer.json()).task;
}

main().then(() => console.log("done"), (error) => {
  console.error(error, complaints);
  process.exit(1);
});

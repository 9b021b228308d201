// A person at the dashboard, in a real browser: looks, watches a worker die, reads the notice, resumes and cancels.
// Arguments: the address of the dashboard, the address of the native door, the binary, the browser, a folder.

const { spawn } = require("node:child_process");
const { strict: assert } = require("node:assert");
const { readFileSync } = require("node:fs");
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
  context.setDefaultTimeout(20000);
  const page = context.pages()[0] ?? (await context.newPage());
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("requestfailed", (request) => {
    // Streams and refreshes end when their page is left.
    if (request.failure()?.errorText !== "net::ERR_ABORTED") complaints.push(`failed: ${request.url()}`);
  });
  const open = async (path) => {
    await page.goto(dashboard + path);
    await page.waitForSelector("#connection[data-state=live]");
  };
  try {
    await look(page, open);
    const task = await lose(page, open);
    await act(page, task);
    await follow(page, open);
    await read(page, open, task);
    assert.deepEqual(complaints, [], "the browser complains");
  } finally {
    worker?.kill("SIGKILL");
    await context.close();
  }
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
  worker.kill("SIGKILL");
  const notice = page.locator("#notices .notice", { hasText: "worker-1" }).first();
  await notice.waitFor();
  assert.match(await notice.innerText(), /Worker worker-1 is missing|crashed/);
  await page.waitForSelector(".state[data-state=paused]");
  await page.waitForSelector("#notices .notice:has-text('crashed')");
  assert.equal(await page.locator(".timeline rect[data-outcome=crashed]").count(), 1);
  return task;
}

/** Acts ask first, and say why. */
async function act(page, task) {
  const confirm = async (verb, reason) => {
    await page.click(`button[data-act=${verb}]`);
    await page.waitForSelector("dialog#confirm[open]");
    if (reason) await page.fill("#confirm-reason", reason);
    await page.click("#confirm-do");
    await page.waitForSelector("dialog#confirm[open]", { state: "detached" });
  };
  await confirm("resume");
  await page.waitForSelector(".state[data-state=ready]");
  await confirm("cancel", "seen enough");
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

/** Every page is accessible, fits a phone, and works with the keyboard. */
async function read(page, open, task) {
  const pages = ["/", "/tasks?state=all", `/tasks/${task}`, "/workers", "/queues", "/topics", "/events"];
  for (const path of pages) {
    await open(path);
    await check(page, path);
  }
  await page.emulateMedia({ colorScheme: "dark" });
  await page.setViewportSize({ width: 390, height: 844 });
  for (const path of ["/", "/tasks?state=all", `/tasks/${task}`]) {
    await open(path);
    await check(page, `${path} in the dark, on a phone`);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 390, `${path} is ${width} pixels wide`);
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
  await page.keyboard.press("/");
  await page.keyboard.type("film");
  await page.keyboard.press("Enter");
  await page.waitForSelector("tr:has-text('film-1')");
  assert.equal(await page.locator("tbody tr").count(), 1);
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

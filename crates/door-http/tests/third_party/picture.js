// Takes the pictures of the dashboard for the documentation: a broker with a night's work on it.
// Arguments: the address of the dashboard, the address of the native door, the binary, the browser, a folder.

const { spawn } = require("node:child_process");
const { strict: assert } = require("node:assert");
const { join } = require("node:path");
const { chromium } = require("playwright-core");

const [dashboard, native, binary, executablePath, folder] = process.argv.slice(2);
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
];
const workers = [];

async function main() {
  const context = await chromium.launchPersistentContext(join(folder, "profile"), {
    executablePath, headless: true, args: FLAGS, viewport: { width: 1200, height: 760 }, colorScheme: "light",
  });
  context.setDefaultTimeout(30000);
  const page = context.pages()[0] ?? (await context.newPage());
  try {
    await page.goto(dashboard + "/");
    await page.waitForSelector("#connection[data-state=live]");
    const film = await work(page);
    await take(page, "/", "dashboard");
    await take(page, `/tasks/${film}`, "task");
    await take(page, "/tasks?state=all", "tasks");
    await take(page, "/workers", "workers");
    await take(page, "/queues", "queues");
    await page.emulateMedia({ colorScheme: "dark" });
    await take(page, "/", "dashboard-dark");
    await page.setViewportSize({ width: 390, height: 844 });
    await take(page, "/", "dashboard-phone-dark");
    await take(page, `/tasks/${film}`, "task-phone-dark");
    await page.emulateMedia({ colorScheme: "light" });
    await take(page, "/", "dashboard-phone");
  } finally {
    workers.forEach((worker) => worker.kill("SIGKILL"));
    await context.close();
  }
}

/** Tasks of several kinds, workers that run them, one that dies. The charts move for a while. */
async function work(page) {
  const shell = (script) => ({ command: ["sh", "-c", script] });
  const render = (number) => ({ queue: "render", name: `frame-${number}`, body: shell("sleep 0.2; echo done"), tags: ["licence"] });
  const film = await submit({
    queue: "films", name: "film-1", on_lost: "requeue", crash_budget: 3,
    body: shell("for i in 1 2 3 4 5 6 7 8; do echo scene $i; sleep 1; done; sleep 600"),
  });
  await submit({ queue: "reports", name: "weekly", after: [film], body: shell("true") });
  await submit({ queue: "gpu", name: "train-resnet", needs: ["gpu"], body: shell("true") });
  const start = (id, queue, slots) => {
    const worker = spawn(binary, [
      "work", "--broker", native, "--queue", queue, "--id", id, "--slots", slots, "--heartbeat", "1s", "--lease", "3s",
      "--dir", join(folder, id), "--quiet",
    ], { stdio: "ignore" });
    workers.push(worker);
    return worker;
  };
  const fragile = start("node-7", "films", "1");
  start("node-1", "render", "4");
  start("node-2", "render", "4");
  for (let number = 1; number <= 40; number += 1) await submit(render(number));
  await submit({ queue: "render", name: "frame-bad", body: shell("echo 'no such texture' >&2; exit 3") });
  await state(film, "running");
  fragile.kill("SIGKILL");
  await page.waitForSelector("#notices .notice:has-text('node-7')");
  start("node-8", "films", "1");
  await state(film, "running", 2);
  for (let number = 41; number <= 130; number += 1) {
    await submit(render(number));
    await page.waitForTimeout(120);
  }
  return film;
}

async function take(page, path, name) {
  await page.goto(dashboard + path);
  await page.waitForSelector("#connection[data-state=live]");
  await page.waitForTimeout(2500);
  await page.evaluate(() => document.querySelectorAll("#notices .notice").forEach((notice) => notice.remove()));
  await page.screenshot({ path: join(folder, `${name}.png`) });
}

async function state(task, wanted, attempt = 1) {
  for (;;) {
    const found = await (await fetch(`${dashboard}/v1/tasks/${task}`)).json();
    if (found.state === wanted && found.attempt >= attempt) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function submit(task) {
  const answer = await fetch(`${dashboard}/v1/tasks`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(task),
  });
  assert.equal(answer.status, 201);
  return (await answer.json()).task;
}

main().then(() => console.log("done"), (error) => {
  console.error(error);
  process.exit(1);
});

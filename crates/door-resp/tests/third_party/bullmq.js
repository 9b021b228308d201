// BullMQ with its defaults. It needs Lua, so its worker is refused at once, with the reason, and not in a tight loop.
const assert = require("node:assert");
const { Worker } = require("bullmq");

// A program that retries without a pause has thousands of errors in this time.
const WATCHED_MS = 3000;
const ERRORS_MAX = 50;

(async () => {
  const connection = { host: "127.0.0.1", port: Number(process.argv[2]), maxRetriesPerRequest: null };
  const worker = new Worker("queue", async () => {}, { connection });
  const errors = [];
  await new Promise((resolve) => worker.on("error", (error) => resolve(errors.push(error.message))));
  assert.match(errors[0], /the broker runs no Lua.*BullMQ/);
  await new Promise((resolve) => setTimeout(resolve, WATCHED_MS));
  assert.ok(errors.length < ERRORS_MAX, `${errors.length} errors`);
  process.exit(0);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});

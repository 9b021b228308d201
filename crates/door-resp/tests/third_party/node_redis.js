// node-redis with its defaults. The port is the first argument.
const assert = require("node:assert");
const { createClient } = require("redis");

(async () => {
  const client = createClient({ url: `redis://127.0.0.1:${process.argv[2]}`, socket: { reconnectStrategy: false } });
  client.on("error", (error) => console.error("client error", error));
  await client.connect();
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.lPush("queue:node", ["a", "b"]), 2);
  const popped = await client.brPop("queue:node", 5);
  assert.equal(popped.key, "queue:node");
  const job = JSON.parse(popped.element);
  assert.equal(job.body, "a");
  assert.equal(await client.sendCommand(["JOB.UPDATE", job.job_id, JSON.stringify({ status: "completed", result: "r" })]), "OK");
  assert.equal(await client.get(`job:${job.job_id}:result`), "r");
  const moved = await client.blMove("queue:node", "queue:processing", "RIGHT", "LEFT", 5);
  assert.equal((await client.hGetAll(`job:${moved}`)).body, "b");
  assert.equal(await client.lRem("queue:processing", 1, moved), 1);
  assert.equal(await client.lLen("queue:node"), 0);

  const subscriber = client.duplicate();
  await subscriber.connect();
  const heard = new Promise((resolve) => subscriber.subscribe("job:updates", (data) => resolve(JSON.parse(data))));
  await new Promise((resolve) => setTimeout(resolve, 100));
  await client.lPush("queue:node", "c");
  assert.equal((await heard).event, "submitted");
  const keys = [];
  for await (const page of client.scanIterator({ MATCH: "queue:*" })) keys.push(...[page].flat());
  assert.ok(keys.includes("queue:node"), keys);
  await subscriber.close();
  await client.close();
  console.log("node-redis is content");
})().catch((error) => {
  console.error(error);
  process.exit(1);
});

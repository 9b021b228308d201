// ioredis with its defaults. The port is the first argument.
const assert = require("node:assert");
const Redis = require("ioredis");

(async () => {
  const port = Number(process.argv[2]);
  const client = new Redis(port, "127.0.0.1");
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.lpush("queue:io", "a", "b"), 2);
  const blocked = new Redis(port, "127.0.0.1");
  const [key, job] = await blocked.brpop("queue:io", 5);
  assert.equal(key, "queue:io");
  assert.equal(JSON.parse(job).body, "a");
  const id = JSON.parse(job).job_id;
  assert.equal(await blocked.call("JOB.UPDATE", id, JSON.stringify({ status: "completed", result: "r" })), "OK");
  assert.equal(await client.get(`job:${id}:result`), "r");
  const moved = await blocked.blmove("queue:io", "queue:processing", "RIGHT", "LEFT", 5);
  assert.equal(JSON.parse(await blocked.call("JOB.GET", moved)).body, "b");
  assert.equal(await blocked.lrem("queue:processing", 1, moved), 1);
  assert.equal(await client.get(`job:${moved}:status`), "completed");
  assert.equal((await client.hgetall(`job:${moved}`)).status, "completed");
  assert.equal(await blocked.brpop("queue:io", 0.2), null);

  const subscriber = new Redis(port, "127.0.0.1");
  const heard = new Promise((resolve) => subscriber.on("message", (channel, data) => resolve([channel, JSON.parse(data)])));
  await subscriber.subscribe("job:updates");
  await client.lpush("queue:io", "c");
  const [channel, event] = await heard;
  assert.equal(channel, "job:updates");
  assert.equal(event.event, "submitted");

  const read = await client.xread("COUNT", 1, "STREAMS", "events", 0);
  assert.equal(read[0][0], "events");
  assert.ok(read[0][1][0][1].includes("submitted"));
  await assert.rejects(client.call("FLUSHALL"), /unknown command 'FLUSHALL'/);
  for (const one of [client, blocked, subscriber]) one.disconnect();
  console.log("ioredis is content");
})().catch((error) => {
  console.error(error);
  process.exit(1);
});

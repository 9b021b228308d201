"""redis-py with its defaults: connect, submit, run, watch. The port is the first argument."""

import json
import sys
import threading

import redis

port = int(sys.argv[1])
client = redis.Redis(host="127.0.0.1", port=port, decode_responses=True)
assert client.ping()

# Lists: the element of a move is an id, of a pop the whole job.
assert client.lpush("queue:py", "one", "two") == 2
assert client.llen("queue:py") == 2
waiting = client.lrange("queue:py", 0, -1)
assert len(waiting) == 2
taken = client.brpoplpush("queue:py", "queue:processing", timeout=5)
assert taken == waiting[-1], (taken, waiting)
assert json.loads(client.get(f"job:{taken}"))["body"] == "one"
assert client.set(f"job:{taken}:stdout", "done")
assert client.set(f"job:{taken}:status", "completed")
assert client.lrem("queue:processing", 1, taken) == 1
assert client.get(f"job:{taken}:stdout") == "done"
key, job = client.brpop(["queue:none", "queue:py"], timeout=5)
assert key == "queue:py" and json.loads(job)["body"] == "two"
job = json.loads(job)
assert client.execute_command("JOB.UPDATE", job["job_id"], json.dumps({"status": "completed", "result": "2"}))
assert client.brpop("queue:py", timeout=0.2) is None
assert client.hgetall(f"job:{job['job_id']}")["status"] == "completed"

# A pipeline without MULTI is answered in order.
pipeline = client.pipeline(transaction=False)
for number in range(200):
    pipeline.lpush("queue:many", f"body {number}")
pipeline.llen("queue:many")
answers = pipeline.execute()
assert answers[-1] == 200 and len(answers) == 201, answers[-1]

# A pipeline as it is by default: all of it runs with EXEC, or nothing.
pipeline = client.pipeline()
pipeline.lpush("queue:transaction", "a")
pipeline.llen("queue:transaction")
assert pipeline.execute() == [1, 1]
pipeline.lpush("queue:transaction", "b")
pipeline.execute_command("RPUSH", "queue:transaction", "c")
try:
    pipeline.execute()
except redis.ResponseError as error:
    assert "use LPUSH" in str(error), error
else:
    raise AssertionError("RPUSH is not offered")
assert client.llen("queue:transaction") == 1

# Ten jobs at once, ten reports and the next pop in one write.
jobs = [json.loads(job) for job in client.rpop("queue:many", 10)]
assert [job["body"] for job in jobs] == [f"body {number}" for number in range(10)], jobs
pipeline = client.pipeline(transaction=False)
for job in jobs:
    pipeline.execute_command("JOB.UPDATE", job["job_id"], '{"status":"completed"}')
pipeline.brpop("queue:many", timeout=5)
*reports, (_, job) = pipeline.execute()
assert reports == ["OK"] * 10 and json.loads(job)["body"] == "body 10", reports
assert client.llen("queue:many") == 189

# A worker that registers, heartbeats from another thread and so over another connection, and pulls.
worker = {"worker_id": "py-1", "hostname": "h", "agw_version": "1", "capabilities": {"tools": ["sort"]},
          "max_concurrent_jobs": 2, "tags": {"pool": "green"}}
answer = client.execute_command("WORKER.REGISTER", json.dumps(worker))
assert answer == "OK worker_id=py-1 heartbeat_interval=30", answer
beats = []
beat = threading.Thread(target=lambda: beats.append(client.execute_command("WORKER.HEARTBEAT", "py-1", '{"active_jobs":0}')))
beat.start()
beat.join()
assert beats == ["OK"]
assert client.smembers("capability:sort:workers") == {"py-1"}
assert [key for key in client.scan_iter("worker:*:alive")] == ["worker:py-1:alive"]
assert client.keys("worker:py-1:stats") == ["worker:py-1:stats"]
assert 0 < client.ttl("worker:py-1:alive") <= 90
plan = {"plan_id": "py-plan", "tasks": [{"task_number": 1, "command": "sort"}]}
assert client.execute_command("PLAN.SUBMIT", json.dumps(plan)) == "py-plan"
action = json.loads(client.execute_command("ACTION.SUBMIT", json.dumps({"plan_id": "py-plan", "inputs": [1, 2, 3], "needs": ["pool=green"]})))
assert action["jobs_created"] == 3
for index in range(3):
    _, job = client.brpop("queue:ready", timeout=5)
    job = json.loads(job)
    assert job["plan"]["plan_id"] == "py-plan" and job["inputs"] == index + 1, job
    client.execute_command("JOB.UPDATE", job["job_id"], json.dumps({"status": "running", "attempt": job["attempt"]}))
    client.execute_command("JOB.UPDATE", job["job_id"], json.dumps({"status": "completed", "task_results": [{"task_number": 1}]}))
status = json.loads(client.execute_command("ACTION.STATUS", action["action_id"]))
assert status["completed"] == 3 and status["status"] == "completed", status

# Errors are exceptions with our words.
try:
    client.execute_command("JOB.UPDATE", "nothing", '{"status":"completed"}')
    raise SystemExit("an unknown job was updated")
except redis.ResponseError as error:
    assert "Job not found: nothing" in str(error), error

# Events: from the beginning, then on.
entries = client.xread({"events": "0"}, count=1000)
events = entries["events"][0] if isinstance(entries, dict) else entries[0][1]
kinds = [fields["event"] for _, fields in events]
assert kinds[0] == "submitted" and "completed" in kinds, kinds[:3]
last = events[-1][0]
threading.Timer(0.2, lambda: client.lpush("queue:later", "x")).start()
more = redis.Redis(port=port, decode_responses=True).xread({"events": last}, block=5000)
more = more["events"][0] if isinstance(more, dict) else more[0][1]
assert more[0][1]["event"] == "submitted", more

# Channels.
listener = client.pubsub(ignore_subscribe_messages=True)
listener.subscribe("job:updates", "news")
listener.get_message(timeout=1)
client.lpush("queue:heard", "y")
assert client.publish("news", "hello") == 1
assert client.publish("absent", "hello") == 0
heard = []
for _ in range(20):
    message = listener.get_message(timeout=1)
    if message:
        heard.append((message["channel"], message["data"]))
    if len(heard) >= 2:
        break
assert any(channel == "job:updates" and json.loads(data)["event"] == "submitted" for channel, data in heard), heard
assert ("news", "hello") in heard, heard
# The list of commands, in either protocol.
for protocol in [2, 3]:
    commands = redis.Redis(port=port, protocol=protocol).command()
    assert {str(name).lower() for name in commands} >= {"job.submit", "brpop"}, commands.keys()
print("redis-py", redis.__version__, "is content")

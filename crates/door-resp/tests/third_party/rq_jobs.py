"""RQ, unchanged, with this broker as its Redis. The worker imports this file; run as a program it is the client."""
import os
import sys
import tempfile
import time
from datetime import timedelta

from redis import Redis
from rq import Queue, Retry, Worker
from rq.exceptions import DuplicateJobError


def add(a, b):
    return a + b


def fails():
    raise ValueError("on purpose")


def at_the_third_try(path):
    with open(path, "a+") as file:
        file.write("x")
        file.seek(0)
        tries = len(file.read())
    if tries < 3:
        raise RuntimeError("not yet")
    return tries


def ended(job):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if job.get_status(refresh=True).value in ("finished", "failed", "stopped"):
            return job
        time.sleep(0.02)
    raise SystemExit(f"the job is still {job.get_status()}")


def everything():
    import rq_jobs

    connection = Redis.from_url(os.environ["TENURE_URL"])
    queue = Queue(connection=connection)
    assert ended(queue.enqueue(rq_jobs.add, 2, 3)).return_value() == 5
    jobs = [queue.enqueue(rq_jobs.add, i, i) for i in range(5)]
    assert [ended(job).return_value() for job in jobs] == [0, 2, 4, 6, 8]
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "tries")
        job = queue.enqueue(rq_jobs.at_the_third_try, path, retry=Retry(max=3))
        assert ended(job).return_value() == 3
    job = ended(queue.enqueue(rq_jobs.fails))
    assert "on purpose" in job.latest_result().exc_string
    first = queue.enqueue(rq_jobs.add, 1, 1)
    assert ended(queue.enqueue(rq_jobs.add, 5, 5, depends_on=first)).return_value() == 10
    assert ended(queue.enqueue_in(timedelta(milliseconds=500), rq_jobs.add, 7, 7)).return_value() == 14
    queue.enqueue(rq_jobs.add, 1, 2, job_id="once", unique=True)
    try:
        queue.enqueue(rq_jobs.add, 1, 2, job_id="once", unique=True)
        raise SystemExit("a job with this id is there")
    except DuplicateJobError:
        pass
    other = Queue("other", connection=connection)
    other.enqueue(rq_jobs.add, 1, 1)
    assert other.empty() == 1 and other.count == 0
    assert len(Worker.all(connection=connection)) == 1
    assert queue.failed_job_registry.count == 1


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    everything()

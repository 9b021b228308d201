"""Celery, unchanged, with this broker as its Redis. The worker imports this file; run as a program it is the client."""
import os
import sys
import time

from celery import Celery, chain, chord, group

URL = os.environ["TENURE_URL"]
app = Celery("celery_app", broker=URL, backend=URL)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
)


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def slow(number):
    time.sleep(0.1)
    return number


@app.task
def busy(number, folder):
    """Is busy from the moment at which it says so until it is let go."""
    open(os.path.join(folder, f"started-{number}"), "w").close()
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.02)
    return number


@app.task(bind=True, max_retries=3)
def at_the_third_try(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries


@app.task
def fails():
    raise ValueError("on purpose")


def everything():
    assert add.delay(2, 3).get(timeout=60) == 5
    assert group(add.s(i, i) for i in range(5))().get(timeout=60) == [0, 2, 4, 6, 8]
    assert chain(add.s(1, 2), add.s(4))().get(timeout=60) == 7
    assert chord((add.s(i, i) for i in range(5)), total.s())().get(timeout=60) == 20
    assert at_the_third_try.delay().get(timeout=60) == 2
    assert add.apply_async((1, 1), countdown=0.2).get(timeout=60) == 2
    try:
        fails.delay().get(timeout=60)
        raise SystemExit("a failure")
    except ValueError as error:
        assert str(error) == "on purpose"
    assert app.control.ping(timeout=10, limit=1)


def submit(count):
    """Prints the ids of tasks that the broker has acknowledged, one a line."""
    for number in range(count):
        print(slow.delay(number).id, flush=True)


def submit_busy(count, folder):
    for number in range(count):
        print(busy.delay(number, folder).id, flush=True)


def collect(ids):
    deadline = time.monotonic() + 120
    for number, task in enumerate(ids):
        while True:
            try:
                assert app.AsyncResult(task).get(timeout=deadline - time.monotonic()) == number
                break
            except (ConnectionError, OSError):
                time.sleep(0.1)


if __name__ == "__main__":
    match sys.argv[1]:
        case "everything":
            everything()
        case "submit":
            submit(int(sys.argv[2]))
        case "submit-busy":
            submit_busy(int(sys.argv[2]), sys.argv[3])
        case "collect":
            collect(sys.argv[2:])

"""The same load on HyperQueue: a server and one worker of this process. Run by overhead.sh."""

import sys
import tempfile
import time

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig


def timed(name, client, stages):
    job = Job(default_workdir=tempfile.mkdtemp())
    before = []
    for count in stages:
        before = [job.program(["sleep", "0"], deps=before) for _ in range(count)]
    begin = time.monotonic()
    client.wait_for_jobs([client.submit(job)])
    seconds = time.monotonic() - begin
    print(f"{name:<28} {seconds:7.2f} s {seconds * 1000 / sum(stages):7.2f} ms a task")


with LocalCluster(worker_config=WorkerConfig(cores=int(sys.argv[1]))) as cluster:
    client = cluster.client()
    timed("hyperqueue", client, [1000])
    timed("hyperqueue,three-stages", client, [500, 499, 1])

"""A long task that goes on where it stopped, whatever became of its worker or the broker.

python -m tenure work checkpoints:app --pool threads &
python checkpoints.py            # kill the worker with -9 meanwhile, and start it again
"""

from __future__ import annotations

import tenure

app = tenure.App(queue="examples-films")


@app.task(on_lost="requeue", crash_budget=100)
def render(frames: int, seconds_per_frame: float = 0.01) -> str:
    context = tenure.current_context()
    done = int(context.checkpoint or b"0")
    context.logger.info("begins at frame %s", done)
    for frame in range(done, frames):
        context.sleep(seconds_per_frame)  # raises if the task is cancelled or paused
        context.progress(100 * frame / frames, f"frame {frame}")
        if frame % 20 == 0:
            context.save_checkpoint(str(frame))
    return f"{frames} frames in attempt {context.attempt}"


def main() -> None:
    task = render.submit(200)
    for event in task.events():
        if isinstance(event, tenure.Event):
            print(event.seq, event.kind, event.worker or "")
    print(task.result())


if __name__ == "__main__":
    main()

"""Tasks of plain functions.

tenure serve &
python -m tenure work tasks:app --slots 4 &
python tasks.py
"""

from __future__ import annotations

import dataclasses

import tenure

app = tenure.App(queue="examples")


@dataclasses.dataclass
class Film:
    title: str
    minutes: int


@app.task(retries=3, on_lost="requeue", tags=["studio"])
def trailer(film: Film) -> str:
    return f"{film.title}, {film.minutes // 60} h {film.minutes % 60} min"


@app.task
def square(number: int) -> int:
    return number * number


def main() -> None:
    print(trailer.submit(Film("Metropolis", 153)).result(timeout=60))
    print(sum(square.map(range(1000)).results(timeout=60)))


if __name__ == "__main__":
    main()

"""Processes that the tests submit. The daemon's workers import them from here."""

from __future__ import annotations

import time
from typing import Any

from aiida import orm
from aiida.calculations.arithmetic.add import ArithmeticAddCalculation
from aiida.engine import ToContext, WorkChain, calcfunction

RESOURCES = {"num_machines": 1, "num_mpiprocs_per_machine": 1}


@calcfunction
def successor(number: Any) -> Any:
    return orm.Int(number.value + 1)


class Nested(WorkChain):
    """A workchain that submits one like itself until its depth is reached; the last one submits a calculation."""

    @classmethod
    def define(cls, spec: Any) -> None:
        super().define(spec)
        spec.input("code", valid_type=orm.AbstractCode)
        spec.input("depth", valid_type=orm.Int)
        spec.input("sleep", valid_type=orm.Int, default=lambda: orm.Int(0))
        spec.output("result", valid_type=orm.Int)
        spec.outline(cls.descend, cls.take)

    def descend(self) -> Any:
        if self.inputs.depth.value <= 1:
            options = {"resources": RESOURCES, "sleep": self.inputs.sleep.value}
            inputs = {"x": orm.Int(1), "y": orm.Int(1), "code": self.inputs.code, "metadata": {"options": options}}
            return ToContext(child=self.submit(ArithmeticAddCalculation, **inputs))
        depth = orm.Int(self.inputs.depth.value - 1)
        return ToContext(child=self.submit(Nested, code=self.inputs.code, depth=depth, sleep=self.inputs.sleep))

    def take(self) -> None:
        child = self.ctx.child
        number = child.outputs.sum if "sum" in child.outputs else child.outputs.result
        self.out("result", successor(number))


class TwoChildren(WorkChain):
    """A workchain with a child that ends soon and one that runs for long."""

    @classmethod
    def define(cls, spec: Any) -> None:
        super().define(spec)
        spec.input("code", valid_type=orm.AbstractCode)
        spec.outline(cls.begin, cls.end)

    def begin(self) -> Any:
        children = {}
        for name, seconds in (("short", 0), ("long", 300)):
            options = {"resources": RESOURCES, "sleep": seconds}
            inputs = {"x": orm.Int(1), "y": orm.Int(1), "code": self.inputs.code, "metadata": {"options": options}}
            children[name] = self.submit(ArithmeticAddCalculation, **inputs)
        return ToContext(**children)

    def end(self) -> None:
        pass


class Steps(WorkChain):
    """A workchain that writes down every step it makes, and with which process it made it."""

    @classmethod
    def define(cls, spec: Any) -> None:
        super().define(spec)
        spec.input("path", valid_type=orm.Str)
        spec.input("count", valid_type=orm.Int)
        from aiida.engine import while_

        spec.outline(cls.begin, while_(cls.goes_on)(cls.make_step))

    def begin(self) -> None:
        self.ctx.done = 0

    def goes_on(self) -> bool:
        return bool(self.ctx.done < self.inputs.count.value)

    def make_step(self) -> None:
        import os

        with open(self.inputs.path.value, "a") as file:
            file.write(f"{self.ctx.done} {os.getpid()}\n")
        self.ctx.done += 1
        time.sleep(0.2)


class SubmitsWhenTold(WorkChain):
    """A workchain that submits a calculation when a file appears."""

    @classmethod
    def define(cls, spec: Any) -> None:
        super().define(spec)
        spec.input("code", valid_type=orm.AbstractCode)
        spec.input("path", valid_type=orm.Str)
        spec.outline(cls.begin, cls.end)

    def begin(self) -> Any:
        from pathlib import Path

        folder = Path(self.inputs.path.value)
        (folder / "here").touch()
        while not (folder / "go").exists():
            time.sleep(0.05)
        inputs = {"x": orm.Int(1), "y": orm.Int(1), "code": self.inputs.code}
        metadata = {"options": {"resources": RESOURCES}}
        return ToContext(child=self.submit(ArithmeticAddCalculation, **inputs, metadata=metadata))

    def end(self) -> None:
        pass

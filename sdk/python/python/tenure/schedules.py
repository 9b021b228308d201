"""Schedules: tasks that the broker submits again and again."""

from __future__ import annotations

from typing import Any, Optional

from . import _native
from ._asks import Asks, SyncAsks
from ._verbs import Ask, _nothing
from .errors import BadSetting
from .handle import SyncTaskHandle, TaskHandle, read_bytes
from .records import Accepted, ScheduleInfo, read_json, read_list
from .submission import Body, Span, Submission, span_millis


def _settings(
    zone: Optional[str],
    catch_up: Optional[str],
    overlap: Optional[str],
    jitter: Optional[Span],
    expires_after: Optional[Span],
    paused: bool,
) -> dict[str, Any]:
    said = {
        "zone": zone,
        "catch_up": catch_up,
        "overlap": overlap,
        "jitter_ms": None if jitter is None else span_millis(jitter),
        "expires_after_ms": None if expires_after is None else span_millis(expires_after),
        "paused": paused,
    }
    return {key: value for key, value in said.items() if value is not None}


def set_one(
    name: str,
    when: str,
    submission: Submission,
    zone: Optional[str] = None,
    catch_up: Optional[str] = None,
    overlap: Optional[str] = None,
    jitter: Optional[Span] = None,
    expires_after: Optional[Span] = None,
    paused: bool = False,
) -> Ask[None]:
    """The request to create or change a schedule."""
    if not isinstance(when, str):
        raise BadSetting(f"when is {when!r}: pass a cron expression such as '0 2 * * *', or 'every 15m'")
    said = submission.said()
    settings = _settings(zone, catch_up, overlap, jitter, expires_after, paused)
    return Ask(lambda client, via: _native.set_schedule(client, name, when, said, settings, via), _nothing)


def _list() -> Ask[list[ScheduleInfo]]:
    return Ask(lambda client, via: _native.list_schedules(client, via), lambda told: read_list(ScheduleInfo, told))


def _show(name: str) -> Ask[ScheduleInfo]:
    return Ask(lambda client, via: _native.show_schedule(client, name, via), lambda told: read_json(ScheduleInfo, told))


def _steer(verb: str, name: str) -> Ask[None]:
    return Ask(lambda client, via: _native.steer_schedule(client, verb, name, via), _nothing)


def _run(name: str) -> Ask[Accepted]:
    return Ask(lambda client, via: _native.run_schedule(client, name, via), Accepted.of)


class ScheduleVerbs(Asks):
    """The verbs of schedules, for asyncio clients."""

    async def set_schedule(
        self,
        name: str,
        when: str,
        queue: str,
        body: Body = b"",
        *,
        zone: Optional[str] = None,
        catch_up: Optional[str] = None,
        overlap: Optional[str] = None,
        jitter: Optional[Span] = None,
        expires_after: Optional[Span] = None,
        paused: bool = False,
        **options: Any,
    ) -> None:
        """Creates a schedule, or changes the one of this name. ``when`` is a cron expression in the time zone ``zone``
        (UTC), or ``every`` and a span: ``every 15m``. ``catch_up`` says what happens to due times that were missed:
        ``none``, ``last`` or ``all``; ``overlap`` what happens if the last task has not ended: the new one waits for it
        (``queue``), is left out (``skip``), or takes its place (``cancel-old``). ``jitter`` delays each task by a part
        of this span; a task fails if it has not started ``expires_after`` its submission. The other options are those
        of :class:`Submission`.
        """
        submission = Submission(queue, body, **options)
        await self._do(set_one(name, when, submission, zone, catch_up, overlap, jitter, expires_after, paused))

    async def schedules(self) -> list[ScheduleInfo]:
        """All schedules with their next due times."""
        return await self._do(_list())

    async def schedule(self, name: str) -> ScheduleInfo:
        """One schedule."""
        return await self._do(_show(name))

    async def pause_schedule(self, name: str) -> None:
        """Stops a schedule until it is resumed."""
        await self._do(_steer("pause", name))

    async def resume_schedule(self, name: str) -> None:
        """Lets a paused schedule fire again. Due times that it missed follow its ``catch_up``."""
        await self._do(_steer("resume", name))

    async def remove_schedule(self, name: str) -> None:
        """Removes a schedule. Its tasks stay."""
        await self._do(_steer("remove", name))

    async def run_schedule(self, name: str) -> TaskHandle[bytes]:
        """Submits the task of a schedule now, whatever its times."""
        accepted = await self._do(_run(name))
        return TaskHandle(self, accepted.id, accepted, read_bytes)  # type: ignore[arg-type]


class SyncScheduleVerbs(SyncAsks):
    """The verbs of schedules, for blocking clients."""

    def set_schedule(
        self,
        name: str,
        when: str,
        queue: str,
        body: Body = b"",
        *,
        zone: Optional[str] = None,
        catch_up: Optional[str] = None,
        overlap: Optional[str] = None,
        jitter: Optional[Span] = None,
        expires_after: Optional[Span] = None,
        paused: bool = False,
        **options: Any,
    ) -> None:
        """Creates a schedule, or changes the one of this name. ``when`` is a cron expression in the time zone ``zone``
        (UTC), or ``every`` and a span: ``every 15m``. ``catch_up`` says what happens to due times that were missed:
        ``none``, ``last`` or ``all``; ``overlap`` what happens if the last task has not ended: the new one waits for it
        (``queue``), is left out (``skip``), or takes its place (``cancel-old``). ``jitter`` delays each task by a part
        of this span; a task fails if it has not started ``expires_after`` its submission. The other options are those
        of :class:`Submission`.

        >>> with SyncClient(broker.address) as client:
        ...     client.set_schedule("nightly", "0 2 * * *", "reports", b"all", zone="Europe/Zurich", overlap="skip")
        ...     client.schedule("nightly").next[0].minute
        0
        """
        submission = Submission(queue, body, **options)
        self._do(set_one(name, when, submission, zone, catch_up, overlap, jitter, expires_after, paused))

    def schedules(self) -> list[ScheduleInfo]:
        """All schedules with their next due times."""
        return self._do(_list())

    def schedule(self, name: str) -> ScheduleInfo:
        """One schedule."""
        return self._do(_show(name))

    def pause_schedule(self, name: str) -> None:
        """Stops a schedule until it is resumed."""
        self._do(_steer("pause", name))

    def resume_schedule(self, name: str) -> None:
        """Lets a paused schedule fire again. Due times that it missed follow its ``catch_up``."""
        self._do(_steer("resume", name))

    def remove_schedule(self, name: str) -> None:
        """Removes a schedule. Its tasks stay."""
        self._do(_steer("remove", name))

    def run_schedule(self, name: str) -> SyncTaskHandle[bytes]:
        """Submits the task of a schedule now, whatever its times."""
        accepted = self._do(_run(name))
        return SyncTaskHandle(self, accepted.id, accepted, read_bytes)  # type: ignore[arg-type]

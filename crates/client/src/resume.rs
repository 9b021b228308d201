//! The progress of a watcher, so that the next connection continues exactly there. Pure.

use tenure_wire::event::Event;
use tenure_wire::request::Watch as WatchRequest;

#[derive(Clone, Debug)]
pub(crate) struct WatchPosition {
    request: WatchRequest,
    /// The first event that the watcher has not seen. Unknown until the first watch is up, if the watch starts with
    /// new events.
    next: Option<u64>,
}

impl WatchPosition {
    pub(crate) fn new(request: WatchRequest) -> WatchPosition {
        let next = request.from;
        WatchPosition { request, next }
    }

    /// The request for the next connection.
    pub(crate) fn request(&self) -> WatchRequest {
        WatchRequest { from: self.next, ..self.request.clone() }
    }

    /// Numbers mean something else from now on: the watch begins again, with new events.
    pub(crate) fn restart(&mut self) {
        self.next = None;
    }

    /// Whether the position is known.
    pub(crate) fn is_known(&self) -> bool {
        self.next.is_some()
    }

    /// The watcher has received all matching events before this number.
    pub(crate) fn live(&mut self, next: u64) {
        self.next = self.next.max(Some(next));
    }

    /// Removes events that the watcher has seen before.
    pub(crate) fn events(&mut self, mut events: Vec<Event>) -> Vec<Event> {
        let next = self.next.unwrap_or(0);
        if events.first().is_some_and(|event| event.seq < next) {
            events.retain(|event| event.seq >= next);
        }
        if let Some(last) = events.last() {
            self.next = Some(last.seq + 1);
        }
        events
    }

    /// The part of a gap that this watcher missed; `None` if it saw all of it before the broker trimmed the events. A gap
    /// that ends before it begins says that the log begins again after its end.
    pub(crate) fn gap(&mut self, from: u64, to: u64) -> Option<(u64, u64)> {
        if to < from {
            self.next = Some(to + 1);
            return Some((from, to));
        }
        let from = from.max(self.next.unwrap_or(0));
        if to < from {
            return None;
        }
        self.next = Some(to + 1);
        Some((from, to))
    }
}

#[cfg(test)]
mod tests {
    use tenure_wire::Timestamp;
    use tenure_wire::event::EventKind;

    use super::*;

    fn event(seq: u64) -> Event {
        Event {
            seq,
            at: Timestamp(0),
            kind: EventKind::Completed,
            task: None,
            attempt: 0,
            queue: None,
            submitter: None,
            worker: None,
            more: None,
        }
    }

    fn seen(resume: &mut WatchPosition, seqs: impl IntoIterator<Item = u64>) -> Vec<u64> {
        resume.events(seqs.into_iter().map(event).collect()).iter().map(|event| event.seq).collect()
    }

    #[test]
    fn a_watch_from_now_on_resumes_where_it_began_even_if_nothing_happened() {
        let mut resume = WatchPosition::new(WatchRequest::default());
        assert_eq!(resume.request().from, None);
        assert!(!resume.is_known());
        resume.live(41);
        assert!(resume.is_known());
        assert_eq!(resume.request().from, Some(41));
    }

    #[test]
    fn it_goes_on_after_the_last_event_and_tells_nothing_twice() {
        let mut resume = WatchPosition::new(WatchRequest { from: Some(5), ..WatchRequest::default() });
        assert_eq!(seen(&mut resume, [5, 8, 9]), [5, 8, 9]);
        assert_eq!(resume.request().from, Some(10));
        assert_eq!(seen(&mut resume, [8, 9, 12]), [12]);
        assert_eq!(seen(&mut resume, []), [0; 0]);
        assert_eq!(resume.request().from, Some(13));
    }

    #[test]
    fn what_does_not_concern_it_is_not_read_again() {
        let mut resume = WatchPosition::new(WatchRequest { from: Some(5), ..WatchRequest::default() });
        assert_eq!(seen(&mut resume, [5]), [5]);
        resume.live(1_000);
        assert_eq!(resume.request().from, Some(1_000));
        resume.live(900);
        assert_eq!(resume.request().from, Some(1_000), "it never goes back");
    }

    #[test]
    fn a_log_that_begins_again_takes_the_watcher_back() {
        let mut resume = WatchPosition::new(WatchRequest { from: Some(100), ..WatchRequest::default() });
        assert_eq!(resume.gap(100, 23), Some((100, 23)));
        assert_eq!(resume.request().from, Some(24));
        assert_eq!(seen(&mut resume, [24]), [24]);
    }

    #[test]
    fn a_gap_is_reported_once_and_only_as_far_as_it_is_one() {
        let mut resume = WatchPosition::new(WatchRequest { from: Some(5), ..WatchRequest::default() });
        assert_eq!(resume.gap(1, 9), Some((5, 9)));
        assert_eq!(resume.gap(1, 9), None);
        assert_eq!(resume.request().from, Some(10));
    }
}

//! What a worker has reported about itself: its offer and its figures.

use tenure_hub::words::{Name, Resource, Timestamp, WorkerAbout, WorkerStats};

use super::{Figures, Introduction, WorkerKind};

/// Slots of a connection that pulls without a name.
pub const NAMELESS_SLOTS: u32 = 100;

/// What a worker offers and how it is asked.
#[derive(Debug)]
pub struct WorkerTerms {
    /// What it offers.
    pub capabilities: Vec<Name>,
    /// It has named its capabilities.
    pub(super) is_specific: bool,
    /// Labels of a worker that never registers, which a task may need as well.
    pub(super) labels: Vec<Name>,
    pub(super) slots: u32,
    introduction: Option<Box<Introduction>>,
    figures: Option<(Timestamp, Box<Figures>)>,
    /// Tasks that it did not finish within their limit.
    pub(super) hung: u32,
}

impl WorkerTerms {
    pub(super) fn new(kind: WorkerKind) -> WorkerTerms {
        WorkerTerms {
            capabilities: Vec::new(),
            is_specific: false,
            labels: Vec::new(),
            slots: if kind == WorkerKind::Nameless { NAMELESS_SLOTS } else { 1 },
            introduction: None,
            figures: None,
            hung: 0,
        }
    }

    pub(super) fn introduce(&mut self, introduction: Box<Introduction>) {
        self.slots = introduction.slots;
        self.capabilities.clone_from(&introduction.capabilities);
        self.is_specific = introduction.is_specific;
        self.introduction = Some(introduction);
    }

    pub(super) fn has_figures(&mut self, now: Timestamp, figures: Box<Figures>) {
        self.figures = Some((now, figures));
    }

    pub(super) fn forget(&mut self) {
        (self.introduction, self.figures) = (None, None);
    }

    pub(super) fn has_registered(&self) -> bool {
        self.introduction.is_some()
    }

    /// Its registration, for the hub to store.
    pub(super) fn profile(&self) -> Option<Box<str>> {
        self.introduction.as_ref().and_then(|introduction| introduction.profile.clone())
    }

    /// What it has for tasks that need quantities.
    pub(super) fn resources(&self) -> Vec<Resource> {
        self.introduction.as_ref().map(|introduction| introduction.resources.clone()).unwrap_or_default()
    }

    /// Its instance, if it has named one.
    pub(super) fn instance(&self) -> Option<&String> {
        self.introduction.as_ref().and_then(|introduction| introduction.instance.as_ref())
    }

    pub(super) fn about(&self, door: &'static str) -> WorkerAbout {
        let about = self.introduction.as_ref().map(|introduction| introduction.about.clone());
        WorkerAbout { door: Some(door), ..about.unwrap_or_default() }
    }

    /// A worker's registration travels with its figures, so that the hub has it for all views.
    pub(super) fn figures(&self) -> Box<WorkerStats> {
        let mut more = Vec::new();
        if self.hung > 0 {
            more.push(("hung".into(), self.hung.to_string().into_boxed_str()));
        }
        let mut figures = WorkerStats::default();
        if let Some((at, told)) = &self.figures {
            figures = told.stats.clone();
            more.append(&mut figures.more);
            more.push(("stats_at".into(), at.millis().to_string().into_boxed_str()));
        }
        figures.more = more;
        Box::new(figures)
    }
}

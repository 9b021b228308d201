//! The figures a `_PL` worker sends with its heartbeats.

use bytes::Bytes;

use super::decimal;

/// A worker's figures. Missing ones are unknown; a heartbeat counts whatever it carries.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MdpStats {
    pub free_threads: Option<u32>,
    pub total_memory: Option<f64>,
    pub used_memory: Option<f64>,
    pub process_memory: Option<f64>,
    pub total_cpu: Option<f64>,
    pub process_cpu: Option<f64>,
}

/// No figure is ever "not a number", so comparing is an equivalence.
impl Eq for MdpStats {}

pub(super) fn parse(frames: &[Bytes]) -> MdpStats {
    let figure =
        |index: usize| frames.get(index).and_then(decimal::<f64>).filter(|figure| figure.is_finite());
    MdpStats {
        free_threads: frames.first().and_then(decimal),
        total_memory: figure(1),
        used_memory: figure(2),
        process_memory: figure(3),
        total_cpu: figure(4),
        process_cpu: figure(5),
    }
}

//! The contents of the simulated database, and the statements that change it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crc32c::crc32c;
use tenure_engine::Timestamp;

use crate::replicated::{
    FileEntry, FrameGroup, GroupState, LeaderClaim, Leadership, Member, PerStream, Place, ReplicationError,
    StoredGroup, Stream, StreamState, Tail,
};

#[derive(Clone, Debug)]
pub(super) struct JournalState {
    pub(super) epoch: u64,
    holder: Option<String>,
    instance: u64,
    doors: String,
    until: Timestamp,
    settled: PerStream<u64>,
    /// Each segment begins with a chunk without bytes.
    groups: PerStream<Vec<Arc<StoredGroup>>>,
    files: BTreeMap<String, Arc<Vec<u8>>>,
}

impl Default for JournalState {
    fn default() -> JournalState {
        let first = StoredGroup { segment: 0, start: 0, end: Place::default(), epoch: 0, bytes: Vec::new() };
        JournalState {
            epoch: 0,
            holder: None,
            instance: 0,
            doors: String::new(),
            until: Timestamp::ZERO,
            settled: PerStream::default(),
            groups: PerStream::new(|_| vec![Arc::new(first.clone())]),
            files: BTreeMap::new(),
        }
    }
}

/// A change. It can arrive when the session that sent it is long gone.
#[derive(Clone, Debug)]
pub(super) enum Statement {
    Lead { member: Member, claim: LeaderClaim },
    Renew { epoch: u64, lease: Duration, settled: PerStream<u64> },
    Release { epoch: u64 },
    Append { epoch: u64, stream: Stream, group: FrameGroup },
    BeginSegment { epoch: u64, stream: Stream, at: Place },
    DropSegments { epoch: u64, stream: Stream, starts: Vec<u64> },
    PutFile { epoch: u64, name: String, bytes: Vec<u8> },
    RemoveFile { epoch: u64, name: String },
}

#[derive(Clone, Debug)]
pub(super) enum StatementAnswer {
    Done,
    /// The claim does not hold.
    NotLeading,
    Leading(Leadership),
}

impl JournalState {
    pub(super) fn end(&self, stream: Stream) -> Place {
        self.groups[stream].last().map_or(Place::default(), |group| group.end)
    }

    pub(super) fn tails(&self) -> PerStream<Tail> {
        PerStream::new(|stream| Tail { end: self.end(stream), segment: self.newest_segment(stream) })
    }

    /// The state of a standby that lags: its rows and files are older, and its lease lasts as long.
    pub(super) fn with_rows_of(&self, lagging: JournalState) -> JournalState {
        JournalState { until: self.until, ..lagging }
    }

    pub(super) fn execute(
        &mut self,
        statement: &Statement,
        now: Timestamp,
        keeps_epoch: bool,
    ) -> Result<StatementAnswer, ReplicationError> {
        match statement {
            Statement::Lead { member, claim } => return Ok(self.lead(member, *claim, now, keeps_epoch)),
            Statement::Renew { epoch, lease, settled } => {
                self.check(*epoch)?;
                if self.holder.is_none() {
                    return Err(ReplicationError::Fenced { holder: String::new(), epoch: *epoch });
                }
                self.until = now + *lease;
                self.settled = PerStream::new(|stream| self.settled[stream].max(settled[stream]));
            }
            Statement::Release { epoch } => {
                self.check(*epoch)?;
                self.until = Timestamp::ZERO;
                self.holder = None;
            }
            Statement::Append { epoch, stream, group } => {
                self.check(*epoch)?;
                self.check_end(*stream, group.start)?;
                let segment = self.newest_segment(*stream);
                self.groups[*stream].push(Arc::new(StoredGroup {
                    segment,
                    start: group.start.position,
                    end: group.end,
                    epoch: *epoch,
                    bytes: group.bytes.clone(),
                }));
            }
            Statement::BeginSegment { epoch, stream, at } => {
                self.check(*epoch)?;
                self.check_end(*stream, *at)?;
                if self.newest_segment(*stream) != at.position {
                    self.groups[*stream].push(Arc::new(StoredGroup {
                        segment: at.position,
                        start: at.position,
                        end: *at,
                        epoch: *epoch,
                        bytes: Vec::new(),
                    }));
                }
            }
            Statement::DropSegments { epoch, stream, starts } => {
                self.check(*epoch)?;
                let newest = self.newest_segment(*stream);
                self.groups[*stream]
                    .retain(|group| group.segment == newest || !starts.contains(&group.segment));
            }
            Statement::PutFile { epoch, name, bytes } => {
                self.check(*epoch)?;
                if self.files.get(name).is_none_or(|known| known.len() <= bytes.len()) {
                    self.files.insert(name.clone(), Arc::new(bytes.clone()));
                }
            }
            Statement::RemoveFile { epoch, name } => {
                self.check(*epoch)?;
                self.files.remove(name);
            }
        }
        Ok(StatementAnswer::Done)
    }

    fn lead(
        &mut self,
        member: &Member,
        claim: LeaderClaim,
        now: Timestamp,
        keeps_epoch: bool,
    ) -> StatementAnswer {
        let is_mine = self.holder.as_ref() == Some(&member.name);
        let may_lead = match claim {
            LeaderClaim::LeaseEnded => self.until <= now || is_mine,
            LeaderClaim::Own { epoch } => self.epoch == epoch && self.instance == member.instance && is_mine,
            LeaderClaim::LeaderGone { epoch } => self.epoch == epoch,
        };
        if !may_lead {
            return StatementAnswer::NotLeading;
        }
        if !(keeps_epoch && is_mine) {
            self.epoch += 1;
        }
        self.holder = Some(member.name.clone());
        self.instance = member.instance;
        self.doors.clone_from(&member.doors);
        self.until = now + member.lease;
        StatementAnswer::Leading(Leadership { epoch: self.epoch, tails: self.tails(), lease: member.lease })
    }

    pub(super) fn look(&self, now: Timestamp) -> GroupState {
        let begins = |group: &&Arc<StoredGroup>| group.bytes.is_empty();
        let entry = |(name, bytes): (&String, &Arc<Vec<u8>>)| FileEntry {
            name: name.clone(),
            bytes: bytes.len() as u64,
            crc: crc32c(bytes),
        };
        GroupState {
            epoch: self.epoch,
            holder: self.holder.clone(),
            instance: self.instance,
            doors: self.doors.clone(),
            lease_left: self.until.since(now),
            is_leader_gone: false,
            streams: PerStream::new(|stream| StreamState {
                end: self.end(stream),
                settled: self.settled[stream],
                segments: self.groups[stream].iter().filter(begins).map(|group| group.end).collect(),
            }),
            files: self.files.iter().map(entry).collect(),
        }
    }

    pub(super) fn read(
        &self,
        stream: Stream,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<StoredGroup>, ReplicationError> {
        let groups = &self.groups[stream];
        let after = groups.partition_point(|group| group.end.position <= from);
        let Some(anchor) = after.checked_sub(1) else {
            return Err(ReplicationError::Gone(format!("position {from}")));
        };
        // The first chunk shows only where it ends, so its bytes do not count.
        let mut bytes = 0;
        let groups = groups[anchor..].iter().enumerate().take_while(|(index, group)| {
            let is_wanted = bytes <= bytes_max;
            bytes += if *index == 0 { 0 } else { group.bytes.len() };
            is_wanted
        });
        Ok(groups.map(|(_, group)| group).map(|group| StoredGroup::clone(group)).collect())
    }

    pub(super) fn file(&self, name: &str) -> Result<Vec<u8>, ReplicationError> {
        let found = self.files.get(name).map(|bytes| bytes.to_vec());
        found.ok_or_else(|| ReplicationError::Gone(name.to_owned()))
    }

    fn newest_segment(&self, stream: Stream) -> u64 {
        self.groups[stream].last().map_or(0, |group| group.segment)
    }

    fn check(&self, epoch: u64) -> Result<(), ReplicationError> {
        if epoch == self.epoch {
            return Ok(());
        }
        let holder = self.holder.clone().unwrap_or_default();
        Err(ReplicationError::Fenced { holder, epoch: self.epoch })
    }

    fn check_end(&self, stream: Stream, at: Place) -> Result<(), ReplicationError> {
        let end = self.end(stream);
        if at == end { Ok(()) } else { Err(ReplicationError::NotAtEnd { end: end.position }) }
    }
}

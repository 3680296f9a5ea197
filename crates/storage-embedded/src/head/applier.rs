//! Applies records of the log to memory, in the order of the log.
//!
//! One thread takes the steps in the order of their records, and applies each step after the log
//! has committed it. So memory never has a record that the log refused, a later record wins over an
//! earlier one as in a replay, and a record in the log reaches memory even if its request is gone.
//! A write is answered after memory has it. The beginning of a flush is a step too: memory then has
//! exactly the committed records that were appended before it.

use std::sync::{Arc, mpsc};

use tokio::sync::oneshot;

use super::prepared::Prepared;
use super::recent_samples::RecentSamples;
use super::wal::Commit;
use promkairos_model::{Matcher, TimeRange, WriteOutcome};
use promkairos_storage::StoreError;

/// Sends what was applied, or why the log refused it.
pub(super) type AnswerTo<T> = oneshot::Sender<Result<T, StoreError>>;

/// Receives such an answer.
pub(super) type Answered<T> = oneshot::Receiver<Result<T, StoreError>>;

/// A change of memory at its position in the log.
pub(super) enum Step {
    Write {
        commit: Commit,
        write: Prepared,
        /// The acceptance time that points keep; 0 = none.
        stamp: i64,
        answer: AnswerTo<WriteOutcome>,
    },
    Delete {
        commit: Commit,
        matchers: Vec<Matcher>,
        range: TimeRange,
        /// The inner result is from memory: the delete is in the log either way.
        answer: AnswerTo<Result<(), StoreError>>,
    },
    /// All steps before it belong to the flush, no step behind it does.
    BeginFlush(oneshot::Sender<()>),
}

/// Sends steps to the thread.
pub(super) struct Applier {
    steps: mpsc::Sender<Step>,
}

impl Applier {
    /// Starts the thread. It ends once the applier is gone and every step is answered.
    pub(super) fn start(memory: Arc<RecentSamples>) -> Result<Self, StoreError> {
        let (steps, taken) = mpsc::channel();
        let apply = move || taken.into_iter().for_each(|step: Step| step.take(&memory));
        let thread = std::thread::Builder::new().name("apply".into()).spawn(apply);
        thread.map_err(|error| {
            StoreError::backend("the thread that applies the log does not start", error)
        })?;
        Ok(Self { steps })
    }

    /// Adds a step. The caller adds steps in the order of their records in the log.
    pub(super) fn push(&self, step: Step) {
        // If the thread has ended, the step is dropped, and with it the sender of the answer.
        let _ = self.steps.send(step);
    }
}

impl Step {
    /// The request may be gone; memory gets the record all the same.
    fn take(self, memory: &RecentSamples) {
        match self {
            Self::Write { commit, write, stamp, answer } => {
                let _ = answer.send(commit.wait_here().map(|_room| memory.apply(write, stamp)));
            }
            Self::Delete { commit, matchers, range, answer } => {
                let committed = commit.wait_here();
                let _ = answer.send(committed.map(|_room| memory.delete(&matchers, &range)));
            }
            Self::BeginFlush(begun) => {
                memory.begin_flush();
                let _ = begun.send(());
            }
        }
    }
}

/// Waits for an answer.
pub(super) async fn answered<T>(answer: oneshot::Receiver<T>) -> Result<T, StoreError> {
    let what = "the thread that applies the log has ended, a restart is needed";
    answer.await.map_err(|gone| StoreError::backend(what, gone))
}

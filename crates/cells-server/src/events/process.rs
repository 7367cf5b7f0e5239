//! One process topic: the news that a process is over (`cells-0.4.md` §2.4).

use std::sync::Arc;

use cells_protocol::ids::TopicId;

use super::frame::Frames;
use crate::app::App;
use crate::auth::Principal;
use crate::process::Record;

/// A topic that was accepted.
pub(super) struct ProcessTopic {
    id: TopicId,
    epoch: String,
    request_id: String,
    /// `None` once its end was told.
    record: Option<Arc<Record>>,
}

impl ProcessTopic {
    /// Opens a topic and writes its first frame.
    ///
    /// # Errors
    /// The code of the topic error: `EACCES`, `ECAPABILITY`, `STALE_SERVER_EPOCH` or `PROCESS_UNKNOWN`.
    pub(super) fn open(
        id: TopicId,
        epoch: String,
        request_id: String,
        (app, principal): (&App, &Principal),
        frames: &mut Frames,
    ) -> Result<Self, &'static str> {
        let record = app.processes.record(principal, &epoch, &request_id).map_err(|refusal| refusal.code)?;
        frames.open_process(&id);
        Ok(Self { id, epoch, request_id, record: Some(record) })
    }

    /// Writes the end of the process, once there is one.
    pub(super) fn advance(&mut self, frames: &mut Frames) {
        if let Some(record) = self.record.take_if(|record| record.has_ended()) {
            frames.process(&self.id, &self.epoch, &self.request_id, &record.status());
        }
    }

    /// Waits for the end of the process; without end when that was told.
    pub(super) async fn changed(&self) {
        match &self.record {
            Some(record) => record.ended().await,
            None => std::future::pending().await,
        }
    }
}

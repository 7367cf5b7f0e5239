//! Ctrl-C, counted.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::failure::{Exit, Failure};

/// How often the user pressed Ctrl-C. Clones see the same count.
#[derive(Debug, Clone)]
pub(crate) struct Interrupts(watch::Receiver<u32>);

impl Interrupts {
    /// Counts from now on; Ctrl-C does not end the program any more.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let failed = |error| Failure::new(Exit::Failed, format!("signals cannot be received: {error}"));
        let mut signals = signal(SignalKind::interrupt()).map_err(failed)?;
        let (sender, receiver) = watch::channel(0);
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                sender.send_modify(|count| *count += 1);
            }
        });
        Ok(Self(receiver))
    }

    /// Resolves when Ctrl-C was pressed, also when that was before.
    pub(crate) async fn first(&mut self) {
        self.reached(1).await;
    }

    /// Resolves when Ctrl-C was pressed twice.
    pub(crate) async fn second(&mut self) {
        self.reached(2).await;
    }

    async fn reached(&mut self, count: u32) {
        if self.0.wait_for(|seen| *seen >= count).await.is_err() {
            // Nobody counts any more: the program ends.
            std::future::pending::<()>().await;
        }
    }
}

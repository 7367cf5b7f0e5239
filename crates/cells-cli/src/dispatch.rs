//! The mutation that was sent last and has no known outcome yet.

use std::sync::{Arc, Mutex, PoisonError};

use cells_native::cells_driver::Recovery;

/// Remembers what a mutation was sent as, so that its outcome can be asked for whatever happens. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dispatch(Arc<Mutex<Option<Recovery>>>);

impl Dispatch {
    /// It is sent now.
    pub(crate) fn sent(&self, recovery: &Recovery) {
        self.set(Some(recovery.clone()));
    }

    /// Its outcome is known.
    pub(crate) fn settled(&self) {
        self.set(None);
    }

    /// What was sent; `None` if nothing was, or if its outcome is known.
    pub(crate) fn get(&self) -> Option<Recovery> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, recovery: Option<Recovery>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = recovery;
    }
}

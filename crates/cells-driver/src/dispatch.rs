//! What all mutations share: an id of their own, and the moment from which nobody can hold them back.

use std::sync::{Arc, Mutex};

use cells_protocol::ids::hex;

use crate::client::Core;
use crate::error::Result;
use crate::sync::lock;

/// Whether a mutation may still be held back. Clones are the same gate.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Mutex<Stage>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not sent.
    Waiting,
    /// Its caller is gone: it must not be sent.
    GivenUp,
    /// On its way, whatever its caller does.
    Sent,
}

impl Gate {
    /// Of a mutation that is not sent yet.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Stage::Waiting)))
    }

    /// Lets the mutation pass; false if its caller has given it up.
    pub(crate) fn pass(&self) -> bool {
        let mut stage = lock(&self.0);
        let waits = *stage == Stage::Waiting;
        if waits {
            *stage = Stage::Sent;
        }
        waits
    }

    /// Holds the mutation back if it was not sent; true if so.
    pub(crate) fn give_up(&self) -> bool {
        let mut stage = lock(&self.0);
        match *stage {
            Stage::Waiting | Stage::GivenUp => {
                *stage = Stage::GivenUp;
                true
            }
            Stage::Sent => false,
        }
    }
}

/// Gives a mutation up when the call that asked for it is dropped.
pub(crate) struct GiveUpOnDrop<'a>(pub(crate) &'a Gate);

impl Drop for GiveUpOnDrop<'_> {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

/// A lowercase UUID of version 4 (`cells-0.4.md` §0.4).
pub(crate) fn new_uuid(core: &Core, operation: &'static str) -> Result<String> {
    let mut bytes: [u8; 16] = core.random(operation)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = hex(&bytes);
    for at in [20, 16, 12, 8] {
        text.insert(at, '-');
    }
    Ok(text)
}

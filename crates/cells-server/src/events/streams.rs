//! Who has a stream open (`cells-0.4.md` §2.2, §2.6).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cells_protocol::ids::{ClientId, PrincipalId};
use cells_protocol::limits::{EVENT_STREAMS_PER_NODE, EVENT_STREAMS_PER_PRINCIPAL, HEARTBEAT_MS};
use tokio::sync::oneshot;

/// The event streams of a node.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Longest silence of a stream.
    pub(super) heartbeat: Duration,
    /// A stream whose client takes nothing for this long is given up.
    pub(super) patience: Duration,
    open: Mutex<Open>,
}

impl Default for Streams {
    fn default() -> Self {
        Self::new(Duration::from_millis(HEARTBEAT_MS), Duration::from_secs(60))
    }
}

/// Why no further stream can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The node stops.
    Stopping,
    /// The principal has 16 streams or the node 64.
    Limit,
}

/// A place among the open streams; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) streams: Arc<Streams>,
    number: u64,
    /// Says with which code the stream must close.
    pub(super) close: oneshot::Receiver<&'static str>,
}

impl Streams {
    pub(crate) fn new(heartbeat: Duration, patience: Duration) -> Self {
        Self { heartbeat, patience, open: Mutex::default() }
    }

    /// Takes a place. An older stream of the same principal and client is closed.
    pub(super) fn enter(self: &Arc<Self>, principal: &PrincipalId, client: &ClientId) -> Result<Place, Refused> {
        let mut open = self.lock();
        if open.stopping {
            return Err(Refused::Stopping);
        }
        let key = (principal.clone(), client.clone());
        if let Some(older) = open.streams.iter().find(|(_, stream)| stream.key == key).map(|(number, _)| *number) {
            open.remove(older, "SUPERSEDED");
        }
        let of_principal = open.streams.values().filter(|stream| stream.key.0 == *principal).count();
        if of_principal >= EVENT_STREAMS_PER_PRINCIPAL || open.streams.len() >= EVENT_STREAMS_PER_NODE {
            return Err(Refused::Limit);
        }
        let (sender, close) = oneshot::channel();
        open.last += 1;
        let number = open.last;
        open.streams.insert(number, Stream { key, close: sender });
        Ok(Place { streams: Arc::clone(self), number, close })
    }

    /// Closes every stream and opens no more.
    pub(crate) fn stop(&self) {
        let mut open = self.lock();
        open.stopping = true;
        let numbers: Vec<u64> = open.streams.keys().copied().collect();
        for number in numbers {
            open.remove(number, "SERVER_STOPPING");
        }
    }

    /// How many are open.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.lock().streams.len()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.streams.lock().streams.remove(&self.number);
    }
}

#[derive(Debug, Default)]
struct Open {
    stopping: bool,
    last: u64,
    streams: BTreeMap<u64, Stream>,
}

#[derive(Debug)]
struct Stream {
    key: (PrincipalId, ClientId),
    close: oneshot::Sender<&'static str>,
}

impl Open {
    fn remove(&mut self, number: u64, code: &'static str) {
        if let Some(stream) = self.streams.remove(&number) {
            // A stream that ended by itself needs no code.
            let _ = stream.close.send(code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(streams: &Arc<Streams>, principal: &str, client: &str) -> Result<Place, Refused> {
        streams.enter(&PrincipalId::new(principal).unwrap(), &ClientId::new(client).unwrap())
    }

    #[test]
    fn a_principal_has_16_places_and_a_node_64() {
        let streams = Arc::new(Streams::default());
        let mut places = Vec::new();
        for principal in ["a", "b", "c", "d"] {
            for client in 0..16 {
                places.push(enter(&streams, principal, &client.to_string()).unwrap());
            }
            assert_eq!(enter(&streams, principal, "one-more").unwrap_err(), Refused::Limit);
        }
        assert_eq!(enter(&streams, "e", "0").unwrap_err(), Refused::Limit);
        drop(places.pop());
        places.push(enter(&streams, "e", "0").unwrap());
    }

    #[test]
    fn a_newer_stream_of_the_same_client_takes_the_place_of_the_older() {
        let streams = Arc::new(Streams::default());
        let mut places: Vec<Place> = (0..16).map(|client| enter(&streams, "a", &client.to_string()).unwrap()).collect();
        let newer = enter(&streams, "a", "3").unwrap();
        assert_eq!(places[3].close.try_recv(), Ok("SUPERSEDED"));
        // Giving back the older place does not take the newer one.
        places.remove(3);
        assert_eq!(enter(&streams, "a", "one-more").unwrap_err(), Refused::Limit);
        drop(newer);
        assert!(enter(&streams, "a", "one-more").is_ok());
    }

    #[test]
    fn a_stop_closes_every_stream_and_opens_no_more() {
        let streams = Arc::new(Streams::default());
        let mut place = enter(&streams, "a", "1").unwrap();
        streams.stop();
        assert_eq!(place.close.try_recv(), Ok("SERVER_STOPPING"));
        assert_eq!(enter(&streams, "a", "2").unwrap_err(), Refused::Stopping);
    }
}

//! Listing cursors: signed, short-lived and bound to one listing of one caller (`files-http.md` §4.4).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cells_protocol::limits::{CURSOR_LIFETIME_S, CURSOR_MAX_BYTES};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::{ServeError, random};

/// Signs cursors with a key that dies with the node.
pub(crate) struct CursorKey(Hmac<Sha256>);

#[derive(Serialize, Deserialize)]
struct Payload {
    binding: String,
    place: Place,
    expires: u64,
}

/// Where a listing goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The number of the kept listing.
    pub(super) listing: u64,
    /// Only names after this one follow.
    pub(super) last: String,
}

impl CursorKey {
    pub(crate) fn new() -> Result<Self, ServeError> {
        Ok(Self::from_bytes(&random::bytes()?))
    }

    fn from_bytes(key: &[u8; 64]) -> Self {
        Self(Hmac::new(key.into()))
    }

    /// The cursor that continues the listing `binding` at `place`. `now` is in Unix seconds.
    pub(crate) fn issue(&self, binding: &str, place: Place, now: u64) -> String {
        let payload = Payload { binding: binding.to_owned(), place, expires: now + CURSOR_LIFETIME_S };
        let payload = URL_SAFE_NO_PAD.encode(cells_protocol::json::to_vec(&payload));
        let signature = self.0.clone().chain_update(&payload).finalize().into_bytes();
        format!("{payload}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Where a cursor of the listing `binding` goes on; none for every cursor that is not such a one.
    pub(crate) fn open(&self, token: &str, binding: &str, now: u64) -> Option<Place> {
        if token.len() > CURSOR_MAX_BYTES {
            return None;
        }
        let (payload, signature) = token.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        self.0.clone().chain_update(payload).verify_slice(&signature).ok()?;
        let payload: Payload = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        (payload.binding == binding && now < payload.expires).then_some(payload.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_opens_only_its_own_listing_in_its_time() {
        let key = CursorKey::from_bytes(&[7; 64]);
        let place = Place { listing: 3, last: "näme".to_owned() };
        let token = key.issue("owner:notes:dir", place.clone(), 1000);
        let flipped = |at: usize| {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            String::from_utf8(bytes).unwrap()
        };
        let other_key = CursorKey::from_bytes(&[8; 64]).issue("owner:notes:dir", place.clone(), 1000);
        let dot = token.find('.').unwrap();
        for (what, token, binding, now, expected) in [
            ("fresh", token.clone(), "owner:notes:dir", 1000, true),
            ("last second", token.clone(), "owner:notes:dir", 1299, true),
            ("expired", token.clone(), "owner:notes:dir", 1300, false),
            ("other path", token.clone(), "owner:notes:dir/sub", 1000, false),
            ("other alias", token.clone(), "owner:other:dir", 1000, false),
            ("other principal", token.clone(), "guest:notes:dir", 1000, false),
            ("payload changed", flipped(3), "owner:notes:dir", 1000, false),
            ("signature changed", flipped(dot + 3), "owner:notes:dir", 1000, false),
            ("signature cut", token[..dot + 20].to_owned(), "owner:notes:dir", 1000, false),
            ("no signature", token[..dot].to_owned(), "owner:notes:dir", 1000, false),
            ("another start of the node", other_key, "owner:notes:dir", 1000, false),
            ("too long", format!("{token}{}", "A".repeat(CURSOR_MAX_BYTES)), "owner:notes:dir", 1000, false),
            ("empty", String::new(), "owner:notes:dir", 1000, false),
            ("noise", "!!.??".to_owned(), "owner:notes:dir", 1000, false),
        ] {
            let opened = key.open(&token, binding, now);
            assert_eq!(opened, expected.then(|| place.clone()), "{what}");
        }
    }
}

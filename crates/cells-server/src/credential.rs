//! Credentials, kept as hashes and compared in constant time (`files-http.md` §1.1).

use axum::http::HeaderValue;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::state_dir::Record;
use crate::{Credential, Secret, ServeError, random};

/// Decides whether an `Authorization` header is the right one.
#[derive(Debug)]
pub(crate) struct Verifier {
    expected: Expected,
}

#[derive(Debug)]
enum Expected {
    /// The hash of an API key.
    Bearer(KeyHash),
    /// The hash of user name, colon and password.
    Basic { username: String, pair: KeyHash },
}

impl Verifier {
    /// Whether `authorization` holds the credential. Each scheme refuses the other one.
    pub(crate) fn accepts(&self, authorization: &HeaderValue) -> bool {
        let header = authorization.as_bytes();
        match &self.expected {
            Expected::Bearer(key) => after_scheme(header, b"bearer").is_some_and(|presented| key.matches(presented)),
            Expected::Basic { pair, .. } => {
                let presented = after_scheme(header, b"basic").and_then(decode_basic);
                presented.is_some_and(|presented| pair.matches(&presented))
            }
        }
    }

    /// Whether a caller with `credential` could be taken for this one.
    pub(crate) fn takes(&self, credential: &Credential) -> bool {
        match (&self.expected, credential) {
            (Expected::Bearer(hash), Credential::ApiKey(Some(key))) => hash.matches(key.expose().as_bytes()),
            (Expected::Bearer(hash), Credential::ApiKeySha256(sha256)) => *hash == KeyHash::unsalted(sha256),
            (Expected::Basic { username, .. }, Credential::Password { username: other, .. }) => username == other,
            (Expected::Bearer(_), Credential::ApiKey(None) | Credential::Password { .. })
            | (Expected::Basic { .. }, Credential::ApiKey(_) | Credential::ApiKeySha256(_)) => false,
        }
    }
}

/// The verifier of a configured credential; none when an API key is yet to be found or made.
///
/// # Errors
/// [`ServeError::Config`] for a weak or malformed credential.
pub(crate) fn verifier(credential: &Credential) -> Result<Option<Verifier>, ServeError> {
    let problem = match credential {
        Credential::ApiKey(Some(key)) if key.expose().len() < API_KEY_MIN_BYTES => {
            "the API key must have at least 24 bytes; set a longer one"
        }
        Credential::ApiKey(Some(key)) if !key.expose().bytes().all(|byte| byte.is_ascii_graphic()) => {
            "the API key must be printable ASCII without spaces; a header cannot carry anything else"
        }
        Credential::ApiKeySha256(sha256) if !is_sha256(sha256) => {
            "`api_key_sha256` must be the SHA-256 of the key, 64 digits of 0-9 and a-f"
        }
        Credential::Password { username, .. } if username.is_empty() || username.contains([':', '\r', '\n']) => {
            "`username` must not be empty and must not hold a colon or a line break"
        }
        Credential::Password { password, .. } if password.expose().len() < PASSWORD_MIN_BYTES => {
            "the password must have at least 8 bytes"
        }
        Credential::ApiKey(None) => return Ok(None),
        Credential::ApiKey(Some(key)) => return Ok(Some(bearer(KeyHash::of(key.expose().as_bytes())?))),
        Credential::ApiKeySha256(sha256) => return Ok(Some(bearer(KeyHash::unsalted(sha256)))),
        Credential::Password { username, password } => {
            let pair = KeyHash::of(format!("{username}:{}", password.expose()).as_bytes())?;
            return Ok(Some(Verifier { expected: Expected::Basic { username: username.clone(), pair } }));
        }
    };
    Err(ServeError::Config(problem.into()))
}

/// Checks what was configured for the owner, before anything is created.
pub(crate) fn check(credential: &Credential, new_key: bool) -> Result<(), ServeError> {
    let problem = match credential {
        Credential::ApiKey(Some(_)) | Credential::ApiKeySha256(_) if new_key => {
            "--new-key makes a key, and one is given; leave one of the two out"
        }
        Credential::Password { .. } if new_key => {
            "--new-key makes an API key, but the node uses a user name and password"
        }
        Credential::ApiKey(_) | Credential::ApiKeySha256(_) | Credential::Password { .. } => {
            return verifier(credential).map(|_| ());
        }
    };
    Err(ServeError::Config(problem.into()))
}

/// The verifier of the owner, and the key in clear if it was made just now.
pub(crate) struct Settled {
    pub(crate) verifier: Verifier,
    pub(crate) generated: Option<Secret>,
}

/// Turns the configured credential into a verifier. An API key that is given or made replaces the one of `record`.
pub(crate) fn settle(credential: &Credential, new_key: bool, record: &mut Record) -> Result<Settled, ServeError> {
    let known = record.api_key.as_ref().map(|known| bearer(known.clone()));
    let (verifier, generated) = match (verifier(credential)?, known) {
        (None, Some(known)) if !new_key => (known, None),
        (Some(_), Some(known)) if known.takes(credential) => (known, None),
        (Some(given), _) => (given, None),
        (None, _) => {
            let key = Secret::new(format!("{KEY_PREFIX}{}", URL_SAFE_NO_PAD.encode(random::bytes::<32>()?)));
            (bearer(KeyHash::of(key.expose().as_bytes())?), Some(key))
        }
    };
    if let Expected::Bearer(hash) = &verifier.expected {
        record.api_key = Some(hash.clone());
    }
    Ok(Settled { verifier, generated })
}

fn bearer(hash: KeyHash) -> Verifier {
    Verifier { expected: Expected::Bearer(hash) }
}

/// A SHA-256, salted unless the configuration gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyHash {
    salt: String,
    sha256: String,
}

impl KeyHash {
    fn of(secret: &[u8]) -> Result<Self, ServeError> {
        let salt = random::hex(&random::bytes::<16>()?);
        let sha256 = digest(&salt, secret);
        Ok(Self { salt, sha256 })
    }

    fn unsalted(sha256: &str) -> Self {
        Self { salt: String::new(), sha256: sha256.to_owned() }
    }

    fn matches(&self, secret: &[u8]) -> bool {
        digest(&self.salt, secret).as_bytes().ct_eq(self.sha256.as_bytes()).into()
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn digest(salt: &str, secret: &[u8]) -> String {
    random::hex(&Sha256::new().chain_update(salt).chain_update(secret).finalize())
}

/// The rest of the header after the first space, if the word before it is `scheme` in any case.
fn after_scheme<'a>(header: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let space = header.iter().position(|byte| *byte == b' ')?;
    header[..space].eq_ignore_ascii_case(scheme).then(|| &header[space + 1..])
}

/// `user:password` in clear; the first colon ends the user name, so the text says it unambiguously.
fn decode_basic(encoded: &[u8]) -> Option<Vec<u8>> {
    let decoded = STANDARD.decode(encoded).ok()?;
    std::str::from_utf8(&decoded).is_ok().then_some(decoded)
}

/// Lets people and secret scanners see what a leaked text is.
const KEY_PREFIX: &str = "cells_";
const API_KEY_MIN_BYTES: usize = 24;
const PASSWORD_MIN_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use cells_protocol::ids::ServerId;

    use super::*;

    fn record() -> Record {
        Record::new(ServerId::new("desk").unwrap())
    }

    fn key(text: &str) -> Credential {
        Credential::ApiKey(Some(Secret::new(text)))
    }

    #[test]
    fn a_made_key_is_known_at_the_next_start_until_it_is_replaced() {
        let mut record = record();
        let first = settle(&Credential::ApiKey(None), false, &mut record).unwrap();
        let made = first.generated.unwrap();
        let bearer = HeaderValue::from_str(&format!("Bearer {}", made.expose())).unwrap();
        assert!(made.expose().len() >= API_KEY_MIN_BYTES);
        assert!(first.verifier.accepts(&bearer));
        assert!(!serde_json::to_string(&record).unwrap().contains(made.expose()), "only a hash is kept");

        let second = settle(&Credential::ApiKey(None), false, &mut record).unwrap();
        assert!(second.generated.is_none() && second.verifier.accepts(&bearer));

        let third = settle(&Credential::ApiKey(None), true, &mut record).unwrap();
        assert!(third.generated.is_some() && !third.verifier.accepts(&bearer));
    }

    #[test]
    fn a_given_key_is_kept() {
        let mut record = record();
        let given = key("0123456789abcdef01234567");
        let bearer = HeaderValue::from_static("Bearer 0123456789abcdef01234567");
        assert!(settle(&given, false, &mut record).unwrap().verifier.accepts(&bearer));
        let hash = record.api_key.clone();
        assert!(settle(&given, false, &mut record).unwrap().verifier.accepts(&bearer));
        assert_eq!(record.api_key, hash, "the same key is not written again");
        assert!(settle(&Credential::ApiKey(None), false, &mut record).unwrap().verifier.accepts(&bearer));
    }

    #[test]
    fn weak_or_contradicting_credentials_are_refused() {
        let password = |username: &str, password: &str| Credential::Password {
            username: username.into(),
            password: Secret::new(password),
        };
        for (credential, new_key, ok) in [
            (Credential::ApiKey(None), false, true),
            (Credential::ApiKey(None), true, true),
            (key("0123456789abcdef01234567"), false, true),
            (key("0123456789abcdef01234567"), true, false),
            (key("0123456789abcdef0123456"), false, false),
            (key(""), false, false),
            (key("0123456789abcdef 0123456789"), false, false),
            (password("me", "12345678"), false, true),
            (password("me", "12345678"), true, false),
            (password("me", "1234567"), false, false),
            (password("", "12345678"), false, false),
            (password("m:e", "12345678"), false, false),
        ] {
            assert_eq!(check(&credential, new_key).is_ok(), ok, "{credential:?} {new_key}");
        }
    }
}

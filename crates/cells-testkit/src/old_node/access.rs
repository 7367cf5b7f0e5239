//! What every request passes: credential, alias, deadline, gate (`files-http.md` §1.1, §1.4, §1.9).

use std::time::Duration;

use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use tokio::{
    sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard},
    time::Instant,
};

use super::{
    Export, Node, OldCredential,
    error::{Code, Refusal},
};

impl Node {
    pub(super) fn authenticate(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let given = headers.get("authorization").and_then(|value| value.to_str().ok()).and_then(|v| v.split_once(' '));
        let known = match (&self.credential, given) {
            (OldCredential::Token { token }, Some((scheme, secret))) => {
                scheme.eq_ignore_ascii_case("bearer") && secret == token
            }
            (OldCredential::Password { username, password }, Some((scheme, secret))) => {
                let pair = STANDARD.decode(secret).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                scheme.eq_ignore_ascii_case("basic")
                    && pair.as_deref().and_then(|pair| pair.split_once(':')) == Some((username, password))
            }
            (_, None) => false,
        };
        if known { Ok(()) } else { Err(Refusal::UNAUTHENTICATED) }
    }

    /// The export, for a caller who may read it.
    pub(super) fn readable(&self, headers: &HeaderMap, alias: &str) -> Result<&Export, Refusal> {
        self.authenticate(headers)?;
        self.exports.get(alias).ok_or_else(|| Code("EACCES").into())
    }

    /// The export, for a caller who may change it.
    pub(super) fn writable(&self, headers: &HeaderMap, alias: &str) -> Result<&Export, Refusal> {
        let export = self.readable(headers, alias)?;
        if export.writable { Ok(export) } else { Err(Code("EROFS").into()) }
    }

    /// Held by everything that touches files, as long as it does.
    pub(super) fn share_gate(&self) -> Result<OwnedRwLockReadGuard<()>, Code> {
        self.gate.clone().try_read_owned().map_err(|_| Code("EBUSY"))
    }

    /// Held by a process until it was reaped.
    pub(super) fn own_gate(&self) -> Result<OwnedRwLockWriteGuard<()>, Code> {
        self.gate.clone().try_write_owned().map_err(|_| Code("EBUSY"))
    }
}

/// When the request must be answered.
pub(super) fn deadline(headers: &HeaderMap) -> Result<Instant, Code> {
    let ms = match headers.get("x-timeout-ms") {
        None => TIMEOUT_MAX_MS,
        Some(value) => {
            let digits = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            digits.filter(|text| !text.is_empty()).map_or(0, |text| text.parse().unwrap_or(u64::MAX))
        }
    };
    match ms {
        0 => Err(Code("EINVAL")),
        1.. => Ok(Instant::now() + Duration::from_millis(ms.min(TIMEOUT_MAX_MS))),
    }
}

/// Runs blocking file work until the deadline.
pub(super) async fn blocking<T: Send + 'static>(
    deadline: Instant,
    work: impl FnOnce() -> Result<T, Code> + Send + 'static,
) -> Result<T, Code> {
    match tokio::time::timeout_at(deadline, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err(Code("EIO")),
        Err(_) => Err(Code("ETIMEDOUT")),
    }
}

/// 1 to 128 bytes of `[A-Za-z0-9_-]`.
pub(super) fn is_identifier(text: &str) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

const TIMEOUT_MAX_MS: u64 = 30_000;

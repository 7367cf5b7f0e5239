//! Secrets: in memory only, by name, with a resolver behind them.

use std::fmt;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cells_protocol::error::ErrorKind;
use futures::channel::oneshot;

use crate::config::Identity;
use crate::error::{CREDENTIAL, Error, Result};
use crate::host::{HostFuture, MaybeSendSync};
use crate::sync::lock;

/// An API key or a password. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Takes a secret. An API key must be of visible ASCII characters, or no request can carry it (`EACCES`).
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into().into())
    }

    /// The secret itself. Take care where it goes.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Finds secrets that were not set in memory, for example in a key store. Asked for every request, so that a changed
/// secret is used at once; never asked for anonymous connections.
pub trait CredentialResolver: MaybeSendSync {
    /// The secret called `reference`.
    ///
    /// An error reaches the caller as `EACCES` of operation `credential`, with this one as its source. Its text must not
    /// hold the secret.
    fn resolve(&self, reference: &str) -> HostFuture<'static, Result<Secret>>;
}

/// The secrets of one client.
pub(crate) struct Credentials {
    secrets: Arc<Secrets>,
    resolver: Option<Box<dyn CredentialResolver>>,
    /// Who waits for which secret to be set.
    waiting: Mutex<Vec<(String, oneshot::Sender<()>)>>,
}

/// Few, so they are looked through.
type Secrets = Mutex<Vec<(String, Secret)>>;

impl Credentials {
    pub(crate) fn new(resolver: Option<Box<dyn CredentialResolver>>) -> Self {
        Self { secrets: Arc::default(), resolver, waiting: Mutex::default() }
    }

    pub(crate) fn set(&self, reference: String, secret: Secret) -> CredentialRestore {
        let previous = replace(&self.secrets, &reference, Some(secret));
        let told = lock(&self.waiting).extract_if(.., |(waiting, _)| *waiting == reference).collect::<Vec<_>>();
        for (_, sender) in told {
            // Somebody who is gone needs not be told.
            let _ = sender.send(());
        }
        CredentialRestore { secrets: Arc::clone(&self.secrets), reference, previous }
    }

    pub(crate) fn clear(&self, reference: &str) {
        replace(&self.secrets, reference, None);
    }

    pub(crate) fn clear_all(&self) {
        lock(&self.secrets).clear();
    }

    /// Resolves when the secret of `identity` is set again; never for anonymous.
    pub(crate) fn renewed(&self, identity: &Identity) -> impl Future<Output = ()> + use<> {
        let receiver = match identity {
            Identity::Anonymous => None,
            Identity::Bearer { reference } | Identity::Basic { reference, .. } => {
                let (sender, receiver) = oneshot::channel();
                let mut waiting = lock(&self.waiting);
                waiting.retain(|(_, sender)| !sender.is_canceled());
                waiting.push((reference.clone(), sender));
                Some(receiver)
            }
        };
        async move {
            match receiver {
                Some(receiver) => receiver.await.unwrap_or_default(),
                None => std::future::pending().await,
            }
        }
    }

    /// Memory first, then the resolver.
    pub(crate) async fn resolve(&self, reference: &str) -> Result<Secret> {
        let known = lock(&self.secrets).iter().find(|(known, _)| known == reference).map(|(_, secret)| secret.clone());
        let denied = |message: String| Error::new(ErrorKind::AccessDenied, CREDENTIAL, message);
        let secret = match (known, &self.resolver) {
            (Some(secret), _) => secret,
            (None, Some(resolver)) => resolver
                .resolve(reference)
                .await
                .map_err(|error| denied(format!("the resolver has no secret for `{reference}`")).with_source(error))?,
            (None, None) => {
                return Err(denied(format!("no secret is set for `{reference}`; set it first")));
            }
        };
        if secret.expose().is_empty() {
            return Err(denied(format!("the secret for `{reference}` is empty")));
        }
        Ok(secret)
    }

    /// The value of the `Authorization` header; `None` for anonymous, without asking anybody. `draft` is used in place of
    /// the secret that is known.
    pub(crate) async fn authorization(&self, identity: &Identity, draft: Option<&Secret>) -> Result<Option<String>> {
        let secret = async |reference: &str| match draft {
            Some(secret) => Ok(secret.clone()),
            None => self.resolve(reference).await,
        };
        match identity {
            Identity::Anonymous => Ok(None),
            Identity::Basic { reference, username } => {
                let secret = secret(reference).await?;
                let pair = STANDARD.encode(format!("{username}:{}", secret.expose()));
                Ok(Some(format!("Basic {pair}")))
            }
            Identity::Bearer { reference } => {
                let secret = secret(reference).await?;
                if !secret.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
                    let message = format!("the API key for `{reference}` has characters that no header can carry");
                    return Err(Error::new(ErrorKind::AccessDenied, CREDENTIAL, message));
                }
                Ok(Some(format!("Bearer {}", secret.expose())))
            }
        }
    }
}

/// Undoes one [`Client::set_credential`](crate::Client::set_credential). Dropping it does nothing.
pub struct CredentialRestore {
    secrets: Arc<Secrets>,
    reference: String,
    previous: Option<Secret>,
}

impl CredentialRestore {
    /// Puts back what the reference had before that call, or removes the secret if it had none.
    pub fn restore(self) {
        replace(&self.secrets, &self.reference, self.previous);
    }
}

impl fmt::Debug for CredentialRestore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CredentialRestore({})", self.reference)
    }
}

/// Keeps `secret` under `reference`, or nothing, and gives what was there.
fn replace(secrets: &Secrets, reference: &str, secret: Option<Secret>) -> Option<Secret> {
    let mut secrets = lock(secrets);
    let at = secrets.iter().position(|(known, _)| known == reference);
    let previous = at.map(|at| secrets.swap_remove(at).1);
    secrets.extend(secret.map(|secret| (reference.to_owned(), secret)));
    previous
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn now<T>(future: impl Future<Output = T>) -> T {
        future.now_or_never().expect("nothing to wait for")
    }

    struct Fixed(&'static str);

    impl CredentialResolver for Fixed {
        fn resolve(&self, reference: &str) -> HostFuture<'static, Result<Secret>> {
            let known = (reference == self.0).then(|| Secret::new("resolved"));
            Box::pin(async move { known.ok_or_else(|| Error::new(ErrorKind::NotFound, "key store", "locked")) })
        }
    }

    #[test]
    fn memory_wins_and_restore_puts_back_what_was_there() {
        let credentials = Credentials::new(Some(Box::new(Fixed("office"))));
        let secret = || now(credentials.resolve("office")).map(|secret| secret.expose().to_owned()).unwrap();
        assert_eq!(secret(), "resolved");
        let first = credentials.set("office".into(), Secret::new("one"));
        let second = credentials.set("office".into(), Secret::new("two"));
        assert_eq!(secret(), "two");
        second.restore();
        assert_eq!(secret(), "one");
        first.restore();
        assert_eq!(secret(), "resolved");
        let _ = credentials.set("office".into(), Secret::new("three"));
        credentials.clear("office");
        assert_eq!(secret(), "resolved");
    }

    #[test]
    fn a_missing_or_unusable_secret_is_an_access_error_of_operation_credential() {
        let credentials = Credentials::new(Some(Box::new(Fixed("office"))));
        let _ = credentials.set("empty".into(), Secret::new(""));
        let _ = credentials.set("line".into(), Secret::new("hunter2\r\nx: y"));
        for reference in ["unknown", "empty", "line"] {
            let identity = Identity::Bearer { reference: reference.into() };
            let error = now(credentials.authorization(&identity, None)).unwrap_err();
            assert_eq!((error.kind(), error.operation()), (ErrorKind::AccessDenied, "credential"), "{reference}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
    }

    #[test]
    fn headers_of_each_identity() {
        let credentials = Credentials::new(None);
        let _ = credentials.set("r".into(), Secret::new("pässword:x"));
        let _ = credentials.set("key".into(), Secret::new("abc"));
        let basic = Identity::Basic { reference: "r".into(), username: "jürgen".into() };
        for (identity, expected) in [
            (Identity::Anonymous, None),
            (Identity::Bearer { reference: "key".into() }, Some("Bearer abc")),
            (basic, Some("Basic asO8cmdlbjpww6Rzc3dvcmQ6eA==")),
        ] {
            assert_eq!(now(credentials.authorization(&identity, None)).unwrap().as_deref(), expected);
        }
    }
}

//! The TOML file of `cells serve --config` (`files-http.md` §2, `harness.md` §8.2). Unknown keys are refused.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use cells_protocol::capabilities::Access;
use cells_protocol::ids::{Alias, PrincipalId, ProfileId, ServerId, WorkspaceId};
use serde::Deserialize;

use super::{
    Credential, Execution, ExportConfig, HarnessConfig, LogLevel, PrincipalConfig, ServeConfig, TlsFiles, parse_alias,
};
use crate::{Secret, ServeError};

impl ServeConfig {
    /// Reads a configuration file; `docs/local-node.md` lists its keys. Relative paths in it start at the file's
    /// directory.
    ///
    /// # Errors
    /// [`ServeError::Config`] when the file cannot be read, is not TOML, has an unknown key or a wrong value, or names an
    /// environment variable that is not set.
    pub fn from_file(path: &Path) -> Result<Self, ServeError> {
        let problem = |problem: String| ServeError::Config(format!("configuration {}: {problem}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| problem(format!("cannot be read: {error}")))?;
        let file: File = toml::from_str(&text).map_err(|error| problem(explain(&text, &error)))?;
        let base = path.parent().unwrap_or(Path::new(""));
        file.into_config(base).map_err(|error| problem(error.to_string()))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<SocketAddr>,
    state: Option<PathBuf>,
    server_id: Option<ServerId>,
    #[serde(alias = "token")]
    api_key: Option<String>,
    #[serde(alias = "token_env")]
    api_key_env: Option<String>,
    api_key_sha256: Option<String>,
    username: Option<String>,
    password: Option<String>,
    password_env: Option<String>,
    #[serde(default)]
    allowed_origins: Vec<String>,
    #[serde(default)]
    exports: Vec<FileExport>,
    #[serde(default)]
    principals: Vec<FilePrincipal>,
    #[serde(default)]
    harnesses: Vec<FileHarness>,
    #[serde(default)]
    execution: Execution,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    #[serde(default)]
    insecure_http: bool,
    #[serde(default)]
    legacy_discovery: bool,
    #[serde(default)]
    log_level: LogLevel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileExport {
    path: PathBuf,
    alias: Option<String>,
    #[serde(default)]
    access: Access,
    #[serde(default)]
    public: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePrincipal {
    id: PrincipalId,
    api_key: Option<String>,
    api_key_env: Option<String>,
    api_key_sha256: Option<String>,
    username: Option<String>,
    password: Option<String>,
    password_env: Option<String>,
    #[serde(default)]
    exports: BTreeMap<Alias, Access>,
    #[serde(default)]
    harnesses: Vec<ProfileId>,
    #[serde(default)]
    process: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileHarness {
    id: ProfileId,
    kind: String,
    home: Option<PathBuf>,
    #[serde(default)]
    workspaces: Vec<FileWorkspace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileWorkspace {
    id: WorkspaceId,
    path: PathBuf,
}

impl File {
    fn into_config(self, base: &Path) -> Result<ServeConfig, ServeError> {
        let defaults = ServeConfig::default();
        let credential = credential(
            secret("api_key", self.api_key, self.api_key_env)?,
            self.api_key_sha256,
            self.username,
            secret("password", self.password, self.password_env)?,
        )?;
        let tls = match (self.tls_cert, self.tls_key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(TlsFiles { cert: base.join(cert), key: base.join(key) }),
            _ => return Err(ServeError::Config("set both `tls_cert` and `tls_key`, or neither".into())),
        };
        Ok(ServeConfig {
            listen: self.listen.unwrap_or(defaults.listen),
            state: self.state.map(|state| base.join(state)),
            server_id: self.server_id,
            credential,
            new_key: false,
            allowed_origins: self.allowed_origins,
            exports: self.exports.into_iter().map(|export| export.into_config(base)).collect::<Result<_, _>>()?,
            principals: self.principals.into_iter().map(FilePrincipal::into_config).collect::<Result<_, _>>()?,
            harnesses: self.harnesses.into_iter().map(|harness| harness.into_config(base)).collect(),
            execution: self.execution,
            tls,
            insecure_http: self.insecure_http,
            legacy_discovery: self.legacy_discovery,
            log_level: self.log_level,
            fault_kill: None,
        })
    }
}

impl FileExport {
    fn into_config(self, base: &Path) -> Result<ExportConfig, ServeError> {
        let alias = match &self.alias {
            Some(alias) => alias.as_str(),
            None => self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default(),
        };
        Ok(ExportConfig {
            alias: parse_alias(alias)?,
            path: base.join(&self.path),
            access: self.access,
            public: self.public,
        })
    }
}

impl FilePrincipal {
    fn into_config(self) -> Result<PrincipalConfig, ServeError> {
        let credential = secret("api_key", self.api_key, self.api_key_env).and_then(|api_key| {
            let password = secret("password", self.password, self.password_env)?;
            credential(api_key, self.api_key_sha256, self.username, password)
        });
        let credential = credential.map_err(|error| ServeError::Config(format!("principal {}: {error}", self.id)))?;
        let Self { id, exports, harnesses, process, .. } = self;
        Ok(PrincipalConfig { id, credential, exports, harnesses, process })
    }
}

impl FileHarness {
    fn into_config(self, base: &Path) -> HarnessConfig {
        HarnessConfig {
            id: self.id,
            kind: self.kind,
            home: self.home.map(|home| base.join(home)),
            workspaces: self.workspaces.into_iter().map(|w| (w.id, base.join(w.path))).collect(),
        }
    }
}

fn secret(key: &str, value: Option<String>, env: Option<String>) -> Result<Option<Secret>, ServeError> {
    match (value, env) {
        (Some(_), Some(_)) => Err(ServeError::Config(format!("set `{key}` or `{key}_env`, not both"))),
        (Some(value), None) => Ok(Some(Secret::new(value))),
        (None, Some(name)) => match std::env::var(&name) {
            Ok(value) => Ok(Some(Secret::new(value))),
            Err(_) => Err(ServeError::Config(format!("`{key}_env`: the environment variable {name} is not set"))),
        },
        (None, None) => Ok(None),
    }
}

fn credential(
    api_key: Option<Secret>,
    api_key_sha256: Option<String>,
    username: Option<String>,
    password: Option<Secret>,
) -> Result<Credential, ServeError> {
    match (api_key, api_key_sha256, username, password) {
        (api_key, None, None, None) => Ok(Credential::ApiKey(api_key)),
        (None, Some(sha256), None, None) => Ok(Credential::ApiKeySha256(sha256)),
        (Some(_), Some(_), ..) => Err(ServeError::Config("set `api_key` or `api_key_sha256`, not both".into())),
        (None, None, Some(username), Some(password)) => Ok(Credential::Password { username, password }),
        (Some(_), ..) | (None, Some(_), ..) => {
            Err(ServeError::Config("set an API key, or `username` and a password, not both".into()))
        }
        (None, None, ..) => Err(ServeError::Config("set both `username` and `password` or `password_env`".into())),
    }
}

/// One line that names the place and never quotes a value, which may be a secret.
fn explain(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map_or(1, |span| text[..text.floor_char_boundary(span.start)].matches('\n').count() + 1);
    let message = error.message();
    let names_only_keys =
        ["unknown field", "missing field", "duplicate"].iter().any(|start| message.starts_with(start));
    let problem = if names_only_keys { message } else { "not valid TOML, or a value of the wrong type or form" };
    format!("line {line}: {problem}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ServeConfig, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cells.toml");
        std::fs::write(&path, text).unwrap();
        ServeConfig::from_file(&path).map_err(|error| {
            let line = error.to_string();
            line.replace(&path.display().to_string(), "FILE")
        })
    }

    #[test]
    fn every_key_is_read() {
        let config = parse(
            r#"
            listen = "0.0.0.0:1"
            state = "state"
            server_id = "desk"
            username = "me"
            password = "long enough"
            allowed_origins = ["https://app.example"]
            tls_cert = "/c"
            tls_key = "/k"
            insecure_http = true
            legacy_discovery = true
            log_level = "debug"
            execution = "host"
            [[exports]]
            path = "/srv/notes"
            access = "rw"
            [[exports]]
            path = "/srv/odd name"
            alias = "odd"
            public = true
            [[principals]]
            id = "tablet"
            api_key_sha256 = "5e88"
            exports = { notes = "rw", odd = "ro" }
            harnesses = ["main"]
            process = true
            [[principals]]
            id = "guest"
            username = "guest"
            password = "as long"
            [[harnesses]]
            id = "main"
            kind = "scripted"
            home = "/srv/home"
            workspaces = [{ id = "w", path = "/srv/w" }]
            "#,
        )
        .unwrap();
        assert_eq!(config.listen.to_string(), "0.0.0.0:1");
        assert!(config.state.unwrap().is_absolute(), "relative paths start at the file's directory");
        assert_eq!(config.server_id.unwrap().as_str(), "desk");
        assert_eq!(
            config.credential,
            Credential::Password { username: "me".into(), password: Secret::new("long enough") }
        );
        assert_eq!(config.allowed_origins, ["https://app.example"]);
        assert_eq!(config.tls, Some(TlsFiles { cert: "/c".into(), key: "/k".into() }));
        assert!(config.insecure_http && config.legacy_discovery);
        assert_eq!(config.log_level, LogLevel::Debug);
        assert_eq!(config.execution, Execution::Host);
        let exports: Vec<_> = config.exports.iter().map(|e| (e.alias.as_str(), e.access, e.public)).collect();
        assert_eq!(exports, [("notes", Access::Rw, false), ("odd", Access::Ro, true)]);
        let [tablet, guest] = &config.principals[..] else { panic!("{:?}", config.principals) };
        assert_eq!(tablet.credential, Credential::ApiKeySha256("5e88".into()));
        let granted: Vec<_> = tablet.exports.iter().map(|(alias, access)| (alias.as_str(), *access)).collect();
        assert_eq!(granted, [("notes", Access::Rw), ("odd", Access::Ro)]);
        assert_eq!((tablet.harnesses[0].as_str(), tablet.process), ("main", true));
        let password = Credential::Password { username: "guest".into(), password: Secret::new("as long") };
        assert_eq!((guest.id.as_str(), &guest.credential), ("guest", &password));
        assert!(
            guest.exports.is_empty() && guest.harnesses.is_empty() && !guest.process,
            "nothing is granted by itself"
        );
        let harness = &config.harnesses[0];
        assert_eq!((harness.id.as_str(), harness.kind.as_str()), ("main", "scripted"));
        assert_eq!(harness.workspaces[0].1, Path::new("/srv/w"));
    }

    #[test]
    fn the_documented_file_is_valid() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/local-node.md")).unwrap();
        let (_, rest) = page.split_once("```toml\n").unwrap();
        let (example, _) = rest.split_once("```").unwrap();
        let config = parse(&example.replace("MY_NODE_KEY", "PATH").replace("TABLET_KEY", "HOME")).unwrap();
        assert_eq!((config.exports.len(), config.principals.len(), config.harnesses.len()), (2, 2, 1));
        assert_eq!(config.listen, crate::DEFAULT_LISTEN, "the page names the default address");
    }

    #[test]
    fn old_names_of_the_api_key_are_read() {
        for text in ["api_key = \"k\"", "token = \"k\""] {
            assert_eq!(parse(text).unwrap().credential, Credential::ApiKey(Some(Secret::new("k"))), "{text}");
        }
        for text in ["api_key_env = \"PATH\"", "token_env = \"PATH\""] {
            assert!(matches!(parse(text).unwrap().credential, Credential::ApiKey(Some(_))), "{text}");
        }
    }

    #[test]
    fn execution_is_a_word_or_a_switch() {
        for (text, expected) in [
            ("", Some(Execution::Auto)),
            ("execution = true", Some(Execution::Auto)),
            ("execution = false", Some(Execution::Off)),
            ("execution = \"off\"", Some(Execution::Off)),
            ("execution = \"auto\"", Some(Execution::Auto)),
            ("execution = \"sandbox\"", Some(Execution::Sandbox)),
            ("execution = \"host\"", Some(Execution::Host)),
            ("execution = \"docker\"", None),
            ("execution = 1", None),
        ] {
            assert_eq!(parse(text).ok().map(|config| config.execution), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_give_one_line_that_quotes_no_value() {
        for (text, expected) in [
            ("lissten = \"x\"", "line 1: unknown field `lissten`"),
            ("\n[[exports]]\npath = \"/x\"\nsecret-thing = 1", "line 4: unknown field `secret-thing`"),
            ("[[exports]]\nalias = \"x\"", "missing field `path`"),
            ("api_key = 8675309", "line 1: not valid TOML, or a value of the wrong type or form"),
            ("listen = \"nowhere\"", "line 1: not valid TOML, or a value of the wrong type or form"),
            ("server_id = \"a b\"", "line 1: not valid TOML, or a value of the wrong type or form"),
            ("listen", "line 1: not valid TOML, or a value of the wrong type or form"),
            ("api_key = \"k\"\napi_key_env = \"PATH\"", "set `api_key` or `api_key_env`, not both"),
            ("api_key_env = \"CELLS_SURELY_UNSET\"", "the environment variable CELLS_SURELY_UNSET is not set"),
            ("api_key = \"k\"\nusername = \"me\"", "set an API key, or `username` and a password, not both"),
            ("username = \"me\"", "set both `username` and `password` or `password_env`"),
            ("password = \"secret-word\"", "set both `username` and `password` or `password_env`"),
            ("api_key_sha256 = \"k\"\napi_key = \"k\"", "set `api_key` or `api_key_sha256`, not both"),
            ("api_key_sha256 = \"k\"\nusername = \"me\"", "set an API key, or `username` and a password, not both"),
            ("[[principals]]\nid = \"a b\"", "line 2: not valid TOML, or a value of the wrong type or form"),
            ("[[principals]]\nid = \"g\"\nusername = \"me\"", "principal g: set both `username` and `password`"),
            ("[[principals]]\nid = \"g\"\nexports = { \"a b\" = \"ro\" }", "line 3: not valid TOML"),
            ("[[principals]]\nid = \"g\"\nexports = { a = \"write\" }", "line 3: not valid TOML"),
            ("[[principals]]\nid = \"g\"\ntoken = \"x\"", "line 3: unknown field `token`"),
            ("tls_cert = \"c\"", "set both `tls_cert` and `tls_key`, or neither"),
            ("[[exports]]\npath = \"/\"", "export ``: the name must be"),
        ] {
            let line = parse(text).unwrap_err();
            assert!(line.starts_with("configuration FILE: ") && line.contains(expected), "{text}: {line}");
            assert!(!line.contains('\n') && !line.contains("8675309") && !line.contains("secret-word"), "{line}");
        }
    }
}

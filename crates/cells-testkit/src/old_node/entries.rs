//! `GET /v1/fs/{alias}/entries`: every page scans the directory again (`files-http.md` §4.4).

use std::{
    fs,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{
    Json,
    extract::{Path, Query, State},
    http::HeaderMap,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{
    Export, Node, access,
    error::{Code, Refusal},
    paths,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntriesQuery {
    path: String,
    cursor: Option<String>,
}

pub(super) async fn entries(
    State(node): State<Arc<Node>>,
    Path(alias): Path<String>,
    Query(query): Query<EntriesQuery>,
    headers: HeaderMap,
) -> Result<Json<Value>, Refusal> {
    node.readable(&headers, &alias)?;
    let deadline = access::deadline(&headers)?;
    let binding = format!("owner:{alias}:{}", query.path);
    let after = query.cursor.map(|cursor| node.open_cursor(&cursor, &binding).ok_or(Code("EINVAL"))).transpose()?;
    let gate = node.share_gate()?;
    let page = access::blocking(deadline, move || {
        let export = node.exports.get(&alias).ok_or(Code("EACCES"))?;
        let page = page(export, &query.path, after.as_deref())?;
        drop(gate);
        let next = page.last.map(|last| node.seal_cursor(&binding, &last));
        Ok(json!({ "entries": page.entries, "nextCursor": next, "warnings": page.warnings }))
    })
    .await?;
    Ok(Json(page))
}

struct Page {
    entries: Vec<Value>,
    /// The last name, when more follow.
    last: Option<String>,
    warnings: Vec<&'static str>,
}

fn page(export: &Export, path: &str, after: Option<&str>) -> Result<Page, Code> {
    let directory = paths::resolve_directory(&export.root, path)?;
    let (mut found, mut warnings) = (Vec::new(), Vec::new());
    for child in fs::read_dir(&directory)? {
        let Ok(name) = child?.file_name().into_string() else {
            warnings.push("NON_UTF8_NAME");
            continue;
        };
        if name.starts_with(paths::STAGING_PREFIX) {
            continue;
        }
        // Children go through the rules for paths, so one strange name fails the whole listing.
        let child_path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        paths::check(&child_path)?;
        match fs::symlink_metadata(directory.join(&name)) {
            Ok(metadata) => match export.stat_object(&metadata) {
                Some(stat) => found.push((name, stat)),
                None => warnings.push("UNSUPPORTED_NODE"),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        if found.len() + warnings.len() > DIRECTORY_MAX {
            return Err(Code("DIRECTORY_LIMIT"));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let mut rest = found.into_iter().filter(|(name, _)| after.is_none_or(|after| name.as_str() > after)).peekable();
    let mut last = None;
    let mut entries = Vec::new();
    for (name, stat) in rest.by_ref().take(PAGE_SIZE) {
        last = Some(name.clone());
        entries.push(json!({ "name": name, "stat": stat }));
    }
    Ok(Page { entries, last: last.filter(|_| rest.peek().is_some()), warnings })
}

#[derive(Serialize, Deserialize)]
struct Cursor {
    binding: String,
    last: String,
    /// Unix seconds.
    expires: u64,
}

impl Node {
    fn seal_cursor(&self, binding: &str, last: &str) -> String {
        let cursor = json!({ "binding": binding, "last": last, "expires": unix_seconds() + CURSOR_LIFETIME_SECONDS });
        let payload = URL_SAFE_NO_PAD.encode(cursor.to_string());
        let seal = self.mac(&payload).finalize().into_bytes();
        format!("{payload}.{}", URL_SAFE_NO_PAD.encode(seal))
    }

    /// The name to go on after.
    fn open_cursor(&self, cursor: &str, binding: &str) -> Option<String> {
        let (payload, seal) = cursor.split_once('.').filter(|_| cursor.len() <= CURSOR_MAX_BYTES)?;
        self.mac(payload).verify_slice(&URL_SAFE_NO_PAD.decode(seal).ok()?).ok()?;
        let cursor: Cursor = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        (cursor.binding == binding && cursor.expires > unix_seconds()).then_some(cursor.last)
    }

    fn mac(&self, payload: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new(&self.cursor_key.into());
        mac.update(payload.as_bytes());
        mac
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

const PAGE_SIZE: usize = 512;
const DIRECTORY_MAX: usize = 100_000;
const CURSOR_LIFETIME_SECONDS: u64 = 300;
const CURSOR_MAX_BYTES: usize = 16_384;

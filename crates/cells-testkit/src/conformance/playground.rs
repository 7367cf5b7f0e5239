//! The fresh directory below which cases may change files.

use serde_json::{Value, json};

use super::http::{Http, Reply, encoded, unique};

pub(super) struct Playground {
    pub(super) alias: String,
    /// Its name, at the top of the export.
    pub(super) directory: String,
}

impl Playground {
    pub(super) async fn create(http: &Http, alias: &str) -> Result<Playground, String> {
        let playground = Playground { alias: alias.to_owned(), directory: format!("cells-conformance-{}", unique()) };
        playground.mkdir(http, &playground.directory).await?;
        Ok(playground)
    }

    pub(super) async fn mkdir(&self, http: &Http, path: &str) -> Result<(), String> {
        let reply = self.mutate(http, &json!({ "action": "mkdir", "path": path })).await?;
        match reply.status.as_u16() {
            200 => Ok(()),
            _ => Err(format!("cannot create the directory of the cases: {}", reply.shown())),
        }
    }

    async fn mutate(&self, http: &Http, body: &Value) -> Result<Reply, String> {
        let route = format!("/v1/fs/{}/mutate", self.alias);
        // A process that just ended may still hold the files of an older node.
        for _ in 0..BUSY_RETRIES {
            let reply = http.post(&route, body).await?;
            if reply.json["code"] != "EBUSY" {
                return Ok(reply);
            }
            tokio::time::sleep(BUSY_PAUSE).await;
        }
        http.post(&route, body).await
    }

    /// Removes everything, the deepest first.
    pub(super) async fn remove(&self, http: &Http) -> Result<(), String> {
        let mut directories = vec![self.directory.clone()];
        let mut doomed = Vec::new();
        while let Some(directory) = directories.pop() {
            let mut cursor: Option<String> = None;
            loop {
                let page = self.page(http, &directory, cursor.as_deref()).await?;
                for entry in page["entries"].as_array().map(Vec::as_slice).unwrap_or_default() {
                    let path = format!("{directory}/{}", entry["name"].as_str().unwrap_or_default());
                    if entry["stat"]["kind"] == "directory" { directories.push(path) } else { doomed.push(path) }
                }
                cursor = page["nextCursor"].as_str().map(str::to_owned);
                if cursor.is_none() {
                    break;
                }
            }
            doomed.push(directory);
        }
        // Files stand behind nothing that they lie in, and a directory before all that it holds.
        doomed.sort_by_key(|path| std::cmp::Reverse(path.matches('/').count()));
        for path in doomed {
            let reply = self.mutate(http, &json!({ "action": "remove", "path": path })).await?;
            if reply.status != 200 {
                return Err(reply.shown());
            }
        }
        Ok(())
    }

    async fn page(&self, http: &Http, directory: &str, cursor: Option<&str>) -> Result<Value, String> {
        let cursor = cursor.map(|cursor| format!("&cursor={}", encoded(cursor))).unwrap_or_default();
        let route = format!("/v1/fs/{}/entries?path={}{cursor}", self.alias, encoded(directory));
        let reply = http.get(&route).await?;
        if reply.status == 200 { Ok(reply.json) } else { Err(reply.shown()) }
    }
}

const BUSY_RETRIES: u32 = 100;
const BUSY_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

//! What a node says it can, and what a case needs of that.

use serde_json::Value;

use super::http::{Http, Reply};

/// What a case needs; without it the case is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// The node has `GET /v1/capabilities`.
    Capabilities,
    /// One export that is read-only.
    ReadOnly,
    /// An alias was given, and it takes strong writes.
    Write,
    /// SeqFiles, and [`Need::Write`].
    Seq,
    /// Processes, and [`Need::Write`].
    Process,
    /// Output while a process runs, and [`Need::Process`].
    LiveOutput,
    /// The MCP endpoint.
    Mcp,
    /// An agent.
    Agent,
    /// An agent with this capability, and an alias was given, because sessions are made.
    AgentWrite(&'static str),
    /// The agent `scripted`, which does what a prompt spells out, and an alias.
    Scripted,
    /// Receipts that survive the node.
    DurableReceipts,
    /// The event stream, and an agent.
    Events,
}

/// What the node declared, and what was asked for.
#[derive(Debug)]
pub(super) struct Declared {
    /// None: the node has no such route.
    pub(super) capabilities: Option<Value>,
    /// The alias that read-only cases use.
    pub(super) readable: String,
    /// A read-only export.
    pub(super) read_only: Option<String>,
    /// Whether files may be changed; else the reason why not.
    pub(super) writable: Result<(), String>,
    /// The discovery document; None: there is no MCP endpoint.
    pub(super) document: Option<Value>,
    /// The first profile and the epoch of the agents.
    pub(super) agent: Option<Agent>,
    /// Whether an alias was given.
    pub(super) has_alias: bool,
}

/// An agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) profile: Value,
    pub(super) epoch: String,
}

impl Declared {
    pub(super) async fn ask(http: &Http, alias: Option<&str>) -> Result<Declared, String> {
        let capabilities = http.get("/v1/capabilities").await.map_err(|error| format!("the node: {error}"))?;
        let capabilities = match capabilities.status.as_u16() {
            200 => Some(capabilities.json),
            404 => None,
            401 => return Err("the node refuses the credential (401)".into()),
            _ => return Err(format!("GET /v1/capabilities: {}", capabilities.shown())),
        };
        let exports = http.get("/v1/exports").await?;
        let rows = exports.json["exports"].as_array().filter(|_| exports.status == 200);
        let rows = rows.ok_or_else(|| format!("GET /v1/exports: {}", exports.shown()))?;
        let named = |row: &Value| row["alias"].as_str().map(str::to_owned);
        let first = rows.first().and_then(named).ok_or("the node serves no export to this caller")?;
        let writable = match alias {
            None => Err("no alias given".to_owned()),
            Some(alias) => match rows.iter().find(|row| row["alias"] == alias) {
                None => return Err(format!("the node serves no export `{alias}` to this caller")),
                Some(row) if row["access"] == "rw" && row["strongRevision"] == true => Ok(()),
                Some(_) => Err(format!("the export `{alias}` takes no writes from this caller")),
            },
        };
        Ok(Declared {
            readable: alias.map_or(first, str::to_owned),
            read_only: rows.iter().find(|row| row["access"] == "ro" && row["strongRevision"] == false).and_then(named),
            writable,
            capabilities,
            document: document(http).await?,
            agent: agent(http).await?,
            has_alias: alias.is_some(),
        })
    }

    /// Why a case with this need says nothing about the node.
    pub(super) fn lacks(&self, need: Need) -> Option<String> {
        let capability = |pointer: &str, value: Value, words: &str| {
            let found = self.capabilities.as_ref().and_then(|document| document.pointer(pointer));
            (found != Some(&value)).then(|| format!("the node declares no {words}"))
        };
        match need {
            Need::Capabilities => self.capabilities.is_none().then(|| "the node has no /v1/capabilities".to_owned()),
            Need::ReadOnly => self.read_only.is_none().then(|| "the node serves no read-only export".to_owned()),
            Need::Write => self.writable.clone().err(),
            Need::Seq => {
                self.lacks(Need::Write).or_else(|| capability("/files/seq/version", 1.into(), "SeqFiles (files.seq)"))
            }
            Need::Process => {
                self.lacks(Need::Write).or_else(|| capability("/process/exec", true.into(), "processes (process.exec)"))
            }
            Need::LiveOutput => self
                .lacks(Need::Process)
                .or_else(|| capability("/process/output/version", 1.into(), "live output (process.output)")),
            Need::Mcp => self.document.is_none().then(|| "the node has no MCP endpoint".to_owned()),
            Need::Agent => self.agent.is_none().then(|| "the node has no agent".to_owned()),
            Need::AgentWrite(name) => self.lacks(Need::Agent).or_else(|| {
                let can = self.agent.as_ref().map(|agent| &agent.profile["capabilities"][name]);
                match can {
                    _ if !self.has_alias => Some("no alias given".to_owned()),
                    Some(Value::Bool(true) | Value::Array(_)) => None,
                    Some(_) | None => Some(format!("the agent declares no {name}")),
                }
            }),
            Need::Scripted => self.lacks(Need::AgentWrite("create")).or_else(|| {
                let kind = self.agent.as_ref().map(|agent| &agent.profile["kind"]);
                (kind != Some(&"scripted".into())).then(|| "the agent is not the scripted one".to_owned())
            }),
            Need::DurableReceipts => {
                let durable = self.document.as_ref().map(|document| &document["receipts"]["durable"]);
                (durable != Some(&true.into())).then(|| "the node declares no durable receipts".to_owned())
            }
            Need::Events => self.lacks(Need::Agent).or_else(|| {
                let version = self.document.as_ref().map(|document| &document["events"]["version"]);
                (version != Some(&1.into())).then(|| "the node declares no event stream".to_owned())
            }),
        }
    }
}

/// The discovery document of the node.
async fn document(http: &Http) -> Result<Option<Value>, String> {
    let reply = Reply::of(http.mcp("server/discover", None)).await?;
    let meta = &reply.json["result"]["_meta"];
    let keys = ["itookit/cells", "itookit/pi-agent", "itookit/fs-agent"];
    Ok(keys.iter().find_map(|key| meta.get(*key)).filter(|_| reply.status == 200).cloned())
}

/// The first agent of the node.
async fn agent(http: &Http) -> Result<Option<Agent>, String> {
    let reply = Reply::of(http.mcp("tools/call", Some("harness_profiles"))).await?;
    let value = &reply.json["result"]["structuredContent"];
    let profile = value["profiles"].get(0).cloned();
    Ok(profile.zip(value["epoch"].as_str()).map(|(profile, epoch)| Agent { profile, epoch: epoch.to_owned() }))
}

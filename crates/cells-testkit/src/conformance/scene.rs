//! One case while it runs: its directory, its names, its requests.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    case::{Payload, Step},
    check::Check,
    declared::{Declared, Need},
    http::{Http, Reply, encoded, unique},
    playground::Playground,
};

pub(super) struct Scene<'a> {
    pub(super) http: &'a Http,
    names: BTreeMap<&'static str, String>,
}

impl<'a> Scene<'a> {
    /// Cases that write get a directory of their own.
    pub(super) async fn new(
        http: &'a Http,
        declared: &Declared,
        playground: Option<&Playground>,
        needs: &[Need],
    ) -> Result<Scene<'a>, String> {
        let capability = |pointer: &str| {
            let value = declared.capabilities.as_ref().and_then(|document| document.pointer(pointer));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let mut names = BTreeMap::from([
            ("alias", declared.readable.clone()),
            ("ro", declared.read_only.clone().unwrap_or_default()),
            ("server", capability("/serverId")),
            ("epoch", capability("/processEpoch")),
            ("one", unique()),
            ("two", unique()),
        ]);
        if let Some(agent) = &declared.agent {
            let text = |pointer: &str| agent.profile.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            names.insert("profile", text("/id").to_owned());
            names.insert("workspace", text("/workspaces/0/id").to_owned());
            names.insert("harness", agent.epoch.clone());
        }
        let writes = |need: &Need| matches!(need, Need::Write | Need::Seq | Need::Process | Need::LiveOutput);
        if let Some(playground) = playground.filter(|_| needs.iter().any(writes)) {
            let directory = format!("{}/{}", playground.directory, unique());
            playground.mkdir(http, &directory).await?;
            names.insert("dir", directory);
        }
        Ok(Scene { http, names })
    }

    /// Sends the request of a step and judges the reply.
    pub(super) async fn play(&mut self, step: &Step) -> Result<(), String> {
        let started = Instant::now();
        let reply = loop {
            let reply = self.send(step).await?;
            let again =
                step.while_value.as_ref().is_some_and(|(pointer, value)| reply.json.pointer(pointer) == Some(value));
            if !again || started.elapsed() > SETTLED_WITHIN {
                break reply;
            }
            tokio::time::sleep(PAUSE).await;
        };
        for check in &step.checks {
            self.filled_check(check).judge(&reply)?;
        }
        for (name, pointer) in &step.kept {
            let value = reply.json.pointer(pointer).and_then(Value::as_str);
            let value = value.ok_or_else(|| format!("expected a text at {pointer}, got {}", reply.shown()))?;
            self.names.insert(name, value.to_owned());
        }
        Ok(())
    }

    /// The reply to a step, unjudged.
    pub(super) async fn send(&self, step: &Step) -> Result<Reply, String> {
        Reply::of(self.request(step)).await
    }

    pub(super) fn request(&self, step: &Step) -> reqwest::RequestBuilder {
        let mut route = self.fill(&step.route);
        for (index, (name, value)) in step.query.iter().enumerate() {
            let separator = if index == 0 { '?' } else { '&' };
            route.push_str(&format!("{separator}{name}={}", encoded(&self.fill(value))));
        }
        let request = match step.credential {
            true => self.http.request(step.method.clone(), &route),
            false => self.http.anonymous(step.method.clone(), &route),
        };
        let request =
            step.headers.iter().fold(request, |request, (name, value)| request.header(*name, self.fill(value)));
        match &step.body {
            Payload::Nothing => request,
            Payload::Bytes(bytes) => request.body(bytes.clone()),
            Payload::Json(value) => request.body(self.filled(value).to_string()),
        }
    }

    /// The text with its names filled in; `{fresh}` is another id each time.
    pub(super) fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        while let Some(at) = filled.find("{fresh}") {
            filled.replace_range(at..at + "{fresh}".len(), &unique());
        }
        self.names.iter().fold(filled, |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill(text).into(),
            Value::Array(items) => items.iter().map(|item| self.filled(item)).collect(),
            Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), self.filled(value))).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn filled_check(&self, check: &Check) -> Check {
        match check {
            Check::Json(pointer, value) => Check::Json(pointer, self.filled(value)),
            Check::Differs(pointer, value) => Check::Differs(pointer, self.filled(value)),
            Check::Header(name, value) => Check::Header(name, self.fill(value)),
            other => other.clone(),
        }
    }
}

/// How long something that runs may take until it is settled.
const SETTLED_WITHIN: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

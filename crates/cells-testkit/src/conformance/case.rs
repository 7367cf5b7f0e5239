//! A case: steps, each a request and what must be true of its reply. Or a program, for what steps cannot say.
//!
//! Texts of a step may contain `{name}`: `{alias}`, `{dir}` (the fresh directory of the case), `{ro}` (a read-only
//! export), `{server}`, `{epoch}`, `{one}` and `{two}` (fresh ids), and whatever an earlier step kept.

use std::{future::Future, pin::Pin};

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    check::Check,
    declared::{Declared, Need},
    http::Http,
    playground::Playground,
    scene::Scene,
};

pub(super) struct Case {
    pub(super) feature: &'static str,
    pub(super) name: &'static str,
    pub(super) needs: &'static [Need],
    pub(super) run: Run,
}

pub(super) enum Run {
    Steps(Vec<Step>),
    Program(Program),
}

pub(super) type Program =
    for<'a> fn(&'a mut Scene<'_>) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

impl Case {
    pub(super) fn steps(
        feature: &'static str,
        needs: &'static [Need],
        name: &'static str,
        steps: impl IntoIterator<Item = Step>,
    ) -> Case {
        Case { feature, name, needs, run: Run::Steps(steps.into_iter().collect()) }
    }

    pub(super) fn program(feature: &'static str, needs: &'static [Need], name: &'static str, program: Program) -> Case {
        Case { feature, name, needs, run: Run::Program(program) }
    }

    pub(super) async fn run(
        &self,
        http: &Http,
        declared: &Declared,
        playground: Option<&Playground>,
    ) -> Result<(), String> {
        let mut scene = Scene::new(http, declared, playground, self.needs).await?;
        match &self.run {
            Run::Steps(steps) => {
                for (index, step) in steps.iter().enumerate() {
                    scene.play(step).await.map_err(|why| format!("step {}: {why}", index + 1))?;
                }
                Ok(())
            }
            Run::Program(program) => program(&mut scene).await,
        }
    }
}

/// A request, what must be true of its reply, and what is kept of it.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) method: Method,
    pub(super) route: String,
    /// Members of the query; values are encoded after names were filled in.
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Payload,
    pub(super) credential: bool,
    pub(super) checks: Vec<Check>,
    /// Name, and where in the JSON body its value stands.
    pub(super) kept: Vec<(&'static str, &'static str)>,
    /// Asked again while the value at this place is that one.
    pub(super) while_value: Option<(&'static str, Value)>,
}

#[derive(Debug, Clone)]
pub(super) enum Payload {
    Nothing,
    Bytes(Vec<u8>),
    Json(Value),
}

impl Step {
    fn new(method: Method, route: &str) -> Step {
        Step {
            method,
            route: route.to_owned(),
            query: Vec::new(),
            headers: Vec::new(),
            body: Payload::Nothing,
            credential: true,
            checks: Vec::new(),
            kept: Vec::new(),
            while_value: None,
        }
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Step {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn without(mut self, name: &'static str) -> Step {
        self.headers.retain(|(other, _)| *other != name);
        self
    }

    pub(super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Step {
        self.query.push((name, value.into()));
        self
    }

    pub(super) fn bytes(mut self, body: impl AsRef<[u8]>) -> Step {
        self.body = Payload::Bytes(body.as_ref().to_vec());
        self
    }

    pub(super) fn anonymous(mut self) -> Step {
        self.credential = false;
        self
    }

    /// The operation id, such as `{one}`; else each write has a fresh one.
    pub(super) fn id(self, id: &str) -> Step {
        self.header("x-operation-id", id)
    }

    /// For a PUT: the precondition of a new file.
    pub(super) fn create(self) -> Step {
        self.header("if-none-match", "*")
    }

    /// For a PUT: the precondition of a replacement.
    pub(super) fn matching(self, revision: &str) -> Step {
        self.header("if-match", revision)
    }

    pub(super) fn check(mut self, check: Check) -> Step {
        self.checks.push(check);
        self
    }

    pub(super) fn status(self, statuses: &'static [u16]) -> Step {
        self.check(Check::Status(statuses))
    }

    /// This status, and `{"code":…}` without an outcome.
    pub(super) fn refused(self, status: &'static [u16], code: &'static str) -> Step {
        self.status(status).json("/code", code).check(Check::Absent("/outcome"))
    }

    /// A receipt of success.
    pub(super) fn committed(self) -> Step {
        self.status(&[200]).json("/outcome", "committed")
    }

    /// A receipt of a write without effect.
    pub(super) fn not_committed(self, status: &'static [u16], code: &'static str) -> Step {
        self.status(status).json("/outcome", "not-committed").json("/code", code)
    }

    /// The value at a place of the JSON body.
    pub(super) fn json(self, pointer: &'static str, value: impl Into<Value>) -> Step {
        self.check(Check::Json(pointer, value.into()))
    }

    /// This status, and a JSON-RPC error of this code.
    pub(super) fn json_error(self, status: &'static [u16], code: i64) -> Step {
        self.status(status)
            .json("/error/code", code)
            .check(Check::Holds("data in the error", |reply| reply.json["error"]["data"].is_object()))
    }

    /// A failed tool, of which nothing was admitted.
    pub(super) fn call_error(self, code: &'static str) -> Step {
        self.status(&[200])
            .json("/result/isError", true)
            .json("/result/structuredContent/code", code)
            .json("/result/structuredContent/outcome", "not-committed")
    }

    pub(super) fn keep(mut self, name: &'static str, pointer: &'static str) -> Step {
        self.kept.push((name, pointer));
        self
    }

    pub(super) fn while_value(mut self, pointer: &'static str, value: impl Into<Value>) -> Step {
        self.while_value = Some((pointer, value.into()));
        self
    }
}

pub(super) fn get(route: &str) -> Step {
    Step::new(Method::GET, route)
}

pub(super) fn method(method: Method, route: &str) -> Step {
    Step::new(method, route)
}

pub(super) fn post(route: &str, body: Value) -> Step {
    let mut step = Step::new(Method::POST, route).header("content-type", "application/json");
    step.body = Payload::Json(body);
    step
}

/// Reads a file below the directory of the case.
pub(super) fn read(path: &str) -> Step {
    get("/v1/fs/{alias}/content").query("path", format!("{{dir}}/{path}"))
}

/// Lists a directory below that of the case; `""` is that one.
pub(super) fn list(path: &str) -> Step {
    get("/v1/fs/{alias}/entries").query("path", within(path))
}

/// Looks up paths below the directory of the case.
pub(super) fn stat(paths: &[&str]) -> Step {
    let paths: Vec<String> = paths.iter().map(|path| within(path)).collect();
    post("/v1/fs/{alias}/stat", json!({ "paths": paths })).status(&[200])
}

/// Uploads a file below the directory of the case.
pub(super) fn put(path: &str, body: impl AsRef<[u8]>) -> Step {
    let step = Step::new(Method::PUT, "/v1/fs/{alias}/content").query("path", format!("{{dir}}/{path}"));
    step.id("{fresh}").bytes(body)
}

/// A mutation with a fresh operation id.
pub(super) fn mutate(body: Value) -> Step {
    post("/v1/fs/{alias}/mutate", body).id("{fresh}")
}

pub(super) fn mkdir(path: &str) -> Step {
    mutate(json!({ "action": "mkdir", "path": within(path) }))
}

pub(super) fn remove(path: &str) -> Step {
    mutate(json!({ "action": "remove", "path": within(path) }))
}

pub(super) fn rename(from: &str, to: &str) -> Step {
    mutate(json!({ "action": "rename", "path": within(from), "to": within(to) }))
}

fn within(path: &str) -> String {
    if path.is_empty() { "{dir}".to_owned() } else { format!("{{dir}}/{path}") }
}

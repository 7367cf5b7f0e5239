use std::time::Duration;

use cells_native::cells_driver::{HarnessClient, HarnessRequest, ProfileId, RequestKind};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use super::managed::mutate;
use crate::failure::{Exit, Failure};
use crate::node::{Node, NodeArgs, ProfileArgs};
use crate::output::{print, print_json};
use crate::table::{Column, Table};

/// Answer an approval or a question of an agent, or list what waits for an answer.
#[derive(Debug, Args)]
pub(crate) struct Respond {
    /// The request [default: list them]
    #[arg(value_name = "REQUEST")]
    request: Option<String>,
    /// Answer an approval
    #[arg(long, value_name = "ANSWER", value_enum, conflicts_with = "answer", requires = "request")]
    decision: Option<Decision>,
    /// Answer a question; once for each question of the request, in their order
    #[arg(long, value_name = "TEXT", requires = "request")]
    answer: Vec<String>,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Decision {
    /// Do it
    Accept,
    /// Do it, and do not ask again in this session
    AcceptForSession,
    /// Do not do it, and go on
    Decline,
    /// Do not do it, and end the turn
    Cancel,
}

impl Respond {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let harness = node.harness()?;
        let profile_id = node.profile(&harness, self.profile.profile.as_ref()).await?.id;
        let waiting = waiting(&node, &harness, &profile_id, self.request.as_deref()).await?;
        let Some(wanted) = &self.request else { return self.list(waiting) };
        let request = waiting.into_iter().find(|request| name(&request.id) == *wanted);
        let request = request.ok_or_else(|| Failure::new(Exit::NotFound, "no such request waits for an answer"))?;
        let response = self.response(&request)?;
        mutate(&node, |options| harness.respond(&profile_id, request.id.clone(), response, options)).await?;
        if self.node.json {
            print_json(&json!({"nativeRequestId": request.id}))?;
        }
        Ok(Exit::Done)
    }

    fn list(&self, waiting: Vec<HarnessRequest>) -> Result<Exit, Failure> {
        if self.node.json {
            print_json(&json!({"requests": waiting}))?;
            return Ok(Exit::Done);
        }
        let mut table = Table::new([Column::Left("REQUEST"), Column::Left("ANSWER WITH"), Column::Left("WHAT")]);
        for request in waiting {
            let with = match request.kind {
                RequestKind::Approval => "--decision",
                RequestKind::Input => "--answer",
                RequestKind::Unsupported => "-",
            };
            table.push([name(&request.id), with.to_owned(), request.detail]);
        }
        print(&table.render())?;
        Ok(Exit::Done)
    }

    fn response(&self, request: &HarnessRequest) -> Result<Value, Failure> {
        match (request.kind, self.decision, self.answer.as_slice()) {
            (RequestKind::Approval, Some(decision), _) => Ok(json!({"decision": match decision {
                Decision::Accept => "accept",
                Decision::AcceptForSession => "acceptForSession",
                Decision::Decline => "decline",
                Decision::Cancel => "cancel",
            }})),
            (RequestKind::Approval, None, _) => Err(Failure::usage("that is an approval: answer it with --decision")),
            (RequestKind::Input, _, answers) if answers.len() == request.questions.len() => {
                let answers: Map<String, Value> = request
                    .questions
                    .iter()
                    .zip(answers)
                    .map(|(question, answer)| (question.id.clone(), json!({"answers": [answer]})))
                    .collect();
                Ok(json!({"answers": answers}))
            }
            (RequestKind::Input, ..) => {
                let count = request.questions.len();
                Err(Failure::usage(format!("that has {count} questions: give --answer {count} times")))
            }
            (RequestKind::Unsupported, ..) => {
                Err(Failure::new(Exit::Failed, "this program cannot answer that; interrupt the turn to end it"))
            }
        }
    }
}

/// What waits for an answer. Comes with the event stream; when nothing waits, nothing comes.
async fn waiting(
    node: &Node,
    harness: &HarnessClient,
    profile_id: &ProfileId,
    wanted: Option<&str>,
) -> Result<Vec<HarnessRequest>, Failure> {
    let mut events = harness.subscribe(profile_id);
    node.within(events.ready(), "the event stream").await??;
    let arrived = async {
        loop {
            let requests: Vec<_> = events.snapshot(None).requests.iter().filter_map(HarnessRequest::of).collect();
            let is_there = |wanted| requests.iter().any(|request| name(&request.id) == wanted);
            if wanted.map_or(!requests.is_empty(), is_there) || events.changed().await.is_none() {
                return requests;
            }
        }
    };
    let arrived = tokio::time::timeout(QUIET, arrived).await;
    Ok(arrived.unwrap_or_else(|_| events.snapshot(None).requests.iter().filter_map(HarnessRequest::of).collect()))
}

/// The id of a request as it is typed.
fn name(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// How long a node may take to tell what waits.
const QUIET: Duration = Duration::from_secs(2);

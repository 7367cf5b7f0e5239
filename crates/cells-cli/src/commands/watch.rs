use cells_native::cells_driver::{
    EventSnapshot, HarnessEvent, HarnessItem, ItemContent, NativeEvent, NativeId, ToolSummary, TopicState,
};
use clap::Args;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::node::{NodeArgs, ProfileArgs};
use crate::output::{note, print, print_json};
use crate::table::time;
use crate::text::one_line;

/// Show what an agent does while it does it, a line an event, until Ctrl-C.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Only this session
    #[arg(long, value_name = "ID", value_parser = |text: &str| NativeId::new(text))]
    session: Option<NativeId>,
    /// End when the turn that runs has ended, or when the next one has
    #[arg(long)]
    until_turn_end: bool,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Watch {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let harness = node.harness()?;
        let profile_id = node.profile(&harness, self.profile.profile.as_ref()).await?.id;
        let mut events = harness.subscribe(&profile_id);
        node.within(events.ready(), "the event stream").await??;
        note("watching; Ctrl-C ends");
        let mut cursor = events.snapshot(None).cursor;
        let mut is_online = true;
        loop {
            let snapshot = events.snapshot(cursor.as_ref());
            self.observe(&snapshot, &mut is_online)?;
            if snapshot.gap && cursor.is_some() {
                note("events were missed; cells sessions show has the history");
            }
            for event in &snapshot.events {
                if self.show(event)? {
                    return Ok(Exit::Done);
                }
            }
            cursor = snapshot.cursor.or(cursor);
            if events.changed().await.is_none() {
                return Err(Failure::new(Exit::Failed, "the events have ended"));
            }
        }
    }

    fn observe(&self, snapshot: &EventSnapshot, is_online: &mut bool) -> Result<(), Failure> {
        match snapshot.state {
            TopicState::Failed => {
                let error = snapshot.error.clone();
                return Err(
                    error.map_or_else(|| Failure::new(Exit::Failed, "the node refused the events"), Failure::from)
                );
            }
            TopicState::Online if !*is_online => note("connected again"),
            TopicState::Offline if *is_online => note("the connection to the node is lost; trying again"),
            TopicState::Online | TopicState::Offline | TopicState::Connecting | TopicState::Closed => {}
        }
        *is_online = snapshot.state == TopicState::Online;
        Ok(())
    }

    /// Prints an event; whether it is the last one that is wanted.
    fn show(&self, event: &HarnessEvent) -> Result<bool, Failure> {
        let native = NativeEvent::of(&event.message);
        let session = session_of(&native);
        if self.session.is_some() && session != self.session.as_ref() {
            return Ok(false);
        }
        if self.node.json {
            print_json(&json!({"seq": event.seq, "timestamp": event.timestamp, "event": native}))?;
        } else if let Some(text) = describe(&native) {
            let session = session.map_or("-", NativeId::as_str);
            print(&format!("{}  {}  {}\n", time(event.timestamp), one_line(session), one_line(&text)))?;
        }
        Ok(self.until_turn_end && matches!(native, NativeEvent::TurnCompleted { .. }))
    }
}

fn session_of(event: &NativeEvent) -> Option<&NativeId> {
    match event {
        NativeEvent::TurnStarted { session_id, .. }
        | NativeEvent::TurnCompleted { session_id, .. }
        | NativeEvent::ItemStarted { session_id, .. }
        | NativeEvent::ItemCompleted { session_id, .. }
        | NativeEvent::TextDelta { session_id, .. }
        | NativeEvent::ReasoningDelta { session_id, .. }
        | NativeEvent::ToolOutput { session_id, .. }
        | NativeEvent::StatusChanged { session_id, .. }
        | NativeEvent::TitleChanged { session_id, .. }
        | NativeEvent::ArchivedChanged { session_id, .. }
        | NativeEvent::Deleted { session_id } => Some(session_id),
        NativeEvent::Requested { request } => request.session_id.as_ref(),
        NativeEvent::RequestResolved { session_id, .. }
        | NativeEvent::Disconnected { session_id }
        | NativeEvent::Other { session_id, .. } => session_id.as_ref(),
    }
}

/// One line for people; `None` for what only grows, because its end tells all of it.
fn describe(event: &NativeEvent) -> Option<String> {
    Some(match event {
        NativeEvent::TurnStarted { turn_id, .. } => format!("turn {turn_id} began"),
        NativeEvent::TurnCompleted { turn_id, result, error, .. } => {
            let result = result.map_or("ended".to_owned(), |result| format!("{result:?}").to_lowercase());
            let error = error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            format!("turn {turn_id} {result}{error}")
        }
        NativeEvent::ItemStarted { item, .. } => format!("begins {}", content(item)?),
        NativeEvent::ItemCompleted { item, .. } => content(item)?,
        NativeEvent::TextDelta { .. } | NativeEvent::ReasoningDelta { .. } | NativeEvent::ToolOutput { .. } => {
            return None;
        }
        NativeEvent::Requested { request } => {
            let id = request.id.as_str().map_or_else(|| request.id.to_string(), str::to_owned);
            format!("asks ({id}): {}", request.detail)
        }
        NativeEvent::RequestResolved { request_id, .. } => format!("the request {request_id} is answered or gone"),
        NativeEvent::Disconnected { .. } => "the process of the agent is gone".to_owned(),
        NativeEvent::StatusChanged { status, active_flags, .. } if active_flags.is_empty() => format!("is {status}"),
        NativeEvent::StatusChanged { status, active_flags, .. } => format!("is {status}: {}", active_flags.join(", ")),
        NativeEvent::TitleChanged { title, .. } => format!("is called {title}"),
        NativeEvent::ArchivedChanged { archived: true, .. } => "was archived".to_owned(),
        NativeEvent::ArchivedChanged { archived: false, .. } => "came back from the archive".to_owned(),
        NativeEvent::Deleted { .. } => "was deleted".to_owned(),
        NativeEvent::Other { method, .. } => method.clone(),
    })
}

fn content(item: &HarnessItem) -> Option<String> {
    let tool = |tool: &ToolSummary| {
        let what = if tool.command_preview.is_empty() { tool.paths.join(", ") } else { tool.command_preview.clone() };
        format!("{} {what} ({})", tool.name, item.status.as_deref().unwrap_or("-"))
    };
    Some(match &item.content {
        ItemContent::User { text, .. } => format!("user: {text}"),
        ItemContent::Agent { text } if text.is_empty() => return None,
        ItemContent::Agent { text } => format!("agent: {text}"),
        ItemContent::Reasoning { text } if text.is_empty() => return None,
        ItemContent::Reasoning { text } => format!("thinks: {text}"),
        ItemContent::CommandExecution(summary)
        | ItemContent::FileChange(summary)
        | ItemContent::McpToolCall(summary)
        | ItemContent::Tool(summary) => tool(summary),
        ItemContent::CommandResult(command) => format!("command {}", command.name),
        ItemContent::Unknown => item.native_type.clone(),
    })
}

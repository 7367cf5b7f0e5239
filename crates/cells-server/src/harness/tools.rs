//! The harness tools, in the order in which they are listed (`harness.md` §1.5 and §2.1, `cells-0.4.md` appendix A).

/// One harness tool.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) kind: ToolKind,
    pub(crate) required: &'static [&'static str],
    pub(crate) optional: &'static [&'static str],
}

/// Who serves a tool, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolKind {
    /// The service: the list of profiles.
    Profiles,
    /// The driver, without effect.
    Read,
    /// The service: a page of events.
    Events,
    /// The service: the receipt of a mutation.
    Operation,
    /// The service: refuses a mutation that has not arrived.
    Seal,
    /// The service: a page of command output.
    Output,
    /// The driver, at most once for each request id, one after another.
    Mutation,
    /// A mutation that passes the others, because it can be what they wait for.
    PassingMutation,
    /// A mutation that passes the others, one after another of its kind.
    Steer,
}

impl ToolKind {
    pub(crate) fn is_read_only(self) -> bool {
        match self {
            Self::Profiles | Self::Read | Self::Events | Self::Operation | Self::Output => true,
            Self::Seal | Self::Mutation | Self::PassingMutation | Self::Steer => false,
        }
    }
}

impl Tool {
    /// The tool with this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        TOOLS.iter().find(|tool| tool.name == name)
    }
}

/// Every tool there is.
pub(crate) const TOOLS: &[Tool] = &[
    Tool {
        name: "harness_profiles",
        description: "Lists the configured agents and gives the epoch that every mutation needs.",
        kind: ToolKind::Profiles,
        required: &[],
        optional: &[],
    },
    Tool {
        name: "harness_sessions",
        description: "Lists the sessions of an agent, most recently updated first.",
        kind: ToolKind::Read,
        required: &["profileId"],
        optional: &["archived", "cursor", "limit"],
    },
    Tool {
        name: "harness_session_read",
        description: "Reads one page of a session's history; the first page is the latest.",
        kind: ToolKind::Read,
        required: &["profileId", "sessionId"],
        optional: &["cursor", "toolDetail"],
    },
    Tool {
        name: "harness_session_info",
        description: "Describes one session.",
        kind: ToolKind::Read,
        required: &["profileId", "sessionId"],
        optional: &[],
    },
    Tool {
        name: "harness_session_search",
        description: "Searches titles, messages or prompts; every word must stand in it.",
        kind: ToolKind::Read,
        required: &["profileId", "query", "mode"],
        optional: &["archived"],
    },
    Tool {
        name: "harness_rename",
        description: "Names a session.",
        kind: ToolKind::Mutation,
        required: &["profileId", "epoch", "requestId", "sessionId", "name"],
        optional: &[],
    },
    Tool {
        name: "harness_archive",
        description: "Puts a session and those it spawned away.",
        kind: ToolKind::Mutation,
        required: &["profileId", "epoch", "requestId", "sessionId"],
        optional: &[],
    },
    Tool {
        name: "harness_delete",
        description: "Removes a session and those it spawned for good.",
        kind: ToolKind::Mutation,
        required: &["profileId", "epoch", "requestId", "sessionId"],
        optional: &[],
    },
    Tool {
        name: "harness_unarchive",
        description: "Takes a session back from the archive.",
        kind: ToolKind::Mutation,
        required: &["profileId", "epoch", "requestId", "sessionId"],
        optional: &[],
    },
    Tool {
        name: "harness_fork",
        description: "Copies a session into a new one.",
        kind: ToolKind::Mutation,
        required: &["profileId", "epoch", "requestId", "sessionId"],
        optional: &["name"],
    },
    Tool {
        name: "harness_events",
        description: "Gives a page of events; newer clients read the event stream.",
        kind: ToolKind::Events,
        required: &["profileId"],
        optional: &["after", "eventEpoch", "toolDetail"],
    },
    Tool {
        name: "harness_operation",
        description: "Gives the receipt of a mutation, also of an earlier start of the node.",
        kind: ToolKind::Operation,
        required: &["profileId", "epoch", "requestId"],
        optional: &[],
    },
    Tool {
        name: "harness_create",
        description: "Creates a session in a workspace.",
        kind: ToolKind::Mutation,
        required: &["profileId", "epoch", "requestId", "workspaceId"],
        optional: &[],
    },
    Tool {
        name: "harness_resume",
        description: "Takes control of a stored session.",
        kind: ToolKind::Mutation,
        required: &["profileId", "epoch", "requestId", "sessionId"],
        optional: &[],
    },
    Tool {
        name: "harness_turn",
        description: "Sends a prompt to a session; what follows comes as events.",
        kind: ToolKind::Mutation,
        required: &["profileId", "epoch", "requestId", "sessionId", "prompt"],
        optional: &["attachments", "selection"],
    },
    Tool {
        name: "harness_interrupt",
        description: "Asks the agent to end a running turn.",
        kind: ToolKind::PassingMutation,
        required: &["profileId", "epoch", "requestId", "sessionId", "turnId"],
        optional: &[],
    },
    Tool {
        name: "harness_respond",
        description: "Answers an approval or a question of the agent.",
        kind: ToolKind::PassingMutation,
        required: &["profileId", "epoch", "requestId", "nativeRequestId", "response"],
        optional: &[],
    },
    Tool {
        name: "harness_models",
        description: "Lists the models of an agent, and the one that a session uses.",
        kind: ToolKind::Read,
        required: &["profileId"],
        optional: &["sessionId"],
    },
    Tool {
        name: "harness_commands",
        description: "Lists the slash commands of a session.",
        kind: ToolKind::Read,
        required: &["profileId", "sessionId"],
        optional: &[],
    },
    Tool {
        name: "harness_command",
        description: "Runs a slash command.",
        kind: ToolKind::Mutation,
        required: &["profileId", "epoch", "requestId", "sessionId", "name", "args"],
        optional: &["outputMode", "selection"],
    },
    Tool {
        name: "harness_command_output",
        description: "Reads one page of the output that a command keeps behind a reference.",
        kind: ToolKind::Output,
        required: &["profileId", "epoch", "requestId", "offset", "limit"],
        optional: &[],
    },
    Tool {
        name: "harness_steer",
        description: "Adds a message to a running turn.",
        kind: ToolKind::Steer,
        required: &["profileId", "epoch", "requestId", "sessionId", "turnId", "prompt"],
        optional: &["attachments"],
    },
    Tool {
        name: "harness_usage",
        description: "Gives the tokens that a session has used.",
        kind: ToolKind::Read,
        required: &["profileId", "sessionId"],
        optional: &[],
    },
    Tool {
        name: "harness_metrics",
        description: "Tells how full the context of a session is, and what of its quotas is left.",
        kind: ToolKind::Read,
        required: &["profileId", "sessionId"],
        optional: &[],
    },
    Tool {
        name: "harness_session_digest",
        description: "Lists what was prompted and answered in a session, oldest first.",
        kind: ToolKind::Read,
        required: &["profileId", "sessionId"],
        optional: &["cursor", "expectedRevision", "metadataOnly"],
    },
    Tool {
        name: "harness_seal",
        description: "Makes sure that a mutation which has not arrived is never executed; gives the receipt of one that has.",
        kind: ToolKind::Seal,
        required: &["profileId", "epoch", "requestId"],
        optional: &[],
    },
];

//! Every numeric bound of the protocol, with its unit in the name (`cells-0.4.md` appendix C, `files-http.md` §1.6).

/// Largest integer a JavaScript number holds exactly; every wire integer is at most this.
pub const SAFE_INTEGER_MAX: u64 = 9_007_199_254_740_991;

/// Deadline used when a call gives none, in milliseconds.
pub const DEFAULT_TIMEOUT_MS: u64 = 30_000;
/// Largest deadline a node honours; it clamps `X-Timeout-Ms` to this.
pub const SERVER_DEADLINE_MAX_MS: u64 = 30_000;
/// Longest wait a `Retry-After` header can cause, in milliseconds.
pub const RETRY_AFTER_MAX_MS: u64 = 30_000;
/// Extra attempts of a GET that was answered with 429, 502, 503 or 504.
pub const GET_RETRIES_MAX: u32 = 2;
/// Wait before the first extra attempt, in milliseconds; it doubles.
pub const GET_RETRY_FIRST_MS: u64 = 100;
/// Largest random addition to such a wait, in milliseconds.
pub const GET_RETRY_JITTER_MS: u64 = 100;
/// A node answers a mutation after at most this long, with an unfinished receipt if need be.
pub const MUTATION_ANSWER_MS: u64 = 25_000;

/// Largest JSON reply of a file route.
pub const JSON_REPLY_MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Largest reply to a write.
pub const MUTATION_REPLY_MAX_BYTES: u64 = 1024 * 1024;
/// Largest error body that is read.
pub const ERROR_BODY_MAX_BYTES: u64 = 64 * 1024;
/// Largest MCP reply that is read.
pub const MCP_REPLY_MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Largest body of a request to `/mcp`.
pub const MCP_REQUEST_MAX_BYTES: usize = 2 * 1024 * 1024;
/// Largest body of a request to any other JSON route.
pub const JSON_REQUEST_MAX_BYTES: usize = 512 * 1024;
/// Largest discovery document.
pub const DISCOVERY_MAX_BYTES: usize = 64 * 1024;
/// Default and largest buffer of `read`.
pub const READ_MAX_BYTES: u64 = 32 * 1024 * 1024;

/// Longest export-relative path, in UTF-8 bytes.
pub const PATH_MAX_BYTES: usize = 4096;
/// Paths in one stat request.
pub const STAT_BATCH_MAX_PATHS: usize = 256;
/// Path bytes in one stat request.
pub const STAT_BATCH_MAX_PATH_BYTES: usize = 65_536;
/// Entries on one page of a directory listing.
pub const ENTRIES_PAGE_MAX: usize = 512;
/// Entries and warnings scanned in one directory.
pub const DIRECTORY_MAX_ENTRIES: usize = 100_000;
/// Longest cursor of a listing, as a node takes it back.
pub const CURSOR_MAX_BYTES: usize = 16_384;
/// Lifetime of a listing cursor, in seconds.
pub const CURSOR_LIFETIME_S: u64 = 300;

/// Listings whose names a node keeps for their cursors.
pub const LISTINGS_MAX: usize = 16;

/// Largest content of one write.
pub const UPLOAD_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes of a file that are held in memory at a time while it is sent.
pub const UPLOAD_HELD_MAX_BYTES: usize = 1024 * 1024;
/// Receipts of writes that a node remembers, of all principals together.
pub const OPERATIONS_MAX: u64 = 4096;
/// How long a node remembers the receipt of a write, in milliseconds.
pub const OPERATION_RETENTION_MS: u64 = 60 * 60 * 1000;
/// Budget of the request that stops a write whose outcome is not known, and of the question that follows, in milliseconds.
pub const FENCE_MS: u64 = 5_000;
/// File system calls that a node does at the same time.
pub const FILE_WORKERS_MAX: usize = 16;

/// Largest SeqFile, in bytes.
pub const SEQ_FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Changes in one transaction of a SeqFile.
pub const SEQ_CHANGES_MAX: usize = 256;
/// Longest key of a SeqFile.
pub const SEQ_KEY_MAX_BYTES: usize = 1024;

/// Longest revision that a client sends back.
pub const REVISION_MAX_BYTES: usize = 1024;

/// Processes that a node remembers; none is forgotten before it restarts.
pub const PROCESSES_MAX: usize = 1024;
/// Most mounts of one process; there is at least one.
pub const PROCESS_MOUNTS_MAX: usize = 32;
/// Bytes of a command and its arguments together.
pub const PROCESS_COMMAND_MAX_BYTES: usize = 32_768;
/// Longest time a process may run, in milliseconds.
pub const PROCESS_TIMEOUT_MAX_MS: u64 = 300_000;
/// Output of one stream in the status of a process, and in one reply of the output route.
pub const PROCESS_OUTPUT_MAX_BYTES: usize = 65_536;
/// Output of one stream that is kept for the output route.
pub const PROCESS_OUTPUT_KEPT_BYTES: usize = 8 * 1024 * 1024;
/// Longest wait of the output route, in milliseconds.
pub const PROCESS_OUTPUT_WAIT_MS: u64 = 10_000;
/// Time of a command from its start to its end when the caller gives none, in milliseconds.
pub const PROCESS_TIMEOUT_DEFAULT_MS: u64 = 120_000;
/// Wait before the status of a process is asked for, in milliseconds; it doubles.
pub const PROCESS_QUERY_FIRST_MS: u64 = 100;
/// Longest such wait, in milliseconds.
pub const PROCESS_QUERY_MAX_MS: u64 = 1_000;
/// Time to cancel a process and see it end after a failure, in milliseconds.
pub const PROCESS_CANCEL_MS: u64 = 5_000;
/// Time for the same when its session is released.
pub const PROCESS_RELEASE_MS: u64 = 10_000;
/// How long the topic of a process may be silent, because its stream is broken, before its status is asked for.
pub const PROCESS_TOPIC_PATIENCE_MS: u64 = 5_000;

/// Longest identifier (request, operation, server id ...).
pub const ID_MAX_BYTES: usize = 128;
/// Longest native identifier (session, turn, item).
pub const NATIVE_ID_MAX_BYTES: usize = 512;
/// Longest mandatory string argument of a tool.
pub const ARGUMENT_MAX_BYTES: usize = 131_072;
/// Longest prompt and longest command arguments.
pub const PROMPT_MAX_BYTES: usize = 131_072;

/// Attachments of one turn.
pub const ATTACHMENTS_MAX: usize = 5;
/// Content of all attachments of one turn, as it is sent.
pub const ATTACHMENTS_MAX_BYTES: usize = 512 * 1024;
/// Longest name of an attachment.
pub const ATTACHMENT_NAME_MAX_BYTES: usize = 256;
/// Largest text attachment.
pub const ATTACHMENT_TEXT_MAX_BYTES: usize = 64 * 1024;
/// Largest image attachment, before base64.
pub const ATTACHMENT_IMAGE_MAX_BYTES: usize = 256 * 1024;

/// Longest name of a session, trimmed.
pub const SESSION_NAME_MAX_BYTES: usize = 512;
/// Longest name of a fork, trimmed, in characters.
pub const FORK_NAME_MAX_CHARS: usize = 256;
/// Sessions that one deletion removes: a session and what descends from it.
pub const DELETED_SESSIONS_MAX: usize = 16_401;
/// Sessions on one page of a list.
pub const SESSIONS_PAGE_MAX: u64 = 100;

/// Models in a catalog.
pub const MODELS_MAX: usize = 256;
/// Largest catalog of models.
pub const MODELS_MAX_BYTES: usize = 512 * 1024;
/// Longest id or label of a model.
pub const MODEL_ID_MAX_BYTES: usize = 256;
/// Reasoning efforts of one model.
pub const REASONING_EFFORTS_MAX: usize = 32;
/// Longest id of a reasoning effort.
pub const REASONING_EFFORT_ID_MAX_BYTES: usize = 64;
/// Models in the usage of one session.
pub const USAGE_ENTRIES_MAX: usize = 64;
/// Quotas in the metrics of one session.
pub const METRICS_QUOTAS_MAX: usize = 16;
/// Longest label of a quota.
pub const METRICS_LABEL_MAX_BYTES: usize = 64;
/// Longest unit of credits.
pub const METRICS_UNIT_MAX_BYTES: usize = 32;
/// Largest number of credits, and largest cost.
pub const METRICS_AMOUNT_MAX: f64 = 1e15;
/// Longest identity of the process that ran a session.
pub const RUNTIME_ID_MAX_BYTES: usize = 128;

/// Longest search query.
pub const SEARCH_QUERY_MAX_BYTES: usize = 1024;
/// Different keywords of one search query.
pub const SEARCH_KEYWORDS_MAX: usize = 16;
/// Most matches of one search.
pub const SEARCH_MATCHES_MAX: usize = 100;

/// Entries on one page of a digest.
pub const DIGEST_PAGE_MAX_ENTRIES: usize = 200;
/// Serialised bytes of one page of a digest.
pub const DIGEST_PAGE_MAX_BYTES: usize = 1024 * 1024;
/// Longest text of one entry of a digest.
pub const DIGEST_TEXT_MAX_BYTES: usize = 256 * 1024;
/// Entries of a digest that a client loads whole.
pub const DIGEST_MAX_ENTRIES: usize = 10_000;
/// Text of a digest that a client loads whole, in bytes.
pub const DIGEST_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Sessions among which the family of one is looked for.
pub const FAMILY_SESSIONS_MAX: usize = 10_000;

/// Items on one history page.
pub const HISTORY_PAGE_MAX_ITEMS: usize = 100;
/// Serialised bytes of the items on one history page.
pub const HISTORY_PAGE_MAX_BYTES: usize = 2 * 1024 * 1024;

/// Most commands in a catalog.
pub const COMMANDS_MAX: usize = 256;
/// Serialised bytes of a command catalog.
pub const COMMANDS_MAX_BYTES: usize = 256 * 1024;
/// Longest command description.
pub const COMMAND_DESCRIPTION_MAX_BYTES: usize = 1024;
/// Longest argument hint of a command.
pub const COMMAND_HINT_MAX_BYTES: usize = 256;
/// Longest preview of a command's output.
pub const COMMAND_PREVIEW_MAX_BYTES: usize = 64 * 1024;
/// Largest output page, before base64.
pub const OUTPUT_PAGE_MAX_BYTES: u64 = 65_536;
/// Largest output body kept behind a reference.
pub const OUTPUT_MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Output that is loaded when the caller gives no budget.
pub const OUTPUT_LOAD_DEFAULT_BYTES: u64 = 8 * 1024 * 1024;

/// Most topics in one event stream.
pub const EVENT_TOPICS_MAX: usize = 128;
/// Body of a request for an event stream.
pub const EVENT_REQUEST_MAX_BYTES: usize = 64 * 1024;
/// Largest data of one event frame.
pub const EVENT_FRAME_MAX_BYTES: usize = 8 * 1024 * 1024 + 64 * 1024;
/// Events in one `events` frame.
pub const EVENTS_PER_FRAME_MAX: usize = 128;
/// Events an event ring keeps, on the node and per topic in the client.
pub const EVENT_RING_MAX_EVENTS: usize = 1024;
/// Serialised bytes an event ring keeps.
pub const EVENT_RING_MAX_BYTES: usize = 8 * 1024 * 1024;
/// Heartbeat interval of a node, in milliseconds.
pub const HEARTBEAT_MS: u64 = 15_000;
/// Smallest heartbeat interval a client accepts.
pub const HEARTBEAT_MIN_MS: u64 = 1_000;
/// Largest heartbeat interval a client accepts.
pub const HEARTBEAT_MAX_MS: u64 = 60_000;
/// Shortest silence that a client takes for a dead stream, in milliseconds; else three heartbeats.
pub const STREAM_SILENCE_MIN_MS: u64 = 10_000;
/// Wait before an event stream is connected again, in milliseconds; it doubles.
pub const RECONNECT_FIRST_MS: u64 = 500;
/// Longest such wait, in milliseconds, before jitter of a fifth.
pub const RECONNECT_MAX_MS: u64 = 30_000;
/// Wait before a topic that was refused for the time being is tried again, in milliseconds; it doubles.
pub const TOPIC_RETRY_FIRST_MS: u64 = 2_000;
/// Longest such wait, in milliseconds.
pub const TOPIC_RETRY_MAX_MS: u64 = 60_000;
/// A stream or topic that was open this long starts its waits anew, in milliseconds.
pub const PRODUCTIVE_AFTER_MS: u64 = 10_000;
/// Changes of the list of topics within this time establish the stream anew once, in milliseconds (`cells-0.4.md` §2.6).
pub const TOPIC_CHANGE_MERGE_MS: u64 = 50;
/// Event streams of one principal at a time.
pub const EVENT_STREAMS_PER_PRINCIPAL: usize = 16;
/// Event streams of one node at a time.
pub const EVENT_STREAMS_PER_NODE: usize = 64;
/// Most outstanding approvals and questions of one profile instance.
pub const PENDING_REQUESTS_MAX: usize = 128;

/// Receipts of one profile instance and epoch.
pub const RECEIPTS_PER_INSTANCE: u64 = 1024;
/// Wait before an unknown outcome is asked about, in milliseconds; it doubles.
pub const RECEIPT_QUERY_FIRST_MS: u64 = 2_000;
/// Longest such wait, in milliseconds.
pub const RECEIPT_QUERY_MAX_MS: u64 = 15_000;
/// Receipt rows in one store.
pub const RECEIPTS_PER_STORE: u64 = 65_536;
/// Known epochs in one store.
pub const RECEIPT_EPOCHS_MAX: u64 = 4096;
/// Retention of an earlier epoch, in milliseconds.
pub const RECEIPT_RETENTION_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// Largest result stored with a receipt.
pub const RECEIPT_RESULT_MAX_BYTES: usize = 64 * 1024;

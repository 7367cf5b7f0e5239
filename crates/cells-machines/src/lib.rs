//! Sans-IO state machines of the Cells driver.
//!
//! A machine is a plain value. It has no clock, no randomness and no I/O: time, seeds and identities are parameters, and
//! everything it wants done leaves it as an action. All machines share one contract:
//!
//! * `start_*`: the application wants something.
//! * `handle_*`: the world answered, or time passed.
//! * `poll_action()`: something that the caller must do, until `None`. Answers come back by the identity in the action.
//! * `poll_event()`: something that the application should know, until `None`.
//! * `poll_timeout()` and `handle_timeout(now_ms)`: call the second when the time of the first has come. The time can
//!   change with every other call.
//!
//! After any `start_*` or `handle_*`, poll actions, then events, then the timeout. Times are Unix milliseconds and must
//! not go backwards; a step back only delays what waits. An answer that nobody waits for is ignored, so that late replies
//! need no care.

pub mod backoff;
pub mod digest_pages;
pub mod event_hub;
pub mod event_topic;
pub mod file_writes;
pub mod id_map;
pub mod output_pages;
pub mod process;
pub mod receipts;
pub mod session_family;
pub mod source_pool;
pub mod stat_batch;
